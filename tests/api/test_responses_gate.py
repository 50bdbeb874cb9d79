"""Calls of a streamed response that are judged: whatever a provider does to ids, numbers and names, none slips by.

A client may carry out what an item's end says, or what the response has at its end; both are looked at.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from guardproxy.api import responses
from guardproxy.api._gate import Gate
from guardproxy.core.edit import DropCalls
from tests.api.responses_cases import ask, cut, payloads

Json = dict[str, Any]
BAD = "delete"


def call(name: str | None, number: int = 0, **more: Any) -> Json:
    made = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
    return {key: value for key, value in {**made, "arguments": '{"a":1}', **more}.items() if value is not None}


def told(at: Any, item: Json, begun: Json | None = None) -> list[Json]:
    """The events of a call; `begun`: it, as it was begun."""
    index: Json = {} if at is None else {"output_index": at}
    inside: Json = {**index, "item_id": item.get("id")}
    arguments = "response.function_call_arguments"
    return [
        {"type": "response.output_item.added", **index, "item": {**(begun or item), "arguments": ""}},
        {"type": f"{arguments}.delta", **inside, "delta": item["arguments"]},
        {"type": f"{arguments}.done", **inside, "arguments": item["arguments"]},
        {"type": "response.output_item.done", **index, "item": item},
    ]


def response(*output: Json, status: str = "completed") -> Json:
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    return {"id": "resp_1", "object": "response", "status": status, "output": list(output), "usage": usage}


def end(*output: Json) -> Json:
    return {"type": "response.completed", "response": response(*output)}


def both(first: Json, second: Json, places: Sequence[Any] = (0, 1)) -> list[Json]:
    """Two calls, one after the other."""
    return [*told(places[0], first), *told(places[1], second), end(first, second)]


def pair(**more: Any) -> tuple[Json, Json]:
    return call("read", 0, **more), call(BAD, 1, **more)


CLEAN = call("read")
FOUL = call(BAD)
ALIKE: Json = {"id": "", "call_id": ""}
BARE: Json = {"id": None, "call_id": None}
CASES: dict[str, list[Json]] = {
    "as it should be": both(*pair()),
    "the other way round": both(*reversed(pair())),
    "one id": both(CLEAN, FOUL),
    "one id, the other way round": both(FOUL, CLEAN),
    "one id and number": both(CLEAN, FOUL, (0, 0)),
    "one id and number, the other way round": both(FOUL, CLEAN, (0, 0)),
    "empty ids": both(*pair(**ALIKE)),
    "empty ids, the other way round": both(*reversed(pair(**ALIKE))),
    "no ids": both(*pair(**BARE)),
    "no ids, the other way round": both(*reversed(pair(**BARE))),
    "one number": both(*pair(), (0, 0)),
    "one number, the other way round": both(*reversed(pair()), (0, 0)),
    "no number": both(*pair(), (None, None)),
    "no number, the other way round": both(*reversed(pair()), (None, None)),
    "no number, no ids": both(*reversed(pair(**BARE)), (None, None)),
    "numbers as text": both(*pair(), ("0", "1")),
    "a name in pieces": [*told(0, FOUL, call("del")), end(FOUL)],
    "a late name": [*told(0, FOUL, call(None)), end(FOUL)],
    "another name at the end": [*told(0, FOUL, CLEAN), end(FOUL)],
    "another name of the first of two": [
        told(0, CLEAN)[0],
        told(1, call("read", 1))[0],
        told(0, FOUL)[-1],
        told(1, call("read", 1))[-1],
        end(FOUL, call("read", 1)),
    ],
    "said again as another": [*told(0, CLEAN), told(0, FOUL)[-1], end(FOUL)],
    "never begun": [told(0, CLEAN)[-1], told(0, FOUL)[-1], end(CLEAN, FOUL)],
    "in the response alone": [end(FOUL)],
    "one more in the response": [*told(0, CLEAN), end(CLEAN, call(BAD, 1))],
    "another name in the response": [*told(0, CLEAN), end(FOUL)],
    "as it begins": [{"type": "response.in_progress", "response": response(FOUL, status="in_progress")}, end()],
    "an unknown end": [{"type": "response.done", "response": response(FOUL)}, end()],
    "an unknown event": [{"type": "response.output_item.seen", "output_index": 0, "item": FOUL}, end()],
    "a whole response": [response(FOUL)],
}
NAMED = {
    "an item": ("response.output_item.done", {"output_index": 0, "item": FOUL}),
    "an end": ("response.completed", {"response": response(FOUL)}),
}
"""Events whose data does not say what they are."""
BEGUN: Json = {"type": "response.created", "response": response(status="in_progress")}


def stream(events: Sequence[Json]) -> bytes:
    numbered = [{"sequence_number": number, **event} for number, event in enumerate([BEGUN, *events])]
    return b"".join([b"data: %b\n\n" % json.dumps(event).encode() for event in numbered])


STREAMS = {name: stream(events) for name, events in CASES.items()}
STREAMS |= {
    f"{name} by its event's name": stream([]) + f"event: {kind}\ndata: {json.dumps(data)}\n\n".encode()
    for name, (kind, data) in NAMED.items()
}


def handed(raw: bytes) -> dict[str, list[str]]:
    """The names of the calls that clients would carry out, by where they look: ends of items, responses."""
    found: dict[str, list[str]] = {"items": [], "responses": []}
    for payload in payloads(raw):
        item, said = payload.get("item"), payload.get("response", payload)
        if item and payload.get("type") != "response.output_item.added":
            found["items"].append(item.get("name", ""))
        found["responses"] += [one["name"] for one in said.get("output") or () if "name" in one]
    return found


@pytest.mark.parametrize("name", STREAMS)
def test_no_call_slips_by(name: str) -> None:
    raw = STREAMS[name]
    for size in (len(raw), 11):
        watcher = responses.watch(ask(stream=True), gate=Gate(lambda tool: tool == BAD))
        out = b"".join([watcher.feed(chunk) for chunk in cut(raw, size)]) + watcher.finish()
        calls = watcher.calls
        assert BAD not in str(handed(out)), "before it was judged"
        kept = frozenset(at for at, one in enumerate(calls) if one.name != BAD)
        out += watcher.release(kept)
        found = handed(out)
        left = [one.name for one in calls if one.name != BAD]
        assert found in ({"items": left, "responses": left}, {"items": [], "responses": []}), name
        if left and BAD in {one.name for one in calls}:
            numbers = [payload["sequence_number"] for payload in payloads(out)]
            assert numbers == list(range(len(numbers)))


@pytest.mark.parametrize("name", STREAMS)
def test_no_call_is_left_where_all_are_dropped(name: str) -> None:
    watcher = responses.watch(ask(stream=True), drop=DropCalls("No more calls."))
    out = watcher.feed(STREAMS[name]) + watcher.finish()
    assert handed(out)["responses"] == []
    assert not any(handed(out)["items"])
    assert b"function_call_arguments" not in out


@pytest.mark.parametrize("gate", [None, Gate(lambda _: True)])
@pytest.mark.parametrize("named", [False, True])
def test_calls_that_come_at_the_same_time_are_read_whole(gate: Gate | None, named: bool) -> None:
    """Once one of them has ended, the pieces of the other are read no more: its end says them."""
    (first, *one, _, last), (begun, *other) = told(0, FOUL), told(1, call("read", 1))
    pieces = [{**one[0], "delta": part} for part in ('{"a', '":1}')]
    events = [BEGUN, first, pieces[0], begun, *other, pieces[1], last, end(FOUL, call("read", 1))]
    head = "event: {}\n" if named else ""
    raw = "".join([f"{head.format(event['type'])}data: {json.dumps(event)}\n\n" for event in events]).encode()
    watcher = responses.watch(ask(stream=True), gate=gate)
    watcher.feed(raw)
    watcher.finish()
    assert [one.arguments for one in watcher.calls] == ['{"a":1}'] * 2
    assert [json.loads(one)["arguments"] for one in watcher.raw_calls()] == ['{"a":1}'] * 2


def test_a_call_that_never_ends_is_one_all_the_same() -> None:
    """It may be refused, and what it is told needs it."""
    events = [*told(0, CLEAN), *told(1, call(BAD, 1))[:2], end()]
    watcher = responses.watch(ask(stream=True), gate=Gate(lambda tool: tool == BAD))
    watcher.feed(stream(events))
    watcher.finish()
    raws = [json.loads(raw) for raw in watcher.raw_calls()]
    assert [(one.name, one.arguments) for one in watcher.calls] == [(one["name"], one["arguments"]) for one in raws]
    assert [one["name"] for one in raws] == ["read", BAD]
    assert [one["call_id"] for one in json.loads(watcher.raw_message())] == ["call_0", "call_1"]


def test_a_call_is_given_by_the_name_by_which_it_was_judged() -> None:
    """Some clients read its name where it begins."""
    events = [*told(0, CLEAN, FOUL), end(CLEAN)]
    events[2]["name"] = BAD
    watcher = responses.watch(ask(stream=True), gate=Gate(lambda tool: tool == BAD))
    out = watcher.feed(stream(events)) + watcher.finish()
    assert BAD.encode() not in out
    assert [one.name for one in watcher.calls] == ["read"]
    out += watcher.release()
    assert BAD.encode() not in out
    assert [payload["item"]["name"] for payload in payloads(out) if "item" in payload] == ["read"] * 2
    assert watcher.touched


def test_calls_that_nobody_wants_to_judge_pass_as_they_came() -> None:
    for raw in STREAMS.values():
        watcher = responses.watch(ask(stream=True), gate=Gate(lambda _: False, firm=False))
        assert watcher.feed(raw) + watcher.finish() + watcher.release() == raw
        assert not watcher.touched
