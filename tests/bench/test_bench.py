"""The bench's conversations are as stated, its load is what they say, its table tells the truth. No timing."""

from __future__ import annotations

import http.server
import itertools
import json
import shutil
import subprocess
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.as_written import as_written

from . import __main__ as main, bodies, cells, collector, figures, procs, redis_trips

T1, T2 = 10_000_000_001, 10_000_000_002


def messages(body: bytes) -> list[dict[str, Any]]:
    """The messages of a request."""
    found: list[dict[str, Any]] = json.loads(body)["messages"]
    return found


@pytest.mark.parametrize(("name", "size", "count"), [("S", 1_700, 3), ("M", 61_000, 40), ("L", 608_000, 150)])
def test_the_last_turn_has_the_stated_size(name: str, size: int, count: int) -> None:
    last = bodies.requests(bodies.SHAPES[name], T1)[-1]
    assert abs(len(last) - size) <= size * 0.01
    assert len(messages(last)) == count == bodies.SHAPES[name].messages


@pytest.mark.parametrize("name", bodies.SHAPES)
def test_each_turn_is_the_one_before_and_a_round(name: str) -> None:
    turns = [messages(body) for body in bodies.requests(bodies.SHAPES[name], T1)]
    assert len(turns) == (2 if bodies.SHAPES[name].split else 10)
    for before, after in itertools.pairwise(turns):
        assert after[: len(before)] == before
        assert [m["role"] for m in after[len(before) :]] == ["assistant", "tool"]


@pytest.mark.parametrize("name", ["S", "M", "L"])
def test_no_call_or_result_comes_twice_in_or_between_sessions(name: str) -> None:
    seen: Counter[str] = Counter()
    for token in (T1, T2):
        for message in messages(bodies.requests(bodies.SHAPES[name], token)[-1]):
            seen.update(c["function"]["arguments"] for c in message.get("tool_calls", ()))
            seen.update([message["content"]] if message["role"] == "tool" else ())
    assert len(seen) == 4 * bodies.SHAPES[name].last
    assert max(seen.values()) == 1


def merged(events: list[str]) -> dict[str, Any]:
    """The message that a client builds from a stream."""
    text, call, finish = "", {"function": {"arguments": ""}}, None
    for event in events[:-1]:
        for choice in json.loads(event[event.index("{") : event.rindex("}") + 1])["choices"]:
            text += choice["delta"].get("content") or ""
            finish = choice["finish_reason"]
            for piece in choice["delta"].get("tool_calls", ()):
                arguments = call["function"]["arguments"] + piece["function"]["arguments"]
                call = {**call, **piece, "function": {**call["function"], **piece["function"], "arguments": arguments}}
    assert finish == "tool_calls"
    return {"role": "assistant", "content": text, "tool_calls": [{k: v for k, v in call.items() if k != "index"}]}


@pytest.mark.parametrize(("name", "step"), [("S", 0), ("M", 12), ("L", 70)])
def test_the_answer_at_a_step_is_what_the_next_request_carries(name: str, step: int) -> None:
    shape = bodies.SHAPES[name]
    sent = json.loads(bodies.conversation(shape, 0, (bodies.JSON,), False)[0] + "]}")["messages"]
    carried = sent[1 + bool(shape.system) + 2 * step]
    whole = json.loads(bodies.answer_json(step).partition("\r\n\r\n")[2])["choices"][0]["message"]
    events = bodies.answer_events(step)
    assert len(events) == bodies.EVENTS
    assert events[-1].endswith("data: [DONE]\n\n\r\n0\r\n\r\n")
    assert {k: whole[k] for k in carried} == carried == merged(events)


