"""Runs made at random: healthy ones are left alone, looping ones are found.

`make generated` draws its seeds anew each time; `make test` plays one fixed draw, so that a change is judged by what it
does and not by chance. Seeds are told where a case fails; `GENERATED_SEED=12,34` plays these instead, `-k KIND` one,
`GENERATED_SEEDS=5` draws fewer. 50 seeds of each kind take about a minute of CPU.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Iterator
from typing import Any

import pytest

from guardproxy import replay
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy
from tests.generated.healthy import HEALTHY, healthy
from tests.generated.loops import LOOPS, loop

PRINTER = Fingerprinter(b"generated")
RECALL = 0.98
"""Of each kind of loop; so many are found at least."""
ALARMS = ("nudge", "firm", "refuse", "finalize", "cut")


def seeds(kind: str) -> list[int]:
    given = os.environ.get("GENERATED_SEED")
    if given:
        return [int(one) for one in given.split(",")]
    chance = random.SystemRandom() if os.environ.get("GENERATED") == "anew" else random.Random(kind)
    drawn = [chance.randrange(10**9) for _ in range(int(os.environ.get("GENERATED_SEEDS", "50")))]
    print(f"{kind}: seeds {drawn}")
    return drawn


def alarms(runs: list[dict[str, Any]]) -> Iterator[list[Any]]:
    """For each run what was decided in it beyond `observe`."""
    for report in replay.play(runs, Policy(), PRINTER):
        yield [told for told in report.decisions if told.action in ALARMS]


@pytest.mark.parametrize("kind", HEALTHY)
def test_healthy_runs_are_left_alone(kind: str) -> None:
    drawn = seeds(kind)
    wrong = [
        f"GENERATED_SEED={seed}: step {said[0].step}, {[one.action for one in said]}, {said[0].rule}: {said[0].reason}"
        for seed, said in zip(drawn, alarms([healthy(kind, seed) for seed in drawn]), strict=True)
        if said
    ]
    assert not wrong, "\n".join([f"{kind}: {len(wrong)} of {len(drawn)} healthy runs were disturbed", *wrong])


@pytest.mark.parametrize("kind", LOOPS)
def test_loops_are_found(kind: str) -> None:
    drawn = seeds(kind)
    made = [loop(kind, seed) for seed in drawn]
    missed = []
    for seed, (run, start), said in zip(drawn, made, alarms([run for run, _ in made]), strict=True):
        if not any(one.message > start for one in said):
            before = [f"{one.action} {one.rule}" for one in said]
            missed.append(
                f"GENERATED_SEED={seed}: from message {start} of {len(run['messages'])}; said before: {before}"
            )
    recall = 1 - len(missed) / len(drawn)
    told = (
        f"{kind}: {len(missed)} of {len(drawn)} loops were missed, though {LOOPS[kind].times} times, {LOOPS[kind].why}"
    )
    assert recall >= RECALL, "\n".join([told, *missed])


@pytest.mark.parametrize("kind", [*HEALTHY, *LOOPS])
def test_runs_are_well_formed(kind: str) -> None:
    """Each call is answered once, in its round, and the same seed makes the same run."""
    for seed in range(3):
        run = healthy(kind, seed) if kind in HEALTHY else loop(kind, seed)[0]
        again = healthy(kind, seed) if kind in HEALTHY else loop(kind, seed)[0]
        assert json.dumps(run) == json.dumps(again)
        open_calls: list[str] = []
        for message in run["messages"]:
            if message["role"] == "tool":
                assert message["tool_call_id"] == open_calls.pop(0)
                continue
            assert not open_calls
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
        assert not open_calls


@pytest.mark.parametrize(
    ("kind", "least"), [("paging", 300), ("batch_edits", 61), ("translating", 60), ("letters", 40)]
)
def test_long_runs_are_long(kind: str, least: int) -> None:
    run = healthy(kind, 1)
    assert sum(len(message.get("tool_calls", ())) for message in run["messages"]) >= least


@pytest.mark.parametrize("kind", LOOPS)
def test_loops_have_a_beginning_and_go_on(kind: str) -> None:
    """The healthy part differs in length; what comes after it is as long as its table says."""
    made = [loop(kind, seed) for seed in range(12)]
    assert len({start for _, start in made}) > 4
    for run, start in made:
        rounds = [one for one in run["messages"][start:] if one["role"] == "assistant"]
        assert len(rounds) >= LOOPS[kind].times
