"""The agent loop: it executes what it is told, counts it, and ends as agents do."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from guardproxy.demo.agent import Agent
from guardproxy.demo.provider import SCRIPTS, Provider
from guardproxy.demo.tools import Toolbox, schemas


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(("model", "calls", "ended"), [("healthy", 8, "finished"), ("repeats", 30, "finished")])
def test_runs_a_task(model: str, calls: int, ended: str, stream: bool) -> None:
    with Provider() as url:
        run = Agent(url, schemas()).run(model, "go", Toolbox(), stream=stream)

    assert (run.executed, run.ended, run.text.strip()) == (calls, ended, SCRIPTS[model].answer)
    assert len(run.records) == calls + 1
    assert run.actions == []


def test_gives_up() -> None:
    with Provider() as url:
        run = Agent(url, schemas()).run("repeats", "go", Toolbox(), stream=False, most_turns=3)

    assert (run.ended, run.executed, run.text) == ("gave up", 3, "")
    times = [(one["at_ms"], one["at_ms"] + one["latency_ms"]) for one in run.records]
    assert all(before[1] <= now[0] + 1 for before, now in pairwise(times)), "one after the other, to a millisecond"
    assert abs(times[-1][1] / 1000 - time.time()) < 60


def test_an_http_error_ends_it() -> None:
    with Provider() as url:
        run = Agent(url, schemas()).run("nobody", "go", Toolbox(), stream=False)

    assert (run.ended, run.records[-1]["status"], run.executed) == ("refused", 404, 0)
    assert "no such model" in run.text
