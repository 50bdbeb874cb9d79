"""Alive is not ready: a real `guardproxy serve` whose store, configuration and provider go wrong one after the other,
and which is told to end, at work and while it starts.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from redis import Redis

from tests.running import Running, alive, fetch, provider, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


def ready(proxy: Running) -> tuple[int, dict]:
    """What /readyz answers; alive it is all the while."""
    assert fetch(f"{proxy.admin}/healthz") == b"ok\n"
    try:
        return 200, json.loads(fetch(f"{proxy.admin}/readyz"))
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read())


@pytest.mark.verify  # half a minute on a busy machine
def test_ready_only_while_it_can_serve(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"

    def given(proxy: Running, text: str, word: str) -> tuple[int, dict]:
        before = proxy.err.count(word)
        file.write_text(text)
        proxy.process.send_signal(signal.SIGHUP)
        until(lambda: proxy.err.count(word) > before)
        return ready(proxy)

    with provider() as upstream:
        good = f"upstream: {{url: {upstream}}}"
        file.write_text(good)
        with Running(tmp_path, "--config", str(file)) as proxy:
            assert ready(proxy)[0] == 200
            _store_that_evicts(proxy)
            status, told = given(proxy, "policy: {mode: nonsense}", "was not reloaded")
            assert (status, told["ready"], told["config"][:25]) == (200, True, "the last one was refused ")
            status, told = given(proxy, "upstream: {url: 'http://nowhere.invalid/v1'}", "was reloaded")
            assert (status, told["config"]) == (503, "ok")
            assert told["upstream"].startswith("nowhere.invalid has no address")
            assert given(proxy, good, "was reloaded")[0] == 200
            _told_to_end(proxy)


def _store_that_evicts(proxy: Running) -> None:
    path = json.loads((proxy.data / "server.json").read_text())["socket"]
    with Redis(unix_socket_path=path) as store:
        store.config_set("maxmemory-policy", "allkeys-lru")
        status, told = ready(proxy)
        assert (status, told["upstream"]) == (503, "ok")
        assert "maxmemory-policy is allkeys-lru" in told["store"]
        assert b"done" in proxy.ask()  # whoever was sent here already is served
        store.config_set("maxmemory-policy", "noeviction")
        assert ready(proxy)[0] == 200


def _told_to_end(proxy: Running) -> None:
    """No longer ready, alive to the end; what is under way finishes."""
    body = json.dumps({"model": "1.5", "messages": [{"role": "user", "content": "hi"}], "stream": True}).encode()
    request = urllib.request.Request(f"{proxy.base}/chat/completions", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=20) as stream:
        assert b'"content":"a"' in stream.readline().replace(b" ", b"")
        proxy.process.send_signal(signal.SIGTERM)
        until(lambda: ready(proxy)[0] == 503, 1)
        status, told = ready(proxy)
        assert (status, told["state"], told["upstream"]) == (503, "draining", "ok")
        with pytest.raises(urllib.error.URLError):
            proxy.ask(timeout=5)
        assert stream.read().endswith(b"data: [DONE]\n\n")
    assert proxy.process.wait(20) == 0


def test_told_to_end_while_it_starts(tmp_path: Path) -> None:
    """At once and without a word. The first process of a container is ended by no signal that it has not asked for."""
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("GUARDPROXY_", "OPENAI_", "OTEL_"))}
    command = [sys.executable, "-m", "guardproxy", "serve", "--port", "0", "--admin-port", "0"]
    with subprocess.Popen(
        [*command, "--data-dir", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=plain
    ) as process:
        running = Running.__new__(Running)
        running.process = process
        until(running.children)
        started = [*running.children()]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=20)

    assert (process.returncode, out, err) == (0, b"", b"")
    assert started
    assert not [pid for pid in started if alive(pid)]
