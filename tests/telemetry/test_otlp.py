"""Export: nothing lost at shutdown, a dead endpoint costs a bounded time, metrics arrive as the SDK would send them."""

from __future__ import annotations

import collections
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import types
from contextlib import closing

import pytest

from guardproxy.telemetry import RunEnd, Telemetry, otlp
from guardproxy.telemetry._instruments import TABLE
from tests.telemetry.reports import T0, life, settings, turn
from tests.telemetry.sink import attributes, otlp_sink

KEY = b"k" * 32


async def test_shutdown_sends_everything():
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url), KEY, "test")
        for number in range(1, 301):
            telemetry.report(turn(number))
        await telemetry.shutdown(10)
        spans = telemetry.snapshot().series["guardproxy.telemetry.spans"]

        assert len(sink.spans) == 300 * 3 - 1
        assert spans == {("exported",): [899.0], ("queued",): [899.0], ("failed",): [0.0], ("dropped",): [0.0]}


async def test_a_second_shutdown_does_nothing():
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url), KEY, "test")
        await telemetry.shutdown(5)
        telemetry.report(turn(1))
        await telemetry.shutdown(5)

        assert sink.spans == []


def unused_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


async def test_a_dead_endpoint_costs_shutdown_a_bounded_time():
    telemetry = Telemetry(settings(otlp_endpoint=f"http://127.0.0.1:{unused_port()}"), KEY, "test")
    telemetry.report(turn(1))
    before = {thread for thread in threading.enumerate() if "etric" in thread.name or "Otel" in thread.name}
    started = time.monotonic()
    await telemetry.shutdown(1.0)

    assert time.monotonic() - started < 3
    for thread in before:
        thread.join(5)
    assert not [thread for thread in before if thread.is_alive()]


async def test_a_dead_collector_is_said_once_each_way(caplog):
    health = otlp._Health("spans", "http://c:4318")
    with caplog.at_level("WARNING", "guardproxy"):
        for sent in (True, False, False, False, True, True):
            health.tell(sent=sent)

    assert [record.getMessage() for record in caplog.records] == [
        "spans cannot be sent to http://c:4318 (log_level: debug says why)",
        "spans cannot be sent to http://c:4318: over, they are sent again",
    ]


async def test_what_is_refused_is_counted():
    with otlp_sink(status=400) as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url), KEY, "test")
        telemetry.report(turn(1))
        await telemetry.shutdown(5)

        assert telemetry.snapshot().series["guardproxy.telemetry.spans"][("failed",)] == [2.0]


async def test_metrics_arrive_under_their_dotted_names():
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url, service_name="proxy-a"), KEY, "worker-1")
        for report in life():
            telemetry.report(report)
        await telemetry.shutdown(5)

        (labels, turns) = sink.points("guardproxy.turns")[0]
        (_, duration) = sink.points("gen_ai.client.operation.duration")[0]
        resource = attributes(sink.metrics[-1].resource_metrics[0].resource)
        assert (labels, turns.as_double) == ({"guardproxy.org.id": "acme", "gen_ai.agent.name": "codex"}, 7)
        assert turns.time_unix_nano > turns.start_time_unix_nano > 0
        assert (duration.count, sum(duration.bucket_counts)) == (6, 6)
        assert duration.sum == pytest.approx(6 * 1.999)
        assert len(duration.bucket_counts) == len(duration.explicit_bounds) + 1
        assert not duration.HasField("min")
        assert (resource["service.name"], resource["service.instance.id"]) == ("proxy-a", "worker-1")


