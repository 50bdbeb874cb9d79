"""What is said of a tenant's budgets and rates: to a client that comes too soon, and to a run that nears a limit."""

from __future__ import annotations

from guardproxy.core.advice import LANGUAGES, quoted
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Decision

WHOLE = 400
"""Characters of a reason of ours: more than any has."""


def rate_reached(language: str, decision: Decision) -> str:
    """The error of a request that comes too soon after others."""
    words = LANGUAGES[language]
    why = words.WHY.format(reason=quoted(decision.reason, WHOLE), rule=decision.rule)
    return f"{GUARD_MARK} {words.RATE}\n{why}"


def nearly_spent(language: str, percent: int, budget: str) -> str:
    """The one line that a run is told when a soft limit is passed. `budget`: whose, of what, in which window."""
    words = LANGUAGES[language]
    told = words.SOFT.format(percent=percent, budget=quoted(budget))
    return str(words.JOIN).join((f"{GUARD_MARK} {words.SOURCE}", told))
