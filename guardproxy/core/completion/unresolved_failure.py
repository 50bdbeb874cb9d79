"""A failure that nothing resolved, and an answer that claims success and says nothing of it.

Two cases: the newest run of the tests failed and the answer says that they pass; the newest result of a needed tool
(`tools`) is an error and the answer says that all is done. Only what happened since the user last spoke counts.

Passes where it cannot tell. Whatever may have got around the failure resolves it: a later success of the tool or of
anything that changes something, a success with one of the same arguments, any success of a tool that only looks. An
answer that mentions any trouble discloses it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from guardproxy.core.completion._candidate import Act, Candidate
from guardproxy.core.completion._claims import claims_success, claims_tests
from guardproxy.core.completion._tests import newest_failure
from guardproxy.core.completion._words import say, told
from guardproxy.core.model import Flag
from guardproxy.core.tools import only_looks

LONGEST_ERROR = 500
"""Characters of a tool's error: a longer result brings something beside it (ToolBench: `error` and a full answer)."""

_MOOT = ("already", "exist", "no change", "unchanged", "nothing to", "duplicate", "已存在", "已经", "重复")


@dataclass(frozen=True, slots=True)
class Settings:
    """Off unless switched on."""

    tools: tuple[str, ...] = ()
    """Name patterns of tools that the task needs: `send_*`, `deploy`. Shells are judged by the tests that they run."""

    tests: bool = True
    """Whether runs of tests count, in shells and tools for it."""

    mode: Literal["off", "observe", "enforce"] = "off"

    def __post_init__(self) -> None:
        """Raise ValueError where a pattern can fit nothing."""
        if not all(pattern.strip() for pattern in self.tools):
            raise ValueError("tools: an empty pattern matches no tool")

    @property
    def asks(self) -> bool:
        """Whether there is anything to check."""
        return self.tests or bool(self.tools)


def check(candidate: Candidate, settings: Settings, language: str) -> str | None:
    """Hold what the answer claims against the failures that are left."""
    return told(language, _contradictions(candidate, settings, language))


def _contradictions(candidate: Candidate, settings: Settings, language: str) -> Iterator[str]:
    if settings.tests and claims_tests(candidate.said):
        failed = newest_failure(candidate)
        if failed is not None:
            yield say(language, "tests_failed", tool=failed.call.name, result=_tail(failed.text))
    if settings.tools and claims_success(candidate.said):
        for act in _unresolved(candidate, settings):
            yield say(language, "tool_failed", tool=act.call.name, result=act.text)


def _tail(text: str) -> str:
    """The end of a report, where its sum stands."""
    return " ".join(text.split())[-150:]


def _unresolved(candidate: Candidate, settings: Settings) -> Iterator[Act]:
    acts = candidate.recent
    newest = {act.tool: place for place, act in enumerate(acts) if act.result is not None}
    for tool, place in newest.items():
        needed = any(fnmatchcase(tool, pattern.strip().casefold()) for pattern in settings.tools)
        if needed and acts[place].failed and not _resolved(acts, place):
            yield acts[place]


def _resolved(acts: tuple[Act, ...], place: int) -> bool:
    """Whether the failure at `place` may be resolved, or be none."""
    failed = acts[place]
    tool = failed.kind
    if tool.shell or any(word in failed.text.casefold() for word in _MOOT):
        return True
    if len(failed.text) > LONGEST_ERROR and "Traceback" not in failed.text:
        return True
    same = [act for act in acts if act.tool == failed.tool and act.succeeded]
    if same and (tool.reads or tool.looks or not _given(failed).isdisjoint(set().union(*map(_given, same)))):
        return True
    return any(not _looked(act) for act in acts[place + 1 :] if act.succeeded or act.result is None)


def _looked(act: Act) -> bool:
    """Whether a call is known to have changed nothing."""
    tool = act.kind
    return tool.think or bool(act.flags & (Flag.LOOKS | Flag.THINK)) or only_looks(act.call.arguments, tool)


def _given(act: Act) -> set[str]:
    """The values of a call's arguments, as texts."""
    try:
        given = json.loads(act.call.arguments or "{}")
    except (ValueError, RecursionError):
        return {act.call.arguments}
    values = given.values() if isinstance(given, dict) else [given]
    return {str(value).strip().casefold() for value in values if not isinstance(value, bool | None)}
