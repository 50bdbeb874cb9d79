"""nudge: one text, at the newest tool result, and nothing else."""

from __future__ import annotations

from guardproxy.core.edit import AppendText
from guardproxy.core.interventions import nudge
from tests.core.interventions.loops import RUN, check_text, context, decision
from tests.core.talk import ask, called, result, said, user


def text_at(edits: tuple[object, ...]) -> tuple[int, str]:
    (edit,) = edits
    assert isinstance(edit, AppendText)
    return edit.index, edit.text


def test_it_rides_with_the_newest_result() -> None:
    index, text = text_at(nudge.carry_out(decision("nudge"), ask(*RUN), context()))

    assert index == len(RUN) - 1
    check_text(text)
    assert "`f` was called 3 times" in text
    assert '{"q": 1}' in text
    assert "nothing here" in text
    assert "g, h" in text, "what was not tried"


def test_the_place() -> None:
    """The last tool result since the model spoke, else the last user message there, else none."""
    call = called(("f", "{}", "a"), ("g", "{}", "b"))
    places = [
        ((user("Do it."), call, result("1", "a"), result("2", "b")), 3),
        ((user("Do it."), call, result("1", "a"), user("Well?")), 2),
        ((user("Do it."), call, result("1", "a"), said("x"), user("again")), 4),
        ((user("Do it."),), 0),
        ((user("Do it."), call), None),
    ]
    for messages, expected in places:
        edits = nudge.carry_out(decision("nudge"), ask(*messages), context())
        assert (text_at(edits)[0] if edits else None) == expected


def test_the_language() -> None:
    _, text = text_at(nudge.carry_out(decision("nudge"), ask(*RUN), context("zh")))

    check_text(text)
    assert "连续调用 3 次" in text


def test_without_a_finding_there_is_nothing_to_say() -> None:
    assert nudge.carry_out(decision("nudge", finding=None), ask(*RUN), context()) == ()
