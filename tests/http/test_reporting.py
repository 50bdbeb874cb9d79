"""A turn as telemetry is told of it: outcome, steps, attempts, the text of advice."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest

from guardproxy.core.episode import pack_episode
from guardproxy.core.model import Decision, Rung
from guardproxy.core.policy import Policy, decide
from guardproxy.core.view import View
from guardproxy.http import reporting
from guardproxy.http.outcome import Outcome
from guardproxy.store.redis import Store
from guardproxy.telemetry import TurnReport, log, reading
from guardproxy.telemetry.ending import run_end
from guardproxy.telemetry.looptable import rows_of, summary
from guardproxy.telemetry.record import read_record, record_of
from tests.http_store import held
from tests.live import Said, live
from tests.scenes import Heard, Player, Scene, act, say, user
from tests.telemetry.reports import EVENTS

OUTCOMES = {
    # action and rung of the decision, outcome and answer of the turn: what it makes of its run
    "goes on": (("pass", Rung.PASS), ("answered", "calls"), ""),
    "finished": (("pass", Rung.PASS), ("answered", "text"), "finished"),
    "finished all the same": (("nudge", Rung.NUDGE), ("answered", "text"), "finished"),
    "nothing was said": (("pass", Rung.PASS), ("answered", "empty"), ""),
    "cut": (("cut", Rung.CUT), ("answered", "own"), "cut"),
    "cut, the error": (("cut", Rung.CUT), ("failed", ""), "cut"),
    "denied": (("deny", Rung.CUT), ("failed", ""), "denied"),
    "finalized": (("finalize", Rung.FINALIZE), ("answered", "text"), "finalized"),
    "finalized in our words": (("finalize", Rung.FINALIZE), ("answered", "own"), "finalized"),
    "finalize failed": (("finalize", Rung.FINALIZE), ("failed", ""), ""),
    "only observed": (("observe", Rung.CUT), ("answered", "calls"), ""),
    "the client left": (("pass", Rung.PASS), ("abandoned", "text"), ""),
}


@pytest.mark.parametrize("name", OUTCOMES)
def test_outcome(name: str) -> None:
    decided, (outcome, answer), expected = OUTCOMES[name]
    ended = partial(Outcome, outcome=outcome, answer=answer)
    asks = [SimpleNamespace(aside=aside) for aside in (False, True)]
    turn, beside = [SimpleNamespace(decision=Decision(*decided), outcome=ended(), ask=ask) for ask in asks]

    ours, theirs = (View("s", "main", 1, 0, main=main) for main in (True, False))

    assert reporting._outcome(turn, ours) == expected  # type: ignore[arg-type]
    assert reporting._outcome(turn, theirs) == (expected if expected == "denied" else ""), "a sub-agent's end"  # type: ignore[arg-type]
    assert reporting._outcome(beside, ours) == "", "no turn"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "new"),
    [
        ({}, True),
        ({"retry": True}, False),
        ({"closed": True}, False),
        ({"admitted": False}, False),
        ({"equal": 1}, False),
    ],
    ids=str,
)
def test_steps_are_told_once(changes: dict[str, object], new: bool) -> None:
    fact = SimpleNamespace(rounds=(SimpleNamespace(facts=(b"old",)), SimpleNamespace(facts=(b"new",))))
    turn = SimpleNamespace(opening=SimpleNamespace(fact=fact))
    view = View("s", "main", 1, 0, **changes)  # type: ignore[arg-type]

    assert reporting._new_facts(turn, view) == ((b"new",) if new else ())  # type: ignore[arg-type]


async def reports(store: Store, heard: Heard, scene: Scene, *, stream: bool = False) -> list[TurnReport]:
    async with live(store, heard, policy=scene.policy) as running:
        turns = await Player(running, heard, scene, stream=stream).play()
        assert await held(store, {turn.report.session for turn in turns}) == {}
    return [turn.report for turn in turns]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_run(stream: bool, store: Store, heard: Heard) -> None:
    moves = [act("f", {"a": 1}, "one"), say(None, status=500), act("f", {"a": 1}, "one"), act("f", {"a": 1}, "one")]
    told = await reports(store, heard, Scene("a run", [*moves, say("Done.", user("Thanks."))]), stream=stream)

    assert [report.turn for report in told] == [1, 2, 2, 3, 4, 5]
    assert [len(report.steps) for report in told] == [0, 1, 0, 1, 1, 0]
    assert [report.outcome for report in told] == ["", "", "", "", "finished", "finished"]
    assert [report.error_type for report in told] == ["", "500", "", "", "", ""]
    assert [report.status for report in told] == [200, 500, 200, 200, 200, 200]
    assert [bool(report.advice) for report in told] == [False, False, False, False, True, False]
    assert told[4].advice.strip().startswith("[guardproxy]")
    assert [len(report.attempts) for report in told] == [1] * 6
    assert {report.stream for report in told} == {stream}
    assert [report.usage.input for report in told] == [10, 0, 10, 10, 10, 10]
    assert all(report.started_ns <= report.attempts[0].started_ns <= report.ended_ns for report in told)
    assert all(0 < report.overhead_request_ns < 5e9 for report in told)
    assert {(report.route, report.method, report.surface) for report in told} == {
        ("/v1/chat/completions", "POST", "chat")
    }


@pytest.mark.parametrize("events", [{}, EVENTS], ids=["plain", "with events"])
async def test_a_decision_line_is_enough_to_judge_the_turn_again(
    events: dict[str, object], store: Store, heard: Heard
) -> None:
    """The facts of the lines, one after the other, lead to the decisions that stand in them."""
    told = await reports(store, heard, Scene("cut", [act("f", {}, "one")] * 6))
    lines = [json.loads(log.JsonFormatter().turn(replace(report, **events), 1.0)) for report in told]
    ring: list[bytes] = []
    episodes: list[bytes] = []

    for line, report in zip(lines, told, strict=True):
        ring += [bytes.fromhex(fact) for fact in line.get("facts", ())]
        lasting = {"ring": tuple(ring), "steps": len(ring), "episodes": tuple(episodes)}
        made = decide(View(line["session"], line["thread"], line["turn"], report.view.now_ms, **lasting), Policy())  # type: ignore[arg-type]
        assert (made.action, made.rule, made.count) == (line["action"], line.get("rule", ""), line.get("count", 0))
        episodes += [pack_episode(made.episode)] if made.episode else []
    assert [line["action"] for line in lines[-4:]] == ["nudge", "firm", "finalize", "cut"]


async def test_a_local_answer_has_no_attempt(store: Store, heard: Heard) -> None:
    told = await reports(store, heard, Scene("cut", [act("f", {}, "one")] * 7))

    assert [report.outcome for report in told[-3:]] == ["finalized", "cut", "cut"]
    assert [len(report.attempts) for report in told[-3:]] == [1, 0, 0]
    assert told[-2].usage.output == 0, "nobody pays for our words"
    assert told[-3].attempts[0].calls, "calls that were taken out are still the model's"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_what_was_taken_out_is_no_call_of_the_run(stream: bool, store: Store, heard: Heard) -> None:
    """A model that calls although it may not: record, table, line and sums tell of four calls, and of one that nobody
    carried out.
    """
    told = await reports(store, heard, Scene("cut", [act("f", {}, "one")] * 6), stream=stream)
    (place,) = [at for at, one in enumerate(told) if one.decision.action == "finalize"]
    records = [read_record(record_of(one)) for one in told]
    line = json.loads(log.JsonFormatter().turn(told[place], 1.0))
    read = reading.record_of_line(line)

    assert told[place].attempts[-1].calls
    assert told[place].given == ()
    for one in (records[place], read):
        assert one["calls"] == []
        assert [tool for tool, _ in one["events"]["dropped"]] == ["f"]
    assert "calls" not in line
    assert sum(len(one["calls"]) for one in records) == place
    rows = rows_of(records)
    assert [row.result for row in rows if row.result.endswith("not executed")] == ["not executed"]
    assert f"· {place} tool calls ·" in summary(records)
    assert run_end(told[place]).tool_calls == run_end(replace(told[place], attempts=())).tool_calls


async def test_what_the_provider_says_of_itself(store: Store, heard: Heard) -> None:
    async with live(store, heard) as running:
        running.provider.script = lambda _got: Said("Hi", finish="length")
        await running.post({"model": "asked", "messages": [{"role": "user", "content": "Hello"}]})
        report = await heard.next()
        assert (report.model, report.response_model, report.response_id) == ("asked", "mock-1", "chatcmpl-1")
        assert report.attempts[0].finish_reason == "length"
        assert (report.server_address, report.server_port) == ("127.0.0.1", running.proxy.upstream.port)
        assert not report.declared


DELETE = ("delete", "{}", "call_del000001")
WENT: dict[str, tuple[list[Said], list[tuple[str, str, int]], str]] = {
    # what the provider says; the attempts as reported (why, error, output tokens), and what became of the run
    "at once": ([Said("done")], [("first", "", 5)], "finished"),
    "again": ([Said(calls=[DELETE]), Said("done")], [("first", "", 5), ("reask", "", 5)], "finished"),
    "to the end": (
        [Said(calls=[DELETE])], [("first", "", 5), ("reask", "", 5), ("reask", "", 5), ("finalize", "", 5)],
        "finalized"),
    "into an error": (
        [Said(calls=[DELETE]), Said(raw=b"{}", status=503)], [("first", "", 5), ("reask", "503", 0)], "finalized"),
    "into nothing": (
        [Said(calls=[DELETE]), Said(raw=b"<html>", content_type="text/html")],
        [("first", "", 5), ("reask", "upstream_not_json", 0)], "finalized"),
    "without figures": (
        [Said("12345678", usage=None, calls=[DELETE]), Said("1234", usage=None)],
        [("first", "", 3), ("reask", "", 2)], "finished"),
}  # fmt: skip


@pytest.mark.parametrize("name", WENT)
async def test_every_attempt_is_told(name: str, store: Store, heard: Heard) -> None:
    answers, attempts, outcome = WENT[name]
    waiting = list(answers)
    async with live(store, heard, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        running.provider.script = lambda _got: waiting.pop(0) if len(waiting) > 1 else waiting[0]
        tool = {"type": "function", "function": {"name": "delete"}}
        asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
        await running.post(asked)
        told = await heard.next()
    assert [(one.reason, one.error_type, one.usage.output) for one in told.attempts] == attempts
    assert told.usage.output == sum(tokens for _, _, tokens in attempts)
    assert told.outcome == outcome
    assert told.edits == ()
    assert told.given == ()
    assert [name for name, _, _ in told.dropped] == (["delete"] if name == "to the end" else [])
    refused = [number for number, one in enumerate(told.attempts, 1) if one.calls and one.reason != "finalize"]
    assert [one.attempt for one in told.objected] == refused
