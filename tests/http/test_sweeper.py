"""The parent's round: every step is tried, whatever the others do; idle runs are closed once, with their sums."""

from __future__ import annotations

import logging
from dataclasses import replace

import pytest

from guardproxy.errors import StoreError
from guardproxy.http.sweeper import Sweeper, run_of
from guardproxy.store.known import Known
from guardproxy.store.redis import Swept
from guardproxy.telemetry import RunEnd
from guardproxy.telemetry.record import read_record

RECORD = b'{"v":1,"n":1,"at":5,"th":"main","c":[["ls","aa"]],"i":10,"o":2,"usd":7,"a":"nudge","out":"%s"}'
OF = b'{"v":1,"n":1,"at":5,"g":["codex",true,"red","k1"],"c":[["ls","aa"]],"w":"","ru":"cycle","k":6,"out":"%s"}'
KNOWN = Known("default", "s", 1000, 9000, 3, 1, "", "main", "00-aa", ("main",))


class FakeStore:
    def __init__(self, *, swept: object = (), idle: object = (), outcome: bytes = b"") -> None:
        self._swept, self._idle, self._outcome = swept, idle, outcome

    async def sweep(self) -> object:
        if isinstance(self._swept, Exception):
            raise self._swept
        return self._swept

    async def idle_sessions(self, older_ms: int) -> object:
        assert older_ms == 7
        return self._idle

    async def records(self, org: str, session: str) -> list[bytes]:
        return [RECORD % b"", RECORD % self._outcome]


class FakeTelemetry:
    def __init__(self) -> None:
        self.closed: list[RunEnd] = []

    def close_run(self, run: RunEnd) -> None:
        self.closed.append(run)


OUTCOMES = {
    "left by its agent": (b"", ["abandoned"]),
    "finished": (b"finished", ["finished"]),
    "errored": (b"errored", ["errored"]),
    "cut: told then, unless its worker died": (b"cut", ["cut"]),
    "denied": (b"denied", ["denied"]),
}


@pytest.mark.parametrize(("last", "closed"), OUTCOMES.values(), ids=OUTCOMES.keys())
async def test_idle_runs_are_closed(last: bytes, closed: list[str]) -> None:
    telemetry = FakeTelemetry()
    await Sweeper(FakeStore(idle=[KNOWN], outcome=last), telemetry, (), 7).round()  # type: ignore

    assert [run.outcome for run in telemetry.closed] == closed


ASIDE = RECORD.replace(b"main", b"aside")
ASIDES = {
    "an embedding after the answer": ([RECORD % b"finished", ASIDE % b""], KNOWN, ["finished"]),
    "a title beside a run that was left": ([RECORD % b"", ASIDE % b"finished"], KNOWN, ["abandoned"]),
    "embeddings alone are no run": ([ASIDE % b"", ASIDE % b""], KNOWN, []),
    "but for one that a person has ended": ([ASIDE % b""], replace(KNOWN, closed="operator"), ["cut"]),
    "nothing": ([], replace(KNOWN, closed="operator"), []),
}


@pytest.mark.parametrize("name", ASIDES)
async def test_what_is_no_turn_is_no_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    records, known, closed = ASIDES[name]
    telemetry, store = FakeTelemetry(), FakeStore(idle=[known])

    async def kept(_org: str, _session: str) -> list[bytes]:
        return records

    monkeypatch.setattr(store, "records", kept)
    await Sweeper(store, telemetry, (), 7).round()  # type: ignore

    assert [run.outcome for run in telemetry.closed] == closed


def test_sums() -> None:
    made = run_of(KNOWN, [read_record(RECORD % b""), read_record(RECORD % b"finished")])

    assert (made.turns, made.tool_calls, made.interventions, made.cost_microusd) == (3, 2, 2, 14)
    assert (made.input_tokens, made.output_tokens, made.started_ms, made.ended_ms) == (20, 4, 1000, 9000)
    assert made.traceparent == "00-aa"


def test_the_end_says_whose_run_it_was_and_which_part_of_it() -> None:
    known = replace(KNOWN, traceparent="00-aa;2;5000;7;o")
    cut, left = (run_of(known, [read_record(OF % outcome)]) for outcome in (b"cut", b""))
    stopped = run_of(replace(known, closed="operator"), [read_record(OF % b"finished")])

    assert (cut.agent, cut.declared, cut.team, cut.key) == ("codex", True, "red", "k1")
    assert (cut.traceparent, cut.segment, cut.segment_ms) == ("00-aa", 2, 5000)
    assert [(run.outcome, run.rule, run.abandoned) for run in (cut, left, stopped)] == [
        ("cut", "cycle", ()),
        ("abandoned", "", ("ls",)),
        ("cut", "operator", ()),
    ]


@pytest.mark.parametrize(("wrong", "said"), [(StoreError("gone"), False), (RuntimeError("a fault"), True)])
async def test_every_step_is_tried(wrong: Exception, said: bool, caplog: pytest.LogCaptureFixture) -> None:
    done = []

    async def more() -> None:
        done.append(1)

    telemetry = FakeTelemetry()
    await Sweeper(FakeStore(swept=wrong, idle=[KNOWN]), telemetry, (more,), 7).round()  # type: ignore

    assert (done, len(telemetry.closed)) == ([1], 1)
    assert ("a step of the sweeper failed" in caplog.text) == said


async def test_expired_holds_are_named(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    await Sweeper(FakeStore(swept=[Swept("default", "t", "s-1", "main", 4)]), FakeTelemetry(), (), 7).round()  # type: ignore

    assert "settled an expired hold of session s-1, turn 4, in full" in caplog.text
