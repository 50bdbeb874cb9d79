"""Rounds and calls put back into a request whose content is blocks; the user and the model go on taking turns."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.api import messages
from guardproxy.core.edit import AppendText, PutBack
from tests.api.blocks import body, model, result, text, use, user
from tests.surfaces.messages import sound


def raw(*found: Any) -> tuple[bytes, ...]:
    return tuple(json.dumps(one).encode() for one in found)


THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
LATER = {"type": "thinking", "thinking": "ah", "signature": "bGF0ZXI"}
OTHER = {"type": "thinking", "thinking": "other", "signature": "b3RoZXI"}
Q, R, S = user("q"), use("1", path="a"), use("2", path="b")
NO = user(result("2", "no"))

CASES: dict[str, tuple[list[Any], PutBack, list[Any]]] = {
    # the client's messages, the edit, what is sent
    "rounds at the end": ([Q], PutBack(1, raw(model(S), NO)), [Q, model(S), NO]),
    "rounds in front of an answer": (
        [Q, model("a"), Q],
        PutBack(1, raw(model(S), NO)),
        [Q, model(S), NO, model("a"), Q],
    ),
    "nor without words": (
        [Q, model("a"), Q],
        PutBack(1, raw(model(text("a"), S), NO), said="a"),
        [Q, model(text("a"), S), NO, model("a"), Q],
    ),
    "what was said with them is not said twice": (
        [Q, model("I look.\n\na"), Q],
        PutBack(1, raw(model(text("I look."), S), NO), said="I look."),
        [Q, model(text("I look."), S), NO, model("a"), Q],
    ),
    "nor in blocks, thoughts among them": (
        [Q, model(THOUGHT, text("I look."), LATER, text("\n\nSo."), R), user(result("1", "r"))],
        PutBack(1, raw(model(THOUGHT, text("I look."), S), NO), said="I look."),
        [Q, model(THOUGHT, text("I look."), S), NO, model(LATER, text("\n\nSo."), R), user(result("1", "r"))],
    ),
    "the gap goes with it": (
        [Q, model(text("I look."), text("\n\nSo."), R), user(result("1", "r"))],
        PutBack(1, raw(model(text("I look."), S), NO), said="I look."),
        [Q, model(text("I look."), S), NO, model(text("So."), R), user(result("1", "r"))],
    ),
    "thoughts without words": (
        [Q, model(THOUGHT, R), user(result("1", "r"))],
        PutBack(1, raw(model(THOUGHT, S), NO)),
        [Q, model(THOUGHT, S), NO, model(R), user(result("1", "r"))],
    ),
    "other thoughts stay": (
        [Q, model(OTHER, R), user(result("1", "r"))],
        PutBack(1, raw(model(THOUGHT, S), NO)),
        [Q, model(THOUGHT, S), NO, model(OTHER, R), user(result("1", "r"))],
    ),
    "words that were held, and not given, stay": (
        [Q, model(text("Done."), R), user(result("1", "r"))],
        PutBack(1, raw(model(text("Done.")), user("wrong"))),
        [Q, model(text("Done.")), user("wrong"), model(text("Done."), R), user(result("1", "r"))],
    ),
    "two rounds as one text": (
        [Q, model(text("a\n\nb"), text("\n\nc"), R), user(result("1", "r"))],
        PutBack(1, raw(model(text("a"), S), NO, model(text("b"), S), NO), said="a\n\nb"),
        [Q, model(text("a"), S), NO, model(text("b"), S), NO, model(text("c"), R), user(result("1", "r"))],
    ),
    "a message is never left without content": (
        [Q, model(text("a")), Q],
        PutBack(1, raw(model(text("a"), S), NO), said="a"),
        [Q, model(text("a"), S), NO, model(text("a")), Q],
    ),
    "a call behind the client's, its result in front": (
        [Q, model(text("a"), R), user(result("1", "r"), text("and?"))],
        PutBack(1, calls=((1, *raw(S)),), after=raw(NO)),
        [Q, model(text("a"), R, S), user(result("2", "no"), result("1", "r"), text("and?"))],
    ),
    "a call in front of the client's": (
        [Q, model(text("a"), R), user(result("1", "r"))],
        PutBack(1, calls=((0, *raw(S)),), after=raw(NO)),
        [Q, model(text("a"), S, R), user(result("2", "no"), result("1", "r"))],
    ),
    "a call where the client has only words": (
        [Q, model("a"), user("b")],
        PutBack(1, calls=((0, *raw(S)),), after=raw(NO)),
        [Q, model(text("a"), S), user(result("2", "no"), text("b"))],
    ),
    "the client has not answered yet": (
        [Q, model(R)],
        PutBack(1, calls=((1, *raw(S)),), after=raw(NO)),
        [Q, model(R, S), NO],
    ),
    "other words for a notice": (
        [Q, model("[guardproxy] It waits."), user("Go on.")],
        PutBack(1, raw(model(S), NO), instead="It waited."),
        [Q, model(S), NO, model("It waited."), user("Go on.")],
    ),
    "and for all that was said with it": (
        [Q, model(THOUGHT, text("I look."), text("[guardproxy] It waits.")), user("Go on.")],
        PutBack(1, raw(model(THOUGHT, text("I look."), S), NO), said="I look.", instead="It waited."),
        [Q, model(THOUGHT, text("I look."), S), NO, model("It waited."), user("Go on.")],
    ),
    "a notice at the end is left out": (
        [Q, model("[guardproxy] It waits.")],
        PutBack(1, raw(model(S), NO), instead="It waited."),
        [Q, model(S), NO],
    ),
    "and one behind which the model goes on": (
        [Q, model("[guardproxy] It waits."), model(R), user(result("1", "r"))],
        PutBack(1, instead="It waited."),
        [Q, model(R), user(result("1", "r"))],
    ),
    "what is about no message": ([Q], PutBack(7, raw(model(S), NO)), [Q]),
}


@pytest.mark.parametrize("name", CASES)
def test_put_back(name: str) -> None:
    sent, edit, expected = CASES[name]
    before = body(messages=sent)
    out = json.loads(messages.write(messages.read(before, {}), [edit]))
    assert out == {**json.loads(before), "messages": expected}
    if sound({"messages": sent}):
        assert sound(out) or name == "rounds at the end"


@pytest.mark.parametrize("thoughts", [(), (THOUGHT,), (THOUGHT, text("I look."))], ids=len)
@pytest.mark.parametrize("more", [(user("Go on."),), ()], ids=["another turn", "the end"])
def test_a_notice_behind_thoughts_that_go_back_with_what_was_decided(thoughts: Any, more: Any) -> None:
    """The client has the thoughts in front of the notice, and the decision brings them again."""
    sent = body(messages=[Q, model(*thoughts, text("[guardproxy] It waits.")), *more])
    decided = PutBack(1, raw(model(*thoughts, S), NO))
    notice = PutBack(1, instead="It waited.")
    left = [model("It waited.")] if more else []
    for edits in ([decided, notice], [notice, decided]):
        out = json.loads(messages.write(messages.read(sent, {}), edits))["messages"]
        assert out == [Q, model(*thoughts, S), NO, *left, *more]


def test_indices_are_those_of_messages_spread_out() -> None:
    sent = [Q, model(R, use("3")), user(result("1", "r"), result("3", "s"), text("and?")), model("a"), Q]
    asked = messages.read(body(system="s", messages=sent), {})
    assert [one.role for one in messages.conversation(asked).tail] == [
        "system",
        "user",
        "assistant",
        "tool",
        "tool",
        "user",
        "assistant",
        "user",
    ]
    edits = [PutBack(6, raw(model(S), NO)), AppendText(4, "!"), AppendText(5, "?"), PutBack(8, raw(model("x"), Q))]
    out = json.loads(messages.write(asked, edits))["messages"]
    changed = user(result("1", "r"), result("3", "s!"), text("and?"), text("?"))
    assert out == [Q, sent[1], changed, model(S), NO, model("a"), Q, model("x"), Q]


def test_the_prefix_stays_as_rounds_come_and_go() -> None:
    """A request that asks again at the end is the beginning of the one that follows."""
    rounds = raw(model(text("I look."), S), NO)
    first = messages.write(messages.read(body(messages=[Q]), {}), [PutBack(1, rounds)])
    later = body(messages=[Q, model(text("I look."), text("\n\nSo."), R), user(result("1", "r"))])
    second = messages.write(messages.read(later, {}), [PutBack(1, rounds, said="I look.")])
    assert second.startswith(first[: first.rindex(b"]")])


HELD = {"role": "assistant", "content": [text("a"), R, text("b"), S]}


def test_a_message_that_was_held() -> None:
    held = json.dumps(HELD).encode()
    found = messages.read_message(held)
    assert (found.text, [call.id for call in found.calls]) == ("a\n\nb", ["1", "2"])
    assert [json.loads(one) for one in messages.calls_in_message(held)] == [R, S]
    assert json.loads(messages.keep_calls(held, {1})) == {**HELD, "content": [text("a"), text("b"), S]}
    assert messages.keep_calls(held, {0, 1}) is held
    changed = json.loads(messages.with_arguments(held, 1, '{"path": "c"}'))
    assert changed["content"][3]["input"] == {"path": "c"}
    assert messages.with_arguments(held, 1, '{"path":"b"}') is held
    assert messages.with_arguments(held, 5, "{}") is held
    assert messages.read_message(b"junk").calls == ()
    assert messages.calls_in_message(b'{"content":"x"}') == ()
