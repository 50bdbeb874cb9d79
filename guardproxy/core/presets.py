"""Presets: sets of thresholds for all detectors at once, as data. `policy.preset` names one; explicit settings win.

A preset says only what differs from the detectors' own defaults, which are `balanced`. Never later in `strict` and
never earlier in `patient`: a test holds every case of the field to that. What they cost was measured on the labelled
development sessions (62 loops, 90 without one) when they were chosen: strict 61 found and 2 false alarms, balanced 60
and 1, patient 44 and 0; no false ends in any. A first word at two plain repeats would have cost 12 false alarms, at
three errors of one signature 6: that is why strict leaves those two nudges alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from guardproxy.core.detectors import default_settings
from guardproxy.core.model import Triple


@dataclass(frozen=True, slots=True)
class Preset:
    """`fields`: rule name to the settings that differ from the defaults. `reason`: for whom, at what price."""

    reason: str
    fields: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


PRESETS: Mapping[str, Preset] = {
    "strict": Preset(
        "For runs that nobody watches, or whose calls are dear or cannot be undone: speaks one count earlier where "
        "healthy runs seldom go, and ends sooner everywhere. More healthy runs hear a nudge that they did not need; "
        "rules whose first word would come too early (plain repeats, errors with one signature) keep it.",
        {
            "compaction": {"triple": Triple(2, 0, 4)},
            "context_overflow": {"triple": Triple(3, 0, 6)},
            "cycle": {"triple": Triple(2, 3, 4)},
            "error_signature": {"triple": Triple(4, 5, 6), "listing": Triple(4, 6, 0)},
            "interleaved_repeat": {"triple": Triple(3, 4, 6), "weak": Triple(6, 9, 0), "looks": Triple(10, 0, 0)},
            "invalid_call": {"triple": Triple(2, 3, 4)},
            "monologue": {
                "same_text": Triple(2, 3, 4),
                "same_words": Triple(2, 3, 4),
                "same_answer": Triple(3, 4, 6),
            },
            "no_progress": {"unmoved": Triple(6, 0, 16), "reports": Triple(4, 6, 0)},
            "nothing_new": {"triple": Triple(4, 6, 9)},
            "repeated_call": {
                "triple": Triple(3, 4, 5),
                "batch": Triple(2, 3, 4),
                "thoughts": Triple(6, 9, 16),
                "scheduled": Triple(24, 0, 0),
            },
            "repeated_error": {"triple": Triple(3, 4, 5)},
            "reread_range": {"triple": Triple(5, 7, 9)},
            "same_result": {
                "void": Triple(4, 6, 9),
                "numbers": Triple(3, 5, 6),
                "zero": Triple(6, 9, 12),
                "informative": Triple(6, 9, 0),
            },
            "unchanged_poll": {"triple": Triple(6, 9, 16)},
            "unmoved_plan": {"triple": Triple(3, 6, 0)},
        },
    ),
    "balanced": Preset("The default: the detectors' own numbers, each with its reason beside it."),
    "patient": Preset(
        "For people at the keyboard, exploration, weak models and slow systems: about half as much again before a "
        "word, and longer until an end. No healthy development run hears anything; about a quarter of the loops that "
        "the default finds are not found before their recording ends.",
        {
            "compaction": {"triple": Triple(4, 0, 9)},
            "context_overflow": {"triple": Triple(6, 0, 12)},
            "cycle": {"triple": Triple(4, 6, 8)},
            "error_signature": {"triple": Triple(6, 8, 12), "listing": Triple(6, 10, 0)},
            "interleaved_repeat": {"triple": Triple(6, 8, 12), "weak": Triple(9, 0, 0), "looks": Triple(18, 0, 0)},
            "invalid_call": {"triple": Triple(4, 6, 9)},
            "monologue": {
                "same_text": Triple(3, 4, 6),
                "same_words": Triple(4, 6, 9),
                "same_answer": Triple(6, 9, 14),
            },
            "no_progress": {"unmoved": Triple(9, 0, 0), "reports": Triple(6, 12, 0)},
            "nothing_new": {"triple": Triple(8, 12, 18)},
            "repeated_call": {
                "triple": Triple(4, 6, 9),
                "batch": Triple(4, 6, 8),
                "thoughts": Triple(12, 18, 30),
                "scheduled": Triple(32, 0, 0),
            },
            "repeated_error": {"triple": Triple(4, 6, 9)},
            "reread_range": {"triple": Triple(9, 14, 20)},
            "same_result": {
                "void": Triple(8, 12, 0),
                "numbers": Triple(6, 9, 0),
                "zero": Triple(12, 18, 24),
                "informative": Triple(12, 18, 0),
            },
            "unchanged_poll": {"triple": Triple(12, 18, 36)},
            "unmoved_plan": {"triple": Triple(5, 0, 0)},
        },
    ),
}
"""Preset name to preset, the strictest first."""


def preset_settings(name: str) -> dict[str, object]:
    """Fresh settings of every rule under the preset called `name`."""
    fields = PRESETS[name].fields
    # settings are dataclasses, each of its own type: the map can only say object
    return {rule: replace(made, **fields.get(rule, {})) for rule, made in default_settings().items()}  # type: ignore[type-var]
