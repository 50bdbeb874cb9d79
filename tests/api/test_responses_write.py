"""Edits of a Responses request are splices: nothing else moves by a byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import responses
from guardproxy.api._responses_write import Before, Body
from guardproxy.core.edit import (
    AppendText,
    DropCalls,
    Edit,
    ForbidTools,
    LimitOutput,
    PutBack,
    ReplaceText,
    Reply,
    SpliceUsage,
)
from guardproxy.core.model import Ask
from guardproxy.errors import BadAsk
from tests.api.cases import FUZZ, NOTE
from tests.api.responses_cases import GOLDEN, TOOLS, ask, items, objects, values

FILES = sorted(path for path in (GOLDEN / "requests").glob("*.json") if path.name.count(".") == 1)
CALL = {"type": "function_call", "id": "fc_p", "call_id": "put", "name": "f", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "put", "output": "no"}
THOUGHT = {"type": "reasoning", "id": "rs_p", "summary": []}
ROUND = orjson.dumps([THOUGHT, CALL]), orjson.dumps(RESULT)


def edit(name: str, asked: Ask) -> Edit:
    last = asked.count - 1
    said = [at for at, message in enumerate(responses.conversation(asked).tail) if message.role == "assistant"]
    place = said[-1] if said else asked.count
    return {
        "append": AppendText(last, NOTE),
        "replace": ReplaceText(last, "short"),
        "forbid": ForbidTools(),
        "again": PutBack(asked.count, before=ROUND),
        "back": PutBack(place, before=ROUND, calls=((0, orjson.dumps(CALL)),), after=(orjson.dumps(RESULT),)),
    }[name]


EDITS = ("append", "replace", "forbid", "again", "back")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", EDITS)
def test_golden(path: Path, name: str) -> None:
    """An edit gives the file of its name; where there is none, it has nothing to do."""
    asked = responses.read(path.read_bytes(), {})
    expected = path.with_suffix(f".{name}.json")
    found = responses.write(asked, [edit(name, asked)])
    assert found == (expected if expected.exists() else path).read_bytes()
    json.loads(found)


def test_golden_files_are_there() -> None:
    assert len(FILES) >= 9
    assert all(any(path.with_suffix(f".{name}.json").exists() for path in FILES) for name in EDITS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_without_edits_it_is_the_very_object(path: Path) -> None:
    asked = responses.read(path.read_bytes(), {})
    assert responses.write(asked, ()) is asked.body
    assert responses.write(asked, [DropCalls("x"), Reply("y"), SpliceUsage()]) == asked.body


def test_edits_together() -> None:
    asked = ask(tools=[{"type": "function", "name": "f"}])
    edits = [AppendText(0, " one"), ForbidTools(), AppendText(0, " two"), AppendText(9, "no"), PutBack(1, ROUND)]
    found = json.loads(responses.write(asked, edits))
    assert found["input"] == [{"role": "user", "content": "hi one two"}, THOUGHT, CALL, RESULT]
    assert found["tool_choice"] == "none"


def test_a_limit_of_output() -> None:
    for fields in ({}, {"max_output_tokens": 9000}):
        found = json.loads(responses.write(ask(tools=TOOLS, **fields), [LimitOutput(70), ForbidTools()]))
        assert (found["max_output_tokens"], found["tool_choice"]) == (70, "none")


SAID = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "Hm."}]}
USER = {"role": "user", "content": "go"}


@pytest.mark.parametrize("behind", [True, False])
@pytest.mark.parametrize("bare", [True, False])
def test_what_the_client_was_given_too_stands_there_once(behind: bool, bare: bool) -> None:
    """Text and thoughts of an answer that was asked for again flowed to the client, who sends them with the rest."""
    own = {key: value for key, value in SAID.items() if key != "id"} if bare else SAID
    mine = {"type": "function_call", "call_id": "c", "name": "g", "arguments": "{}"}
    later = [mine, {"type": "function_call_output", "call_id": "c", "output": "x"}] if behind else []
    asked = ask(input=[USER, own, *later])
    put = PutBack(1, before=(orjson.dumps([SAID, CALL]), orjson.dumps(RESULT)))
    found = json.loads(responses.write(asked, [put]))["input"]
    assert found == [USER, SAID, CALL, RESULT, *later]


def ours(number: int) -> dict[str, Any]:
    content = [{"type": "output_text", "text": f"Notice {number}."}]
    return {"type": "message", "id": f"msg_resp_guardproxy_{number}", "role": "assistant", "content": content}


def test_what_stands_in_the_place_of_our_notices() -> None:
    """A turn of the user's behind it: a line. Nothing, or the assistant: it is left out, whatever stands before it."""
    said = [PutBack(at, instead=f"Line {at}.") for at in (1, 2, 3)]
    asked = ask(input=[USER, ours(1), ours(2), ours(3)])
    assert asked.count == 4
    assert json.loads(responses.write(asked, said))["input"] == [USER]
    again = [*said, PutBack(3, before=ROUND)]
    assert json.loads(responses.write(asked, again))["input"] == [USER, THOUGHT, CALL, RESULT]
    asked = ask(input=[USER, SAID, ours(2), ours(3), USER])
    found = json.loads(
        responses.write(asked, [PutBack(2, instead="a"), PutBack(3, ROUND, instead="b"), PutBack(5, ROUND)])
    )
    texts = [
        item["content"][0]["text"] if "id" in item and "content" in item else item.get("type")
        for item in found["input"]
    ]
    assert texts == [None, "Hm.", "reasoning", "function_call", "function_call_output", "b", None, *texts[2:5]]
    behind = {**ours(4), "id": "msg_guardproxy_resp_4"}  # behind what the model said, in one answer
    asked = ask(input=[USER, SAID, behind, CALL, RESULT])
    assert [message.text for message in asked.tail] == ["go", "Hm.\n\nNotice 4.", "", "no"]
    found = json.loads(responses.write(asked, [PutBack(1, instead="Hm. Line.")]))
    assert [item.get("id") for item in found["input"]] == [None, "fc_p", None], "the assistant goes on"


