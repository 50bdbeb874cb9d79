"""The parent with real processes: start, serve, drain, reload, and what is left when something is killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import sys
import threading
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardproxy import cli
from tests.running import Running, alive, fetch, provider, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with provider() as url:
        yield url


def test_one_life(tmp_path: Path, upstream: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Started, asked, measured, drained; what it knew is there afterwards."""
    with Running(tmp_path, "--upstream", upstream, "--workers", "2") as proxy:
        assert f"for {upstream} (2 workers, embedded store in {proxy.data})" in proxy.greeting
        assert f"what its runs do: guardproxy sessions list --data-dir {proxy.data}\n" in proxy.greeting
        answers = [proxy.ask(text=f"task {number}") for number in range(6)]
        ready = json.loads(fetch(f"{proxy.admin}/readyz"))
        until(lambda: _turns(proxy) == 6)  # the last is counted a moment after its answer
        slow: list[bytes] = []
        asking = threading.Thread(target=lambda: slow.append(proxy.ask("1.5", stream=True)))
        asking.start()
        time.sleep(0.5)
        children = proxy.children()
        code = proxy.stop()
        asking.join()

    assert all(json.loads(answer)["choices"][0]["message"]["content"] == "done" for answer in answers)
    assert ready == {"ready": True, **dict.fromkeys(["workers", "config", "store", "upstream", "state"], "ok")}
    assert code == 0
    assert slow[0].endswith(b"data: [DONE]\n\n")
    assert len(children) == 3
    assert not [pid for pid in children if alive(pid)]

    session = re.findall(r"(d-[0-9a-f]{12}-1) ", proxy.err) or re.findall(r'"session":"(d-[^"]+)"', proxy.err)
    assert cli.main(["trace", session[0], "--data-dir", str(proxy.data)]) == 0
    assert "1 turn" in capsys.readouterr().out


def _turns(proxy: Running) -> float:
    metrics = fetch(f"{proxy.admin}/metrics").decode()
    return sum(float(n) for n in re.findall(r"^guardproxy_turns_total\{.*\} (\S+)$", metrics, re.MULTILINE))


def test_death_of_the_parent_leaves_nobody(tmp_path: Path, upstream: str) -> None:
    with Running(tmp_path, "--upstream", upstream, "--workers", "2") as proxy:
        children = list(proxy.children())
        assert len(children) == 3
        os.kill(proxy.process.pid, signal.SIGKILL)

        until(lambda: not [pid for pid in children if alive(pid)], 10)
        proxy.process.wait()
    with Running(tmp_path, "--upstream", upstream) as proxy:
        assert b"done" in proxy.ask()


def test_death_of_a_worker_and_of_the_store(tmp_path: Path, upstream: str) -> None:
    with Running(tmp_path, "--upstream", upstream) as proxy:
        proxy.ask(text="one")
        (worker,) = proxy.workers()
        os.kill(worker, signal.SIGKILL)
        until(lambda: proxy.workers() and proxy.workers() != [worker])
        until(lambda: json.loads(_status(f"{proxy.admin}/readyz")[1])["ready"])
        assert b"done" in proxy.ask(text="two")

        store = next(pid for pid, command in proxy.children().items() if "valkey" in command)
        os.kill(store, signal.SIGKILL)
        assert b"done" in proxy.ask(text="three")
        killed = time.monotonic()
        until(lambda: "was started anew" in proxy.err)
        assert time.monotonic() - killed < 2.5
        until(lambda: "answers again" in proxy.err)
        assert b"done" in proxy.ask(text="four")
        metrics = fetch(f"{proxy.admin}/metrics").decode()

        assert proxy.stop() == 0
    assert f"(pid {worker}) ended with code -9" in proxy.err
    assert 'guardproxy_store_changes_total{guardproxy_state="down"} 1' in metrics


