"""A run is not done while a call of it is open: an approval is pending, or a call of the newest round has no result.

Passes where it cannot tell: a user spoke after the call, nothing of the round was answered (tools that the provider
runs have no results), the answer itself says that something is still under way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal

from guardproxy.core.completion._candidate import Act, Candidate
from guardproxy.core.completion._words import listed, say, told
from guardproxy.core.model import Flag

_UNDER_WAY = re.compile(
    r"(?i)\b(?:wait(?:s|ing)?|await(?:s|ing)?|pending|queued?|running|in progress|under way|underway|ongoing|"
    r"process(?:es|ing)|not (?:yet|ready|finished|complete)|still|soon|later|shortly|once|approv\w+|will be|"
    r"background|started|scheduled|submitted)\b|等待|待(?:批准|审批|处理)|审批|批准|正在|进行中|运行中|排队|稍后|尚未|还没|后台"
)


@dataclass(frozen=True, slots=True)
class Settings:
    """Off unless switched on: most clients answer every call before they ask again."""

    tools: tuple[str, ...] = ()
    """Name patterns of tools whose newest result must not say that it is not ready yet: `deploy`, `*_job`. Not of
    shells and tools that read: what they show may say so of anything."""

    mode: Literal["off", "observe", "enforce"] = "off"

    def __post_init__(self) -> None:
        """Raise ValueError where a pattern can fit nothing."""
        if not all(pattern.strip() for pattern in self.tools):
            raise ValueError("tools: an empty pattern matches no tool")


def check(candidate: Candidate, settings: Settings, language: str) -> str | None:
    """Name the calls that are open, unless the answer says that something is."""
    if _UNDER_WAY.search(candidate.said):
        return None
    return told(language, _open(candidate, settings, language))


def _open(candidate: Candidate, settings: Settings, language: str) -> Iterator[str]:
    if candidate.waits_for:
        yield say(language, "open_waits", tools=listed(candidate.waits_for, mark=""))
    if unanswered := _unanswered(candidate):
        yield say(language, "open_unanswered", tools=listed((call.call.name for call in unanswered), mark=""))
    newest = {act.tool: act for act in candidate.recent}
    for act in newest.values():
        named = any(fnmatchcase(act.tool, one.strip().casefold()) for one in settings.tools)
        if named and act.flags & Flag.PENDING and not _shows(act):
            yield say(language, "open_pending", tool=act.call.name, result=act.text)


def _shows(act: Act) -> bool:
    """Whether the tool shows things, whose words are content: files, what a command prints."""
    tool = act.kind
    return tool.reads or tool.shell


def _unanswered(candidate: Candidate) -> list[Act]:
    """The calls of the newest round without a result, where others of it have one and nobody spoke since."""
    last = candidate.rounds[-1] if candidate.rounds else None
    if last is None or last.written or (last.reply or "").strip() or all(one is None for one in last.results):
        return []
    return [act for act in candidate.acts if act.round == last.index and act.result is None and act.call.name.strip()]
