"""What the section about loops and budgets says, as `core` takes it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from guardproxy import _sections
from guardproxy.core import proposals
from guardproxy.core.budget import DIMENSIONS, Limit
from guardproxy.core.policy import PROFILES

if TYPE_CHECKING:
    from guardproxy._policies import PolicySection


def checks(policy: PolicySection) -> dict[str, object]:
    """The checks of proposed calls. An observing policy refuses, repairs and pauses nothing."""
    modes = dict.fromkeys(proposals.CHECKS, "enforce")
    modes |= {"repeat": policy.refuse, "deny": policy.refuse, "arguments": policy.arguments.mode}  # type: ignore[attr-defined]
    found = proposals.default_settings()
    found["arguments"] = _sections.value(policy.arguments, proposals.CHECKS["arguments"].Settings)
    watched = policy.mode == "observe"
    told = {name: "observe" if watched and mode == "enforce" else mode for name, mode in modes.items()}
    return {name: replace(settings, mode=told[name]) for name, settings in found.items()}  # type: ignore[type-var]


def limits(policy: PolicySection) -> tuple[Limit, ...]:
    """The profile's limits, overridden by what the file says; null takes one away."""
    wanted: dict[tuple[str, str], float | None] = {}
    for setting, amount in PROFILES[policy.profile].items():
        wanted["session" if setting == "cost_usd" else "span", setting] = amount
    for scope, given in (("span", policy.limits.span), ("session", policy.limits.session)):
        wanted |= {(scope, setting): getattr(given, setting) for setting in given.model_fields_set}
    rows = {row.setting: row for row in DIMENSIONS.values()}
    return tuple(
        Limit(scope, rows[setting].name, max(1, round(amount * rows[setting].scale)))
        for (scope, setting), amount in wanted.items()
        if amount is not None
    )
