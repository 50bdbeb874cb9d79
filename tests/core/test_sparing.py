"""Why nothing is done: each exemption on the healthy run that it is there for, as `decide` tells it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest

from guardproxy.core import sparing
from guardproxy.core.detectors import RULES, SPARES, default_settings
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Call, Decision, Finding, Kind, Message, Rung, Step, Triple
from guardproxy.core.policy import Policy, decide
from guardproxy.core.presets import preset_settings
from tests.core.talk import PRINTER, view_of

Move = tuple[str, dict[str, object], str] | Step
MIX = ["", "ok", "x", "y", "still running", "Error: z"]


def call(tool: str, result: str, **arguments: object) -> Move:
    return tool, arguments, result


def shot(number: int) -> Step:
    """A picture, another one each time."""
    seen = Message("tool", "", media=(bytes([number]),))
    return PRINTER.step(Call("screenshot", "{}"), seen, first=True, at_ms=number * 1000)


def reply(text: str, answer: str, at_ms: int = 0) -> Step:
    return PRINTER.text_step(text, answer, at_ms=at_ms)


def ring(moves: Sequence[Move], gaps_ms: Sequence[int] = (2000,)) -> list[Step]:
    """The steps; `gaps_ms` are the pauses after each, the last one over and over."""
    steps, now = [], 0
    for number, move in enumerate(moves):
        if isinstance(move, Step):
            steps.append(move)
        else:
            tool, arguments, result = move
            made = Call(tool, json.dumps(arguments))
            steps.append(PRINTER.step(made, Message("tool", result), first=True, at_ms=now))
        now += gaps_ms[min(number, len(gaps_ms) - 1)]
    return steps


BOUNDARY = PRINTER.boundary(0)
LIST = call("process", "[]", action="list")
LOOK = call("poll", "none")
TEST = call("sh", "3 failed", cmd="pytest -q")
BUSY = call("job", "still running", id=7)
WAIT = call("wait", "ok", s=2)
UNAVAILABLE = call("get", "503 Service Unavailable", u="x")
LONG = "Please answer in the form that was asked for, with a call."
GROWING = (2000, 8000, 30_000, 90_000)


def edit(number: int, path: str = "a.py") -> Move:
    return call("edit", "ok", p=path, new=f"v{number}")


def todo(number: int) -> Move:
    todos = [{"text": f"part {k}", "status": "done" if k <= number else "open"} for k in range(6)]
    return call("todo_write", "ok", todos=todos)


def other(count: int) -> list[Move]:
    words = [f"{chr(97 + k // 26)}{chr(97 + k % 26)}x" for k in range(count)]
    return [call("sh", f"built {word}", cmd=f"make {word}") for word in words]


def laps(times: int) -> list[Move]:
    return [call(t, f"{t} {k}", q=t) for k in range(times) for t in ("look", "find")]


def lint(number: int) -> Move:
    return call("sh", f"error: rule {'abcdefg'[number]} is broken", cmd="lint")


SCENES: dict[str, tuple[list[Step], set[tuple[Exemption, str, int]]]] = {
    "B19, a board that changes": (
        ring([call("board", f"{9 - k} open", at="x") for k in range(8)]),
        {(Exemption.CHANGED_RESULTS, "repeated_call", 8)},
    ),
    "B28, a reader without a position": (
        ring([call("read_output", f"block {k * 7919}", session=1) for k in range(20)]),
        {(Exemption.CHANGED_RESULTS, "repeated_call", 20)},
    ),
    "errors that change": (
        ring([call("deploy", f"Error: {what} is missing") for what in ("key", "role", "image", "disk")]),
        {(Exemption.CHANGED_RESULTS, "repeated_error", 4)},
    ),
    "B09, laps with changing results": (
        ring(laps(4)),
        {(Exemption.CHANGED_RESULTS, "cycle", 4), (Exemption.CHANGED_RESULTS, "interleaved_repeat", 4)},
    ),
    "B23, fewer failures after each fix": (
        ring([move for k in range(5) for move in (edit(k), call("sh", f"{5 - k} failed", cmd="pytest"))]),
        {(Exemption.CHANGED_RESULTS, "interleaved_repeat", 5)},
    ),
    "B26, a backoff": (ring([UNAVAILABLE] * 3, GROWING), {(Exemption.GROWING_PAUSES, "repeated_error", 3)}),
    "B20, at a minute's pause": (ring([BUSY] * 8, [60_000]), {(Exemption.LONG_PAUSES, "unchanged_poll", 8)}),
    "not ready": (ring([BUSY] * 5), {(Exemption.NOT_READY, "unchanged_poll", 5)}),
    "not ready, in a circle": (
        ring([BUSY, call("queue", "still pending")] * 3),
        {(Exemption.NOT_READY, "cycle", 3), (Exemption.NOT_READY, "unchanged_poll", 3)},
    ),
    "a heartbeat": (
        [reply("All is well.", LONG + str(k), k * 600_000) for k in range(4)],
        {(Exemption.LONG_PAUSES, "monologue", 4)},
    ),
    "B23, the same failure after each fix": (
        ring([move for k in range(5) for move in (edit(k), TEST)]),
        {(Exemption.STATE_CHANGE, "interleaved_repeat", 5)},
    ),
    "a check that fails differently in between": (
        ring([move for k in range(5) for move in (lint(k), TEST)]),
        {(Exemption.NEW_INFORMATION, "interleaved_repeat", 5), (Exemption.CHANGED_RESULTS, "cycle", 5)},
    ),
    "B21, other work in between": (
        ring([LOOK, LOOK, *other(10), LOOK, LOOK]),
        {(Exemption.OTHER_WORK, "interleaved_repeat", 4)},
    ),
    "lines of a file by a shell": (
        ring([call("sh", f"text of part {'abcdefg'[k]}", cmd=f"sed -n {k * 40},{k * 40 + 39}p x") for k in range(6)]),
        {(Exemption.FORWARD_PAGING, "same_result", 6)},
    ),
    "B05, seven places with one answer": (
        ring([call("sh", "total 0", dir=f"/srv/{k}x") for k in "abcdefg"]),
        {(Exemption.DISTINCT_TARGETS, "same_result", 7)},
    ),
    "a batch of edits": (
        ring([edit(1, f"{k}x.py") for k in "abcdefghijkl"]),
        {(Exemption.DISTINCT_TARGETS, "same_result", 12)},
    ),
    "B27, a list that advances": (ring([todo(k) for k in range(6)]), {(Exemption.ADVANCING_LIST, "same_result", 6)}),
    "acknowledgements between other work": (
        ring([move for one in other(5) for move in (one, call("delete", "", path="x"))]),
        {(Exemption.ACKNOWLEDGED, "interleaved_repeat", 5)},
    ),
    "a thought": (ring([call("think", "ok", thought="hm")] * 4), {(Exemption.WAIT_TOOL, "repeated_call", 4)}),
    "B32, clicks, pictures and waits": (
        [step for k in range(8) for step in (*ring([call("click", "clicked", i=k)]), shot(k), *ring([WAIT]))],
        {(Exemption.WAIT_TOOL, "interleaved_repeat", 8)},
    ),
    "a screen that is watched": ([shot(k) for k in range(6)], {(Exemption.IMAGES, "repeated_call", 6)}),
    "a screen that is watched between clicks": (
        [step for k in range(6) for step in (*ring([call("click", "clicked", i=k)]), shot(k))],
        {(Exemption.IMAGES, "interleaved_repeat", 6)},
    ),
    "a person asks again": (
        [*ring([LIST] * 2), BOUNDARY, reply("Nothing runs.", "And now?"), *ring([LIST] * 2)],
        {(Exemption.USER_MESSAGE, "repeated_call", 4)},
    ),
    "a person's short words": (
        [reply(f"Part {k} of the story: {'abcdefg'[k] * 9}", "go on") for k in range(5)],
        {(Exemption.USER_MESSAGE, "monologue", 5)},
    ),
    "equal calls in one message": (
        [PRINTER.step(Call("sh", '{"cmd":"make"}'), Message("tool", "built"), first=k == 0, at_ms=0) for k in range(4)],
        {(Exemption.DUPLICATE_IN_ROUND, "repeated_call", 4), (Exemption.DUPLICATE_IN_ROUND, "duplicate_calls", 4)},
    ),
}
"""A healthy run, and what spares its newest step."""


@pytest.mark.parametrize("name", SCENES)
def test_a_healthy_run_says_what_spares_it(name: str) -> None:
    steps, expected = SCENES[name]
    decision = decide(view_of(steps), Policy())
    assert decision.rung < Rung.NUDGE
    assert {(one.because, one.rule, one.times) for one in decision.spared} == expected


@pytest.mark.parametrize("name", SCENES)
def test_the_steps_named_are_in_the_ring(name: str) -> None:
    steps, _ = SCENES[name]
    for spared in decide(view_of(steps), Policy()).spared:
        assert list(spared.at) == sorted(set(spared.at))
        assert set(spared.at) <= set(range(len(steps)))
        assert all(steps[at].kind is not Kind.BOUNDARY for at in spared.at)
        assert spared.because is Exemption.DUPLICATE_IN_ROUND or len(spared.at) >= spared.times


@pytest.mark.parametrize(
    ("moves", "action", "spared"),
    [
        (
            [call("check_domain", "Error: domain not available", name=f"{k}x.com") for k in "abcde"],
            "nudge",  # and not firm
            (Exemption.DISTINCT_TARGETS, "error_signature", 5),
        ),
        (
            [move for k in range(8) for move in (edit(k), TEST)],
            "nudge",  # and no cut
            (Exemption.STATE_CHANGE, "interleaved_repeat", 8),
        ),
    ],
)
def test_a_lower_rung_says_what_held_it(moves: list[Move], action: str, spared: tuple[Exemption, str, int]) -> None:
    decision = decide(view_of(ring(moves)), Policy())
    assert decision.action == action
    assert [one[:3] for one in decision.spared] == [spared]


def test_every_exemption_has_its_run() -> None:
    elsewhere = {Exemption.FALSE_ALARM, Exemption.REPORTED_PROGRESS}  # said by people and agents, tested there
    by_detectors = set(Exemption) - elsewhere
    assert {one for _, expected in SCENES.values() for one, _, _ in expected} == by_detectors


@pytest.mark.parametrize(
    "steps",
    [
        [],
        ring([LIST] * 2),
        ring(other(24)),
        ring([call("read", f"text of {k}", path=f"{k}x") for k in "abcdefghijklmnop"]),
        ring([move for k in range(3) for move in (edit(k), call("sh", f"{5 - k} failed", cmd="pytest"))]),
        [reply("Hello.", "Hi."), reply("Fine.", "And you?")],
        [*ring(other(4)), BOUNDARY, reply("Done.", "More."), *ring(other(9)[5:])],
        ring([move for k in range(4) for move in (call("board", f"{9 - k} open"), *other(8))][:-8]),
        ring([call("search", "No results found.", q=f"{k}x") for k in "abc"]),
        ring([call("read", "the same page", chunk=k) for k in range(4)]),
    ],
    ids=["nothing", "two", "work", "files", "tests", "talk", "spans", "far apart", "nothing found", "one page"],
)
def test_ordinary_work_is_spared_nothing(steps: list[Step]) -> None:
    assert decide(view_of(steps), Policy()).spared == ()


@pytest.mark.parametrize("steps", [ring(other(40)), ring([LIST, *other(9), LIST]), ring([edit(1), TEST] * 2)])
def test_no_detector_is_asked_about_ordinary_work(steps: list[Step], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sparing, "SPARES", None)  # whoever looks raises
    assert decide(view_of(steps), Policy()).errors == ()


def test_nothing_is_explained_where_somebody_speaks() -> None:
    """A loop beside a poll that changes: what is told is the loop."""
    decision = decide(view_of(ring([*laps(4), *[LIST] * 3])), Policy())
    assert (decision.action, decision.spared) == ("nudge", ())


def test_a_rule_that_is_off_or_never_speaks_is_spared_nothing() -> None:
    steps = ring([call("board", f"{9 - k} open") for k in range(8)])
    settings = {rule: one for rule, one in default_settings().items() if rule != "repeated_call"}
    assert decide(view_of(steps), Policy(detectors=settings)).spared == ()
    never = RULES["repeated_call"].Settings(triple=Triple(0, 0, 0))
    assert decide(view_of(steps), Policy(detectors={"repeated_call": never})).spared == ()


@pytest.mark.parametrize(("preset", "spared"), [("strict", 1), ("balanced", 1), ("patient", 0)])
def test_what_would_be_spoken_of_is_a_matter_of_the_thresholds(preset: str, spared: int) -> None:
    steps = ring([call("board", f"{9 - k} open") for k in range(3)])
    assert len(decide(view_of(steps), Policy(detectors=preset_settings(preset))).spared) == spared


def test_a_detector_that_raises_while_it_explains_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(trail: object, settings: object) -> Spared | None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(sparing, "SPARES", {**SPARES, "cycle": broken})
    decision = decide(view_of(SCENES["B09, laps with changing results"][0]), Policy())
    assert decision == Decision(
        "pass", spared=decision.spared, findings=decision.findings, errors=("cycle: ZeroDivisionError: oh",)
    )
    assert [one.rule for one in decision.spared] == ["interleaved_repeat"]


def test_a_finding_brings_its_own() -> None:
    spared = Spared(Exemption.GROWING_PAUSES, "repeated_error", 4, (0, 1, 2, 3))
    acting = Finding("repeated_error", 4, Triple(4, 5, 8), b"s" * 16, (), "r", (), spared=spared)
    view = view_of(ring([UNAVAILABLE] * 4))
    trail = sparing.session.trail(view)
    assert sparing.held_back(view, trail, [acting], default_settings()) == ((spared,), ())
