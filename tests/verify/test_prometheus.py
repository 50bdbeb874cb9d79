"""A real Prometheus scrapes real text: every query of the dashboard has an answer, the rules work.

Needs `prometheus` and `promtool` (Debian: apt install prometheus); their absence is a failure here, not a skip.
"""

from __future__ import annotations

import itertools
import json
import math
import shutil
import socket
import subprocess
import threading
import time
import urllib.parse
import urllib.request
from contextlib import closing, contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from grafana import panels
from guardproxy.core.model import Decision
from guardproxy.telemetry import Fleet, Objected, RunEnd, Telemetry
from guardproxy.telemetry.exposition import CONTENT_TYPE, render
from tests.telemetry.reports import T0, eventful, life, refused, settings, view

pytestmark = pytest.mark.verify

DEPLOY = Path(__file__).parents[2] / "deploy"
OBSERVED = Decision("observe", rule="cycle", count=4, mode="observe", would="firm")
HELD = (Objected("tools.approval", "send_mail", "pause"),)


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed (Debian: apt install prometheus)"
    return found


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Traffic(threading.Thread):
    """Plays runs through two workers' telemetry until stopped: some are cut, some end idle; one turn is observed."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.workers = [Telemetry(settings(), b"k" * 32, f"worker-{n}") for n in (1, 2)]
        self.done = threading.Event()
        self.text = ""

    def run(self) -> None:
        for number in itertools.count():
            self._one_run(f"s-{number}", self.workers[number % 2])
            fleet = Fleet()
            for index, worker in enumerate(self.workers):
                fleet.put(str(index), worker.snapshot())
            self.text = render(fleet.total())
            if self.done.wait(0.05):
                return

    def _one_run(self, session: str, worker: Telemetry) -> None:
        worker.count("sessions.active", {"state": "active"}, 3)
        *before, end = life()
        for report in (*before, refused(5), eventful(6, objected=HELD), end):
            seen = replace(report, session=session, view=replace(report.view, session=session))
            worker.report(seen)
        idle = f"{session}-idle"
        worker.report(replace(life()[1], session=idle, decision=OBSERVED, view=view(2, session=idle)))
        worker.close_run(RunEnd("acme", idle, "finished", T0 // 10**6, T0 // 10**6 + 9000, cost_microusd=9000, turns=2))


@contextmanager
def served(traffic: Traffic):
    """The text endpoint; gives its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = traffic.text.encode()
            self.send_response(200)
            self.send_header("content-type", CONTENT_TYPE)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Silence."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(5)


@contextmanager
def running(binary: str, directory: Path, target: str):
    """A Prometheus with the shipped configuration, scraping `target` every second; gives its URL."""
    shipped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    shipped["rule_files"] = [str(DEPLOY / "rules.yml")]
    shipped["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    (directory / "prometheus.yml").write_text(yaml.safe_dump(shipped))
    address = f"127.0.0.1:{free_port()}"
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                binary,
                f"--config.file={directory}/prometheus.yml",
                f"--storage.tsdb.path={directory}/data",
                f"--web.listen-address={address}",
            ],
            stdout=log,
            stderr=log,
        )
    try:
        until(lambda: urllib.request.urlopen(f"http://{address}/-/ready", timeout=2).close() or True, directory / "log")
        yield f"http://{address}"
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


