"""empty: a result with nothing in it is told what that means, where silence is not how the tool says "done".

Models read an empty result as a call that went wrong and ask again (tailored-ai#528). What is empty is judged as
detectors judge it (`Flag.VOID`); never spoken of are calls that change something, and silent successes of calls that
are not known to only look, such as most commands of a shell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from guardproxy.core.advice import LANGUAGES, quoted
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.hygiene._case import Case, Cleaned, Done, Mode, Result, chosen
from guardproxy.core.model import Call, Flag

LONGEST = 1_000
"""Characters of a template: it is a sentence or two, not a prompt."""

READ = 4_096
"""Characters of the longest arguments that placeholders are filled from."""

_PLACEHOLDER = re.compile(r"\{([A-Za-z_][\w.-]*)\}")
_NEVER = Flag.FAILED | Flag.PENDING | Flag.MUTATES | Flag.THINK | Flag.MEDIA | Flag.CLEARED | Flag.INVALID


@dataclass(frozen=True, slots=True)
class Settings:
    """`templates`: what an empty result means, by glob of the tool; the first that fits, "" = nothing is said.

    Placeholders: `{tool}`, `{arguments}`, and `{name}` for the argument of that name ("-" where it was not given). A
    template for a tool by name also counts where silence could be its "done"; `*` does not. Raises ValueError for more
    than one paragraph, which could not be taken out of a copy again, and for what is no sentence.
    """

    mode: Mode = "off"
    templates: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for pattern, template in self.templates.items():
            name = f"templates.{pattern}"
            if not pattern.strip():
                raise ValueError(f"{name}: an empty pattern matches no tool")
            if "\n" in template.strip() or GUARD_MARK in template:
                raise ValueError(f"{name}: must be one line, without {GUARD_MARK}")
            if len(template) > LONGEST:
                raise ValueError(f"{name}: must not be longer than {LONGEST} characters")


def tidy(case: Case, settings: Settings) -> Cleaned:
    """The meaning of each new result that is empty."""
    edits, done = [], []
    for result in case.results:
        text = _meaning(result, settings, case.language)
        if text:
            edits.append(case.note(result.index, text))
            done.append(Done("empty", settings.mode, result.step.tool, result.index, "empty"))
    return Cleaned(tuple(edits), tuple(done))


def _meaning(result: Result, settings: Settings, language: str) -> str:
    flags = result.step.flags
    if not flags & Flag.VOID or flags & _NEVER:
        return ""
    templates = {pattern: (pattern, template.strip()) for pattern, template in settings.templates.items()}
    pattern, template = chosen(templates, result.step.tool, ("*", LANGUAGES[language].EMPTY))
    if flags & Flag.SILENT and not pattern.strip("*?"):
        return ""
    return filled(template, result.call)


def filled(template: str, call: Call) -> str:
    """The template with what the call says in the place of its placeholders; nothing else in it has a meaning."""
    given = _given(call.arguments)
    told = {**given, "tool": call.name.strip() or "-", "arguments": _listed(given, call.arguments)}
    return _PLACEHOLDER.sub(lambda found: quoted(told.get(found[1], "")) or "-", template)


def _given(arguments: str) -> dict[str, str]:
    """The arguments as texts, by name."""
    if len(arguments) > READ:
        return {}
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {
        name: one if isinstance(one, str) else json.dumps(one, ensure_ascii=False)
        for name, one in parsed.items()
        if one is not None
    }


def _listed(given: Mapping[str, str], arguments: str) -> str:
    """All arguments in short; as they came where they are no object."""
    told = ", ".join(f"{name}: {one[:80]}" for name, one in given.items())
    return told or ("" if arguments.strip() in ("", "{}") else arguments)
