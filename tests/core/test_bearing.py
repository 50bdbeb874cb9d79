"""`bearing`: what most steps have nothing of."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from guardproxy.core.bearing import ABSENT, NOTHING, Bearing
from guardproxy.core.fact import pack, unpack
from guardproxy.core.model import NO_FP
from guardproxy.core.session import observe
from tests.core.talk import PRINTER, ask, called, result, step, user

ANY = bytes(range(16))


def test_most_steps_bear_on_nothing_and_cost_nothing_for_it() -> None:
    plain = step("f", '{"a":1}')
    assert plain.bearing is NOTHING
    assert NOTHING.target == NOTHING.shape == NOTHING.said == NO_FP


@pytest.mark.parametrize(
    ("bearing", "more"),
    [
        (Bearing(), 0),
        (Bearing(ANY, 1, 40), 32),
        (Bearing(shape=ANY), 16),
        (Bearing(said=ANY), 16),
        (Bearing(report=(1, 2, 3, 4, ABSENT)), 20),
        (Bearing(left=0), 4),
        (Bearing(ANY, 1, 2, ANY, ANY, (0, 0, 0, 0, 0), 3), 88),
    ],
)
def test_a_fact_grows_by_what_there_is(bearing: Bearing, more: int) -> None:
    plain = step("f")
    assert len(pack(replace(plain, bearing=bearing))) - len(pack(plain)) == more


def test_a_turn_brings_words_places_and_the_report() -> None:
    """From the request to the facts: what detectors read was put there by `observe`."""
    conversation = [
        user("go"),
        called(("f", '{"n":1}', "a"), ("g", "{}", "b"), text="Let me look."),
        result("one", "a"),
        result("two", "b"),
        called(("f", '{"n":2}', "c")),
        result("three", "c"),
    ]
    told = ask(*conversation)
    told = replace(told, declared=replace(told.declared, progress=(1, 2, 3, 4, 5)))
    steps = [[unpack(fact) for fact in part.facts] for part in observe(told, PRINTER, 7).rounds]
    assert [[one.place for one in part] for part in steps] == [[1, 1], [4]]
    said = PRINTER.words("Let me look.")
    assert [[one.bearing.said for one in part] for part in steps] == [[said, NO_FP], [NO_FP]]
    assert [[one.bearing.report for one in part] for part in steps] == [[(), ()], [(1, 2, 3, 4, 5)]]


def test_the_same_call_with_other_words_is_another_fact() -> None:
    """Rounds are remembered by what was called; the words are part of it."""
    words = []
    for text in ("first", "second", None):
        asked = ask(user("go"), called(("f", "{}", "a"), text=text), result("one", "a"))
        words.append(unpack(observe(asked, PRINTER, 0).rounds[0].facts[0]).bearing.said)
    assert words == [PRINTER.words("first"), PRINTER.words("second"), NO_FP]


@pytest.mark.parametrize(
    ("tool", "arguments", "answer", "kind"),
    [
        ("read_file", '{"path":"a","offset":3,"limit":2}', "x\ny", "target"),
        ("update_plan", '{"plan":[{"s":"a b","st":"open"},{"s":"c d","st":"done"}]}', "ok", "shape"),
        ("sh", '{"cmd":"pytest"}', "3 failed", "left"),
        ("sh", '{"cmd":"cat log"}', "all is well here", ""),
        ("read_file", '{"path":"a","offset":3,"limit":2}', "Error: no such file", ""),
        ("read_file", '{"path":"a","offset":3,"limit":2}', None, ""),
    ],
)
def test_what_a_step_bears_on(tool: str, arguments: str, answer: str | None, kind: str) -> None:
    bearing = step(tool, arguments, answer).bearing
    known = {name for name, one in bearing._asdict().items() if one != getattr(NOTHING, name)}
    assert known - {"start", "stop"} == ({kind} if kind else set())
    assert bearing.left == (3 if kind == "left" else -1)


def test_lines_inside_json_are_lines() -> None:
    """What came bounds the range that was read; tools put text into JSON, where a line's end is written out."""
    plain, packed = (
        step("read_file", '{"path":"a","start_line":1,"end_line":99}', text).bearing
        for text in ("x\n" * 29 + "x", json.dumps({"output": "x\n" * 29 + "x"}))
    )
    assert (plain.start, plain.stop) == (packed.start, packed.stop) == (1, 31)
