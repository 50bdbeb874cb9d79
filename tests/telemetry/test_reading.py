"""Runs read back from a log and from recorded spans: the same loop table as from the store."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace

import pytest
from google.protobuf.json_format import MessageToDict

from guardproxy.core.model import Decision, Usage
from guardproxy.errors import BadAsk, ConfigError, GuardError
from guardproxy.telemetry import Telemetry, log, reading
from guardproxy.telemetry.looptable import rows_of, summary
from guardproxy.telemetry.record import read_record, record_of
from tests.telemetry.reports import OTHER_CALL, eventful, life, refused, settings, step, turn, unheard, view
from tests.telemetry.sink import otlp_sink

RUNS = {
    "a loop that is cut": life(),
    "calls kept back": [turn(1), refused(2), turn(3, steps=(step("grep", call=OTHER_CALL),))],
    "what else happens": [turn(1), eventful(2), turn(3, status=503, attempts=(), usage=Usage(), cost_microusd=0)],
    "observed": [turn(1), turn(2, decision=Decision("observe", rule="cycle", count=3, would="cut", mode="observe"))],
}


def logged(tmp_path, capsys, reports, *, prefixed=False):
    """What the proxy writes for reports, in a file, between lines of other kinds."""
    with unheard():
        front = Telemetry(settings(log_level="info"), b"k" * 32, "test")
        for report in reports:
            front.report(report)
        front.snapshot()
        text = capsys.readouterr().err
    log.setup("error", "json")
    file = tmp_path / "guardproxy.log"
    other = json.dumps({"logger": "guardproxy.http.serve", "message": "draining"})
    kept = "".join(f"2026-11-30T10:00:00.1Z stdout F {line}\n" for line in text.splitlines()) if prefixed else text
    file.write_text(f"not JSON\n[1]\n{other}\n{{broken\n{kept}\n")
    return file


def test_a_keeper_of_logs_may_write_in_front_of_each_line(tmp_path, capsys):
    assert len(reading.run(logged(tmp_path, capsys, life(), prefixed=True), "s-1")) == 7


@pytest.mark.parametrize("reports", RUNS.values(), ids=RUNS.keys())
def test_a_log_tells_what_the_store_would(tmp_path, capsys, reports):
    ours = [read_record(record_of(report)) for report in reports]
    found = reading.run(logged(tmp_path, capsys, reports), "s-1")

    assert rows_of(found) == rows_of(ours)
    assert [one["reason"] for one in found] == [one["reason"] for one in ours]
    said, expected = summary(found).split(" · "), summary(ours).split(" · ")
    assert said[:2] + said[3:] == expected[:2] + expected[3:]  # times are the log's own


async def recorded(tmp_path, reports, name="spans.jsonl"):
    """What a collector's file exporter writes."""
    with otlp_sink() as sink:
        front = Telemetry(settings(otlp_endpoint=sink.url), b"k" * 32, "test")
        for report in reports:
            front.report(report)
        await front.shutdown(5)
        lines = [json.dumps(hexed(MessageToDict(request))) for request in sink.traces]
    file = tmp_path / name
    data = "\n".join(lines).encode()
    file.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return file


def hexed(told):
    """OTLP's JSON has ids in hex, protobuf's in base64."""
    import base64

    if isinstance(told, dict):
        ids = ("traceId", "spanId", "parentSpanId")
        return {k: base64.b64decode(v).hex() if k in ids else hexed(v) for k, v in told.items()}
    return [hexed(one) for one in told] if isinstance(told, list) else told


@pytest.mark.parametrize("name", ["spans.jsonl", "spans.jsonl.gz"])
@pytest.mark.parametrize("case", ["a loop that is cut", "calls kept back", "observed"])
async def test_spans_tell_the_same(tmp_path, case, name):
    """But for the call of the last turn, which was never answered, and results that are told with their calls."""
    reports = RUNS[case]
    ours = rows_of([read_record(record_of(report)) for report in reports])
    found = rows_of(reading.run(await recorded(tmp_path, reports, name), "s-1"))

    assert {row.loop for row in found} == {row.loop for row in ours}
    told = [(row.latency, row.tokens, row.action) for row in found if row.loop]
    assert told == [(row.latency, row.tokens, row.action) for row in ours if row.loop]
    answered = [(row.tool, row.arguments) for row in ours if row.result and row.tool]
    assert [(row.tool, row.arguments) for row in found if row.result and row.tool] == answered


async def test_money_of_spans_and_of_a_log_is_the_same(tmp_path, capsys):
    spans = reading.run(await recorded(tmp_path, life()), "s-1")
    lines = reading.run(logged(tmp_path, capsys, life()), "s-1")

    assert sum(one["cost_microusd"] for one in spans) == sum(one["cost_microusd"] for one in lines) == 9000
    assert spans[0]["of"]["agent"] == lines[0]["of"]["agent"] == "codex"


def test_another_session_is_named(tmp_path, capsys):
    file = logged(tmp_path, capsys, [turn(1), replace(turn(1), session="s-2", view=view(1, session="s-2"), org="b")])

    with pytest.raises(GuardError, match=r"no session 'x'; there are s-1, s-2"):
        reading.run(file, "x")
    with pytest.raises(GuardError, match=r"no session 's-1'; there are s-2"):
        reading.run(file, "s-1", "b")


@pytest.mark.parametrize(
    ("data", "error", "said"),
    [
        (b"", GuardError, "no decision lines and no spans"),
        (
            b'{"resourceSpans": 5}\n{"resourceSpans": [{"scopeSpans": [{"scope": {"name": "guardproxy"}}]}]}',
            GuardError,
            "no",
        ),
        (b'{"logger": "guardproxy.turn", "turn": 1, "session": "s"}\n', BadAsk, "session 's' cannot be read"),
        (b'{"logger": "guardproxy.turn", "turn": 1, "ms": "x", "at": 5}\n', BadAsk, "cannot be read"),
        (b"\x1f\x8b\x08broken", ConfigError, "cannot read"),
    ],
)
def test_what_is_no_log(tmp_path, data, error, said):
    file = tmp_path / "file"
    file.write_bytes(data)

    with pytest.raises(error, match=said):
        reading.run(file, "s-1")


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(ConfigError, match="cannot read"):
        reading.run(tmp_path / "nothing", "s")
