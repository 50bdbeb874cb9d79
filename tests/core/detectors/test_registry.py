"""The registry: every file is a rule, every rule has what the others count on."""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import given, strategies as st

from guardproxy.core import detectors
from guardproxy.core.detectors import EVIDENCE, RULES, SPECIFICITY, default_settings, detect_all
from guardproxy.core.model import Rung, Trail, Triple
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
