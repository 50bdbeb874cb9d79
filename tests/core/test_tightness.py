"""What is looser than what: the presets in their order, every setting by itself, and every field of a policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

import pytest

from guardproxy.config import build
from guardproxy.core.policy import Policy
from guardproxy.core.tightness import looser

Json = Mapping[str, Any]


def policy(**said: Any) -> Policy:
    tools = said.pop("tools", {})
    return build({"policy": said, "tools": tools}).policy_value()


@pytest.mark.parametrize(("one", "than"), [("strict", "balanced"), ("balanced", "patient"), ("strict", "patient")])
def test_presets(one: str, than: str) -> None:
    assert looser(policy(preset=one), policy(preset=than)) == ()
    back = looser(policy(preset=than), policy(preset=one))
    assert "detectors.repeated_call.triple" in back


def test_a_policy_is_as_tight_as_itself() -> None:
    for said in ({}, {"mode": "observe"}, {"preset": "patient", "profile": "none"}):
        assert looser(policy(**said), policy(**said)) == ()


RULE = {"tool": "rm", "paths": ["/etc"]}
LOOSER: dict[str, tuple[Json, Json]] = {
    "mode": ({"mode": "observe"}, {}),
    "detectors.cycle": ({"detectors": {"cycle": {"enabled": False}}}, {}),
    "detectors.cycle ": ({"detectors": {"cycle": {"mode": "observe"}}}, {}),
    "detectors.cycle.triple": ({"detectors": {"cycle": {"triple": [3, 0, 6]}}}, {}),
    "limits.session.cost_usd": ({"limits": {"session": {"cost_usd": 21}}}, {}),
    "limits.span.turns": ({"limits": {"span": {"turns": None}}}, {}),
    "tools.deny": ({}, {"tools": {"deny": [RULE]}}),
    "tools.approval": ({}, {"tools": {"approval": ["rm"]}}),
    "tools.human": ({}, {"tools": {"human": ["rm"]}}),
    "tools.later": ({"tools": {"later": ["job"]}}, {}),
    "tools.final": ({"tools": {"final": ["done"]}}, {}),
    "tools.deadlines": ({"tools": {"deadlines": {"x": 9}}}, {"tools": {"deadlines": {"x": 5}}}),
    "repeat": ({"refuse": "observe"}, {}),
    "arguments": ({}, {"arguments": {"mode": "enforce"}}),
    "hygiene.truncate": (
        {"hygiene": {"truncate": {"mode": "observe"}}},
        {"hygiene": {"truncate": {"mode": "enforce"}}},
    ),
    "hygiene.truncate ": (
        {"hygiene": {"truncate": {"mode": "enforce", "max_tokens": 9000}}},
        {"hygiene": {"truncate": {"mode": "enforce"}}},
    ),
    "completion.required_tools": ({}, {"completion": {"required_tools": {"mode": "enforce", "tools": ["x"]}}}),
    "on_cut": ({"on_cut": "pause"}, {}),
    "on_budget": ({"on_budget": "pause"}, {}),
    "unmetered": ({"unmetered": "pass"}, {}),
    "final.on_failure": ({}, {"final": {"on_failure": "pause"}}),
    "final.hold": ({}, {"final": {"hold": True}}),
    "final.retries": ({"final": {"retries": 3}}, {}),
    "approvals.on_expiry": ({}, {"approvals": {"on_expiry": "cut"}}),
    "approvals.expire_seconds": ({"approvals": {"expire_seconds": 90_000}}, {}),
    "default_output_hold": ({"default_output_hold": 10}, {}),
    "usage": ({"usage": "estimate"}, {}),
}


@pytest.mark.parametrize("setting", LOOSER)
def test_one_setting_is_looser_and_the_other_way_round_it_is_not(setting: str) -> None:
    one, than = LOOSER[setting]
    found = looser(policy(**one), policy(**than))
    assert setting.strip() in found
    if setting.strip() not in ("tools.later", "tools.final", "hygiene.truncate"):  # these have to be the same
        assert setting.strip() not in looser(policy(**than), policy(**one))


TIGHTER: dict[str, tuple[Json, Json]] = {
    "fewer dollars": ({"limits": {"session": {"cost_usd": 5}}}, {}),
    "one more limit": ({"limits": {"session": {"turns": 50}}}, {}),
    "one more rule": ({"tools": {"deny": [RULE, "mv"]}}, {"tools": {"deny": [RULE]}}),
    "forbidden in place of asked for": ({"tools": {"deny": ["rm"]}}, {"tools": {"approval": ["rm"], "human": ["rm"]}}),
    "another language": ({"language": "zh"}, {"language": "en"}),
    "another way to ask": ({"approvals": {"way": "hold"}}, {}),
    "a check of answers": ({"completion": {"required_tools": {"mode": "enforce", "tools": ["x"]}}}, {}),
    "a word where there was none": ({"detectors": {"compaction": {"triple": [2, 3, 4]}}}, {}),
}


@pytest.mark.parametrize("case", TIGHTER)
def test_what_is_tighter_is_not_looser(case: str) -> None:
    one, than = TIGHTER[case]
    assert looser(policy(**one), policy(**than)) == ()


JUDGED = {
    "mode", "modes", "detectors", "limits", "tools", "proposals", "hygiene", "completion", "final", "approvals",
    "finals", "equal_limit", "on_cut", "on_budget", "on_overrun", "unmetered", "default_output_hold", "splice_usage",
}  # fmt: skip
NEITHER = {"language", "checkpoints", "deny_status", "shrink_to_fit"}
"""Neither tight nor loose: how something is said, what is kept, how much is asked for where there is no room."""


def test_every_field_is_judged_or_known_to_be_neither() -> None:
    """A new field of a policy that nobody judged would be a way out."""
    assert {one.name for one in fields(Policy) if one.init} == JUDGED | NEITHER
