"""A real Prometheus and Alertmanager beside a real proxy whose agents loop: every panel, every rule, one page.

Needs `prometheus`, `promtool`, `prometheus-alertmanager` and `amtool` (Debian: apt install prometheus
prometheus-alertmanager); their absence is a failure here, not a skip.
"""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from grafana import alerts, build, runs
from grafana._chart import filled
from tests.running import Running
from tests.telemetry.sink import Sink, attributes, otlp_sink
from tests.verify import loops

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
PANELS = [(f"{file}: {title}", query) for file, board in build.BOARDS.items() for title, query in board.promql()]
QUIET = {
    "health.json: Errors inside": "nothing raises here; tests/verify/rules_test.yml",
    "health.json: Retries": "a single upstream alone is tried again; tests/verify/rules_test.yml",
    "health.json: Series without a name of their own": "no agent is over the bound; tests/telemetry/test_bounds.py",
    "health.json: In flight": "a moment's number",
    "health.json: Failed": "the failing upstream's answers do not reach the client",
    "spend.json: Background answers": "no agent here asks for one; tests/http/test_background.py",
    "spend.json: Returned of background answers": "no agent here asks for one; tests/http/test_background.py",
}
"""Panels that show 0, and rightly."""

FIRES = {"GuardproxyRunsCutOff", "GuardproxyBudgetNearlySpent", "GuardproxyBudgetDenies", "GuardproxyStoreAway"}
"""Alerts that the traffic brings about; that each of the others fires: tests/verify/rules_test.yml."""