def test_thoughts_in_front_of_a_notice_go_with_what_it_takes_the_place_of() -> None:
    """A provider refuses them without what came of them; and, once their call is released, twice."""
    notice = {**ours(1), "id": "msg_guardproxy_resp_1"}
    line = {**notice, "content": [{"type": "output_text", "text": "Line."}]}
    for more in ([USER], [USER, THOUGHT, CALL, {**RESULT, "output": "done"}]):
        asked = ask(input=[USER, THOUGHT, notice, *more])
        assert json.loads(responses.write(asked, [PutBack(1, instead="Line.")]))["input"] == [USER, line, *more]
    decided = [PutBack(1, ROUND), PutBack(1, instead="Line.")]
    found = json.loads(responses.write(ask(input=[USER, THOUGHT, notice, USER]), decided))["input"]
    assert found == [USER, THOUGHT, CALL, RESULT, line, USER]


MINE = {"type": "function_call", "id": "fc_c", "call_id": "c", "name": "g", "arguments": "{}"}
OTHER = {**THOUGHT, "id": "rs_o"}
PLACES: list[tuple[list[Any], tuple[int, ...], list[Any]]] = [
    # the client's answer, the places of the calls that it lacks, what is sent
    ([THOUGHT, MINE], (0,), [THOUGHT, CALL, MINE]),
    ([THOUGHT, OTHER, MINE], (0,), [THOUGHT, CALL, OTHER, MINE]),
    ([MINE, THOUGHT, OTHER], (1, 2), [MINE, THOUGHT, CALL, OTHER, CALL]),
    ([OTHER, MINE, THOUGHT], (1,), [OTHER, MINE, THOUGHT, CALL]),
]


@pytest.mark.parametrize(("own", "places", "expected"), PLACES)
def test_a_call_stands_behind_the_thoughts_that_led_to_it(own: Any, places: tuple[int, ...], expected: Any) -> None:
    told = {**RESULT, "call_id": "c"}
    put = PutBack(1, calls=tuple((at, orjson.dumps(CALL)) for at in places), after=(orjson.dumps(RESULT),))
    found = json.loads(responses.write(ask(input=[USER, *own, told]), [put]))["input"]
    assert found[1:-2] == expected


