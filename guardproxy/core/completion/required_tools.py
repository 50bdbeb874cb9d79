"""Tools that must have been called with success before a run is done.

Passes where it cannot tell: the conversation was shortened, the request does not offer the tool, a result was cleared;
and where the answer only asks the user something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Literal

from guardproxy.core.completion._candidate import Candidate
from guardproxy.core.completion._words import say, told
from guardproxy.core.model import Call


@dataclass(frozen=True, slots=True)
class Settings:
    """Which tools. A pattern is a glob, upper and lower case alike; each has to fit one call that succeeded."""

    tools: tuple[str, ...] = ()
    """Name patterns: `run_tests`, `verify_*`."""

    arguments: Mapping[str, str] = field(default_factory=dict)
    """Pattern of `tools` to a glob that the call's argument text has to fit: `bash: "*pytest*"`."""

    mode: Literal["off", "observe", "enforce"] = "enforce"

    def __post_init__(self) -> None:
        """Raise ValueError where a pattern can fit nothing."""
        if not all(pattern.strip() for pattern in self.tools):
            raise ValueError("tools: an empty pattern matches no tool")
        if unknown := sorted(set(self.arguments) - set(self.tools)):
            raise ValueError(f"arguments: {unknown[0]!r} is not in tools")

    @property
    def asks(self) -> bool:
        """Whether there is anything to check."""
        return bool(self.tools)


def check(candidate: Candidate, settings: Settings, language: str) -> str | None:
    """Name the required tools that were not called, or only with errors."""
    return told(language, _missing(candidate, settings, language))


def _missing(candidate: Candidate, settings: Settings, language: str) -> Iterator[str]:
    if not candidate.whole or candidate.asks_back:
        return  # what is not shown may have succeeded; a question is no end
    for pattern in settings.tools:
        within = settings.arguments.get(pattern, "")
        acts = [act for act in candidate.acts if _fits(act.call, pattern, within)]
        handed = any(_fits(call, pattern, within) for call in candidate.calls)
        if handed or any(act.succeeded or act.result is None for act in acts):
            continue
        name = f"{pattern} ({within})" if within else pattern
        if acts:
            yield say(language, "required_failed", tool=name, count=str(len(acts)), result=acts[-1].text or "-")
        elif _offered(candidate, pattern):
            yield say(language, "required_missing", tool=name)


def _fits(call: Call, pattern: str, within: str) -> bool:
    named = fnmatchcase(call.name.strip().casefold(), pattern.strip().casefold())
    return named and (not within or fnmatchcase(call.arguments.casefold(), within.casefold()))


def _offered(candidate: Candidate, pattern: str) -> bool:
    """Whether the model could have called it: it is among the request's tools, or its instructions name it."""
    wanted = pattern.strip().casefold()
    if candidate.ask.tools:
        return any(fnmatchcase(tool.strip().casefold(), wanted) for tool in candidate.ask.tools)
    return any(wanted in message.text.casefold() for message in candidate.ask.head)
