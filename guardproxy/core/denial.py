"""What a request is told for which there is no room: whose limit, how much is used, and how to get through.

Nothing in it is of another tenant: a limit is that of the caller's own org, team, key, user or run.
"""

from __future__ import annotations

from datetime import UTC, datetime

from guardproxy.core import commands
from guardproxy.core.budget import DIMENSIONS, Dimension
from guardproxy.core.model import Decision, Line, Rung
from guardproxy.core.tenant_budget import is_hard
from guardproxy.core.view import View
from guardproxy.core.windows import NOW, chosen, kind_of, zone_of

RATE = "rate."
"""Begins the rule of a request that may come again in a moment."""

ELASTIC = frozenset({"output_tokens", "total_tokens", "cost_microusd"})
"""Dimensions of which a shorter answer needs less."""


def denied(view: View, output: int) -> Decision:
    """The decision on a request that was not admitted: a limit denies, a rate asks to wait. `output`: tokens of an
    answer that are held at most.
    """
    line = next((line for line in view.short if is_hard(line)), view.short[0])
    row, reason = DIMENSIONS[line.dimension], _reason(line, view, output)
    if is_hard(line):
        return Decision("deny", Rung.CUT, f"budget.{row.setting}", line.limit, reason, refused=line)
    return Decision("deny", Rung.OBSERVE, f"{RATE}{row.setting}", line.limit, reason, refused=line)


def _standing(line: Line, view: View) -> tuple[int, int]:
    found = next((spent for spent in view.spent if spent.line == line), None)
    return (found.used, found.held) if found else (line.limit, 0)


def _reason(line: Line, view: View, output: int) -> str:
    row = DIMENSIONS[line.dimension]
    used, held = _standing(line, view)
    kind = kind_of(line.key)
    per = f" a {kind}" if kind and kind not in ("total", NOW) else ""
    zone = f" ({zone_of(line.key)})" if zone_of(line.key) else ""
    reason = f"limit {row.setting} ({line.scope}) of {row.show(line.limit)}{per}{zone}: {row.show(used)} used"
    if held:
        reason += f", {row.show(held)} held for calls that are running"
    if line.hold > 1:
        reason += f", and this request may need {row.show(line.hold)}"
        reason += f" (less with a max_tokens below {output:,})" if line.dimension in ELASTIC else ""
    if resets := resets_at(line, view):
        reason += f"; it begins anew at {resets}"
    return reason


def resets_at(line: Line, view: View) -> str:
    """When the window of a limit ends (RFC 3339, UTC); "" = never."""
    _, ends = chosen(line.key, view.now_ms)
    return f"{datetime.fromtimestamp(ends / 1000, UTC):%Y-%m-%dT%H:%M:%SZ}" if ends else ""


def retry_after(view: View) -> int:
    """Seconds after which all rates that had no room may have it."""
    ends = [chosen(line.key, view.now_ms)[1] for line in view.short]
    return max(1, *(-(-(end - view.now_ms) // 1000) for end in ends if end), 1)


def facts(line: Line, view: View, where: str = "", output: int = 0) -> dict[str, object]:
    """What a denied client is told beside the sentence, in the units of the configuration.

    `where`: options with which commands reach the store. `output`: tokens of each answer that were to be held.
    """
    row = DIMENSIONS[line.dimension]
    used, held = _standing(line, view)
    told: dict[str, object] = {"scope": line.scope, "kind": row.setting}
    amounts = {"limit": line.limit, "used": used, "held": held, "hold": line.hold}
    told |= {name: amount(row, number) for name, number in amounts.items()}
    told["window"] = kind_of(line.key) or None
    told["timezone"] = zone_of(line.key) or None
    told["resets_at"] = resets_at(line, view) or None
    told["how"] = ways(line, view, where, output)
    return told


def ways(line: Line, view: View, where: str = "", output: int = 0) -> list[str]:
    """How to get through. A `max_tokens` that is not below what was to be held would change nothing."""
    used, held = _standing(line, view)
    ways = []
    if line.dimension in ELASTIC and line.hold > 1 and output > 1 and used + held < line.limit:
        ways.append(f"send a max_tokens below {output:,}: this request holds less then")
    if held and used + line.hold <= line.limit:
        ways.append("wait for calls that are running: they give back what they do not use")
    if (resets := resets_at(line, view)) and line.hold <= line.limit:
        ways.append(f"wait until {resets}")
    if line.key:
        ways.append(f"have the limit of the {line.scope} raised by whoever governs it")
    elif view.new_session:  # it did not begin: there is no run that could be given more
        setting = f"policy.limits.{line.scope}.{DIMENSIONS[line.dimension].setting}"
        ways.append(f"have {setting} raised by whoever governs it")
    else:
        how = commands.extend(view.session, DIMENSIONS[line.dimension].setting, where)
        ways.append(f"have an operator raise it: {how}")
    return ways


def amount(row: Dimension, number: int) -> float | int:
    """An amount in the unit of the configuration."""
    return number if row.scale == 1 else round(number / row.scale, 6)
