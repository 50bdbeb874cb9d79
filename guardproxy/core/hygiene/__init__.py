"""Hygiene of tool results, tidied on their way to the model. A file is a kind: `Settings` and `tidy()` -> Cleaned.

Each kind has a mode of its own: off, observe (say what would be done) or enforce. Only messages of role `tool` are ever
changed; the client's own conversation, which detectors judge, is not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from pkgutil import iter_modules
from types import ModuleType

from guardproxy.core.edit import Edit
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.hygiene._case import Case, Cleaned, Done, Fatal
from guardproxy.core.model import Ask, Message
from guardproxy.core.tool_rules import ToolRules

__all__ = ["KINDS", "NOTHING", "Cleaned", "Done", "Fatal", "clean", "default_settings"]

KINDS: Mapping[str, ModuleType] = {
    name: import_module(f"{__name__}.{name}")
    for name in sorted(module.name for module in iter_modules(__path__))
    if not name.startswith("_")
}
"""Kind to module: its name is the key in the configuration, the label of metrics and the anchor in the docs."""

NOTHING = Cleaned()


def default_settings() -> dict[str, object]:
    """Fresh settings of every kind, all off."""
    return {name: module.Settings() for name, module in KINDS.items()}


def clean(
    ask: Ask,
    settings: Mapping[str, object],
    tools: ToolRules,
    language: str,
    *,
    whole: Callable[[], Ask],
    since_ms: int,
    printer: Fingerprinter,
    long: Callable[[int], Sequence[tuple[int, Message]]] | None = None,
) -> Cleaned:
    """Tidy the results of a request. `settings`: by kind; one that is absent is off.

    `tools`: of which the deadlines count here. `whole`: the ask with all messages, asked for only where something may
    have to be changed in the history; `long` spares that for truncation: the results before the tail that may have more
    than so many bytes. `since_ms`: since the thread's last answer, 0 = there was none. A kind that raises costs only
    itself. The same request gives the same edits: whoever keeps them leaves out what stands already.
    """
    active = [(name, chosen) for name, chosen in settings.items() if chosen.mode != "off"]  # type: ignore[attr-defined]
    if not active:
        return NOTHING
    case = Case(ask, whole, printer, tools.deadlines, since_ms, language, long)
    return _together([_tidied(name, chosen, case) for name, chosen in active])


def _tidied(name: str, chosen: object, case: Case) -> Cleaned:
    mode = chosen.mode  # type: ignore[attr-defined]  # every kind's Settings has one
    try:
        made: Cleaned = KINDS[name].tidy(case, chosen)
    except Exception as error:  # noqa: BLE001 - hygiene must never be the cause of a failed request
        return Cleaned(errors=(f"{name}: {type(error).__name__}: {error}",))
    if mode == "enforce":
        return made
    return Cleaned(done=tuple(replace(one, mode=mode) for one in made.done))


def _together(parts: list[Cleaned]) -> Cleaned:
    edits: list[Edit] = []
    done: list[Done] = []
    errors: list[str] = []
    fatal = None
    for part in parts:
        edits += part.edits
        done += part.done
        errors += part.errors
        fatal = fatal or part.fatal
    return Cleaned(tuple(edits), tuple(done), fatal, tuple(errors))