def until(ready, log: Path, seconds: float = 30) -> None:
    """Wait until `ready()` is true."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if ready():
                return
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail(f"not ready in {seconds} s:\n{log.read_text()[-2000:]}")


def ask(url: str, path: str, **parameters: str) -> dict:
    with urllib.request.urlopen(f"{url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}", timeout=10) as answer:
        return json.load(answer)["data"]


def values(url: str, expression: str) -> list[float]:
    return [float(row["value"][1]) for row in ask(url, "query", query=expression)["result"]]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    """The URL of a Prometheus that has scraped a few times."""
    binary, directory = tool("prometheus"), tmp_path_factory.mktemp("prometheus")
    traffic = Traffic()
    traffic.start()
    try:
        with served(traffic) as target, running(binary, directory, target) as url:
            until(
                lambda: min(values(url, "count_over_time(guardproxy_turns_total[1m])") or [0]) >= 4, directory / "log"
            )
            yield url
    finally:
        traffic.done.set()
        traffic.join(10)


@pytest.mark.parametrize(
    ("title", "expression"),
    [(chart.title, query) for charts in panels.RUNS.values() for chart in charts for query, _ in chart.queries],
)
def test_every_panel_has_data(prometheus, title, expression):
    for macro, text in (("$__rate_interval", "10s"), ("$__range", "1m"), ("$org", ".*")):
        expression = expression.replace(macro, text)
    assert "$" not in expression
    found = values(prometheus, expression)

    assert found, title
    assert not [value for value in found if math.isnan(value)], title
    assert max(found) > 0, title


def test_an_organisation_can_be_chosen(prometheus):
    query = panels.in_range("guardproxy_turns_total").replace("$__range", "1m")

    assert values(prometheus, query.replace("$org", "acme"))[0] > 0
    assert values(prometheus, query.replace("$org", "nobody")) == [0]


def test_prometheus_reads_every_type(prometheus):
    known = {name: rows[0]["type"] for name, rows in ask(prometheus, "metadata").items()}

    assert known["guardproxy_turns_total"] == "counter"
    assert known["guardproxy_session_turns"] == "histogram"
    assert known["guardproxy_build_info"] == "gauge"


def test_the_scrape_and_the_rules_are_healthy(prometheus):
    (target,) = ask(prometheus, "targets")["activeTargets"]
    groups = ask(prometheus, "rules")["groups"]

    assert (target["health"], target["lastError"]) == ("up", "")
    assert groups
    assert all(rule["health"] in ("ok", "unknown") and not rule.get("lastError") for g in groups for rule in g["rules"])


@pytest.mark.parametrize("command", [["check", "rules", "rules.yml"], ["check", "config", "prometheus.yml"]])
def test_promtool_accepts_the_files(command):
    done = subprocess.run([tool("promtool"), *command], cwd=DEPLOY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


SESSIONS = 'guardproxy_sessions_total{guardproxy_org_id="acme",guardproxy_outcome="%s"}'
ALERTS = [
    ("GuardproxyDown", {'up{job="guardproxy"}': "0x60"}, True),
    ("GuardproxyDown", {'up{job="guardproxy"}': "1x60"}, False),
    ("GuardproxyManyRunsCutOff", {SESSIONS % "cut": "0+1x60", SESSIONS % "finished": "0+1x60"}, True),
    ("GuardproxyManyRunsCutOff", {SESSIONS % "cut": "0+1x60", SESSIONS % "finished": "0+9x60"}, False),
    ("GuardproxyStoreAway", {'guardproxy_store_fallbacks_total{guardproxy_store_mode="open"}': "0+1x60"}, True),
    ("GuardproxyStoreAway", {'guardproxy_store_fallbacks_total{guardproxy_store_mode="open"}': "5x60"}, False),
    ("GuardproxyTelemetryLost", {'guardproxy_telemetry_spans_total{guardproxy_result="failed"}': "0+1x60"}, True),
    ("GuardproxyFaults", {'guardproxy_detector_errors_total{guardproxy_rule="cycle"}': "0+1x60"}, True),
    (
        "GuardproxySlow",
        {
            'guardproxy_overhead_duration_seconds_bucket{guardproxy_phase="request",le="0.05"}': "0+1x60",
            'guardproxy_overhead_duration_seconds_bucket{guardproxy_phase="request",le="0.1"}': "0+9x60",
            'guardproxy_overhead_duration_seconds_bucket{guardproxy_phase="request",le="+Inf"}': "0+9x60",
        },
        True,
    ),
]


@pytest.mark.parametrize(("alert", "series", "fires"), ALERTS)
def test_alerts(tmp_path, alert, series, fires):
    """promtool compares labels exactly, so an alert that fires must fail the expectation that it does not."""
    test = {
        "rule_files": [str(DEPLOY / "rules.yml")],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [{"series": name, "values": points} for name, points in series.items()],
                "alert_rule_test": [{"eval_time": "50m", "alertname": alert, "exp_alerts": []}],
            }
        ],
    }
    (tmp_path / "test.yml").write_text(yaml.safe_dump(test))
    command = [tool("promtool"), "test", "rules", "test.yml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert (f'alertname="{alert}"' in done.stdout + done.stderr) == fires, done.stdout + done.stderr
    assert done.returncode == int(fires)
