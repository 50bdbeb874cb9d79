"""A run that repeats one call, and the decisions on it."""

from __future__ import annotations

import re
from typing import Any

from guardproxy.core.fingerprint import GUARD_MARK, strip_own
from guardproxy.core.interventions import Context
from guardproxy.core.model import Decision, Finding, Rung, Step, Triple
from tests.core.talk import Json, called, result, step, system, user, view_of

RUN: tuple[Json, ...] = (
    system("Be brief."),
    user("Find it."),
    *[part for n in range(3) for part in (called(("f", '{"q": 1}', f"i{n}")), result("nothing here", f"i{n}"))],
)
STEPS: tuple[Step, ...] = tuple(step("f", '{"q": 1}', "nothing here", at) for at in range(3))
NEAR = STEPS[0].near
FINDING = Finding("repeated_call", 3, Triple(3, 4, 6), NEAR, (NEAR,), "f called 3 times in a row", (0, 1, 2))
RUNGS = {"nudge": Rung.NUDGE, "firm": Rung.FIRM, "finalize": Rung.FINALIZE, "cut": Rung.CUT}
RUNGS |= dict.fromkeys(("deny", "pause"), Rung.CUT)
HIDDEN = re.compile(r"<system|NEVER mention|do not tell|ignore previous|call \"?done", re.IGNORECASE)


def decision(action: str, **changes: Any) -> Decision:
    made: dict[str, Any] = {"rule": FINDING.rule, "count": 3, "reason": FINDING.reason, "finding": FINDING}
    return Decision(action, RUNGS[action], **{**made, **changes})


def context(language: str = "en") -> Context:
    return Context(view_of(STEPS), language)


def check_text(text: str) -> None:
    """What holds for each text that is appended: our mark once, nothing hidden, and it can be taken out again."""
    assert text.count(GUARD_MARK) == 1
    assert not HIDDEN.search(text)
    assert text.startswith("\n\n")
    assert strip_own(f"result{text}") == "result"
