"""The front: never raises, closes a run once, gives the header's trace id."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
from pathlib import Path

import pytest

import guardproxy
from guardproxy.errors import StoreError
from guardproxy.telemetry import BATCH, DELAY_SECONDS, RunEnd, Telemetry
from guardproxy.telemetry._ids import run_ids
from guardproxy.telemetry._rounds import Recent
from guardproxy.telemetry.metrics import TABLE
from tests.as_written import as_written
from tests.telemetry.reports import T0, cut, life, settings, turn, unheard, view
from tests.telemetry.sink import otlp_sink

KEY = b"k" * 32
CALLER = "00-" + "ab" * 16 + "-" + "cd" * 8 + "-01"
ERRORS = "guardproxy.telemetry.errors"


def telemetry(**changes) -> Telemetry:
    return Telemetry(settings(**changes), KEY, "test")


def turns(front: Telemetry) -> float:
    """How many turns have been counted so far."""
    return sum(row[0] for row in front._counted().series.get("guardproxy.turns", {}).values())


def test_nothing_raises_and_it_is_logged_once(caplog):
    front = telemetry()
    with caplog.at_level(logging.ERROR, "guardproxy"):
        for _ in range(3):
            front.report(None)
        front.close_run(None)
        front.count("guardproxy.no.such.thing")
        front.count("guardproxy.turns", None, "many")
    rows = front.snapshot().series[ERRORS]

    assert rows == {("report",): [3], ("close_run",): [1], ("count",): [2]}
    assert len([record for record in caplog.records if "telemetry failed" in record.message]) == 3


async def test_the_header_names_the_trace_that_is_sent():
    with otlp_sink() as sink:
        front = telemetry(otlp_endpoint=sink.url)
        before = front.trace_id("s-1", T0 // 10**6, "acme", CALLER)
        front.report(turn(1, traceparent=CALLER))
        after = front.trace_id("s-1", T0 // 10**6, "acme")  # the store was away
        await front.shutdown(5)

        assert {before, after} == {"ab" * 16} == {span.trace_id.hex() for span in sink.spans}


def test_the_header_is_the_same_without_export():
    expected = f"{run_ids(KEY, 'acme', 's-1', 5)[0]:032x}"

    assert telemetry().trace_id("s-1", 5, "acme") == expected
    assert telemetry().trace_id("s-1", 5, "acme", CALLER) == "ab" * 16


def test_a_run_ends_once():
    front = telemetry()
    for report in (*life(), cut(8), cut(9)):
        front.report(report)
    front.close_run(RunEnd("acme", "s-1", "abandoned", T0 // 10**6, T0 // 10**6 + 1))
    front.close_run(RunEnd("acme", "s-2", "abandoned", T0 // 10**6, T0 // 10**6 + 1))

    rows = front.snapshot().series["guardproxy.sessions"]
    assert rows == {("acme", "codex", "cut", "repeated_call"): [1], ("acme", "", "abandoned", ""): [1]}


@pytest.mark.parametrize(
    ("claims", "roots"), [([True], 1), ([False], 0), ([StoreError("away")], 1), ([True, False], 1)], ids=str
)
async def test_one_of_all_workers_tells_of_the_end(claims, roots):
    """Each of two processes asks once, however often the end is told; the root and the run's metrics are one."""
    asked, counted = [], 0
    with otlp_sink() as sink:
        for answer in claims:

            async def claim(run, answer=answer):
                asked.append((run.session, run.outcome, run.segment))
                if isinstance(answer, Exception):
                    raise answer
                return answer

            front = telemetry(otlp_endpoint=sink.url)
            front.claim = claim
            for report in (cut(7), cut(8), cut(9)):
                front.report(report)
            await front.shutdown(5)
            counted += sum(v[0] for v in front.snapshot().series.get("guardproxy.sessions", {}).values())

        assert asked == [("s-1", "cut", 0)] * len(claims)
        assert len([span for span in sink.spans if not span.parent_span_id]) == counted == roots


async def test_the_end_of_a_segment_is_no_end_of_the_run():
    with otlp_sink() as sink:
        front = telemetry(otlp_endpoint=sink.url)
        here = view(3, traceparent=f";1;{view(3).now_ms};2;r;10;20", new_session=False)
        front.report(turn(3, view=here))
        await front.shutdown(5)

        assert [span.name for span in sink.spans if not span.parent_span_id] == ["invoke_agent codex"]
        assert "guardproxy.sessions" not in front.snapshot().series


