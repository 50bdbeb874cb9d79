"""The proxy in a process of its own, as the demonstration starts it."""

from __future__ import annotations

import urllib.request

import pytest

from guardproxy.demo.agent import Agent
from guardproxy.demo.provider import Provider
from guardproxy.demo.proxy import RunningProxy
from guardproxy.demo.tools import Toolbox, schemas
from guardproxy.errors import GuardError


def test_starts_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")  # must not matter
    proxy = RunningProxy("http://127.0.0.1:9/v1")
    with proxy as base_url, urllib.request.urlopen(base_url.removesuffix("/v1") + "/healthz", timeout=10) as answer:
        assert answer.read() == b"ok\n"
        gone = f"To go on: guardproxy sessions resume s --data-dir {proxy._folder.name}/data"
        assert proxy.lasting(f"Open: the task.\n{gone}") == "Open: the task."

    assert proxy._process.returncode == 0


def test_says_why_it_did_not_start() -> None:
    with pytest.raises(GuardError, match=r"the proxy did not start: guardproxy: .*\n.*upstream.url: must be a URL"):
        RunningProxy("nowhere").__enter__()


def test_has_the_turns_of_a_session_on_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("guardproxy.demo.proxy.RECORD_SECONDS", 0.5)
    with Provider() as upstream:
        proxy = RunningProxy(upstream)
        with proxy as base_url:
            run = Agent(base_url, schemas()).run("repeats", "go", Toolbox(), stream=True)
            records = proxy.records(run.session, len(run.records))
            with pytest.raises(GuardError, match=rf"has 5 of 6 turns of {run.session} on record"):
                proxy.records(run.session, 6)
            with pytest.raises(GuardError, match="no session 'nobody'"):
                proxy.records("nobody", 1)

    assert [record["action"] for record in records] == ["pass", "pass", "observe", "nudge", "finalize"]
    assert run.actions == ["nudge", "firm"], "a stream's headers were sent before the end was known"