LATER = {**CALL, "id": "fc_q", "call_id": "later"}
LAST = {**CALL, "id": "fc_r", "call_id": "last"}
ANSWERS: list[list[Any]] = [
    [THOUGHT, CALL, OTHER, MINE, LATER],
    [CALL, THOUGHT, SAID, OTHER, LATER, MINE],
    [MINE, CALL, LATER, THOUGHT, LAST],
    [CALL, LATER, THOUGHT, MINE, OTHER, LAST],
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_calls_stand_where_they_stood(answer: list[Any]) -> None:
    """Thoughts and calls take turns: each is refused by a provider without the other."""
    whole, calls = orjson.dumps(answer), [item for item in answer if "call_id" in item]
    gone = [at for at, item in enumerate(calls) if item != MINE]
    told = [{**RESULT, "call_id": item["call_id"]} for item in calls]
    put = PutBack(
        1,
        calls=tuple((at, responses.placed(whole, at, orjson.dumps(calls[at]))) for at in gone),
        after=tuple(orjson.dumps(told[at]) for at in gone),
    )
    own = [item for item in answer if item == MINE or "call_id" not in item]
    found = json.loads(responses.write(ask(input=[USER, *own, told[calls.index(MINE)]]), [put]))["input"]
    assert found == [USER, *answer, *[told[at] for at in gone], told[calls.index(MINE)]]
    ids = [call.id for call in responses.read_calls([raw for _, raw in put.calls])]
    assert ids == [calls[at]["call_id"] for at in gone]


def test_a_call_that_was_the_first_of_an_answer_that_others_stood_in_front_of() -> None:
    """The client has all answers of the turn as one; what came of those before goes back in front."""
    whole = orjson.dumps([LATER, OTHER, MINE])
    told = [{**RESULT, "call_id": item["call_id"]} for item in (LATER, MINE)]
    put = PutBack(1, ROUND, ((0, responses.placed(whole, 0, orjson.dumps(LATER))),), (orjson.dumps(told[0]),))
    asked = ask(input=[USER, THOUGHT, OTHER, MINE, told[1]])
    found = json.loads(responses.write(asked, [put]))["input"]
    assert found == [USER, THOUGHT, CALL, RESULT, LATER, OTHER, MINE, *told]


def test_calls_that_ids_do_not_tell_apart() -> None:
    """The result that is put back stands where its call does."""
    call = {"type": "function_call", "call_id": "d", "name": "f", "arguments": "{}"}
    told = [{"type": "function_call_output", "call_id": "d", "output": text} for text in ("one", "three")]
    asked = ask(input=[USER, call, {**call, "name": "h"}, *told])
    refused, result = {**call, "name": "g"}, {**RESULT, "call_id": "d", "output": "two"}
    put = PutBack(1, calls=((1, orjson.dumps(refused)),), after=(orjson.dumps(result),))
    found = json.loads(responses.write(asked, [put]))["input"]
    assert [item.get("name") or item.get("output") for item in found[1:]] == ["f", "g", "h", "one", "two", "three"]


def chained(upstream: str | None, *front: dict[str, Any], **fields: Any) -> Ask:
    asked = ask(**fields)
    assert isinstance(asked.parsed, Body)
    asked.parsed.before = Before(upstream, tuple(map(orjson.dumps, front)))
    return asked


def test_what_the_provider_does_not_know() -> None:
    fields = {"previous_response_id": "resp_guardproxy_1", "input": [RESULT]}
    found = json.loads(responses.write(chained("resp_7", SAID, **fields), ()))
    assert (found["previous_response_id"], found["input"]) == ("resp_7", [SAID, RESULT])
    found = json.loads(responses.write(chained("", SAID, **{**fields, "input": "hi"}), ()))
    assert (found["previous_response_id"], found["input"]) == (None, [SAID, {"role": "user", "content": "hi"}])
    found = json.loads(responses.write(chained(None, SAID, **{**fields, "input": []}), ()))
    assert (found["previous_response_id"], found["input"]) == ("resp_guardproxy_1", [SAID])
    found = json.loads(responses.write(chained(None, SAID, input=None), ()))
    assert found["input"] == [SAID]
    asked = chained(None, SAID, **fields)
    found = json.loads(responses.write(asked, [AppendText(0, NOTE), PutBack(1, ROUND)]))
    assert found["input"] == [SAID, {**RESULT, "output": "no" + NOTE}, THOUGHT, CALL, RESULT]


@settings(max_examples=60 * FUZZ, deadline=None)
@given(st.lists(items | objects, max_size=5) | values, st.integers(0, 6), values)
def test_edits_of_wild_requests(listed: Any, index: int, odd: Any) -> None:
    raw = orjson.dumps({"model": "m", "input": listed, "tools": [{"name": "f"}], "odd": odd})
    try:
        asked = responses.read(raw, {})
    except BadAsk:
        return
    calls = ((0, orjson.dumps(CALL)),)
    for edits in (
        [AppendText(index, NOTE)],
        [ReplaceText(index, "x"), AppendText(index, NOTE)],
        [PutBack(index, ROUND, calls, (orjson.dumps(RESULT),)), AppendText(index, NOTE), ForbidTools()],
        [PutBack(asked.count, ROUND)],
        [PutBack(index, ROUND, instead="x"), PutBack(index + 1, instead="y"), PutBack(index + 2, ROUND)],
    ):
        found = orjson.loads(responses.write(asked, edits))
        assert found["odd"] == orjson.loads(raw)["odd"]
