"""Cells of a recorded run: one a call, coloured by what it is, marked where it adds nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Flag, Kind
from guardproxy.replaying.cells import ARGUMENTS, RESULT, Cell, cells, place

Json = dict[str, Any]
PRINTER = Fingerprinter(b"test")


def call(*made: tuple[str, str | None], tool: str = "look") -> list[Json]:
    """An assistant message with calls, and their results."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": tool, "arguments": json.dumps({"q": query})}}
        for n, (query, _) in enumerate(made)
    ]
    results = [
        {"role": "tool", "tool_call_id": f"c{n}", "content": said}
        for n, (_, said) in enumerate(made)
        if said is not None
    ]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def said(*turns: list[Json]) -> list[Cell]:
    return cells([{"role": "user", "content": "go"}, *[one for turn in turns for one in turn]], PRINTER)


def test_colours_are_of_calls_that_come_again() -> None:
    found = said(
        call(("a", "1")), call(("b", "2")), call(("a", "3")), call(("c", "4")), call(("c", "4")), call(("a", "3"))
    )
    assert [cell.colour for cell in found] == [0, -1, 0, 1, 1, 0]
    assert [cell.again for cell in found] == [False, False, False, False, True, True]


def test_a_round_begins_once_and_knows_its_message() -> None:
    found = said(call(("a", "1"), ("b", "2")), call(("c", "3")))
    assert [(cell.starts, cell.message) for cell in found] == [(True, 1), (False, 1), (True, 4)]


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (("a", "No results found"), ("b", "No results found"), True),
        (("a", "Error: no row 17"), ("b", "Error: no row 23"), True),
        (("a", "Error: no row 17"), ("b", "Error: timeout after 3 s"), False),
        (("a", "one"), ("b", "two"), False),
        (("a", None), ("b", None), False),
    ],
)
def test_the_same_answer(one: tuple[str, str | None], other: tuple[str, str | None], *, alike: bool) -> None:
    assert [cell.alike for cell in said(call(one), call(other))] == [False, alike]


def test_flags_are_those_of_live_steps() -> None:
    found = said(call(("a", "Error: broken")), call(("b", "")), call(("c", None)))
    assert [bool(cell.step.flags & Flag.FAILED) for cell in found] == [True, False, False]
    assert [bool(cell.step.flags & Flag.VOID) for cell in found] == [False, True, False]
    assert [bool(cell.step.flags & Flag.UNANSWERED) for cell in found] == [False, False, True]


def test_replies_without_a_call_are_cells_too() -> None:
    talk = [{"role": "assistant", "content": "I  am\nstuck."}, {"role": "user", "content": "Go on."}]
    first, second, third = said(talk, talk, call(("a", "1")))
    assert (first.step.kind, first.arguments, first.result) == (Kind.TEXT, "I am stuck.", "Go on.")
    assert second.again
    assert third.step.kind is Kind.CALL


@pytest.mark.parametrize("result", ["x" * 10_000_000, "x" * (RESULT + 1), " " * 5_000 + "x" * 5_000])
def test_previews_are_short(result: str) -> None:
    (cell,) = said(call(("y" * 10_000, result)))
    assert len(cell.arguments) <= ARGUMENTS + 2
    assert len(cell.result) <= RESULT + 2
    assert cell.result.endswith("…")


def test_a_short_text_is_whole() -> None:
    (cell,) = said(call(("a", f"  {'x' * RESULT}\n")))
    assert cell.result == "x" * RESULT


@pytest.mark.parametrize(("message", "index"), [(0, -1), (1, -1), (2, 1), (4, 1), (5, 2), (99, 2)])
def test_a_decision_stands_at_the_newest_cell_before_its_message(message: int, index: int) -> None:
    assert place(said(call(("a", "1"), ("b", "2")), call(("c", "3"))), message) == index


@pytest.mark.parametrize("messages", [[], [{}], [{"role": "tool"}], [{"role": "assistant", "tool_calls": "x"}]])
def test_odd_messages(messages: list[Json]) -> None:
    assert all(cell.step.kind is not Kind.CALL for cell in cells(messages, PRINTER))
