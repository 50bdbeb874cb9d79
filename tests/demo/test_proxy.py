"""The proxy in a process of its own, as the demonstration starts it."""

from __future__ import annotations

import urllib.request

import pytest

from guardproxy.demo.proxy import RunningProxy
from guardproxy.errors import GuardError


def test_starts_and_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")  # must not matter
    proxy = RunningProxy("http://127.0.0.1:9/v1")
    with proxy as base_url, urllib.request.urlopen(base_url.removesuffix("/v1") + "/healthz", timeout=10) as answer:
        assert answer.read() == b"ok\n"

    assert proxy._process.returncode == 0


def test_says_why_it_did_not_start() -> None:
    with pytest.raises(GuardError, match=r"the proxy did not start: guardproxy: .*\n.*upstream.url: must be a URL"):
        RunningProxy("nowhere").__enter__()
