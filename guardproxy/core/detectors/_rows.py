"""Rounds in a row that belong together, with a seldom stranger between them."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from guardproxy.core.detectors._count import FAILED, LOOKS, MUTATES, SHELL, Round, has
from guardproxy.core.model import Step


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
        elif passed or not run or not all(_strange(step, run[0].steps[0]) for step in one.steps):
            break
        else:
            passed = True
    return run, strangers


def _strange(step: Step, newest: Step) -> bool:
    """Whether a step is no news for a row: another tool's that changes nothing, or a plain look of the row's shell."""
    if has(step.flags, MUTATES):
        return False
    look = has(step.flags, LOOKS) and not has(step.flags, FAILED)
    return step.tool != newest.tool or bool(look and has(newest.flags, SHELL))
