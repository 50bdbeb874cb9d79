"""Backups as docs/data.md says: stop, copy the data directory, start elsewhere; a copy beside a running one."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from guardproxy import cli
from guardproxy.store import embedded
from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.running import Running, fetch, provider

pytestmark = pytest.mark.verify

CONFIG = """
auth: {mode: keys}
policy: {profile: none, checkpoints: {enabled: true}}
"""


def command(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert cli.main(list(words)) == 0
    return capsys.readouterr().out


def ask(running: Running, secret: str, session: str) -> dict[str, Any]:
    body = json.dumps({"model": "0", "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {
        "Authorization": f"Bearer {secret}",
        "Content-Type": "application/json",
        "x-guardproxy-session-id": session,
    }
    request = urllib.request.Request(f"{running.base}/chat/completions", data=body, headers=headers)
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


@pytest.mark.parametrize("stopped", [True, False], ids=["stopped", "beside a running one"])
def test_a_copy_starts_elsewhere(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    stopped: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("GUARDPROXY_SECRET", raising=False)
    monkeypatch.delenv("GUARDPROXY_ADMIN", raising=False)
    file = tmp_path / "guardproxy.yaml"
    with provider() as upstream:
        file.write_text(f"{CONFIG}\nupstream: {{url: {upstream}}}\n")
        first = Running(tmp_path / "first", "--config", str(file))
        with first:
            at = ("--data-dir", str(first.data))
            command(capsys, "orgs", "create", "acme", *at)
            secret = command(capsys, "keys", "create", "--org", "acme", "--name", "bot", "--quiet", *at).strip()
            command(capsys, "budgets", "set", "requests", "2", "--per", "total", "--org", "acme", *at)
            ask(first, secret, "run-1")
            asyncio.run(wait_for_a_person(first.data))
            if stopped:
                assert first.stop() == 0
            else:  # the append-only file is written once a second
                time.sleep(2.5)
            copy = tmp_path / "second" / "data"
            copy.parent.mkdir()
            subprocess.run(["cp", "-a", str(first.data), str(copy)], check=True)
            with Running(tmp_path / "second", "--config", str(file)) as second:
                look(second, secret, capsys)
            if not stopped:  # the one that was copied has not noticed
                assert "bot" in command(capsys, "keys", "list", "--org", "acme", *at)
                assert [one["turns"] for one in _sessions(first)] == [1]
                ask(first, secret, "run-1")


def look(second: Running, secret: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Keys, budgets, sessions, checkpoints and approvals are there, and what was spent counts."""
    at = ("--data-dir", str(second.data))
    assert "bot" in command(capsys, "keys", "list", "--org", "acme", *at)
    (session,) = [one for one in _sessions(second) if one["session"].endswith("run-1")]
    assert session["turns"] == 1
    checkpoint = command(capsys, "sessions", "checkpoint", session["session"], "--org", "acme", *at)
    assert json.loads(checkpoint)["messages"][0]["content"] == "hi"
    (budget,) = json.loads(command(capsys, "budgets", "list", "--org", "acme", "--json", *at))
    assert budget["used"] == 1
    assert "a1" in command(capsys, "approvals", "list", "--org", "acme", *at)
    assert command(capsys, "approvals", "deny", "a1", "--org", "acme", *at).startswith("approval a1: ")
    ask(second, secret, "run-1")
    with pytest.raises(urllib.error.HTTPError) as refused:  # what was spent before counts
        ask(second, secret, "run-2")
    assert refused.value.code == 400
    assert b"budget_exceeded" in refused.value.read()
    assert (second.data / "secret").stat().st_mode & 0o777 == 0o600


async def wait_for_a_person(data: Path) -> None:
    """A call of the run that waits, as the proxy would keep it: written into its store."""
    store = await Store.connect(socket_path=embedded.start(data).socket_path)
    (known,) = await store.list_sessions("acme")
    asked = Approval("a1", "acme", known.session, known.main, "pay", known.at_ms, known.at_ms + 3_600_000)
    await store.approvals.open("acme", asked)
    await store.close()


def _sessions(running: Running) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(fetch(f"{running.admin}/admin/v1/sessions?org=acme"))["items"]
    return found
