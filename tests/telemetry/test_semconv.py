"""Attribute names: each once, in the project's words, none of the words that were replaced."""

from __future__ import annotations

import re

from guardproxy.telemetry import semconv

NAMES = {key: value for key, value in vars(semconv).items() if key.isupper() and isinstance(value, str)}
REPLACED = ("intervention.reason", "detector.name", "intervention.mode", "outcome_reason", "terminate", "inject")


def test_names_are_well_formed_and_unique() -> None:
    names = [value for value in NAMES.values() if re.match(r"(guardproxy|gen_ai|http)\.", value)]

    assert len(names) == len(set(names)) > 20
    assert all(re.fullmatch(r"[a-z0-9_]+(\.[a-z0-9_]+)+", one) for one in names)


def test_the_words_of_the_design_hold() -> None:
    assert not [one for one in semconv.SPAN_ATTRIBUTES if any(word in one for word in REPLACED)]
    assert {"guardproxy.rule", "guardproxy.action", "guardproxy.mode", "guardproxy.outcome"} <= semconv.SPAN_ATTRIBUTES
