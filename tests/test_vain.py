"""Warnings of `guardproxy check` about rules that can never match, and none about rules that can."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from guardproxy import cli
from guardproxy.config import build

ONE = [{"name": "a", "url": "http://a", "models": ["gpt-*", "o3"]}]
VAIN: dict[str, tuple[dict[str, Any], list[str]]] = {
    "a policy behind another": (
        {"policies": {"first": {"models": ["gpt-*"]}, "second": {"models": ["gpt-5*"], "agents": ["ci"]}}},
        ["policies.second: its models and agents can never match: 'first'"],
    ),
    "a glob behind another": (
        {"policies": {"one": {"agents": ["ci-*", "ci-2"]}}},
        ["policies.one.agents: 'ci-2' can never match: 'ci-*'"],
    ),
    "a model that nobody serves": (
        {"upstreams": ONE, "policies": {"one": {"models": ["claude-*", "gpt-5"]}}},
        ["policies.one.models: 'claude-*' can never match: no upstream"],
    ),
    "a budget of a model that nobody serves": (
        {
            "upstreams": ONE,
            "budgets": [{"scope": "model", "match": "x-*", "dimension": "requests", "window": "day", "limit": 1}],
        },
        ["budgets: 'x-*' can never match"],
    ),
    "a rule behind another": (
        {"tools": {"deny": ["delete_*", {"tool": "Delete_file", "paths": ["/etc"]}]}},
        ["tools.deny: 'Delete_file' can never match: 'delete_*'"],
    ),
    "what is forbidden cannot be asked for": (
        {"tools": {"deny": ["rm*"], "approval": ["rm"], "human": ["rm_all"], "deadlines": {"rm": 5}, "final": ["rmx"]}},
        [
            "tools.approval: 'rm' is forbidden by tools.deny",
            "tools.human: 'rm_all' is",
            "tools.final: 'rmx' is",
            "tools.deadlines: 'rm' is",
        ],
    ),
    "a policy's own": (
        {"tools": {"approval": ["rm"]}, "policies": {"hard": {"tools": {"deny": ["rm"]}}}},
        ["policies.hard.tools.approval: 'rm' is forbidden by tools.deny"],
    ),
    "a looser one for whoever says so": (
        {"policies": {"a": {"agents": ["x"], "mode": "observe"}, "b": {"agents": ["y"], "preset": "strict"}}},
        ["policies.a.agents: it is looser than the default one (mode"],
    ),
    "what is needed is forbidden": (
        {"tools": {"deny": ["run_*"]}, "policy": {"completion": {"required_tools": {"tools": ["run_tests"]}}}},
        ["completion.required_tools: 'run_tests' is forbidden by tools.deny: no answer can pass"],
    ),
}


@pytest.mark.parametrize("case", VAIN)
def test_what_can_never_match(case: str) -> None:
    document, said = VAIN[case]
    found = build(document).warnings()
    assert len(found) == len(said), found
    for line, start in zip(found, said, strict=True):
        assert line.startswith(start)


FINE: dict[str, dict[str, Any]] = {
    "policies of different models": {"policies": {"a": {"models": ["gpt-*"]}, "b": {"models": ["o3"]}}},
    "the narrow one first": {
        "policies": {"a": {"models": ["gpt-5*"]}, "b": {"models": ["gpt-*"]}, "c": {"agents": ["x"]}}
    },
    "agents of the one, models of the other": {"policies": {"a": {"agents": ["x"]}, "b": {"models": ["m"]}}},
    "keys' own": {"policies": {"a": {}, "b": {}}},
    "a default that serves all": {"policies": {"a": {"models": ["claude-*"]}}},
    "globs that may meet": {"upstreams": ONE, "policies": {"a": {"models": ["*-mini"]}}},
    "paths of a tool": {"tools": {"deny": [{"tool": "rm", "paths": ["/etc"]}], "approval": ["rm"]}},
    "another path": {"tools": {"deny": [{"tool": "rm", "paths": ["/a"]}, {"tool": "rm", "paths": ["/b"]}]}},
    "forbidden in observe mode alone": {"policy": {"refuse": "observe"}, "tools": {"deny": ["rm"], "approval": ["rm"]}},
}


@pytest.mark.parametrize("case", FINE)
def test_what_can(case: str) -> None:
    assert build(FINE[case]).warnings() == []


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("tools: {deny: [rm], approval: [rm]}\npolicies: {ci: {preset: strict, agents: [ci-*]}, mine: {}}\n")
    assert cli.main(["check", str(file)]) == 0
    out = capsys.readouterr().out
    assert "warning: tools.approval: 'rm' is forbidden by tools.deny: it can never match" in out
    assert "policy ci@" in out
    assert ": enforce, for agents ci-*" in out
    assert ": enforce, for keys that name it" in out