def test_reload(tmp_path: Path, upstream: str) -> None:
    file = tmp_path / "c.yaml"
    policy = "policy: {profile: none, limits: {session: {turns: %d}}}"
    file.write_text(policy % 9)
    with Running(tmp_path, "--upstream", upstream, "--config", str(file)) as proxy:

        def reload(text: str, word: str) -> str:
            before = proxy.err.count(word)
            file.write_text(text)
            proxy.process.send_signal(signal.SIGHUP)
            until(lambda: proxy.err.count(word) > before)
            return _left(proxy)

        first = _left(proxy)
        good = reload(policy % 5, "was reloaded")
        bad = reload("polcy: {}", "polcy: unknown key")
        fixed = reload("listen: {workers: 3}", "listen: cannot change while running")
        lost = reload("", "is empty, and was not before")

        assert (first, good, bad, fixed, lost) == ('"turns":8', *['"turns":4'] * 4)
        assert proxy.stop(signal.SIGINT) == 0


def test_a_price_file(tmp_path: Path, upstream: str) -> None:
    """Workers price by it; what is bad in it is named at start and at each reload; without it there is no start."""
    file, prices = tmp_path / "c.yaml", tmp_path / "prices.json"
    file.write_text("policy: {profile: none, limits: {session: {cost_usd: 100}}}\nprices: {file: prices.json}\n")
    listed = {"0": {"input_cost_per_token": 0, "output_cost_per_token": 0.002}, "bad": {"input_cost_per_token": "x"}}
    prices.write_text(json.dumps(listed))
    with Running(tmp_path, "--upstream", upstream, "--config", str(file)) as proxy:

        def reload(text: str, word: str) -> str:
            before = proxy.err.count(word)
            prices.write_text(text)
            proxy.process.send_signal(signal.SIGHUP)
            until(lambda: proxy.err.count(word) > before)
            return _left(proxy, "cost_usd")

        first = _left(proxy, "cost_usd")
        listed["0"]["output_cost_per_token"] = 0.004
        dearer = reload(json.dumps(listed), "the entry 'bad'")
        broken = reload("{", "prices.file: cannot read")
        named = proxy.err.count("prices.file: the entry 'bad': input_cost_per_token is no number; it is not used")

        assert (first, dearer, broken) == ('"cost_usd":91.808', '"cost_usd":83.616', '"cost_usd":83.616')
        assert named == 2, "once by the parent, not by each worker"
        assert proxy.stop() == 0


