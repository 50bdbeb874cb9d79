"""The turn record: one turn as compact JSON without content, kept in the store and read by the loop table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NotRequired, TypedDict

import orjson

from guardproxy.core.model import Flag, Kind, Step
from guardproxy.telemetry._events import BYTES, Events, events_of, read_events
from guardproxy.telemetry.report import ACTED, TurnReport

_FORMAT = 1
_REASON = 200  # characters of a reason that are kept: one sentence
_ADVICE = 2000  # characters of what was said to the model that are kept
NAMED = 100  # whose it is stands in every hundredth record: of the 256 that are kept, one has it
_CALL = Kind.CALL  # by name it costs a third of a microsecond
_MARKS = {"f": int(Flag.FAILED), "v": int(Flag.VOID), "p": int(Flag.PENDING), "u": int(Flag.UNANSWERED)}
_MARKED = sum(_MARKS.values())


class CallRecord(TypedDict, total=False):
    """A call that the agent got. `call`: fingerprint. `arguments`, `result`: previews, where content may be shown."""

    tool: str
    call: str
    arguments: str
    result: str


class ResultRecord(TypedDict):
    """A result that the turn's request brought. `marks`: f failed, v void, p pending, u unanswered."""

    tool: str
    call: str
    result: str
    marks: str


class OfRecord(TypedDict):
    """Whose turn it was: the agent's name, whether it named the session itself, ids of the key and its team."""

    agent: str
    declared: bool
    team: str
    key: str


NOBODY = OfRecord(agent="", declared=False, team="", key="")
"""An agent that says nothing of itself, without a key."""


class TurnRecord(TypedDict):
    """One turn. Milliseconds, tokens, micro-dollars; `would` is what enforce mode would have done.

    `spared`: the exemptions that held rules back, as `exemption (rule xN)`.
    `prompt`: the agent's digest, where a rule spoke. `exempted`: labels that held something back, with commas between.
    `reason`: why the decision was made. `advice`: what the model was told, "" where it is not opened. `events`: rest.
    """

    turn: int
    at_ms: int
    thread: str
    calls: list[CallRecord]
    results: list[ResultRecord]
    latency_ms: int
    input_tokens: int
    output_tokens: int
    cost_microusd: int
    action: str
    would: str
    rule: str
    count: int
    status: int
    outcome: str
    spared: list[str]
    prompt: NotRequired[str]
    exempted: NotRequired[str]
    reason: NotRequired[str]
    advice: NotRequired[str]
    events: NotRequired[Events]
    of: NotRequired[OfRecord]


def record_of(report: TurnReport, seal: Callable[[str], str] | None = None) -> bytes:
    """A turn's record; what most turns do not have is left out where it is empty. `seal`: what the model was told is
    kept with it, as this makes it.
    """
    decision, usage, steps = report.decision, report.usage, report.steps
    calls = report.given
    compact: dict[str, Any] = {
        "v": _FORMAT,
        "n": report.turn or report.view.turn,
        "at": report.view.now_ms,
        "th": report.thread,
        "ms": (report.ended_ns - report.started_ns) // 1_000_000,
        "i": usage.input,
        "o": usage.output,
        "usd": report.cost_microusd or 0,
        "a": decision.action,
        "s": report.status,
    }
    if compact["n"] % NAMED == 1 and (report.agent or report.declared or report.key):
        compact["g"] = (report.agent, report.declared, report.team, report.key)
    if calls:
        compact["c"] = [(tool, fp[:BYTES].hex()) for tool, _, fp in calls]
    if steps:
        compact["r"] = [_result(step) for step in steps if step.kind is _CALL]
    if decision.rule or decision.would:
        compact |= {"w": decision.would, "ru": decision.rule, "k": decision.count, "p": report.prompt}
        compact["y"] = decision.reason[:_REASON]
    if decision.spared:
        compact["sp"] = [str(one) for one in decision.spared]
    if decision.exempted:
        compact["x"] = ",".join(decision.exempted)
    if report.outcome:
        compact["out"] = report.outcome
    if seal is not None and report.advice:
        compact["ad"] = seal(report.advice[:_ADVICE])
    if report.eventful:
        compact["e"] = events_of(report)
    try:
        return orjson.dumps(compact)
    except TypeError:  # lone surrogates in a tool's name
        return orjson.dumps(_cleaned(compact))


def read_record(data: bytes, opened: Callable[[str], str] | None = None) -> TurnRecord:
    """The record as a dict with every key. Raises ValueError for bytes that are none. `opened`: what was sealed."""
    try:
        short = orjson.loads(data)
        if short["v"] != _FORMAT:
            raise ValueError(f"turn record format {short['v']!r} is not {_FORMAT}")
        number = {key: int(short.get(key, 0)) for key in ("n", "at", "ms", "i", "o", "usd", "k", "s")}
        text = {key: str(short.get(key, "")) for key in ("th", "a", "w", "ru", "out", "p", "x", "y")}
        record = TurnRecord(
            turn=number["n"],
            at_ms=number["at"],
            thread=text["th"],
            calls=[CallRecord(tool=str(tool), call=str(call)) for tool, call in short.get("c", ())],
            results=[
                ResultRecord(tool=str(tool), call=str(call), result=str(result), marks=str(marks))
                for tool, call, result, marks in short.get("r", ())
            ],
            latency_ms=number["ms"],
            input_tokens=number["i"],
            output_tokens=number["o"],
            cost_microusd=number["usd"],
            action=text["a"],
            would=text["w"],
            rule=text["ru"],
            count=number["k"],
            status=number["s"],
            outcome=text["out"],
            spared=[str(one) for one in short.get("sp", ())],
            prompt=text["p"],
            exempted=text["x"],
            reason=text["y"],
            advice=opened(str(short["ad"])) if opened is not None and "ad" in short else "",
            events=read_events(short.get("e", {})),
        )
        if "g" in short:
            agent, declared, team, key = short["g"]
            record["of"] = OfRecord(agent=str(agent), declared=bool(declared), team=str(team), key=str(key))
        return record
    except (KeyError, TypeError, AttributeError) as wrong:
        raise ValueError(f"not a turn record: {wrong!r}") from wrong


def acts(record: TurnRecord) -> list[str]:
    """The interventions of a turn, on either side; what was only noted is none."""
    objected = record.get("events", Events()).get("objected", [])
    done = [one["action"] for one in objected if one["mode"] == "enforce"]
    return done if record["action"] not in ACTED or told_twice(record) else [record["action"], *done]


def told_twice(record: TurnRecord) -> bool:
    """Whether the decision only repeats what is said of a call, done or only noted."""
    decided = (record["would"] or record["action"], record["rule"])
    return any((one["action"], one["rule"]) == decided for one in record.get("events", Events()).get("objected", ()))


def result_of(step: Step) -> ResultRecord:
    """What a step says of its result."""
    tool, call, result, marks = _result(step)
    return ResultRecord(tool=tool, call=call, result=result, marks=marks)


def _result(step: Step) -> tuple[str, str, str, str]:
    flags = int(step.flags)  # as plain numbers: an enum's `&` costs a microsecond
    marks = "".join([mark for mark, flag in _MARKS.items() if flags & flag]) if flags & _MARKED else ""
    return step.tool, step.call[:BYTES].hex(), step.result[:BYTES].hex(), marks


def _cleaned(value: object) -> object:
    if isinstance(value, dict):
        return {key: _cleaned(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_cleaned(item) for item in value]
    return value.encode(errors="replace").decode() if isinstance(value, str) else value
