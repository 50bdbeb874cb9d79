"""The commands that people are told to type: how a run goes on, how an approval is decided. Ready to be pasted.

A session's name is what a client wrote: it must not become a part of the command line.
"""

from __future__ import annotations

import shlex

from guardproxy.core.tenant import DEFAULT_ORG

RAISED = {
    "turns": "--turns N",
    "tool_calls": "--tool-calls N",
    "wall_seconds": "--seconds SECONDS",
    "input_tokens": "--tokens N",
    "output_tokens": "--tokens N",
    "total_tokens": "--tokens N",
    "cost_usd": "--cost DOLLARS",
}
"""Limits that `sessions extend` raises, by the option that does."""

JUDGED = ("consecutive_failures", "same_call", "calls_per_tool")
"""Limits that are read off the steps: they begin anew with `sessions reset`."""

OPERATOR = "operator"
"""The rule of what people end."""

UNSAFE = frozenset("<>`")
"""Characters that are written otherwise in our texts: what is pasted would be another name."""


def command(*words: str, where: str = "") -> str:
    """A command of ours. `where`: the options with which it reaches the store of this proxy, with a blank in front."""
    return " ".join(["guardproxy", *map(_word, words)]) + where


def of(org: str) -> str:
    """The option that says whose it is; with a blank in front, "" where that need not be said."""
    return f" --org {shlex.quote(org)}" if org != DEFAULT_ORG else ""


def whose(org: str) -> str:
    """Said where `org` has not what was looked for: another may have it, and how that one is asked."""
    return f"that is org {org}, another is asked with --org NAME (?org=NAME in the admin API)"


def go_on(session: str, paused_by: str, about: str = "", where: str = "") -> str:
    """What lets a run go on. `about`: the rule or the reason, which names the limit where one was reached."""
    if paused_by != "budget":
        return command("sessions", "resume", session, where=where)
    return extend(session, about, where)


def reopen(session: str, rule: str, where: str = "") -> str:
    """What lets a run go on that was ended. `rule`: what ended it; where it was a person, it begins anew."""
    if rule == OPERATOR:
        return command("sessions", "reset", session, where=where)
    return go_on(session, "budget" if rule.startswith("budget.") else "loop", rule, where)


def extend(session: str, about: str, where: str = "") -> str:
    """What gives a run more of a limit. `about` names it, as `policy.limits` does."""
    if any(limit in about for limit in JUDGED):
        return command("sessions", "reset", session, where=where)
    option = next((option for limit, option in RAISED.items() if limit in about), RAISED["turns"])
    return command("sessions", "extend", session, *option.split(), where=where)


def decide(approval: str, *, question: bool, where: str = "") -> str:
    """What decides an approval, or answers a question."""
    if question:
        return command("approvals", "answer", approval, "TEXT", where=where)
    return command("approvals", "approve", approval, where=where)


def _word(word: str) -> str:
    if UNSAFE & set(word) or not word.isprintable():
        return "SESSION"
    return shlex.quote(word)
