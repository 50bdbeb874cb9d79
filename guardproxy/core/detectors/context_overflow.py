"""A conversation that the provider refuses for its length, made shorter, and refused again.

Sees: the provider's own error ("context_length_exceeded" and its kin) with nothing new between two of them, whatever
the client did to its messages meanwhile: some compact and send again without end (139 requests in 45 s). Most clients
try one to three times by themselves, which is left to them. A result never seen before is progress. Cost: nothing
where the newest thing known of the thread is not such an error. Known false alarm: none known; these requests were
refused anyway.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.detectors._signs import REPLY
from guardproxy.core.model import Finding, Fp, Kind, Trail, Triple

NEEDS = REPLY


@dataclass(frozen=True, slots=True)
class Settings:
    """Thresholds."""

    triple: Triple = Triple(4, 0, 8)
    """Refusals without progress: four is one more than clients do by themselves."""


def detect(trail: Trail, settings: Settings) -> Finding | None:
    """Count the refusals since something new was seen."""
    steps = trail.steps
    if not steps or steps[-1].kind is not Kind.TOO_LONG:
        return None
    known: set[Fp] = set()
    at: list[int] = []
    for ordinal, step in enumerate(steps, trail.first):
        if step.kind is Kind.TOO_LONG:
            at.append(ordinal)
        elif step.result not in known or step.kind is not Kind.CALL:
            at.clear()
        known.add(step.result)
    if len(at) < 2:
        return None
    reason = f"the provider has refused this conversation {len(at)} times as too long, and nothing new came between"
    near = steps[-1].near
    return Finding("context_overflow", len(at), settings.triple, near, (near,), reason, tuple(at))
