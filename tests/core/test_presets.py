"""Presets: data that fits the detectors, and an order that holds on every case: strict, balanced, patient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, strategies as st

from guardproxy import cli
from guardproxy.config import PolicySection
from guardproxy.core.detectors import EVIDENCE, RULES, default_settings
from guardproxy.core.model import Rung, Triple
from guardproxy.core.presets import PRESETS, preset_settings
from tests.core.detectors.scripts import Turn, judge, trails
from tests.core.detectors.test_cases import CASES
from tests.core.detectors.test_registry import TURNS

ALL = {name: preset_settings(name) for name in PRESETS}
NEVER = 1 << 30


def reached(turns: Sequence[Turn], preset: str, pause_ms: int = 4_000) -> list[Rung]:
    """The highest rung so far, after each turn."""
    found = (judge(trail, ALL[preset]) for trail in trails(turns, pause_ms))
    return list(accumulate((one.rung if one else Rung.PASS for one in found), max))


def test_names_are_the_same_everywhere() -> None:
    assert tuple(PRESETS) == cli.PRESETS
    assert list(PRESETS) == list(PolicySection.model_fields["preset"].annotation.__args__)  # type: ignore[union-attr]
    assert PolicySection().preset == "balanced"


def test_balanced_is_the_default() -> None:
    assert ALL["balanced"] == default_settings()
    assert all(preset.reason for preset in PRESETS.values())


@pytest.mark.parametrize("name", ["strict", "patient"])
def test_every_preset_moves_every_rule(name: str) -> None:
    """A new detector has to say what it is under each preset."""
    assert set(PRESETS[name].fields) == set(RULES) - EVIDENCE
    assert all(ALL[name][rule] != ALL["balanced"][rule] for rule in RULES if rule not in EVIDENCE)


@pytest.mark.parametrize("name", ["strict", "patient"])
def test_every_threshold_is_said(name: str) -> None:
    """A new triple that a preset forgets would stay in the middle while its neighbours move."""
    for rule, module in RULES.items():
        triples = {one.name for one in fields(module.Settings) if isinstance(one.default, Triple)}
        assert triples <= set(PRESETS[name].fields.get(rule, ())), rule


@pytest.mark.parametrize("name", PRESETS)
def test_thresholds_rise(name: str) -> None:
    for settings in ALL[name].values():
        for one in fields(settings):  # type: ignore[arg-type]
            triple = getattr(settings, one.name)
            if isinstance(triple, Triple):
                used = [count for count in (triple.nudge, triple.firm, triple.cut) if count]
                assert used == sorted(set(used))
                assert triple.nudge >= 2


@pytest.mark.parametrize("rule", RULES)
def test_each_threshold_is_in_order(rule: str) -> None:
    for sooner, later in pairwise(("strict", "balanced", "patient")):
        for one in fields(ALL[sooner][rule]):  # type: ignore[arg-type]
            early, late = (getattr(ALL[name][rule], one.name) for name in (sooner, later))
            if isinstance(early, Triple):
                for count in ("nudge", "firm", "cut"):
                    assert (getattr(early, count) or NEVER) <= (getattr(late, count) or NEVER), (one.name, count)
            else:
                assert early == late, f"{one.name}: say here which way is sooner"


@pytest.mark.parametrize("name", CASES)
def test_strict_is_no_later_and_patient_no_earlier_on_every_case(name: str) -> None:
    strict, balanced, patient = (reached(CASES[name][0], preset) for preset in ALL)
    assert all(sooner >= middle >= later for sooner, middle, later in zip(strict, balanced, patient, strict=True))


def test_presets_make_a_difference_on_the_cases() -> None:
    """Without one the order above would hold for three equal presets."""
    sums = {name: sum(sum(reached(turns, name)) for turns, _ in CASES.values()) for name in ALL}
    assert sums["strict"] > sums["balanced"] > sums["patient"]


HEALTHY = [name for name, (_, rungs) in CASES.items() if not rungs and name != "B06, a 200 in between"]


@pytest.mark.parametrize("name", HEALTHY)
def test_what_is_healthy_stays_so_under_strict(name: str) -> None:
    assert max(reached(CASES[name][0], "strict")) < Rung.NUDGE


@given(st.lists(TURNS, max_size=30), st.sampled_from([500, 4_000, 60_000]))
def test_the_order_holds_for_anything(turns: list[Turn], pause_ms: int) -> None:
    for trail in trails(turns, pause_ms):
        strict, balanced, patient = (judge(trail, ALL[preset]) for preset in ALL)
        rungs = [one.rung if one else Rung.PASS for one in (strict, balanced, patient)]
        assert rungs == sorted(rungs, reverse=True)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize(("rule", "field"), [("same_result", "informative"), ("error_signature", "listing")])
def test_a_check_of_many_places_is_never_ended(preset: str, rule: str, field: str) -> None:
    triple = getattr(preset_settings(preset)[rule], field)
    assert triple.nudge
    assert triple.firm
    assert not triple.cut
