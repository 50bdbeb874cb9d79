"""Arguments are read in one spelling."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.spelling import LONGEST, plain
from guardproxy.core.tools import COMMAND, Rules, Tool, changes, only_looks, tool_of, waits

SHELL, READER = tool_of("bash", Rules()), tool_of("read_file", Rules(ignore_args={"*": ("nonce",)}))
LONG = "x" * COMMAND


@pytest.mark.parametrize(
    ("given", "tool", "spelled"),
    [
        ('{"command": "ls"}', SHELL, '{"command": "ls"}'),
        ('{"command":"ls"}', SHELL, '{"command":"ls"}'),
        ('{"command":  "ls"}', SHELL, '{"command": "ls"}'),
        ('{\n "command": "ls"\n}', SHELL, '{"command": "ls"}'),
        ('{"command": "\\u006cs \\/tmp"}', SHELL, '{"command": "ls /tmp"}'),
        ('{"path": "caf\\u00e9"}', READER, '{"path": "café"}'),
        ('{"command": "ls", "description": "rm it"}', SHELL, '{"command": "ls"}'),
        ('{"description": "all there is"}', SHELL, '{"description": "all there is"}'),
        ('{"path": "a", "nonce": 7}', READER, '{"path": "a"}'),
        (json.dumps({"text": LONG, "command": "create"}), SHELL, json.dumps({"command": "create", "text": LONG})),
        ('{"command": "\\u006cs', SHELL, '{"command": "\\u006cs'),
        ('["\\u006cs"]', SHELL, '["\\u006cs"]'),
        ("[" * 4000 + '"\\u006cs', SHELL, "[" * 4000 + '"\\u006cs'),
        ("", SHELL, ""),
    ],
)
def test_the_plain_spelling(given: str, tool: Tool, spelled: str) -> None:
    assert plain(given, tool) == spelled


def test_documents_are_left_alone() -> None:
    long = json.dumps({"description": "é" * LONGEST})
    assert plain(long, SHELL) is long


def test_what_a_command_does_is_seen_in_any_spelling() -> None:
    assert not changes(plain('{"command": "pytest", "description": "Run the patch tests"}', SHELL))
    assert changes(plain('{"command": "\\u0072m a"}', SHELL))
    assert only_looks(plain('{"command":  "ls",\n "timeout":  5}', SHELL), SHELL)
    assert waits(
        plain('{"explanation": "It is still building, so wait a little more.", "cmd": "sleep 5"}', SHELL), SHELL
    )
