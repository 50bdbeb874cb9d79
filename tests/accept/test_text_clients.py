"""Recorded loops of clients that write calls in texts, played again over HTTP: each is nudged, then ended."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from guardproxy.core.written import own_words
from guardproxy.store.redis import Store
from tests.accept.recorded import Json, shared
from tests.live import Answer, Live, Said, live

LADDER = ["", "", "", "nudge", "firm", "finalize", "cut"]
"""Verdicts on the requests of a loop, by how many results of the same call they hold."""

QUIET = ("pass", "observe")


def bodies(name: str) -> list[Json]:
    """The bodies of a recording that are there in full, in order."""
    rows = map(json.loads, shared("clients", "recordings", f"{name}.jsonl").read_text("utf-8").splitlines())
    found, tools = [], {}
    for row in rows:
        body = row["body"]
        if isinstance(body, dict) and "_left_out" not in body:
            if isinstance(body.get("tools"), dict):
                body["tools"] = tools[body["tools"]["_same_as_request"]]
            tools[row["n"]] = body.get("tools")
            found.append(body)
    return found


def text_of(message: Json) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def as_given(message: Json) -> Said:
    """The answer that a client has written down as this message."""
    text, calls = own_words(text_of(message))
    return Said(None if calls else text, [(call.name, call.arguments, call.id) for call in calls])


def growing(name: str, most: int) -> list[tuple[Json, Said]]:
    """The first requests of a run, cut out of the longest recorded one, each with the answer it got."""
    longest = max(bodies(name), key=lambda body: (bool(body.get("stop")), len(body["messages"])))
    messages = longest["messages"]
    ends = [at for at, message in enumerate(messages) if message["role"] == "assistant"][:most]
    return [({**longest, "messages": messages[:at]}, as_given(messages[at])) for at in ends]


async def verdicts(running: Live, requests: Sequence[tuple[Json, Said]]) -> list[Answer]:
    answers = []
    for body, said in requests:
        running.provider.script = lambda _got, said=said: said
        answers.append(await running.post(json.dumps(body).encode()))
        running.offset_ms += 2000
    return answers


@pytest.mark.parametrize("name", ["smolagents-code-loop", "smolagents-tools-loop"])
async def test_a_loop_in_text_is_cut_by_the_sixth(name: str, store: Store) -> None:
    requests = growing(name, len(LADDER))
    async with live(store) as running:
        answers = await verdicts(running, requests)
    said = ["" if answer.verdict in QUIET else answer.verdict for answer in answers]
    assert said == LADDER
    assert {answer.rule for answer in answers[3:]} == {"repeated_call"}
    assert len({answer.headers["x-guardproxy-session-id"] for answer in answers}) == 1


async def test_aiders_edit_that_never_fits_is_nudged_before_aider_gives_up(store: Store) -> None:
    """It asks four times: three reflections."""
    found = bodies("aider-diff-loop")
    edit = next(m for m in found[1]["messages"] if "there is no such line" in text_of(m) and m["role"] == "assistant")
    plain = [({**body, "stream": False}, as_given(edit)) for body in found]
    async with live(store) as running:
        answers = await verdicts(running, plain)
    assert [answer.verdict for answer in answers[:3]] == ["pass", "pass", "observe"]
    assert (answers[3].verdict, answers[3].rule) == ("nudge", "repeated_error")
    assert len({answer.headers["x-guardproxy-session-id"] for answer in answers}) == 1
