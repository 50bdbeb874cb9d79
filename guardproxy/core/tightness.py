"""Whether a policy is as tight as another one, setting by setting: what a client may choose for its own request.

Tight is what acts sooner, allows less and asks more. Where a setting is neither (which language, which way a person is
asked) it may be anything; where it cannot be told it has to be the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields

from guardproxy.core import completion
from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.model import Triple
from guardproxy.core.policy import Policy
from guardproxy.core.tool_rules import ToolRules

MODES = ("off", "observe", "enforce")
"""What a mode does, the loosest first."""

ORDERS: Mapping[str, tuple[str, ...]] = {
    "on_cut": ("pause", "cut"),
    "on_budget": ("pause", "deny"),
    "on_overrun": ("finish", "end"),
    "unmetered": ("pass", "refuse"),
    "on_failure": ("deliver", "pause", "cut"),
    "on_expiry": ("deny", "cut"),
}
"""Values of settings, the loosest first."""


def looser(one: Policy, than: Policy) -> tuple[str, ...]:
    """The settings in which `one` is looser, by their names in the configuration; none = it is as tight."""
    return (
        *(["mode"] if _less(one.mode, than.mode) else []),
        *_detectors(one, than),
        *_limits(one, than),
        *_tools(one.tools, than.tools),
        *_checks("", one.proposals, than.proposals),
        *_checks("hygiene.", one.hygiene, than.hygiene),
        *_checks("completion.", completion.in_use(one.completion), completion.in_use(than.completion)),
        *_ends(one, than),
    )


def _less(mode: str, than: str) -> bool:
    return MODES.index(mode) < MODES.index(than)


def _detectors(one: Policy, than: Policy) -> Iterator[str]:
    for rule, settings in than.detectors.items():
        own = one.detectors.get(rule)
        if own is None or _less(one.mode_of(rule), than.mode_of(rule)):
            yield f"detectors.{rule}"
        else:
            yield from (f"detectors.{rule}.{name}" for name in _later(own, settings))


def _later(own: object, settings: object) -> Iterator[str]:
    """Fields of a detector's settings that are not surely as soon: of a triple each number, all others are the same."""
    for one in fields(settings):  # type: ignore[arg-type]  # every rule's Settings is a dataclass
        mine, other = getattr(own, one.name), getattr(settings, one.name)
        if isinstance(other, Triple) and isinstance(mine, Triple):
            counts = [(getattr(mine, rung), getattr(other, rung)) for rung in ("nudge", "firm", "cut")]
            soon = all(not theirs or 0 < count <= theirs for count, theirs in counts)
        else:
            soon = mine == other
        if not soon:
            yield one.name


def _limits(one: Policy, than: Policy) -> Iterator[str]:
    own = {(limit.scope, limit.dimension): limit for limit in one.limits}
    for limit in than.limits:
        mine = own.get((limit.scope, limit.dimension))
        rule = f"budget.{limit.dimension}"
        if mine is None or mine.limit > limit.limit or _less(one.mode_of(rule), than.mode_of(rule)):
            yield f"limits.{limit.scope}.{DIMENSIONS[limit.dimension].setting}"


def _tools(one: ToolRules, than: ToolRules) -> Iterator[str]:
    """Every rule has to be there; what is forbidden need not be asked for any more."""
    for name, more in (("deny", ()), ("approval", one.deny), ("human", one.deny)):
        if not {*getattr(than, name)} <= {*getattr(one, name), *more}:
            yield f"tools.{name}"
    yield from (f"tools.{name}" for name in ("later", "final") if getattr(one, name) != getattr(than, name))
    if any(one.deadlines.get(glob, float("inf")) > seconds for glob, seconds in than.deadlines.items()):
        yield "tools.deadlines"


def _checks(where: str, one: Mapping[str, object], than: Mapping[str, object]) -> Iterator[str]:
    """A check that is used has to be used as much, on the same terms."""
    for name, settings in than.items():
        mode = getattr(settings, "mode", "off")
        own = one.get(name)
        if mode == "off":
            continue
        if own is None or _less(getattr(own, "mode", "off"), mode) or _terms(own) != _terms(settings):
            yield f"{where}{name}"


def _terms(settings: object) -> list[object]:
    return [getattr(settings, one.name) for one in fields(settings) if one.name != "mode"]  # type: ignore[arg-type]


def _ends(one: Policy, than: Policy) -> Iterator[str]:
    choices = ("on_cut", "on_budget", "on_overrun", "unmetered")
    for name, own, other in (
        *((name, getattr(one, name), getattr(than, name)) for name in choices),
        ("final.on_failure", one.final.on_failure, than.final.on_failure),
        ("approvals.on_expiry", one.approvals.on_expiry, than.approvals.on_expiry),
    ):
        order = ORDERS[name.rpartition(".")[2]]
        if order.index(own) < order.index(other):
            yield name
    for name, own, other in (
        ("finals", one.finals, than.finals),
        ("equal_limit", one.equal_limit, than.equal_limit),
        ("final.hold", than.final.hold, one.final.hold),
        ("final.retries", one.final.retries, than.final.retries),
        ("approvals.expire_seconds", one.approvals.expire_seconds, than.approvals.expire_seconds),
        ("default_output_hold", than.default_output_hold, one.default_output_hold),
        ("usage", than.splice_usage, one.splice_usage),
    ):
        if own > other:
            yield name
