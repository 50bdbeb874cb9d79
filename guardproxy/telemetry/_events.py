"""What happened in a turn beside the decision, as a log line and a turn record have it, and in words. No content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, NotRequired, TypedDict, cast

from guardproxy.core.model import NO_FP
from guardproxy.telemetry.report import ACTIVE, MOST_OBJECTED, Objected, TurnReport

BYTES = 4
"""Of a fingerprint that are kept: enough to tell the calls of one run apart."""

UNCOUNTED = ("budget.", "paused.", "tools.")
"""Rules whose count is no number of times, by how their names begin."""

_NAME = 80  # characters of a tool's name


class ObjectedRecord(TypedDict):
    """A call that the agent did not get. `attempt` only where it was not the turn's last."""

    rule: str
    tool: str
    action: str
    mode: str
    count: NotRequired[int]
    call: NotRequired[str]
    attempt: NotRequired[int]


class Events(TypedDict, total=False):
    """What a turn has to tell; what it has not is left out. `approval` is [id, state], `asked` reasons of attempts.

    `dropped`: calls that were taken out of the answer with its whole kind, as tool and fingerprint: nobody got them.
    """

    objected: list[ObjectedRecord]
    dropped: list[tuple[str, str]]
    asked: list[str]
    verification: str
    failed_checks: list[str]
    hygiene: list[str]
    approval: list[str]
    late: list[str]
    missing: bool
    state: str


def events_of(report: TurnReport) -> Events:
    """The events of a turn; empty for nearly all."""
    found = Events()
    if not report.eventful:
        return found
    if report.objected:
        found["objected"] = [_objected(report, one) for one in report.objected[:MOST_OBJECTED]]
    if dropped := report.dropped:
        found["dropped"] = [(tool[:_NAME], call[:BYTES].hex()) for tool, _, call in dropped[:MOST_OBJECTED]]
    if report.asked:
        found["asked"] = list(report.asked)
    if report.verification:
        found["verification"] = report.verification
    if report.failed_checks:
        found["failed_checks"] = list(report.failed_checks)
    if report.hygiene:
        found["hygiene"] = _hygiene(report)
    if report.approval[0]:
        found["approval"] = list(report.approval)
    if report.late:
        found["late"] = [tool[:_NAME] for tool in report.late]
    if report.missing:
        found["missing"] = True
    if report.state not in ACTIVE:
        found["state"] = report.state
    return found


def read_events(data: Mapping[str, Any]) -> Events:
    """What `events_of` made, as JSON gives it back. TypeError, ValueError or AttributeError for what it is not."""
    found = Events()
    for key in ("asked", "failed_checks", "hygiene", "approval", "late"):
        if key in data:
            found[key] = [str(one) for one in data[key]]
    for key in ("verification", "state"):
        if key in data:
            found[key] = str(data[key])  # type: ignore[literal-required]
    if data.get("missing"):
        found["missing"] = True
    if "dropped" in data:
        found["dropped"] = [(str(tool), str(call)) for tool, call in data["dropped"]]
    if "objected" in data:
        found["objected"] = [_read_objected(one) for one in data["objected"]]
    return found


def words(events: Events) -> Iterator[str]:
    """The events in a few words each; the calls that the agent did not get apart."""
    if "asked" in events:
        yield f"asked again: {', '.join(events['asked'])}"
    if "verification" in events:
        failed = f": {', '.join(events['failed_checks'])}" if events.get("failed_checks") else ""
        yield f"verification {events['verification']}{failed}"
    if "approval" in events:
        handed = ": the call is handed on" if events["approval"][1:] == ["approved"] else ""
        yield f"approval {' '.join(events['approval'])}{handed}"
    if "hygiene" in events:
        yield f"tidied: {', '.join(events['hygiene'])}"
    if "late" in events:
        yield f"late: {', '.join(events['late'])}"
    if "missing" in events:
        yield "the last answer was not appended"
    if "state" in events:
        yield f"state {events['state']}"


def done_to(one: ObjectedRecord) -> str:
    """What was done to a call, or would have been: `refuse repeated_call x5`."""
    done = one["action"] if one["mode"] != "observe" else f"observe (would {one['action']})"
    return f"{done} {counted(one['rule'], one.get('count', 0))}"


def counted(rule: str, count: int) -> str:
    """A rule with how often it was met. Of limits, people and rules for tools the number says something else."""
    return f"{rule} x{count}" if count and not rule.startswith(UNCOUNTED) else rule


def _objected(report: TurnReport, one: Objected) -> ObjectedRecord:
    found = ObjectedRecord(rule=one.rule, tool=one.tool[:_NAME], action=one.action, mode=one.mode)
    if one.count:
        found["count"] = one.count
    if one.call != NO_FP:
        found["call"] = one.call[:BYTES].hex()
    if not report.of_last(one):
        found["attempt"] = one.attempt
    return found


def _read_objected(data: Mapping[str, Any]) -> ObjectedRecord:
    texts = {key: str(data.get(key, "")) for key in ("rule", "tool", "action", "mode")}
    texts |= {"call": str(data["call"])} if "call" in data else {}
    numbers = {key: int(data[key]) for key in ("count", "attempt") if key in data}
    return cast("ObjectedRecord", texts | numbers)


def _hygiene(report: TurnReport) -> list[str]:
    """`truncate read_file x2`, with `(observe)` where nothing was done."""
    every = Counter(
        f"{name} {tool[:_NAME]}".rstrip() + ("" if mode == "enforce" else f" ({mode})")
        for name, mode, tool in report.hygiene
    )
    return [f"{told} x{count}" if count > 1 else told for told, count in every.items()]