class Recorder(http.server.BaseHTTPRequestHandler):
    """Answers everything with 200 and keeps bodies and session headers in the order of arrival."""

    protocol_version = "HTTP/1.1"
    kept: list[tuple[str | None, bytes]]

    def do_POST(self) -> None:
        """One request."""
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.kept.append((self.headers.get("x-guardproxy-session-id"), body))
        self.send_response(200)
        self.send_header("X-Guardproxy-Verdict", "nudge" if len(self.kept) == 1 else "pass")
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled tools with their files."""
    if not shutil.which("gcc"):
        pytest.skip("gcc is not installed")
    work = tmp_path_factory.mktemp("bench")
    cells.build(work)
    return work


@pytest.fixture
def recorder() -> Iterator[http.server.ThreadingHTTPServer]:
    """A server that remembers what it was sent."""
    Recorder.kept = []
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Recorder)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join(5)


def run_load(tools: Path, port: int, pool: str, conns: int, warm: int, count: int, ids: str) -> dict[str, Any]:
    """One run of the load generator."""
    command = [tools / "load", port, "/v1/chat/completions", tools / f"{pool}.pool", conns, warm, count, 5, T1, ids]
    done = subprocess.run(list(map(str, command)), input="\n", capture_output=True, text=True, timeout=60, check=True)
    ready, result = done.stdout.splitlines()
    assert ready == "warm"
    found: dict[str, Any] = json.loads(result)
    return found


def token_of(body: bytes) -> int:
    """The session's number in a request."""
    return int(str(json.loads(body)["seed"])[:11])


def test_a_chain_plays_whole_sessions_in_order(tools: Path, recorder: http.server.ThreadingHTTPServer) -> None:
    row = run_load(tools, recorder.server_port, "M-0", 1, 0, 20, "named")
    assert (row["good"], row["bad"], row["resets"], row["acted"]) == (20, 0, 0, 1)
    shape = bodies.SHAPES["M"]
    expected = [body for token in (T1, T2) for body in bodies.requests(shape, token, token % shape.variants)]
    assert [body for _, body in Recorder.kept] == expected
    assert [name for name, _ in Recorder.kept] == [f"bench-{t}" for t in (T1, T2) for _ in range(10)]


def test_a_split_measures_last_turns_one_in_ten_unseen(tools: Path, recorder: http.server.ThreadingHTTPServer) -> None:
    row = run_load(tools, recorder.server_port, "S-0", 1, 0, 20, "both")
    first, last = Recorder.kept[:18], Recorder.kept[18:]
    assert row["good"] == 20
    assert [len(messages(body)) for _, body in first] == [1] * 18
    assert [len(messages(body)) for _, body in last] == [3] * 20
    before = {token_of(body) for _, body in first}
    assert [token_of(body) in before for _, body in last] == [i % 10 != 9 for i in range(20)]
    assert {name is None for name, body in Recorder.kept if token_of(body) % 2 == 0} == {True}
    assert {name for name, body in last if token_of(body) % 2} <= {f"bench-{T1 + i}" for i in range(0, 40, 2)}


@pytest.mark.parametrize(("pool", "events"), [("M-0", 0), ("S-1", 20 * bodies.EVENTS), ("S-2", 20 * bodies.EVENTS)])
def test_the_provider_answers_the_load(tools: Path, pool: str, events: int) -> None:
    with procs.Procs(tools) as running:
        port = cells.start_mock(running, 500)
        row = run_load(tools, port, pool, 4, 10, 20, "derived")
    assert (row["good"], row["bad"], row["hung"], row["events"]) == (20, 0, 0, events)
    if not events:
        assert row["bytes"] > 20 * 600


VERDICTS = [
    ("cpu S", 1.3, "aim"),
    ("cpu S", 2.9, "pass"),
    ("cpu S", 3.01, "FAIL"),
    ("workers", 1.5, "pass"),
    ("workers", 1.39, "FAIL"),
    ("trips", 2.0, "aim"),
    ("trips", 2.1, "FAIL"),
    ("growth", None, "-"),
]


@pytest.mark.parametrize(("key", "value", "said"), VERDICTS)
def test_verdicts(key: str, value: float | None, said: str) -> None:
    assert figures.BARS[key].verdict(value) == said
    assert bool(figures.failed({key: value})) == (said == "FAIL")


def rows(target: str, cell: str, **values: list[float]) -> list[dict[str, Any]]:
    """Rows of one target and cell, one a round."""
    count = len(next(iter(values.values())))
    zero = dict.fromkeys(("store_us", "rps", "p50", "p99", "first_p50", "others", "cpu_us", "chunk_us", "events"), 0)
    base = {"target": target, "cell": cell, **zero}
    return [{**base, "round": r, **{k: v[r] for k, v in values.items()}} for r in range(count)]


