"""What the agent's own reports say of the newest steps. Shared by the rules that ask whether anything came of them."""

from __future__ import annotations

from guardproxy.core.model import Trail
from guardproxy.core.progress import gains


def last_gain(trail: Trail) -> int:
    """Ordinal of the newest step with a report that was better than all before it; -1: there is none."""
    if not trail.steps or not any(step.bearing.report for step in trail.steps):
        return -1
    told = [(at, step.bearing.report) for at, step in enumerate(trail.steps, trail.first) if step.bearing.report]
    gained = gains([report for _, report in told])
    return max((at for (at, _), better in zip(told, gained, strict=True) if better), default=-1)
