"""The detectors: a file is a detector. Each has frozen `Settings` and a pure `detect(trail, settings)`.

`NEEDS` are the signs (`_signs`) without which it has nothing to say: it is not asked then. One that holds back before
anything is counted says so in `spare(trail, settings)`, asked only on turns on which nobody has anything to say; the
trail has at least one step then. A count that is held back is in the finding itself.

They are found by looking into this package; a file's name is its rule's name everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from guardproxy.core.exemption import Spared
from guardproxy.core.model import Finding, Trail

RULES: Mapping[str, ModuleType] = {
    name: import_module(f"{__name__}.{name}")
    for name in sorted(module.name for module in iter_modules(__path__))
    if not name.startswith("_")
}
"""Rule name to module, sorted."""

SPECIFICITY: Mapping[str, int] = {
    rule: place
    for place, rule in enumerate(
        (
            "same_words",
            "monologue",
            "nothing_new",
            "no_progress",
            "same_result",
            "reread_range",
            "error_signature",
            "interleaved_repeat",
            "cycle",
            "unchanged_poll",
            "unmoved_plan",
            "repeated_call",
            "duplicate_calls",
            "repeated_error",
            "invalid_call",
            "compaction",
            "context_overflow",
        )
    )
}
"""Which finding speaks when several stand on the same rung: the one that says most precisely what goes on."""


SPARES: Mapping[str, Callable[[Trail, object], Spared | None]] = {
    rule: module.spare for rule, module in RULES.items() if hasattr(module, "spare")
}
"""The rules that can say why they hold back."""

NEEDS: Mapping[str, int] = {rule: module.NEEDS for rule, module in RULES.items()}
"""Signs (`_signs`) of which a rule needs one to say anything."""

EVIDENCE = frozenset({"duplicate_calls", "same_words"})
"""Rules that only tell what they see: they have no thresholds, and no preset moves them."""


def default_settings() -> dict[str, object]:
    """Fresh default settings of every rule."""
    return {rule: module.Settings() for rule, module in RULES.items()}


def detect_all(trail: Trail, settings: Mapping[str, object]) -> tuple[Finding, ...]:
    """Findings of the rules named in `settings`, in the order of RULES. What a detector raises goes through."""
    found = (RULES[rule].detect(trail, settings[rule]) for rule in RULES if rule in settings)
    return tuple(finding for finding in found if finding is not None)
