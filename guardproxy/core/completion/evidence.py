"""What an answer cites has to stand in a result: ids, quotes, addresses that a pattern or a list names.

A text counts as evidence wherever it does not come from the model: results, what users and instructions say, and
arguments of calls that succeeded. Passes where it cannot tell: a result that is a picture, was cleared or is shown in
part, a conversation that was shortened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from guardproxy.core.completion._candidate import Candidate
from guardproxy.core.completion._claims import tells_trouble
from guardproxy.core.completion._words import listed, say
from guardproxy.core.model import Flag

LONGEST = 200_000
"""Characters of an answer in which the pattern is looked for."""

SHORT = 64
"""Characters up to which a citation may be an example of an id."""

_HIDDEN = Flag.CLEARED | Flag.MEDIA
_CUT = re.compile(
    r"(?i)\btruncated\b|\b(?:characters?|lines?|tokens?) (?:omitted|removed)\b|"
    r"\[(?:\.\.\.|…)\]|…\d+…|(?:\.{3}|…)\s*\Z|省略|截断"
)
"""Words with which tools, clients and `mask.shortened` say that a result is shown in part."""

_PLACEHOLDER = re.compile(r"\D*(?:(\d)\1{2,}|0*1?234(?:56?|567|5678|56789|567890)?|[xX#_-]{2,})\D*")
"""Ids that only show what an id looks like: 0000, 12345, XXX."""

_BARE = re.compile(r"[\W_]+")


@dataclass(frozen=True, slots=True)
class Settings:
    """What counts as a citation. Raises ValueError where the pattern is none."""

    pattern: str = ""
    """A regular expression, such as `\\bORD-\\d{4,}\\b`: what it finds in the answer (its first group, if it has one)
    has to come from a result."""

    ids: tuple[str, ...] = ()
    """Texts that may be cited only if a result named them."""

    least: int = 0
    """Citations (of the pattern, or of `ids`) that an answer has to hold."""

    mode: Literal["off", "observe", "enforce"] = "enforce"

    def __post_init__(self) -> None:
        """Refuse what can find nothing."""
        try:
            compiled = re.compile(self.pattern)
        except (re.error, RecursionError, OverflowError) as error:
            raise ValueError(f"pattern: {error}") from None
        if self.pattern and compiled.fullmatch(""):
            raise ValueError("pattern: matches nothing at all, so that every answer would cite it")
        if not all(map(_bare, self.ids)):
            raise ValueError("ids: an id needs a letter or a digit")
        if self.least > 0 and not (self.pattern or self.ids):
            raise ValueError("least: needs a pattern or ids that say what a citation is")

    @property
    def asks(self) -> bool:
        """Whether there is anything to check."""
        return bool(self.pattern or self.ids)


def check(candidate: Candidate, settings: Settings, language: str) -> str | None:
    """Name the citations that no result holds."""
    cited = list(dict.fromkeys(_cited(candidate.said[:LONGEST], settings)))
    if len(cited) < settings.least and not candidate.asks_back:
        return say(language, "evidence_few", count=str(len(cited)), least=str(settings.least))
    if not cited or not candidate.whole or _hidden(candidate):
        return None
    known = _known(candidate)
    bare = _bare(known)
    made_up = [one for one in cited if one.casefold() not in known and _bare(one) not in bare]
    return say(language, "evidence_unknown", ids=listed(made_up, mark="")) if made_up else None


def _cited(said: str, settings: Settings) -> Iterator[str]:
    if settings.pattern:
        for found in re.finditer(settings.pattern, said):
            text = (found[1] if found.re.groups else found[0]) or ""
            if _bare(text) and not (len(text) <= SHORT and _PLACEHOLDER.fullmatch(text)):
                yield text.strip()
    low = said.casefold()
    for one in settings.ids:
        if re.search(rf"(?<!\w){re.escape(one.casefold())}(?!\w)", low):
            yield one


def _hidden(candidate: Candidate) -> bool:
    """Whether a result may hold more than is seen here."""
    if any(message.media for message in candidate.ask.tail):
        return True
    return any(act.flags & _HIDDEN or _CUT.search(act.text) for act in candidate.acts)


def _known(candidate: Candidate) -> str:
    """All that was said by others than the model, in small letters, also without JSON's escapes."""
    texts = [message.text for message in (*candidate.ask.head, *candidate.ask.tail) if message.role != "assistant"]
    texts += [act.text for act in candidate.acts]
    tells = tells_trouble(candidate.said)  # what was asked for in vain may be named as such
    texts += [act.call.arguments for act in candidate.acts if tells or (act.succeeded and not act.flags & Flag.VOID)]
    return "\n".join([*texts, *[plain for text in texts if "\\" in text for plain in _unescaped(text)]]).casefold()


def _unescaped(text: str) -> Iterator[str]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return
    yield value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _bare(text: str) -> str:
    """Letters and digits alone: `1,234` is `1234`."""
    return _BARE.sub("", text.casefold())
