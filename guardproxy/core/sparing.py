"""Why nothing is done on a turn on which something repeats: the exemptions that held the detectors back.

Asked only where no finding has reached a nudge. Pure. A turn without a repeat costs a few comparisons.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardproxy.core import session
from guardproxy.core.detectors import RULES, SPARES
from guardproxy.core.detectors._count import THINK, has, recurs
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Finding, Kind, Rung, Trail
from guardproxy.core.view import View

LEAST = 3
"""Occurrences of a call from which there is something to explain: no rule for calls speaks sooner by itself."""

NOTHING: tuple[tuple[Spared, ...], tuple[str, ...]] = ((), ())


def held_back(
    view: View, trail: Trail, found: Sequence[Finding], chosen: Mapping[str, object]
) -> tuple[tuple[Spared, ...], tuple[str, ...]]:
    """The exemptions of a turn, and the rules whose detector raised while it was asked.

    `chosen`: settings per rule. Findings bring their own; the others are asked only where nobody would speak.
    """
    if not found and _ordinary(view, trail):
        return NOTHING
    told = [one.spared for one in found if one.spared is not None]
    errors: list[str] = []
    if not any(one.rung >= Rung.NUDGE for one in found) and not _ordinary(view, trail):
        whole = session.trail(view, whole=True) if _begun(view, trail) else None
        for rule, settings in chosen.items():
            try:
                told += _asked(rule, trail, settings)
                told += _earlier(rule, whole, settings) if whole is not None else ()
            except Exception as error:  # noqa: BLE001 - as in `policy`: an explanation must not end a request
                errors.append(f"{rule}: {type(error).__name__}: {error}")
    return tuple(told), tuple(errors)


def _ordinary(view: View, trail: Trail) -> bool:
    """Whether the newest step neither repeats one nor goes on with a row: most turns."""
    steps = trail.steps
    if not steps:
        return True
    last = steps[-1]
    if last.kind is not Kind.CALL or has(last.flags, THINK) or _begun(view, trail):
        return False
    if len(steps) > 1:
        before = steps[-2]
        row = before.masked == last.masked or before.masked_result == last.masked_result
        if row and before.tool == last.tool:
            return False
    return not recurs(trail, LEAST)


def _begun(view: View, trail: Trail) -> bool:
    """Whether the newest step stands before a person's last words, too, and often enough altogether."""
    if len(view.ring) == len(trail.steps):
        return False
    newest = trail.steps[-1].near
    return sum([newest in fact for fact in view.ring]) >= LEAST


def _asked(rule: str, trail: Trail, settings: object) -> Iterator[Spared]:
    spare = SPARES.get(rule)
    spared = spare(trail, settings) if spare is not None else None
    if spared is not None:
        yield spared


def _earlier(rule: str, whole: Trail, settings: object) -> Iterator[Spared]:
    """What would be spoken of, had nobody spoken to the agent since."""
    found = RULES[rule].detect(whole, settings)
    if found is not None and found.rung >= Rung.NUDGE:
        yield Spared(Exemption.USER_MESSAGE, rule, found.count, found.evidence)
