"""The edits are values: equal when they say the same, and a set of its own that surfaces know whole."""

from __future__ import annotations

import inspect

import pytest

from guardproxy.core import edit

EDITS = [made for _, made in inspect.getmembers(edit, inspect.isclass) if issubclass(made, edit.Edit)]


def test_the_set_is_closed() -> None:
    """Whoever adds one has to teach it to every surface, and to come by here."""
    names = {made.__name__ for made in EDITS}
    request = {"AppendText", "ForbidTools", "SpliceUsage", "PutBack", "ReplaceText", "LimitOutput"}
    assert names == request | {"Edit", "DropCalls", "Reply", "Reject"}


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        (edit.AppendText(3, "a"), edit.AppendText(3, "a"), True),
        (edit.AppendText(3, "a"), edit.AppendText(4, "a"), False),
        (edit.ReplaceText(3, "a"), edit.AppendText(3, "a"), False),
        (edit.PutBack(1, before=(b"{}",)), edit.PutBack(1, before=(b"{}",)), True),
        (edit.PutBack(1, before=(b"{}",)), edit.PutBack(1, after=(b"{}",)), False),
    ],
)
def test_edits_are_compared_by_what_they_say(one: edit.Edit, other: edit.Edit, same: bool) -> None:
    assert (one == other) is same
