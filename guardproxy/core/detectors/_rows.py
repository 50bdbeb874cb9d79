"""Rounds in a row that belong together, with a seldom stranger between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

from guardproxy.core.detectors._count import FAILED, LOOKS, MUTATES, Round, has
from guardproxy.core.model import Step
from guardproxy.core.tools import DEFAULT_RULES, tool_of


def row(found: Iterator[Round], belongs: Callable[[Round], bool]) -> tuple[list[Round], int]:
    """The newest round and those before it that belong to it, and how many strangers stand between them.

    A stranger stands alone, changes nothing, and has nothing to do with the row: `date` between two failing guesses.
    """
    run: list[Round] = []
    strangers, passed = 0, False
    for one in found:
        if belongs(one):
            strangers, passed = strangers + passed, False
            run.append(one)
        elif passed or not run or not all(_strange(step, run[0].steps[0].tool) for step in one.steps):
            break
        else:
            passed = True
    return run, strangers


def _strange(step: Step, tool: str) -> bool:
    """Whether a step is no news for a row of the tool: another one's that changes nothing, or a shell's plain look."""
    if has(step.flags, MUTATES):
        return False
    return step.tool != tool or (bool(has(step.flags, LOOKS)) and not has(step.flags, FAILED) and _runs(tool))


@lru_cache(maxsize=256)
def _runs(tool: str) -> bool:
    """Whether it is a shell by its name: one tool for many ends."""
    return tool_of(tool.strip().casefold(), DEFAULT_RULES).shell