async def test_every_metric_that_is_pushed_is_in_the_table():
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url), KEY, "test")
        for report in life():
            telemetry.report(report)
        telemetry.close_run(RunEnd("acme", "s-9", "abandoned", T0 // 10**6, T0 // 10**6 + 1))
        await telemetry.shutdown(5)
        sent = {
            metric.name: metric.unit
            for request in sink.metrics
            for resource in request.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
        }

        assert sent.items() <= {instrument.name: instrument.unit for instrument in TABLE}.items()
        assert len(sent) > 15


def test_the_installed_sdk_takes_our_encoder():
    """Another version of the SDK would still work, at several times the price: then this test says so."""
    sender = otlp.SpanSender(endpoint="http://127.0.0.1:1/v1/traces")

    assert callable(sender._client.export)
    sender.shutdown()


CHILD = """
import asyncio, signal, sys
from guardproxy.telemetry import Telemetry
from tests.telemetry.reports import settings, turn

async def main():
    telemetry = Telemetry(settings(otlp_endpoint=sys.argv[1]), b"k" * 32, "child")
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    for number in range(1, 101):
        telemetry.report(turn(number))
    print("ready", flush=True)
    await stop.wait()
    await telemetry.shutdown(10)

asyncio.run(main())
"""


def test_nothing_is_lost_on_sigterm():
    with otlp_sink() as sink:
        child = subprocess.Popen(
            [sys.executable, "-c", CHILD, sink.url], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": "."}
        )
        try:
            assert child.stdout.readline() == b"ready\n"
            child.send_signal(signal.SIGTERM)
            assert child.wait(20) == 0
        finally:
            child.kill()
            child.wait(5)
            child.stdout.close()

        assert len(sink.spans) == 299
        assert sink.points("guardproxy.turns")[0][1].as_double == 100


async def test_metrics_say_in_which_trace_a_value_was_seen():
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url), KEY, "test")
        for report in life():
            telemetry.report(report)
        await telemetry.shutdown(5)
        trace = {span.trace_id.hex() for span in sink.spans}
        (root,) = [span for span in sink.spans if span.name.startswith("invoke_agent")]
        (_, turns), (_, cost) = (
            sink.points("guardproxy.session.turns")[0],
            sink.points("guardproxy.session.cost.usd")[0],
        )
        requests = [one for _, point in sink.points("http.server.request.duration") for one in point.exemplars]

        for point in (turns, cost):
            (seen,) = point.exemplars
            assert (seen.trace_id, seen.span_id) == (root.trace_id, root.span_id)
        assert turns.exemplars[0].as_double == 7
        assert len({one.trace_id.hex() for one in requests} & trace) == 1
        assert {one.span_id for one in requests} <= {span.span_id for span in sink.spans}


async def test_what_is_not_in_a_trace_is_no_exemplar():
    with otlp_sink() as sink:
        telemetry = Telemetry(settings(otlp_endpoint=sink.url, sample_ratio=0), KEY, "test")
        for report in life():
            telemetry.report(report)
        await telemetry.shutdown(5)

        assert sink.points("guardproxy.session.turns")
        assert not [name for name, rows in telemetry.snapshot().exemplars.items() if rows]


def test_spans_that_find_no_place_are_counted(monkeypatch):
    """The queue of the SDK drops the oldest without a word; ours says how many."""
    counts = collections.Counter()
    push = otlp.SpanPush("http://127.0.0.1:1", lambda result, number: counts.update({result: number}))
    processor = push._processor
    monkeypatch.setattr(otlp, "QUEUE", 5)
    monkeypatch.setattr(push, "_processor", types.SimpleNamespace(on_end=lambda span: None))
    for _ in range(8):
        push.emit(None)
    push._tell("failed", 2)
    for _ in range(3):
        push.emit(None)

    assert counts == {"queued": 7, "dropped": 4, "failed": 2}
    processor.shutdown()


class _Raises(otlp.SpanExporter):
    def export(self, spans):
        raise RuntimeError("broken")


def test_an_exporter_that_raises_has_failed():
    told = []
    exporter = otlp._Counted(_Raises(), lambda *one: told.append(one), otlp._Health("spans", "x"))
    with pytest.raises(RuntimeError):
        exporter.export([1, 2, 3])

    assert told == [("failed", 3)]
