"""What real clients sent to /v1/responses, sent again: bytes arrive unchanged, and loops are nudged."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import orjson
import pytest

from guardproxy.store.redis import Store
from tests.accept.faithful import MARK, SPEAKS, edits_of
from tests.accept.recorded import SHARED, Json, shared
from tests.accept.test_recordings import FOLDER, FORMS, NOT_RESENT, Request, emptied
from tests.live import Answer, Got, Live, Said, live
from tests.surfaces import responses

FILES = sorted(
    path.stem
    for path in SHARED.joinpath(*FOLDER).glob("*.jsonl")
    if f'"method": "POST", "path": "{responses.PATH}"' in path.read_text("utf-8")
)


def requests_of(name: str) -> list[Request]:
    """The requests of a recording that are there in full; tool lists written once are put back."""
    found, tools = [], {}
    for line in shared(*FOLDER, f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        body = row["body"]
        if not isinstance(body, dict) or "_left_out" in body or row["path"] != responses.PATH:
            continue
        if isinstance(body.get("tools"), dict):
            body["tools"] = tools[body["tools"]["_same_as_request"]]
        tools[row["n"]] = body.get("tools")
        headers = {key: value for key, value in row["headers"] if key.lower() not in NOT_RESENT}
        found.append(Request(row["n"], headers, body, str(row["served"])))
    return found


def said(request: Request, later: Sequence[Request]) -> Said:
    """What the provider had answered: an error status, or what the client shows to have received."""
    if request.served.isdigit():
        return Said(status=int(request.served), raw=b'{"error": {"message": "as recorded", "type": "server_error"}}')
    known = len(request.body["input"])
    for other in later:
        items = other.body["input"]
        if isinstance(items, list) and len(items) > known and "previous_response_id" not in other.body:
            made = [item for item in items[known if isinstance(request.body["input"], list) else 1 :] if is_said(item)]
            if made:
                message = responses._chat(made)
                calls = message.get("tool_calls") or ()
                return Said(
                    message["content"], [(c["function"]["name"], c["function"]["arguments"], c["id"]) for c in calls]
                )
    return Said("Done.")


def is_said(item: Json) -> bool:
    return item.get("type") == "function_call" or item.get("role") == "assistant"


async def play(running: Live, requests: Sequence[Request], form: Any) -> list[Answer]:
    """All requests of a recording in order, as one run; each is checked at both ends."""
    answers, provider = [], running.provider
    for number, request in enumerate(requests):
        provider.got.clear()
        provider.sent.clear()
        answer = said(request, requests[number + 1 :])

        def script(_got: Got, answer: Said = answer) -> Said:
            return answer

        provider.script = script
        sent = form(request.body)
        received = await running.post(sent, request.headers)
        running.offset_ms += 2000
        answers.append(received)
        where = f"request {request.number}, verdict {received.verdict!r}"
        if received.verdict != "cut":
            assert len(provider.got) == 1, where
            fault = request_fault(sent, provider.got[0].body, received.headers)
            if received.body != provider.sent[0] and received.verdict not in SPEAKS:
                fault = fault or "the answer was changed"
            assert not fault, f"{where}: {fault}"
            reached = {name.lower(): value for name, value in provider.got[0].headers.items()}
            lost = {name: value for name, value in request.headers.items() if reached.get(name.lower()) != value}
            assert not lost, f"{where}: headers {lost}"
    return answers


def request_fault(sent: bytes, arrived: bytes, headers: Mapping[str, str]) -> str:
    """What is wrong with a request that arrived at the provider; "" = nothing."""
    edits = edits_of(headers)
    if not edits:
        return "" if arrived == sent else "changed although no edit is named"
    before, after = json.loads(sent), json.loads(arrived)
    if "tools" in edits:
        before.pop("tool_choice", None)
        if after.pop("tool_choice") != "none":
            return "calls are not forbidden"
    for old, new in zip(before["input"], after["input"], strict=True):
        if old == new:
            continue
        text = new["output"][len(old["output"]) :]
        if not text.startswith(MARK) or {**new, "output": old["output"]} != old:
            return f"changed otherwise than by advice at its end: {new}"
        arrived, times = re.subn(re.escape(orjson.dumps(text)[1:-1]), b"", arrived, count=1)
        if not times:
            return "the advice is not spliced into the bytes"
        new["output"] = old["output"]
    if "tools" in edits:
        return "" if before == after else "more was changed than the tool choice"
    return "" if arrived == sent else f"more was changed than {sorted(edits)}"


@pytest.mark.skipif(not FILES, reason="../shared/clients/recordings is not here")
@pytest.mark.parametrize(("mode", "form"), [("observe", form) for form in FORMS] + [("enforce", "node")])
async def test_recorded_requests_arrive_as_they_were_sent(store: Store, mode: str, form: str) -> None:
    kinds: Counter[str] = Counter()
    async with live(store, surface=responses, policy={"mode": mode}) as running:
        for name in FILES:
            await emptied(store)
            for answer in await play(running, requests_of(name), FORMS[form]):
                kinds[",".join(sorted(edits_of(answer.headers))) or "untouched"] += 1
    print(f"\n{mode}, written as {form}: {len(FILES)} recordings, {kinds.total()} requests: {dict(kinds)}")
    assert kinds["untouched"] > kinds.total() // 2
    assert mode == "enforce" or set(kinds) <= {"untouched"}, kinds


def results_equal(request: Request) -> int:
    """How often the newest result of a call stands in the request, with that call."""
    pairs: list[tuple[str, str]] = []
    made: dict[str, str] = {}
    for message in responses.messages(request.body):
        for call in message.get("tool_calls") or ():
            made[call["id"]] = call["function"]["name"] + json.dumps(json.loads(call["function"]["arguments"]))
        if message.get("role") == "tool":
            told = re.sub(r"(Chunk ID|Wall time): [^\n]*", "", str(message["content"]))  # Codex tells these
            pairs.append((made.get(message["tool_call_id"], ""), told))
    return pairs.count(pairs[-1]) if pairs else 0


def loops() -> list[str]:
    """Recordings of a loop whose client sends its whole history."""
    return [name for name in FILES if name.endswith("-loop") and any(results_equal(r) >= 3 for r in requests_of(name))]


@pytest.mark.skipif(not FILES, reason="../shared/clients/recordings is not here")
@pytest.mark.parametrize("name", [name for name in loops() if "previous" not in name])
async def test_a_recorded_loop_is_nudged_at_the_third_equal_result(store: Store, name: str) -> None:
    requests = requests_of(name)
    async with live(store, surface=responses) as running:
        answers = await play(running, requests, FORMS["node"])
    sessions = {answer.headers["x-guardproxy-session-id"] for answer in answers}
    assert len(sessions) == 1
    verdicts: dict[int, Answer] = {}
    for request, answer in zip(requests, answers, strict=True):
        verdicts.setdefault(results_equal(request), answer)
    assert verdicts[3].verdict == "nudge", verdicts[3].headers
    assert all(answer.verdict in ("pass", "observe") for count, answer in verdicts.items() if count < 3)
    if name.startswith("codex"):
        assert sessions == {requests[0].headers["session-id"]}


@pytest.mark.skipif(not FILES, reason="../shared/clients/recordings is not here")
@pytest.mark.parametrize("name", [name for name in FILES if "-previous-" in name])
async def test_a_run_by_id_alone_is_one_run(store: Store, name: str) -> None:
    """The provider's answers are made up from the ids: of a loop the third equal result is nudged, here too."""
    requests = requests_of(name)
    verdicts = []
    async with live(store, surface=responses) as running:
        sessions = set()
        for number, request in enumerate(requests):
            following = requests[number + 1].body if number + 1 < len(requests) else {}
            results = [item for item in following.get("input", ()) if isinstance(item, dict)]
            calls = [("read_note", '{"path":"note.txt"}', item["call_id"]) for item in results if "call_id" in item]
            whole = responses.whole(Said(None if calls else "Done.", calls))
            whole = whole.replace(b'"resp_1"', json.dumps(following.get("previous_response_id", "resp_last")).encode())
            running.provider.script = lambda _got, raw=whole: Said(raw=raw)
            answer = await running.post(FORMS["python"](request.body), request.headers)
            running.offset_ms += 2000
            verdicts.append(answer.verdict)
            sessions.add(answer.headers["x-guardproxy-session-id"])
            assert answer.headers["x-guardproxy-turn"] == str(number + 1)
    assert len(sessions) == 1
    assert (verdicts[3:4] == ["nudge"]) == ("tool" not in name), verdicts


def test_the_recordings_have_loops_of_many_clients() -> None:
    if not FILES:
        pytest.skip("../shared/clients/recordings is not here")
    assert len(loops()) >= 5, loops()
