"""`guardproxy false-alarm` and `false-alarms`: what a person says of a run is kept as a label, and acted upon.

Through the store, as `guardproxy trace`: every worker of every machine sees it with its next turn.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from guardproxy.config import Config
from guardproxy.core.detectors import RULES
from guardproxy.core.fingerprint import pack
from guardproxy.core.model import NO_FP, Kind, Step
from guardproxy.core.scoped_exemption import SCOPES, moment
from guardproxy.errors import ConfigError, GuardError
from guardproxy.http import entitled, reach, terminal, trace
from guardproxy.http.auditing import changed
from guardproxy.replaying import labelled
from guardproxy.store.labels import Added, Label
from guardproxy.store.redis import Store
from guardproxy.telemetry.record import TurnRecord
from guardproxy.telemetry.report import ACTED

DAY_MS = 86_400_000
"""Milliseconds of a day, by which labels are kept."""

LONGEST = 500
"""Characters of a note or a name: a sentence or two, not a report."""

ALARMS = (*RULES, "equal_request")
"""Rules that can be wrong. A limit is no alarm: it is raised, not exempted."""

_UNITS = {"s": 1000, "m": 60_000, "h": 3_600_000, "d": DAY_MS, "w": 7 * DAY_MS}
_FOR = re.compile(r"(\d{1,6})([smhdw])")


@dataclass(frozen=True, slots=True)
class Said:
    """What a person says: `rule` "" = the one that acted last, `span` such as 7d, `by` a name."""

    session: str
    by: str
    rule: str = ""
    tool: str = ""
    scope: str = "session"
    span: str = "7d"
    note: str = ""


def add(config: Config, org: str, said: Said) -> Added:
    """Keep the label, exempt the rule, let the run go on. Raises ConfigError for what no label can say."""
    for_ms, kept_ms = milliseconds(said.span), _kept_ms(config)
    if for_ms > kept_ms:
        raise ConfigError(f"--for {said.span}: labels are kept {kept_ms / DAY_MS:g} days (store.labels_days)")
    _check(said)
    actor = entitled.typist(config, "operator", org, said.by)
    said = replace(said, by=actor.name)
    boundary = pack(Step(Kind.BOUNDARY, "", NO_FP, NO_FP, NO_FP))

    async def work(store: Store) -> Added:
        label = label_of(said, await trace.read(store, org, said.session))
        added = await store.labels.add(org, label, for_ms, kept_ms, boundary)
        exempt = {"rule": label.rule, "scope": label.scope, "tool": label.tool or None, "for": said.span}
        diff = changed({}, exempt)
        await store.audit.note(actor.did("label.add", said.session, org=org, diff=diff))
        return added

    return reach.ask(config, work)


def revoke(config: Config, org: str, label: str, by: str) -> Label:
    """Take a label back: its exemption ends, and it is no longer exported."""
    _plain("--by", by)
    _plain("--revoke", label)
    actor = entitled.typist(config, "operator", org, by)

    async def work(store: Store) -> Label:
        one = await store.labels.revoke(org, label, actor.name, _kept_ms(config))
        diff = {"revoked": (False, True)}
        await store.audit.note(actor.did("label.revoke", one.id, org=org, diff=diff))
        return one

    return reach.ask(config, work)


def every(config: Config, org: str) -> list[Label]:
    """All labels that are kept, the newest first."""
    entitled.typist(config, "viewer", org)
    return reach.ask(config, lambda store: store.labels.every(org))


def export(labels: Sequence[Label], file: Path) -> int:
    """Write the labels that hold, a line a session; how many lines. Raises ConfigError for a file that cannot be."""
    lines = labelled.lines([label for label in labels if not label.revoked_ms])
    try:
        file.write_text("".join(lines), "utf-8")
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error
    return len(lines)


def milliseconds(span: str) -> int:
    """A span such as 90m, 12h, 7d, 2w."""
    found = _FOR.fullmatch(span.strip())
    if not found or int(found[1]) == 0:
        raise ConfigError(f"--for {span}: must be a number above 0 with a unit: 90m, 12h, 7d or 2w")
    return int(found[1]) * _UNITS[found[2]]


def label_of(said: Said, records: Sequence[TurnRecord]) -> Label:
    """The label, with the alarm that it is about: what its rule did last."""
    rule = said.rule or _last_rule(said.session, records)
    about = [record for record in records if record["rule"] == rule]
    if not about:
        spoke = sorted({record["rule"] for record in records if record["rule"]})
        raise GuardError(f"{rule} found nothing in session {said.session}; what did: {', '.join(spoke) or 'no rule'}")
    alarm = _alarm(records, rule)
    tools = sorted({name for record in records for call in record["calls"] if (name := call.get("tool", ""))})
    if said.tool and tools and said.tool not in tools:
        raise GuardError(f"no call of {said.tool} in session {said.session}; its tools are {', '.join(tools)}")
    subject = {"session": said.session, "agent": alarm.get("prompt", ""), "tool": ""}[said.scope]
    if said.scope == "agent" and not subject:
        raise GuardError(f"the agent of session {said.session} was not recorded; use --scope session or tool")
    made = sum(len(record["calls"]) for record in records[: records.index(alarm)])
    return Label(
        id=secrets.token_hex(4),
        session=said.session,
        rule=rule,
        scope=said.scope,
        subject=subject,
        by=said.by,
        tool=said.tool,
        note=said.note,
        action=alarm["would"] or alarm["action"],
        turn=alarm["turn"],
        count=alarm["count"],
        call=max(0, made - 1),
    )


def _alarm(records: Sequence[TurnRecord], rule: str) -> TurnRecord:
    """The newest alarm of a rule: what it did last, also after a resume; where it only observed, the last of that."""
    acts = [one["would"] or one["action"] if one["rule"] == rule else "" for one in records]
    done = [at for at, act in enumerate(acts) if act in ACTED] or [at for at, act in enumerate(acts) if act]
    at = done[-1]
    while at and acts[at - 1] == acts[at]:  # an ended run that was asked again
        at -= 1
    return records[at]


def _last_rule(session: str, records: Sequence[TurnRecord]) -> str:
    acted = [record["rule"] for record in records if record["action"] in ACTED or record["would"]]
    alarms = [rule for rule in acted if rule in ALARMS]
    if not acted:
        raise GuardError(f"nothing was said or done to session {session}: there is no alarm that could be false")
    if acted[-1] not in alarms:
        more = f"; an alarm before it: --rule {alarms[-1]}" if alarms else ""
        raise GuardError(f"session {session} was stopped by {acted[-1]}, a limit: that is raised, not exempted{more}")
    return acted[-1]


def _check(said: Said) -> None:
    if said.rule.startswith("budget."):
        raise ConfigError(f"--rule {said.rule}: a limit is no alarm; raise it in the configuration (policy.limits)")
    if said.rule and said.rule not in ALARMS:
        raise ConfigError(f"--rule {said.rule}: no rule of that name; there are {', '.join(ALARMS)}")
    if said.scope not in SCOPES:
        raise ConfigError(f"--scope {said.scope}: must be one of {', '.join(SCOPES)}")
    if said.scope == "tool" and not said.tool:
        raise ConfigError("--scope tool: say which, with --tool NAME")
    for option, text in (("--tool", said.tool), ("--note", said.note), ("--by", said.by)):
        _plain(option, text)


def _plain(option: str, text: str) -> None:
    if len(text) > LONGEST or not text.isprintable():
        raise ConfigError(f"{option}: must be printable text of at most {LONGEST} characters")


def _kept_ms(config: Config) -> int:
    return round(config.store.labels_days * DAY_MS)


def told(added: Added) -> str:
    """What the person reads who said it."""
    label = added.label
    tool = f" with {label.tool}" if label.tool else ""
    lines = [
        f"label {label.id}: {label.by} says that {label.rule} ({label.action}, turn {label.turn}) was a false alarm",
        f"until {moment(label.until_ms)} {label.rule}{tool} is only observed in {SCOPES[label.scope]}",
    ]
    if added.opened:
        lines.append("the run may go on: its ladder begins anew, its limits stay")
    lines += [f"it stays ended by {rule}, which this label is not about" for rule in sorted(set(added.shut))]
    return "\n".join(lines)


def show(labels: Sequence[Label], now_ms: int, none: str) -> None:
    """Print the labels as a table; `none` where there are none."""
    heads = ("label", "said at", "by", "session", "alarm", "exempts", "until", "hits", "note")
    terminal.show(heads, (_row(one, now_ms) for one in labels), none)


def _row(one: Label, now_ms: int) -> tuple[str, ...]:
    alarm = f"{one.rule} ({one.action}, turn {one.turn})"
    scope = f"{one.scope}{f', {one.tool}' if one.tool else ''}"
    said = (one.id, moment(one.at_ms), one.by, one.session)
    return (*said, alarm, scope, _until(one, now_ms), str(one.hits), one.note)


def _until(label: Label, now_ms: int) -> str:
    if label.revoked_ms:
        return f"taken back by {label.revoked_by}"
    return moment(label.until_ms) if now_ms < label.until_ms else f"over since {moment(label.until_ms)}"
