"""A run in words, for commands: a row of a list, a paragraph, and what lets it go on where it does not."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from guardproxy.core import commands
from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.scoped_exemption import moment
from guardproxy.http import reach
from guardproxy.http.sealed import Sealer
from guardproxy.http.sessions import DIGITS, Run, Runs, as_json
from guardproxy.http.terminal import visible
from guardproxy.store.redis import Store

AGENT = 32
"""Characters of an agent's name that a row shows."""

BY = 24
"""Characters of who holds a run that are shown in a row."""

TENANT = re.compile(r"limit \w+ \((?!span|session)")
"""Begins the reason of a limit that is not the run's."""

PANIC = "panic is on: nothing intervenes, no limit holds (guardproxy panic off ends it)"
"""Below runs, while every intervention is switched off."""


def name(run: Run) -> str:
    """Its id, for a terminal."""
    return visible(run.known.session)


HEADS = ("session", "state", "outcome", "turns", "cost", "agent", "last rule", "last turn")
"""Over the rows."""


def row(run: Run) -> tuple[str, ...]:
    """For a table of them."""
    return cells(as_json(run))


def cells(found: Mapping[str, Any]) -> tuple[str, ...]:
    """The row of a run as the admin API tells it: the table is the same wherever it is asked for."""
    told = (found["outcome"] or "–", str(found["turns"]), cost(found["used"]))
    agent, rule = _agent(found), found["last_rule"] or "–"
    return (visible(found["session"]), _short(found), *told, agent, rule, moment(found["at_ms"]))


def cost(used: Mapping[str, float]) -> str:
    """What of it was money; `used` is by the names and in the units of `policy.limits`."""
    money = DIMENSIONS["cost_microusd"]
    return money.show(round(used.get(money.setting, 0) * money.scale))


def _short(found: Mapping[str, Any]) -> str:
    """The state without the reason, which would make the table too wide: see `sessions show`, `approvals list`."""
    if found["state"] == "active" and found["outcome"] == "denied":
        return "active, stopped by a limit"
    return f"{found['state']} by {visible(found['by'], BY)}" if found["by"] else str(found["state"])


def _agent(found: Mapping[str, Any]) -> str:
    """Its name, or the beginning of its digest where it has none."""
    digest = found["agent"] == found.get("agent_digest", found["agent"])  # an older proxy says only that
    return visible((found["agent"] or "–")[: DIGITS if digest else None], AGENT)


def _state(run: Run) -> str:
    known = run.known
    if run.limit is not None:
        return f"{known.state}, stopped by a limit"
    why = f": {visible(known.why, 60)}" if known.why else ""
    return f"{known.state} by {visible(known.by)}{why}" if known.by else known.state


def paragraphs(run: Run, where: str = "") -> list[str]:
    """All that is to know of one, a fact a line, then its history. `where`: options with which commands reach it."""
    known, limit = run.known, run.limit
    _, _, outcome, turns, _, _, rule, last = row(run)
    facts = {
        "session": visible(known.session),
        "state": _state(run),
        "outcome": outcome,
        "why": f"{visible(limit['reason'])} (rule: {limit['rule']})" if limit else "",
        "to go on": goes_on(run, where),
        "turns": f"{turns} since {moment(known.started_ms)}, the last at {last}",
        "used": ", ".join(
            f"{x.setting} {x.show(used)}" for x in DIMENSIONS.values() if (used := known.used.get(x.name))
        ),
        "agent": " ".join(filter(None, (visible(run.agent), run.digest))) or "–",
        "last rule": rule,
        "threads": f"{len(known.threads)}: {', '.join(visible(one, 40) for one in known.threads[:5])}",
    }
    lines = [f"{name:<11}{text}" for name, text in facts.items() if text]
    if run.answer is not None:
        said = (run.answer.text, *(f"{tool}({given})" for tool, given in run.answer.calls))
        lines += [f"{'answer':<11}{visible(text)} (not handed on)" for text in said if text]
        lines += [f"{'not passed':<11}{visible(one)}" for one in run.answer.wrong]
    lines.append("history" if run.history else "history    nobody changed anything")
    for one in run.history:
        why = f": {visible(one.why)}" if one.why else ""
        lines.append(f"  {moment(one.at_ms)}  {visible(one.what)} by {visible(one.by) or 'nobody'}{why}")
    return lines


async def listing(
    runs: Runs, state: str, part: tuple[int, int], agent: str = "", *, whole: bool = False
) -> tuple[list[Run], list[str]]:
    """Runs, as `Runs.listed`, and what is to be said below them. `part`: how many, behind how many. `whole`: who asks
    may know of all organisations.
    """
    limit, behind = part
    found = await runs.listed(state, limit + 1, behind, agent)
    said = [reach.more(behind + limit)] if len(found) > limit else []
    if await runs.panic():
        said.append(PANIC)
    if whole and (other := reach.others("runs of other organisations", await runs.elsewhere())):
        said.append(other)
    return found[:limit], said


async def standing(store: Store, org: str, session: str, where: str = "") -> list[str]:
    """How a run stands that does not just go on, and what lets it: lines for who looks at its turns."""
    known = await store.session_state(org, session.encode("utf-8", "replace").decode())
    panic = [PANIC] if await store.panic() else []
    if known is None:  # its first request was refused: it never began
        return panic
    run = await Runs(store, Sealer(bytes(32)), org).of(known)
    stands, on = _state(run), goes_on(run, where)
    if stands == "active" and not on:
        return panic
    return [*panic, f"state: {stands}{finalized_by(run)}", *([f"to go on: {on}"] if on else [])]


def finalized_by(run: Run) -> str:
    """Said behind the state of a run that was made to give its answer: by which rule."""
    return f", finalized by {run.rule}" if run.known.state == "active" and run.outcome == "finalized" else ""


def goes_on(run: Run, where: str = "") -> str:
    """The command that lets a run go on; "" where it goes on by itself."""
    known, limit = run.known, run.limit
    if finalized_by(run):
        return _asks_on(run, where)
    if limit:  # of the run, not of whose it is: that is for whoever governs those
        return "" if TENANT.match(limit["reason"]) else commands.extend(known.session, limit["rule"], where)
    if known.state not in ("paused", "need_human", "closed"):
        return ""
    if known.by == "approval":  # why: its id and the tool
        return commands.decide(known.why.partition(" ")[0], question=known.state == "need_human", where=where)
    if known.by.startswith("budget"):
        return commands.extend(known.session, f"{known.by} {known.why}", where)
    if known.closed:  # by a person, for good
        return commands.command("sessions", "reset", known.session, where=where)
    return commands.go_on(known.session, known.by, "", where) if known.by else ""


def _asks_on(run: Run, where: str) -> str:
    """The same of a run whose last answer was to be its end. It is open: whoever asks on in the same request is met by
    the same rule again, most often where the model went on with its calls and nobody got them.
    """
    last = next(one for one in reversed(run.records) if one["outcome"] == "finalized")
    if last["at_ms"] <= run.opened_ms:
        return ""  # it was given more since
    said, rule = "a new message of the user's", last["rule"]
    if not rule.startswith("budget."):
        false = commands.command("false-alarm", run.known.session, where=where)
        return f"{said}, or where it was no loop {false}"
    reason = last.get("reason", "")
    if TENANT.match(reason):
        return ""
    more = commands.extend(run.known.session, rule, where)
    return more if "(session)" in reason else f"{said}, or {more}"