def tool(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not installed (Debian: apt install prometheus prometheus-alertmanager)"
    return found


def free_port() -> int:
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def until(ready: Any, log: Path | None = None, seconds: float = 30) -> Any:
    """Wait until `ready()` is true; what it answered."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if found := ready():
                return found
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail(f"not in {seconds} s: {ready}\n{log.read_text()[-2000:] if log else ''}")


@contextmanager
def running(log: Path, command: list[str], url: str) -> Iterator[str]:
    """A server that answers /-/ready at `url`."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out)
    try:
        until(lambda: urllib.request.urlopen(f"{url}/-/ready", timeout=2).close() or True, log)
        yield url
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


def alertmanager(folder: Path, hook: str, stack: ExitStack) -> str:
    """With the shipped configuration, told at once and telling our hook."""
    shipped = yaml.safe_load((DEPLOY / "alertmanager.yml").read_text())
    shipped["route"] |= {"group_wait": "0s", "group_interval": "1s"}
    shipped["receivers"][0]["webhook_configs"] = [{"url": f"{hook}/page"}]
    (folder / "alertmanager.yml").write_text(yaml.safe_dump(shipped))
    address = f"127.0.0.1:{free_port()}"
    command = [tool("prometheus-alertmanager"), f"--config.file={folder}/alertmanager.yml", "--cluster.listen-address="]
    command += [f"--storage.path={folder}/alerts", f"--web.listen-address={address}"]
    return stack.enter_context(running(folder / "alertmanager.log", command, f"http://{address}"))


def prometheus(folder: Path, target: str, told: str, stack: ExitStack) -> str:
    """With the shipped configuration and rules, every second; what fires need not wait."""
    rules = yaml.safe_load((DEPLOY / "rules.yml").read_text())
    for rule in (rule for group in rules["groups"] for rule in group["rules"]):
        rule.pop("for", None)
    (folder / "rules.yml").write_text(yaml.safe_dump(rules))
    shipped = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())
    shipped["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
    shipped["scrape_configs"][0]["static_configs"] = [{"targets": [target]}]
    shipped["alerting"]["alertmanagers"][0]["static_configs"] = [{"targets": [told.removeprefix("http://")]}]
    (folder / "prometheus.yml").write_text(yaml.safe_dump(shipped))
    address = f"127.0.0.1:{free_port()}"
    command = [tool("prometheus"), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    command += [f"--web.listen-address={address}", "--enable-feature=exemplar-storage"]
    return stack.enter_context(running(folder / "prometheus.log", command, f"http://{address}"))


@dataclass
class Scene:
    """All that runs."""

    proxy: Running
    agents: loops.Agents
    hook: loops.Hook
    sink: Sink
    url: str

    def disturb(self) -> None:
        """The store stands still until turns went on without it; then a worker dies."""
        of = {
            word: pid for pid, run in self.proxy.children().items() for word in ("valkey", "http.worker") if word in run
        }
        os.kill(of["valkey"], signal.SIGSTOP)
        try:
            until(lambda: max(self.values("increase(guardproxy_store_fallbacks_total[5m])"), default=0) > 0)
        finally:
            os.kill(of["valkey"], signal.SIGCONT)
        until(lambda: "answers again" in self.proxy.err)
        os.kill(of["http.worker"], signal.SIGKILL)
        until(lambda: len(self.proxy.workers()) == 2 and "ended with code -9" in self.proxy.err)

    def ask(self, path: str, **parameters: str) -> Any:
        query = urllib.parse.urlencode(parameters)
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=10) as answer:
            return json.load(answer)["data"]

    def values(self, expression: str) -> list[float]:
        found = self.ask("query", query=expression)["result"]
        return [value for row in found if not math.isnan(value := float(row["value"][1]))]

    def shell(self, *lines: str) -> str:
        words = f'guardproxy() {{ "{sys.executable}" -m guardproxy "$@" --data-dir "{self.proxy.data}"; }}\nset -e\n'
        plain = {name: text for name, text in os.environ.items() if not name.startswith("GUARDPROXY_")}
        done = subprocess.run(
            ["/bin/sh", "-c", words + "\n".join(lines)],
            capture_output=True,
            text=True,
            check=False,
            env=plain | {"PYTHONPATH": str(ROOT)},
            timeout=90,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("observed")
    with ExitStack() as stack:
        hook = loops.Hook()
        models = [stack.enter_context(loops.serving(loops.provider(fails=fails))) for fails in (True, False)]
        told = stack.enter_context(loops.serving(hook.handler()))
        sink = stack.enter_context(otlp_sink())
        (folder / "c.yaml").write_text(
            yaml.safe_dump(loops.config([f"{model}/v1" for model in models], f"{told}/events"))
        )
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": sink.url, "OTEL_BSP_SCHEDULE_DELAY": "200"}
        proxy = stack.enter_context(Running(folder / "p", "--config", f"{folder}/c.yaml", "--workers", "2", env=env))
        agents = loops.Agents(proxy.base, loops.granted(proxy.admin))
        made = Scene(proxy, agents, hook, sink, "")
        manager = alertmanager(folder, told, stack)
        made.url = prometheus(folder, proxy.admin.removeprefix("http://"), manager, stack)
        agents.start()
        try:
            until(lambda: agents.rounds > 1, seconds=60)
            made.disturb()
            yield made
        finally:
            agents.done.set()
            agents.join(30)


def as_sent(query: str, *picked: tuple[str, str]) -> str:
    """As Grafana sends it, over the last minutes."""
    return filled(query, [*picked, ("$__rate_interval", "5m"), ("$__range", "5m")])


def test_every_panel_has_data(scene: Scene) -> None:
    """Nothing is empty, nothing only NaN, and nothing 0 that is not said to be quiet."""
    left = list(PANELS)

    def all_seen() -> bool:
        for title, query in list(left):
            found = scene.values(as_sent(query))
            if found and (max(found) > 0 or title in QUIET):
                left.remove((title, query))
        return not left

    deadline = time.monotonic() + 60
    while not all_seen() and time.monotonic() < deadline:
        time.sleep(1)

    assert [f"{title}: {scene.values(as_sent(query))} {query}" for title, query in left] == []
    assert not [one for _, one in PANELS if "$" in as_sent(one)]


def test_panels_show_what_their_variables_pick(scene: Scene) -> None:
    cut = next(query for title, query in PANELS if title == "runs.json: Cut off")

    until(lambda: scene.values(as_sent(cut, ("$agent", "looper")))[0] > 0)
    assert scene.values(as_sent(cut, ("$agent", "nobody"))) == [0]
    assert scene.values(as_sent(cut, ("$org", "acme")))[0] > 0
    assert scene.values(as_sent(cut, ("$org", "nobody"))) == [0]


def test_every_rule_has_data(scene: Scene) -> None:
    """Thresholds lowered: what would never have a value would never fire."""
    lowered = {rule["alert"]: re.sub(r"(?:>|==) [\d.]+", ">= 0", rule["expr"]) for rule in alerts.rules()}
    deadline = time.monotonic() + 40
    while (empty := [name for name, expr in lowered.items() if not scene.values(expr)]) and time.monotonic() < deadline:
        time.sleep(0.5)
    rules = [rule for group in scene.ask("rules")["groups"] for rule in group["rules"]]

    assert empty == []
    assert sorted(rule["name"] for rule in rules) == sorted(lowered)
    assert [(rule["name"], rule.get("lastError")) for rule in rules if rule["health"] != "ok"] == []


def test_the_alerts_that_should_fire(scene: Scene) -> None:
    def firing() -> set[str]:
        return {one["labels"]["alertname"] for one in scene.ask("alerts")["alerts"] if one["state"] == "firing"}

    deadline = time.monotonic() + 40
    while FIRES - firing() and time.monotonic() < deadline:
        time.sleep(0.5)

    assert FIRES - firing() == set()
    assert "GuardproxyDown" not in firing()


def test_no_counter_fell_when_a_worker_died(scene: Scene) -> None:
    """Two of them, one killed: the parent keeps what it had counted."""
    assert "ended with code -9" in scene.proxy.err
    rising = [
        name for name, rows in scene.ask("metadata").items() if rows[0]["type"] == "counter" and "guardproxy" in name
    ]
    assert len(rising) > 15
    for name in rising:
        suffix = "" if name.endswith("_total") else "_total"
        assert set(scene.values(f"resets({name}{suffix}[5m])")) <= {0.0}, name


def test_the_scrape_is_read_whole(scene: Scene) -> None:
    (target,) = scene.ask("targets")["activeTargets"]
    known = {name: rows[0]["type"] for name, rows in scene.ask("metadata").items()}

    assert (target["health"], target["lastError"]) == ("up", "")
    assert (known["guardproxy_turns"], known["guardproxy_session_turns"]) == ("counter", "histogram")
    assert known["guardproxy_build_info"] == "gauge"


def test_a_page_is_followed_to_its_run_and_the_run_goes_on(scene: Scene) -> None:
    """The page says whose runs are cut off, an exemplar opens a trace, it shows the loop; the run is let go on."""

    def page() -> Any:
        told = [alert for page in scene.hook.pages for alert in page["alerts"]]
        return next((a for a in told if a["labels"].get("gen_ai_agent_name") == "looper"), None)

    alert = until(page, seconds=40)
    assert alert["labels"]["alertname"] == "GuardproxyRunsCutOff"
    assert alert["labels"]["severity"] == "page"
    assert "Runs of agent looper (acme) are being cut off" in alert["annotations"]["summary"]
    assert "/d/guardproxy-runs?var-org=acme&var-agent=looper" in alert["annotations"]["dashboard"]

    rule = 'topk(1, sum by (guardproxy_rule) (guardproxy_sessions_total{gen_ai_agent_name="looper"}))'
    (blamed,) = scene.ask("query", query=rule)["result"]

    def followed() -> Any:
        """The root of a run that an exemplar shows, and that was not disturbed: it asked until it was cut."""
        now, query = time.time(), 'guardproxy_session_turns_bucket{guardproxy_outcome=~"cut|finalized"}'
        seen = scene.ask("query_exemplars", query=query, start=str(now - 300), end=str(now))
        traces = {one["labels"]["trace_id"] for row in seen for one in row["exemplars"]}
        for span in list(scene.sink.spans):
            if span.trace_id.hex() in traces and span.name == "invoke_agent looper":
                name = str(attributes(span)["guardproxy.session.id"]).rpartition(":")[2]
                if scene.agents.ended.get(name) == 400:
                    return span
        return None

    root = until(followed, seconds=60)
    found, trace = attributes(root), root.trace_id
    session = str(found["guardproxy.session.id"])
    spans = [attributes(span) | {"name": span.name} for span in scene.sink.spans if span.trace_id == trace]
    assert found["guardproxy.rule"] == blamed["metric"]["guardproxy_rule"]
    assert max(int(span.get("guardproxy.tool.repeat_count", 0)) for span in spans) >= 3  # type: ignore[call-overload]
    assert any(span["name"].startswith("guardproxy.intervene") for span in spans)

    asked = scene.agents.conversations[session.rpartition(":")[2]]
    again = [*asked, {"role": "user", "content": "have another look"}]
    trace_it, resume_it = (
        line.split("`")[1].replace("$session", session)
        for line in runs.GO_ON.splitlines()
        if "guardproxy trace" in line or "sessions resume" in line
    )
    assert "read_file" in scene.shell(f"{trace_it} --org acme", f"{resume_it} --org acme")
    name = session.rpartition(":")[2]
    status, answer = scene.agents.post(again, key=scene.agents.keys["loop"], session=name, agent="looper", kind="loop")
    assert status == 200
    assert answer["choices"][0]["message"]["tool_calls"]


@pytest.mark.parametrize(
    "command",
    [
        ["promtool", "check", "rules", "--lint=all", "--lint-fatal", "rules.yml"],
        ["promtool", "check", "config", "prometheus.yml"],
        ["amtool", "check-config", "alertmanager.yml"],
        ["promtool", "test", "rules", "../tests/verify/rules_test.yml"],
    ],
    ids=" ".join,
)
def test_the_tools_accept_the_files(command: list[str]) -> None:
    done = subprocess.run([tool(command[0]), *command[1:]], cwd=DEPLOY, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_is_tried_to_fire_and_not_to() -> None:
    tests = yaml.safe_load((ROOT / "tests/verify/rules_test.yml").read_text())["tests"]
    tried = [(case["alertname"], bool(case["exp_alerts"])) for one in tests for case in one.get("alert_rule_test", ())]

    for rule in alerts.rules():
        assert (rule["alert"], True) in tried
        assert (rule["alert"], False) in tried


def test_what_is_tried_of_dashboards_is_what_they_ask() -> None:
    tests = yaml.safe_load((ROOT / "tests/verify/rules_test.yml").read_text())["tests"]
    tried = {case["expr"] for one in tests for case in one.get("promql_expr_test", ())}

    assert tried
    assert tried <= {as_sent(query) for _, query in PANELS}