def test_figures_pair_rounds_and_take_medians() -> None:
    measured = [
        *rows("bare", "S32", cpu_us=[100, 200, 100]),
        *rows("guardproxy", "S32", cpu_us=[200, 500, 900]),
        *rows("direct", "S1", p50=[10, 20, 30]),
        *rows("guardproxy", "S1", p50=[510, 720, 430]),
        *rows("bare", "G32", cpu_us=[300]) + rows("guardproxy", "G32", cpu_us=[500]),
        *rows("bare", "GG32", cpu_us=[500]) + rows("guardproxy", "GG32", cpu_us=[860]),
    ]
    values = figures.collect(measured, {"G": 100, "GG": 250}, {"trips": 2.0})
    assert {k: v for k, v in values.items() if v is not None} == {
        "cpu S": 2.5,
        "latency": pytest.approx(0.5),
        "growth": pytest.approx(1.1),
        "trips": 2.0,
    }
    text = figures.summary(values)
    assert "CPU per request ÷ bare, S" in text
    assert "2.50×" in text
    assert len(text.splitlines()) == 2 + sum(bar.must is not None for bar in figures.BARS.values())
    assert "guardproxy" in figures.details(measured)


def test_complaints_name_bad_answers_and_interventions() -> None:
    base = {"target": "guardproxy", "cell": "S32", "bad": 0, "hung": 0, "acted": 0, "good": 5, "first_bad": ""}
    assert cells.complaints([base]) == []
    said = cells.complaints([base | {"bad": 2, "first_bad": "HTTP/1.1 500"}, base | {"acted": 1}])
    assert ["500" in said[0], "verdict" in said[1]] == [True, True]


def test_only_what_clients_send_to_the_store_counts() -> None:
    lines = (
        b'+OK\r\n+1.5 [0 unix:/a.sock] "EVALSHA" "ab" "1"\r\n+1.6 [0 lua] "HGET" "k"\r\n'
        b'+1.7 [0 127.0.0.1:5] "evalsha" "cd"\r\n+1.8 [0 unix:/a.sock] "PING"\r\n+1.9 [0 unix:/a.sock] "GET" "x"\r\n'
    )
    assert redis_trips.count(lines) == {"EVALSHA": 2, "GET": 1}


@as_written  # else the sources are one more
def test_a_stand_in_replaces_all_variants() -> None:
    assert set(main.commands([])) == {"bare", "bare-2", "guardproxy", "guardproxy-traces", "guardproxy-2"}
    assert set(main.commands(["guardproxy=x {port}"])) == {"bare", "guardproxy"}
    assert set(main.commands(["guardproxy-traces="])) == {"bare", "bare-2", "guardproxy", "guardproxy-2"}
    with pytest.raises(procs.BenchError, match="no other"):
        main.commands(["other=x"])


def test_a_dead_collector_is_compared_within_a_round() -> None:
    rows = [
        {"cell": "S32", "target": target, "round": number, "cpu_us": cpu, "p50": 2 * cpu}
        for number, (alive, dead) in enumerate([(100, 90), (200, 220), (100, 130)])
        for target, cpu in (("alive", alive), ("dead", dead))
    ]

    assert collector.ratios(rows, "alive") == {("S32", "dead", "cpu_us"): 1.1, ("S32", "dead", "p50"): 1.1}


def test_what_became_of_spans_is_read_off_the_metrics() -> None:
    text = 'guardproxy_telemetry_spans_total{guardproxy_result="failed"} 512\nother 1\n'

    assert collector.SENT.findall(text) == [("failed", "512")]


def test_a_mute_collector_takes_a_connection_and_says_nothing() -> None:
    import socket

    with collector.mute() as url, socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2])), 5) as client:
        client.sendall(b"POST / HTTP/1.1\r\n\r\n")
        client.settimeout(0.05)
        with pytest.raises(TimeoutError):
            client.recv(1)