def test_a_finished_run_may_go_on():
    front = telemetry()
    front.report(turn(1, outcome="finished"))

    assert "guardproxy.sessions" not in front.snapshot().series


def test_round_trips_are_timed_across_turns():
    front = telemetry()
    for report in life():
        front.report(report)
    row = front.snapshot().series["guardproxy.tool.roundtrip.duration"]["read_file", "ok"]

    assert sum(row[1:]) == 6
    assert abs(row[0] - 6 * 8.0) < 0.01


def test_the_settle_time_may_be_given_apart():
    front = telemetry()
    front.report(turn(1, settle_ns=0), settle_ns=2_000_000)

    assert front.snapshot().series["guardproxy.store.operation.duration"]["settle", ""][0] == 0.002


async def test_on_a_running_loop_turns_are_done_in_a_row(capsys):
    front = telemetry(log_level="info")
    with unheard():
        for report in life()[:3]:
            front.report(report)
        before = turns(front), capsys.readouterr().err
        await asyncio.sleep(2 * DELAY_SECONDS)
        after = turns(front), [json.loads(line)["turn"] for line in capsys.readouterr().err.splitlines()]
        for number in range(BATCH):
            front.report(turn(number + 1))

    assert (before, after) == ((0, ""), (3, [1, 2, 3]))
    assert turns(front) == 3 + BATCH


@as_written
async def test_a_turn_that_fails_takes_no_other_with_it(capsys):
    front = telemetry(log_level="info")
    with unheard():
        for report in (turn(1), turn(2, attempts=None), turn(3)):
            front.report(report)
        rows = front.snapshot().series
    heard = [json.loads(line) for line in capsys.readouterr().err.splitlines()]

    assert rows[ERRORS] == {("report",): [1]}
    assert [line["turn"] for line in heard if line["message"] == "turn"] == [1, 3]


async def test_who_asks_for_the_figures_or_shuts_down_gets_all_of_them(capsys):
    front = telemetry(log_level="info")
    with unheard():
        front.report(turn(1))
        asked = front.snapshot().series["guardproxy.turns"]["acme", "codex"]
        front.report(turn(2))
        assert turns(front) == 1
        await front.shutdown()

    assert (asked, turns(front)) == ([1], 2)
    assert len(capsys.readouterr().err.splitlines()) == 2


async def test_who_else_listens_hears_at_once(caplog):
    front = telemetry(log_level="info")
    with caplog.at_level(logging.INFO, "guardproxy"):
        front.report(turn(1))

    assert [record.name for record in caplog.records] == ["guardproxy.turn"]


def test_a_front_outlives_a_loop():
    front = telemetry()

    async def served(number: int, seconds: float) -> None:
        front.report(turn(number))
        await asyncio.sleep(seconds)

    with unheard():
        asyncio.run(served(1, 0))
        assert turns(front) == 0
        asyncio.run(served(2, 2 * DELAY_SECONDS))

    assert turns(front) == 2


def test_runs_side_by_side_do_not_mix():
    front = telemetry()
    front.report(turn(1))
    front.report(turn(2, session="s-2", view=view(2, session="s-2")))

    assert "guardproxy.tool.roundtrip.duration" not in front.snapshot().series


def test_what_is_running_is_said():
    assert list(telemetry().snapshot().series["guardproxy.build_info"].values()) == [[1.0]]


def test_what_is_remembered_is_bounded():
    recent = Recent(3)
    for number in range(5):
        recent.keep((str(number), "", ""), number)
    recent.keep(("2", "", ""), 9)
    recent.keep(("5", "", ""), 5)

    assert list(recent.values()) == [4, 9, 5]


def test_opentelemetry_is_not_imported_without_an_endpoint():
    code = (
        "import sys; from guardproxy.telemetry import Telemetry; from guardproxy.config import TelemetrySection;"
        "Telemetry(TelemetrySection(), b'k', 'x'); print([m for m in sys.modules if m.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout == "[]\n"


def test_every_event_that_is_counted_has_an_instrument() -> None:
    """Whoever counts something by a name that the table lacks would lose it, and log a fault at the first time."""
    root = Path(guardproxy.__file__).parent
    named = {
        name if name.startswith(("guardproxy.", "http.")) else f"guardproxy.{name}"
        for file in root.rglob("*.py")
        for name in re.findall(r"telemetry\.count\(\s*\"([a-z_.]+)\"", file.read_text())
    }
    assert "guardproxy.webhook.events" in named
    assert named <= {row.name for row in TABLE}