def _left(proxy: Running, limit: str = "turns") -> str:
    """What is left of the limit for a new session."""
    import urllib.request

    body = json.dumps({"model": "0", "messages": [{"role": "user", "content": str(time.monotonic_ns())}]}).encode()
    request = urllib.request.Request(f"{proxy.base}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return re.findall(rf'"{limit}":[\d.]+', answer.headers["x-guardproxy-budget-remaining"])[0]


def _status(url: str, body: object = None, method: str | None = None) -> tuple[int, bytes]:
    try:
        return 200, fetch(url, body, method=method)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_port_is_not_shared_with_another_proxy(tmp_path: Path, upstream: str) -> None:
    """SO_REUSEPORT would let both bind it, and each would get half of the connections."""
    with Running(tmp_path, "--upstream", upstream) as proxy:
        port = proxy.base.split(":")[2].split("/")[0]
        with Running(tmp_path / "b", "--upstream", upstream, "--port", port, "--admin-port", "0") as second:
            assert second.process.wait(30) == 2
            assert f"cannot listen on 127.0.0.1:{port} (listen): Address already in use" in second.err
        admin = proxy.admin.split(":")[2]
        with Running(tmp_path / "c", "--upstream", upstream, "--port", "0", "--admin-port", admin) as third:
            assert third.process.wait(30) == 2
            assert f"cannot listen on 127.0.0.1:{admin} (admin)" in third.err
            assert not third.children()
        assert proxy.stop() == 0


CANNOT = {
    "shared store without a secret": ({"REDIS": "redis://127.0.0.1:9"}, "other machines may share this store"),
    "store that is not there": (
        {"REDIS": "redis://127.0.0.1:9", "GUARDPROXY_SECRET": "0123456789abcdef"},
        "guardproxy: the store redis://127.0.0.1:9/0 cannot be reached",
    ),
}


@pytest.mark.parametrize(("env", "words"), CANNOT.values(), ids=CANNOT.keys())
def test_cannot_start(tmp_path: Path, env: dict[str, str], words: str) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("store: {url: '${REDIS}'}")
    with Running(tmp_path, "--config", str(file), env=env) as proxy:
        assert proxy.process.wait(30) in (1, 2)

    assert words in proxy.err
    assert "Traceback" not in proxy.err
    assert proxy.greeting == ""


def test_panic_without_the_store(tmp_path: Path, upstream: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Running(tmp_path, "--upstream", upstream) as proxy:
        store = next(pid for pid, command in proxy.children().items() if "valkey" in command)
        os.kill(store, signal.SIGSTOP)
        codes = [cli.main(["panic", state, "--admin", proxy.admin]) for state in ("on", "show")]
        waiting = capsys.readouterr().out
        os.kill(store, signal.SIGCONT)
        until(lambda: "panic on: the store has been told" in proxy.err)
        after = json.loads(fetch(f"{proxy.admin}/panic"))

        assert proxy.stop() == 0
    assert codes == [0, 0]
    assert waiting.count("the store is away: this holds as soon as it answers") == 2
    assert after == {"on": True}


def test_a_collector_that_never_answers_does_not_hold_up_the_end(tmp_path: Path, upstream: str) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as mute:
        env = {"OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{mute.getsockname()[1]}"}
        with Running(tmp_path, "--upstream", upstream, "--workers", "2", env=env) as proxy:
            proxy.ask()
            began = time.monotonic()
            code = proxy.stop()

    assert code == 0
    assert time.monotonic() - began < 8


def test_panic_switch(tmp_path: Path, upstream: str, capsys: pytest.CaptureFixture[str]) -> None:
    with Running(tmp_path, "--upstream", upstream) as proxy:
        codes = [cli.main(["panic", state, "--admin", proxy.admin]) for state in ("show", "on", "show", "off")]
        told = capsys.readouterr().out.splitlines()

        assert codes == [0, 0, 0, 0]
        assert [line.split(":")[0] for line in told] == ["panic is off", "panic is on", "panic is on", "panic is off"]
        file = tmp_path / "its.yaml"
        admin = proxy.admin.rpartition(":")[2]
        file.write_text(f"admin: {{host: 0.0.0.0, port: {admin}}}\nupstream: {{api_key: '${{A_KEY_NOT_SET}}'}}")
        for words in (["--config", str(file)], ["--data-dir", str(proxy.data)]):
            assert cli.main(["panic", "show", *words]) == 0  # it needs no key of the provider's
            assert capsys.readouterr().out.startswith("panic is off")
        for body in ({"on": 1}, [], None):
            status, raw = _status(f"{proxy.admin}/panic", body, "PUT")
            assert (status, json.loads(raw)["error"]["param"]) == (400, "on")
        assert proxy.stop() == 0


def test_several_upstreams(tmp_path: Path, upstream: str) -> None:
    """With real processes: a dead one first, two workers; a reload takes it out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
    file = tmp_path / "c.yaml"
    entries = [{"name": "dead", "url": dead, "api_key": "k1"}, {"name": "alive", "url": upstream, "api_key": "k2"}]
    file.write_text(json.dumps({"upstreams": entries, "failover": {"failures": 2}}))
    with Running(tmp_path, "--config", str(file), "--workers", "2") as proxy:
        assert [_answered_by(proxy) for _ in range(6)] == ["alive"] * 6
        status, body = _status(f"{proxy.admin}/readyz")
        told = json.loads(body)
        assert (status, told["ready"], told["upstream"], told["upstreams"]["alive"]) == (200, True, "ok", "ok")
        assert "does not answer" in told["upstreams"]["dead"]
        _, metrics = _status(f"{proxy.admin}/metrics")
        assert b'guardproxy_upstream_attempts_total{guardproxy_upstream_name="alive"' in metrics
        file.write_text(json.dumps({"upstreams": entries[1:]}))
        proxy.process.send_signal(signal.SIGHUP)
        until(lambda: "was reloaded" in proxy.err)
        assert _answered_by(proxy) == "alive"
        assert proxy.stop(signal.SIGINT) == 0
        assert "k1" not in re.findall(r"\w+", proxy.err)


def _answered_by(proxy: Running) -> str:
    import urllib.request

    body = json.dumps({"model": "0", "messages": [{"role": "user", "content": str(time.monotonic_ns())}]}).encode()
    request = urllib.request.Request(f"{proxy.base}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return str(answer.headers["x-guardproxy-upstream"])
