"""Turn records from recorded spans: what our own spans say of each turn, read back from OTLP as JSON."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

from guardproxy.telemetry import semconv as s
from guardproxy.telemetry._events import BYTES, Events, ObjectedRecord
from guardproxy.telemetry.record import CallRecord, OfRecord, TurnRecord
from guardproxy.telemetry.report import FAILOVER, FIRST

_MARKS = {"error": "error", "abandoned": "no answer"}
_INTERVENE = "guardproxy.intervene"


def spans(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The spans of an export request that are ours, each with its attributes as a plain dict under `attributes`."""
    found = []
    for resource in _listed(line, "resourceSpans", "resource_spans"):
        for scope in _listed(resource, "scopeSpans", "scope_spans"):
            if _dict(scope.get("scope")).get("name") == s.SCOPE:
                found += [span | {"attributes": _attributes(span)} for span in _listed(scope, "spans")]
    return found


def runs(found: Iterable[dict[str, Any]], org: str = "") -> dict[str, list[TurnRecord]]:
    """The runs that spans tell of, by session."""
    by_session: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span in found:
        told = span["attributes"]
        if s.SESSION in told and (not org or told.get(s.ORG, org) == org):
            by_session[str(told[s.SESSION])].append(span)
    return {session: records for session, some in by_session.items() if (records := _run(some))}


def _run(some: list[dict[str, Any]]) -> list[TurnRecord]:
    below: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for span in some:
        below[str(span.get("parentSpanId", ""))].append(span)
    turns = sorted((span for span in some if s.TURN in span["attributes"]), key=_start)
    records = [_turn(span, below[str(span.get("spanId"))]) for span in turns]
    chats = {str(one.get("spanId")): at for at, span in enumerate(turns) for one in below[str(span.get("spanId"))]}
    for span in sorted(some, key=_start):
        if span["attributes"].get(s.GEN_AI_OPERATION) == "execute_tool":
            _tool(span, turns, records, chats)
    return records


def _turn(span: dict[str, Any], under: list[dict[str, Any]]) -> TurnRecord:
    told = span["attributes"]
    chats = [
        one["attributes"] for one in under if s.ATTEMPT in one["attributes"] and s.GEN_AI_OPERATION in one["attributes"]
    ]
    done = [one["attributes"] for one in under if str(one.get("name", "")).startswith(_INTERVENE)]
    own: dict[str, Any] = next((one for one in done if s.GEN_AI_TOOL not in one), {})
    events = Events()
    if objected := [_objected(one, len(chats)) for one in done if s.GEN_AI_TOOL in one]:
        events["objected"] = objected
    if asked := [str(one.get(s.ATTEMPT_REASON)) for one in chats if one.get(s.ATTEMPT_REASON) not in (FIRST, FAILOVER)]:
        events["asked"] = asked
    record = TurnRecord(
        turn=int(told[s.TURN]),
        at_ms=_start(span) // 1_000_000,
        thread=str(told.get(s.THREAD, "")),
        calls=[],
        results=[],
        latency_ms=(_end(span) - _start(span)) // 1_000_000,
        input_tokens=sum(int(one.get(s.GEN_AI_INPUT, 0)) for one in chats),
        output_tokens=sum(int(one.get(s.GEN_AI_OUTPUT, 0)) for one in chats),
        cost_microusd=round(float(told.get(s.COST, 0)) * 1e6),
        action=str(told.get(s.ACTION, "")),
        would=str(own.get(s.ACTION, "")) if own.get(s.MODE) == "observe" else "",
        rule=str(told.get(s.RULE, "")),
        count=int(told.get(s.COUNT, 0)),
        status=int(told.get(s.HTTP_STATUS, 0)),
        outcome=str(told.get(s.OUTCOME, "")),
        spared=[str(one) for one in told.get(s.SPARED, ())],
        events=events,
    )
    agent, team, key = (str(told.get(name, "")) for name in (s.GEN_AI_AGENT, s.TEAM, s.KEY))
    if agent or key:
        record["of"] = OfRecord(agent=agent, declared=s.GEN_AI_CONVERSATION in told, team=team, key=key)
    return record


def _objected(told: Mapping[str, Any], attempts: int) -> ObjectedRecord:
    made = ObjectedRecord(
        rule=str(told.get(s.RULE, "")),
        tool=str(told[s.GEN_AI_TOOL]),
        action=str(told.get(s.ACTION, "")),
        mode=str(told.get(s.MODE, "")),
    )
    if s.COUNT in told:
        made["count"] = int(told[s.COUNT])
    if s.FP_CALL in told:
        made["call"] = str(told[s.FP_CALL])[: 2 * BYTES]
    if (attempt := int(told.get(s.ATTEMPT, attempts))) < attempts:
        made["attempt"] = attempt
    return made


def _tool(
    span: dict[str, Any], turns: list[dict[str, Any]], records: list[TurnRecord], chats: Mapping[str, int]
) -> None:
    """A call belongs to the turn that made it: the one that its link names, else the newest that was over then."""
    told, linked = span["attributes"], [str(link.get("spanId")) for link in _listed(span, "links")]
    place = next((chats[one] for one in linked if one in chats), None)
    if place is None:
        over = [at for at, turn in enumerate(turns) if _end(turn) <= max(_start(span), _end(span) - 1)]
        place = over[-1] if over else None
    if place is None:
        return
    result = str(told.get(s.FP_RESULT, ""))[: 2 * BYTES]
    mark = _MARKS.get(str(told.get(s.TOOL_OUTCOME, "")), "")
    call = CallRecord(tool=str(told.get(s.GEN_AI_TOOL, "")), call=str(told.get(s.FP_CALL, ""))[: 2 * BYTES])
    repeated = f"x{told[s.REPEAT_COUNT]}" if s.REPEAT_COUNT in told else ""
    call["result"] = " ".join(filter(None, (result, mark, repeated)))
    records[place]["calls"].append(call)


def _attributes(span: Mapping[str, Any]) -> dict[str, Any]:
    return {str(one.get("key")): _value(one.get("value")) for one in _listed(span, "attributes")}


def _value(told: Any) -> Any:
    """A value of OTLP's JSON: an object with one key that names its kind; whole numbers are texts."""
    for kind, value in _dict(told).items():
        if kind == "intValue":
            return int(value)
        if kind == "arrayValue":
            return [_value(one) for one in _listed(_dict(value), "values")]
        return value
    return ""


def _start(span: Mapping[str, Any]) -> int:
    return int(span.get("startTimeUnixNano", 0))


def _end(span: Mapping[str, Any]) -> int:
    return int(span.get("endTimeUnixNano", 0))


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _listed(value: Mapping[str, Any], *names: str) -> list[dict[str, Any]]:
    for name in names:
        if isinstance(found := value.get(name), list):
            return [one for one in found if isinstance(one, dict)]
    return []
