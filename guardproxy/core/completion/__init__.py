"""Is "done" done? A file is a check: frozen `Settings` with a `mode`, and `check(candidate, settings, language)`.

A check answers what is wrong, in concrete words for the model, or None. Where it cannot tell, it passes: a good answer
that is called failed costs more than a bad one that is not. A file's name is its rule's name everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from guardproxy.core.completion._candidate import Candidate, mode_of, used
from guardproxy.core.completion._words import feedback_of
from guardproxy.core.model import value

__all__ = ["CHECKS", "Candidate", "Failure", "default_settings", "feedback", "in_use", "verify"]

CHECKS: Mapping[str, ModuleType] = {
    name: import_module(f"{__name__}.{name}")
    for name in sorted(module.name for module in iter_modules(__path__))
    if not name.startswith("_")
}
"""Rule name to module, sorted."""


@value
class Failure:
    """What does not hold: `text` says it to the model, in a sentence or two. `mode`: observe or enforce."""

    rule: str
    text: str
    mode: str = "enforce"


def default_settings() -> dict[str, object]:
    """Fresh default settings of every check; with them none has anything to say."""
    return {rule: module.Settings() for rule, module in CHECKS.items()}


def in_use(checks: Mapping[str, object]) -> dict[str, object]:
    """The checks that may say something: not off, and told what to look for. None: no conversation need be read."""
    return {rule: settings for rule, settings in checks.items() if rule in CHECKS and used(settings)}


def verify(
    candidate: Candidate,
    checks: Mapping[str, object],
    language: str,
    *,
    raised: Callable[[str], None] = lambda _rule: None,
) -> tuple[Failure, ...]:
    """What does not hold of a final answer, in the order of CHECKS.

    A check that raises has said nothing; `raised` is called with its name where the error was caught.
    """
    found = []
    for rule, settings in sorted(in_use(checks).items()):
        try:
            text = CHECKS[rule].check(candidate, settings, language)
        except Exception:  # noqa: BLE001  # a fault of ours must not cost the user's answer
            raised(rule)
            continue
        if text:
            found.append(Failure(rule, text, mode_of(settings)))
    return tuple(found)


def feedback(failures: Sequence[Failure], language: str) -> str:
    """What the model is told of them: one paragraph with our mark, what does not hold, and two ways on."""
    return feedback_of([failure.text for failure in failures], language)
