"""Runs of agents that do their work: a person who watches has no reason to step in. From a seed, the same each time."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.generated import building, office
from tests.generated.making import Json, Run

HEALTHY: dict[str, Callable[[Run], None]] = {
    "polling": office.polling,
    "paging": office.paging,
    "batch_edits": building.batch_edits,
    "test_driven": building.test_driven,
    "browsing": office.browsing,
    "on_screen": office.on_screen,
    "todo_list": building.todo_list,
    "fan_out": office.fan_out,
    "long_chat": office.long_chat,
    "log_tailing": building.log_tailing,
    "backoff": office.backoff,
    "data_pipeline": office.data_pipeline,
    "research": office.research,
    "refactoring": building.refactoring,
    "git_work": building.git_work,
    "database": office.database,
    "letters": office.letters,
    "monitoring": office.monitoring,
    "deploying": building.deploying,
    "translating": office.translating,
    "exploring": building.exploring,
    "customers": office.customers,
}


def healthy(kind: str, seed: int) -> Json:
    """The recorded run of a kind and a seed."""
    run = Run(random.Random(f"{kind}:{seed}"))
    HEALTHY[kind](run)
    return run.recorded(f"{kind}:{seed}")


def prefix(run: Run, rounds: int) -> None:
    """Let `run` begin as a healthy one of some kind, for at most `rounds` rounds."""
    HEALTHY[run.rng.choice(list(HEALTHY))](run)
    turns = [at for at, one in enumerate(run.messages) if one["role"] == "assistant"]
    del run.messages[turns[min(run.rng.randint(0, rounds), len(turns) - 1)] :]
