"""What people are told to type can be pasted as it is, whatever a client called its session."""

from __future__ import annotations

import shlex

import pytest

from guardproxy.core import commands
from guardproxy.core.budget import DIMENSIONS

WHERE = " --config /etc/g.yaml"

TOLD = {
    "a pause": (commands.go_on("run-1", "operator"), "guardproxy sessions resume run-1"),
    "a loop": (commands.go_on("run-1", "loop", "", WHERE), "guardproxy sessions resume run-1 --config /etc/g.yaml"),
    "the end of a loop": (commands.reopen("run-1", "cycle"), "guardproxy sessions resume run-1"),
    "an end by a person": (commands.reopen("run-1", "operator", WHERE),
        "guardproxy sessions reset run-1 --config /etc/g.yaml"),
    "an end by a limit": (commands.reopen("run-1", "budget.tool_calls"),
        "guardproxy sessions extend run-1 --tool-calls N"),
    "a budget": (
        commands.go_on("run-1", "budget", "limit cost_usd (session) of $1: $1 used", WHERE),
        "guardproxy sessions extend run-1 --cost DOLLARS --config /etc/g.yaml",
    ),
    "a budget of which nobody knows more": (
        commands.go_on("run-1", "budget"), "guardproxy sessions extend run-1 --turns N"),
    "a call": (commands.decide("a1", question=False), "guardproxy approvals approve a1"),
    "a question": (commands.decide("a1", question=True), "guardproxy approvals answer a1 TEXT"),
    "a name with blanks": (commands.go_on("a run; rm x", ""), "guardproxy sessions resume 'a run; rm x'"),
    "a name that our texts would change": (commands.go_on("a`b", ""), "guardproxy sessions resume SESSION"),
    "a name with a line end": (commands.go_on("a\nb", ""), "guardproxy sessions resume SESSION"),
}  # fmt: skip


@pytest.mark.parametrize(("made", "told"), TOLD.values(), ids=TOLD.keys())
def test_told(made: str, told: str) -> None:
    assert made == told
    shlex.split(made)


@pytest.mark.parametrize("row", [row for row in DIMENSIONS.values() if not row.tenants], ids=lambda row: row.setting)
def test_every_limit_has_a_way_on(row) -> None:  # type: ignore[no-untyped-def]
    """Those that can be raised are, by their own option; the others begin anew."""
    told = commands.extend("s", f"budget.{row.setting}")
    assert told == (
        "guardproxy sessions reset s" if row.judged else f"guardproxy sessions extend s {commands.RAISED[row.setting]}"
    )
