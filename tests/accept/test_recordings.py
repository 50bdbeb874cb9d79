"""What real clients sent to the surfaces, sent again: bytes arrive unchanged, and loops are nudged."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.accept import faithful
from tests.accept.recorded import SHARED, Json, shared
from tests.live import Answer, Got, Live, Said, live
from tests.surfaces import OTHERS, SURFACES

FOLDER = ("clients", "recordings")
SPOKEN = ("chat", *OTHERS)
FILES = {
    path.stem: SURFACES[name]
    for path in sorted(SHARED.joinpath(*FOLDER).glob("*.jsonl"))
    for name in SPOKEN
    if re.search(f'"{SURFACES[name].PATH}[?"]', path.read_text("utf-8"))
}
"""Recordings by name, each of one surface."""

NOT_RESENT = {"host", "content-length", "connection", "accept-encoding", "transfer-encoding", "content-type"}
"""Headers of the connection that was recorded, not of the client."""

FORMS: Mapping[str, Any] = {
    "python": lambda body: json.dumps(body).encode(),
    "node": lambda body: json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(),
    "by hand": lambda body: json.dumps(body, indent=2, sort_keys=True).encode(),
}
"""Recordings hold values, not bytes: the ways in which such a value may have been written."""


@dataclass(frozen=True, slots=True)
class Request:
    """One recorded request: its number, headers, body, and how the provider had answered."""

    number: int
    headers: Mapping[str, str]
    body: Json
    served: str
    surface: ModuleType
    path: str

    @property
    def messages(self) -> list[Json]:
        """The conversation in chat's terms."""
        found: list[Json] = self.surface.messages(self.body)
        return found


def requests_of(name: str) -> list[Request]:
    """The requests of a recording that are there in full; tool lists written once are put back."""
    found, tools, surface = [], {}, FILES[name]
    for line in shared(*FOLDER, f"{name}.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        body = row["body"]
        if not isinstance(body, dict) or "_left_out" in body or row["path"].partition("?")[0] != surface.PATH:
            continue
        if isinstance(body.get("tools"), dict):
            body["tools"] = tools[body["tools"]["_same_as_request"]]
        tools[row["n"]] = body.get("tools")
        headers = {key: value for key, value in row["headers"] if key.lower() not in NOT_RESENT}
        found.append(Request(row["n"], headers, body, str(row["served"]), surface, row["path"]))
    return found


def said(request: Request, later: Sequence[Request]) -> Said:
    """What the provider had answered: an error status, or the message that the client shows to have received."""
    if request.served.isdigit():
        return Said(status=int(request.served), raw=b'{"error": {"message": "as recorded", "type": "server_error"}}')
    known = len(request.messages)
    for other in later:
        messages = other.messages
        if len(messages) > known and messages[known].get("role") == "assistant":
            calls = messages[known].get("tool_calls") or ()
            content = messages[known].get("content")
            text = content if isinstance(content, str) else None
            return Said(text, [(c["function"]["name"], c["function"]["arguments"], c["id"]) for c in calls])
    return Said("Done.")


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
        received = await running.post(sent, request.headers, request.path)
        running.offset_ms += 2000
        answers.append(received)
        where = f"request {request.number}, verdict {received.verdict!r}"
        if received.verdict != "cut":
            assert len(provider.got) == 1, where
            fault = faithful.request_fault(sent, provider.got[0].body, received.headers, request.surface)
            fault = fault or faithful.answer_fault(provider.sent[0], received.body, received.headers)
            assert not fault, f"{where}: {fault}"
            reached = {name.lower(): value for name, value in provider.got[0].headers.items()}
            lost = {name: value for name, value in request.headers.items() if reached.get(name.lower()) != value}
            assert not lost, f"{where}: headers {lost}"
    return answers


async def emptied(store: Store) -> None:
    """Runs of different clients ask the same: each begins with nothing known."""
    await store._client.command("FLUSHALL")


@pytest.mark.skipif(not FILES, reason="../shared/clients/recordings is not here")
@pytest.mark.parametrize(("mode", "form"), [("observe", form) for form in FORMS] + [("enforce", "node")])
async def test_recorded_requests_arrive_as_they_were_sent(store: Store, mode: str, form: str) -> None:
    """In observe mode nothing but the question for usage may differ; else what differs is named and is ours."""
    kinds: Counter[str] = Counter()
    for spoken in SPOKEN:
        async with live(store, surface=SURFACES[spoken], policy={"mode": mode}) as running:
            for name in [name for name, surface in FILES.items() if surface is running.surface]:
                await emptied(store)
                for answer in await play(running, requests_of(name), FORMS[form]):
                    kinds[",".join(sorted(faithful.edits_of(answer.headers))) or "untouched"] += 1
    print(f"\n{mode}, written as {form}: {len(FILES)} recordings, {kinds.total()} requests: {dict(kinds)}")
    assert kinds["untouched"] > kinds.total() // 2
    assert mode == "enforce" or set(kinds) <= {"untouched", "usage"}, kinds


def results_equal(request: Request) -> int:
    """How often the newest result of a call stands in the request, with that call."""
    pairs: list[tuple[str, str]] = []
    made: dict[str, str] = {}
    for message in request.messages:
        for call in message.get("tool_calls") or ():
            made[call["id"]] = call["function"]["name"] + json.dumps(json.loads(call["function"]["arguments"]))
        if message.get("role") == "tool":
            pairs.append((made.get(message["tool_call_id"], ""), json.dumps(message["content"])))
    return pairs.count(pairs[-1]) if pairs else 0


def loops() -> list[str]:
    """Recordings of a loop whose client writes calls and results as such."""
    return [name for name in FILES if name.endswith("-loop") and any(results_equal(r) >= 3 for r in requests_of(name))]


@pytest.mark.skipif(not FILES, reason="../shared/clients/recordings is not here")
@pytest.mark.parametrize("name", loops())
async def test_a_recorded_loop_is_nudged_at_the_third_equal_result(store: Store, name: str) -> None:
    requests = requests_of(name)
    async with live(store, surface=FILES[name]) as running:
        answers = await play(running, requests, FORMS["node"])
    sessions = {answer.headers["x-guardproxy-session-id"] for answer in answers}
    assert len(sessions) == 1
    verdicts: dict[int, Answer] = {}
    for request, answer in zip(requests, answers, strict=True):
        verdicts.setdefault(results_equal(request), answer)
    assert verdicts[3].verdict == "nudge", verdicts[3].headers
    assert all(answer.verdict in ("pass", "observe") for count, answer in verdicts.items() if count < 3)


def test_the_recordings_have_loops_of_many_clients() -> None:
    if not FILES:
        pytest.skip("../shared/clients/recordings is not here")
    assert len(loops()) >= 12, loops()
