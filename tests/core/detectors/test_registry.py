"""The registry: every file is a rule, every rule has what the others count on."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.core import detectors
from guardproxy.core.bearing import NOTHING, Bearing
from guardproxy.core.detectors import EVIDENCE, NEEDS, RULES, SPECIFICITY, default_settings, detect_all
from guardproxy.core.detectors._signs import signs
from guardproxy.core.model import NO_FP, Flag, Kind, Rung, Step, Trail, Triple
from tests.core.detectors.scripts import Turn, trails

FOLDER = Path(detectors.__file__).parent


def test_every_file_is_a_rule() -> None:
    files = sorted(file.stem for file in FOLDER.glob("*.py") if not file.name.startswith("_"))
    assert list(RULES) == files
    assert set(SPECIFICITY) == set(RULES)
    assert len(set(SPECIFICITY.values())) == len(RULES)


@pytest.mark.parametrize("rule", RULES)
def test_settings_are_frozen_and_thresholds_rise(rule: str) -> None:
    module: ModuleType = RULES[rule]
    settings = module.Settings()
    assert is_dataclass(settings)
    assert settings.__dataclass_params__.frozen  # type: ignore[attr-defined]
    triples = [value for one in fields(settings) if isinstance(value := getattr(settings, one.name), Triple)]
    assert bool(triples) == (rule not in EVIDENCE)
    for triple in triples:
        steps = [count for count in (triple.nudge, triple.firm, triple.cut) if count]
        assert steps == sorted(set(steps))
        assert triple.nudge >= 2
    assert module.detect(Trail(()), settings) is None


def test_only_the_rules_named_are_asked() -> None:
    trail = trails([("look", "{}", "x")] * 4)[-1]
    assert {found.rule for found in detect_all(trail, default_settings())} == {"repeated_call"}
    assert detect_all(trail, {"cycle": RULES["cycle"].Settings()}) == ()


TURNS = st.one_of(
    st.none(),
    st.sampled_from(["hello", "bye"]),
    st.lists(
        st.tuples(
            st.sampled_from(["look", "edit", "think", "bash", ""]),
            st.sampled_from(["{}", '{"a":1}', '{"a":2}', "{broken"]),
            st.sampled_from(["", "x", "y", "Error: z", "still running", "Invalid arguments: a", None]),
        ),
        min_size=1,
        max_size=3,
    ),
)


@given(st.lists(TURNS, max_size=40))
def test_findings_point_into_the_trail(turns: list[Turn]) -> None:
    for trail in trails(turns)[-1:]:
        for found in detect_all(trail, default_settings()):
            assert found.reason
            assert found.count >= 1
            assert found.members
            assert found.unit >= 1
            assert list(found.evidence) == sorted(set(found.evidence))
            assert trail.first <= found.evidence[0]
            assert found.evidence[-1] <= trail.last
            nears = {step.near for step in trail.steps}
            assert set(found.members) <= nears
            assert found.rung is Rung.OBSERVE or found.rule not in EVIDENCE


@given(st.lists(TURNS, max_size=12), st.lists(TURNS, max_size=12))
def test_what_lay_before_a_genuine_message_changes_nothing(before: list[Turn], after: list[Turn]) -> None:
    """Detectors see no more than the trail: ordinals shift, findings stay."""
    if not after:
        return
    alone = trails(after)[-1]
    shifted = Trail(alone.steps, alone.first + len(before))
    told = [(found.rule, found.count, found.rung) for found in detect_all(alone, default_settings())]
    assert told == [(found.rule, found.count, found.rung) for found in detect_all(shifted, default_settings())]


PRINTS = st.sampled_from([bytes([number]) * 16 for number in range(1, 4)])
BEARINGS = st.one_of(
    st.just(NOTHING),
    st.builds(
        Bearing,
        target=st.sampled_from([NO_FP, b"t" * 16]),
        start=st.integers(0, 3),
        stop=st.integers(4, 9),
        shape=st.sampled_from([NO_FP, b"s" * 16]),
        said=st.sampled_from([NO_FP, b"w" * 16]),
        report=st.sampled_from([(), (1, 0, 0, 0, 0), (2, 0, 0, 0, 0)]),
        left=st.integers(-1, 1),
    ),
)
MARKS = [Flag.ROUND_START, *Flag]
STEPS = st.builds(
    Step,
    st.sampled_from([Kind.CALL] * 9 + list(Kind)),
    st.sampled_from(["look", "edit"]),
    PRINTS,
    PRINTS,
    PRINTS,
    PRINTS,
    PRINTS,
    PRINTS,
    st.lists(st.sampled_from(MARKS), max_size=2).map(lambda marks: Flag(sum({int(mark) for mark in marks}))),
    st.integers(0, 100_000),
    st.sampled_from([0, 2, 9]),
    BEARINGS,
)


LAPS = st.tuples(st.lists(STEPS, min_size=1, max_size=3), st.integers(2, 6)).map(lambda lap: lap[0] * lap[1])
VARIED = st.tuples(STEPS, st.integers(2, 6)).map(
    lambda row: [replace(row[0], near=bytes([number]) * 16, flags=row[0].flags | 1) for number in range(9, 9 + row[1])]
)


@settings(max_examples=500)
@given(st.lists(STEPS, max_size=8), st.one_of(LAPS, LAPS, LAPS, VARIED))
def test_a_rule_says_nothing_without_a_sign_that_it_needs(before: list[Step], end: list[Step]) -> None:
    trail = Trail((*before, *end), 5)
    shown = signs(trail)
    for rule, chosen in default_settings().items():
        if RULES[rule].detect(trail, chosen) is not None:
            assert NEEDS[rule] & shown, rule


@pytest.mark.parametrize(
    ("turns", "asked"),
    [
        ([("look", '{"a":1}', "x"), ("look", '{"a":2}', "y")], set()),
        ([("look", '{"a":1}', "x"), ("look", '{"a":2}', "x")], {"same_result", "compaction"}),
        ([("look", '{"a":1}', "x"), ("look", '{"a":2}', "Error: z")], {"error_signature", "no_progress"}),
        ([("look", '{"a":1}', "x"), ("look", "{broken", "y")], {"invalid_call"}),
        ([("look", '{"a":1}', "x"), "hello"], set(RULES)),
    ],
)
def test_most_turns_ask_few_rules(turns: list[Turn], asked: set[str]) -> None:
    shown = signs(trails(turns)[-1])
    assert {rule for rule, needs in NEEDS.items() if needs & shown} == asked
