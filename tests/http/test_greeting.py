"""The first lines of a proxy: they can be pasted as they are. (As a process prints them: test_serve.)"""

from __future__ import annotations

import pytest

from guardproxy.config import build
from guardproxy.http import greeting

LINES = {
    "plain": ({}, "what its runs do: guardproxy sessions list --config /etc/g.yaml"),
    "people are asked": (
        {"tools": {"approval": ["send_*"]}},
        "what waits for a person: guardproxy approvals list --config /etc/g.yaml",
    ),
    "everywhere": (
        {"listen": {"host": "0.0.0.0"}, "auth": "passthrough"},
        "  export OPENAI_BASE_URL=http://127.0.0.1:99/v1",
    ),
    "keys": ({"auth": "keys"}, greeting.NO_KEY),
    "a key of ours": ({"auth": "keys", "upstream": {"api_key": "k"}}, greeting.HOW["keys"][0]),
}


@pytest.mark.parametrize("name", LINES)
def test_a_line(name: str) -> None:
    document, line = LINES[name]
    told = greeting.lines(build(document), 99, "http://127.0.0.1:98", " --config /etc/g.yaml")

    assert line in told
    assert "metrics and health: http://127.0.0.1:98/metrics" in told


@pytest.mark.parametrize(
    ("host", "shown"), [("0.0.0.0", "127.0.0.1"), ("::", "127.0.0.1"), ("::1", "[::1]"), ("a", "a")]
)
def test_hosts(host: str, shown: str) -> None:
    assert greeting.shown(host) == shown
