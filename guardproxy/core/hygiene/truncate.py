"""truncate: a tool result that is too long is cut in its middle, with a mark that says how much and how to get it.

A function of the text and the settings alone, so that a result looks the same on every later turn and prefixes stay as
they were. Of texts that are short enough only the length is looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from guardproxy.core.advice import LANGUAGES, quoted
from guardproxy.core.edit import ReplaceText
from guardproxy.core.hygiene import _json_cut
from guardproxy.core.hygiene._case import Case, Cleaned, Done, Mode, chosen, own
from guardproxy.core.hygiene._cut import head_end, size, tail_start
from guardproxy.core.hygiene._json_cut import Place
from guardproxy.core.mask import KEPT, ends_of_huge
from guardproxy.core.memo import Memo
from guardproxy.core.model import Message
from guardproxy.core.pricing import BYTES_PER_TOKEN, estimate_input
from guardproxy.core.rounds import pair

LEAST = 200
"""Tokens below which hardly more than the mark would be left."""

SHOWN = 3
"""Places of a JSON text that a mark names; of more it gives the number."""

RESERVED = (500, 1_500)
"""Bytes kept free for a mark that names places in JSON: it is written when they are known. Names are seldom so long."""

_made = Memo[tuple[bytes, int, int, str], str](256)
"""Results by the digest of their text and how they are cut: an agent sends them again with every request."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`max_tokens` of one result, estimated as everywhere: four bytes each. `tools`: other numbers by glob of the tool,
    0 = whole. `head_percent`: how much of what is kept stands in front. Raises ValueError for what would keep nothing.
    """

    mode: Mode = "off"
    max_tokens: int = 10_000
    head_percent: int = 60
    tools: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.max_tokens < LEAST:
            raise ValueError(f"max_tokens: must be at least {LEAST}")
        if not 0 <= self.head_percent <= 100:
            raise ValueError("head_percent: must be from 0 to 100")
        for pattern, most in self.tools.items():
            if not pattern.strip() or 0 < most < LEAST or most < 0:
                raise ValueError(f"tools.{pattern}: must be 0 (whole) or at least {LEAST}")

    def most(self, tool: str) -> int:
        """Tokens that a result of the tool may have; 0: as many as it has."""
        return chosen(self.tools, tool, self.max_tokens)


def tidy(case: Case, settings: Settings) -> Cleaned:
    """Replacements for every result of the conversation that is too long; done: to the new ones."""
    ask = case.ask
    fewest = int(min((most for most in settings.tools.values() if most), default=settings.max_tokens) * BYTES_PER_TOKEN)
    fewest = min(fewest, int(settings.max_tokens * BYTES_PER_TOKEN))
    if ask.body and len(ask.body) <= fewest:
        return Cleaned()  # a body is at least as long as each of its texts
    edits, done = [], []
    newest = ask.tail_start + _newest(ask.tail)
    for index, message, tool in _candidates(case, settings, fewest):
        made = shortened(case, message.text, settings.most(tool), settings.head_percent)
        if made is not None:
            edits.append(ReplaceText(index, made))
            if index > newest:
                done.append(Done("truncate", settings.mode, tool, index, "truncated"))
    return Cleaned(tuple(edits), tuple(done))


def _candidates(case: Case, settings: Settings, fewest: int) -> Iterator[tuple[int, Message, str]]:
    """Index, message and tool of the results that may be longer than so many bytes: a character has four at most.

    The tool of one before the tail is looked for only where tools have numbers of their own.
    """
    ask, some = case.ask, min(fewest // 4, 2 * KEPT)
    if ask.tail_start and case.long is not None and not settings.tools:
        yield from ((at, one, "") for at, one in case.long(fewest) if len(one.text) > some)
    elif ask.tail_start:
        ask = case.whole()
    for at, one in enumerate(ask.tail):
        if len(one[1]) > some and one[0] == "tool":
            yield ask.tail_start + at, one, _tool(ask.tail, at)


def _newest(tail: Sequence[Message]) -> int:
    return next((at for at in range(len(tail) - 1, -1, -1) if tail[at].role == "assistant"), -1)


def _tool(tail: Sequence[Message], at: int) -> str:
    """The tool whose result stands there; "" where no call is in front of it."""
    results: list[Message] = []
    begun = at
    while begun >= 0 and tail[begun].role != "assistant":
        begun -= 1
    if begun < 0:
        return tail[at].name
    end = begun + 1
    while end < len(tail) and tail[end].role != "assistant":
        if tail[end].role == "tool":
            results.append(tail[end])
        end += 1
    calls = tail[begun].calls
    found = zip(calls, pair(calls, results), strict=True) if calls else ()
    return next((call.name for call, one in found if one is tail[at]), tail[at].name)


def shortened(case: Case, text: str, most: int, head_percent: int) -> str | None:
    """The text in at most that many tokens; None: it is short enough (or `most` is 0)."""
    if not most:
        return None
    room = int(most * BYTES_PER_TOKEN)
    huge = ends_of_huge(text)
    if huge is None and (len(text) * 4 <= room or size(text) <= room):
        return None
    key = (case.printer.quick16(text), room, head_percent, case.language)
    found = _made[key]
    if found is None:
        source = _Source(*huge) if huge is not None else _Source(text, len(text), text)
        found = _made.keep(key, _cut(source, room, head_percent, case.language))
    return found or None


class _Source(NamedTuple):
    """A text by its beginning and its end, which are both the whole where that is known; `length` in characters."""

    head: str
    length: int
    tail: str

    @property
    def whole(self) -> bool:
        """Whether all of it is known."""
        return len(self.head) == self.length

    @property
    def size(self) -> int:
        """Bytes; of a text that is not known as a whole, as many as its beginning lets expect."""
        return size(self.head) * self.length // len(self.head)


def _cut(source: _Source, room: int, percent: int, language: str) -> str:
    """The text cut so that it has room; "" where it is short enough after all."""
    if source.size <= room:
        return ""
    if _is_json(source) and source.whole:
        made = _cut_json(source, room, percent, language)
        if made:
            return made
    return _cut_text(source, room, percent, language)


def _is_json(source: _Source) -> bool:
    """Whether it looks like JSON."""
    return source.head.lstrip()[:1] in ("{", "[") and source.tail.rstrip()[-1:] in ("}", "]")


def _cut_text(source: _Source, room: int, percent: int, language: str) -> str:
    most = source.length
    widest = max(size(_mark(source, source.size, lines, (most, most, most), language)) for lines in (True, False))
    room -= 4 + widest
    head = source.head[: head_end(source.head, room * percent // 100)]
    tail = source.tail[tail_start(source.tail, room - room * percent // 100) :]
    lines = _lines(source, head, tail)
    numbers = lines or (len(head) + 1, most - len(tail), most)
    mark = _mark(source, source.size - size(head) - size(tail), bool(lines), numbers, language)
    # a paragraph of its own, so that it can be taken out of a copy
    return "\n\n".join(part for part in (head.rstrip("\r\n"), mark, tail.lstrip("\r\n")) if part)


def _lines(source: _Source, head: str, tail: str) -> tuple[int, int, int] | None:
    """The first and the last line left out, and how many there are; None: not whole lines are left out."""
    text = source.head
    if not source.whole or (head and head[-1] != "\n") or (tail and text[len(text) - len(tail) - 1] != "\n"):
        return None
    ends = text.count("\n")
    first, last = head.count("\n") + 1, ends - tail.count("\n")
    if not tail:
        last += text[-1] != "\n"
    return (first, last, ends + (text[-1] != "\n")) if last > 1 and first <= last else None


def _mark(source: _Source, left: int, lines: bool, numbers: tuple[int, int, int], language: str) -> str:  # noqa: FBT001
    """What stands where a text was cut."""
    words = LANGUAGES[language]
    first, last, every = numbers
    where = (words.LEFT_OUT_LINES if lines else words.LEFT_OUT_CHARACTERS).format(first=first, last=last, all=every)
    ask = f"{words.ASK_FOR_PART}{words.NO_LONGER_JSON if _is_json(source) else ''}"
    tokens = estimate_input(left), estimate_input(source.size)
    return own(language, words.LEFT_OUT.format(left=tokens[0], total=tokens[1], where=where, ask=ask))


def _cut_json(source: _Source, room: int, percent: int, language: str) -> str:
    """JSON that still is JSON, with the mark behind it; "" where that cannot be."""
    for reserve in RESERVED:
        found = _json_cut.cut(source.head.strip(), room - reserve, percent)
        if found is None:
            break
        text, places = found
        made = f"{text}\n\n{_json_mark(source, text, places, language)}"
        if size(made) <= room:
            return made
    return ""


def _json_mark(source: _Source, text: str, places: Sequence[Place], language: str) -> str:
    words = LANGUAGES[language]
    told = []
    for place in sorted(places, key=lambda one: -one.left)[:SHOWN]:
        path = quoted(place.path.lstrip(".")) or words.TOP_LEVEL
        told.append(words.LEFT_OUT_PLACE[place.what].format(left=place.left, total=place.total, path=path))
    if len(places) > SHOWN:
        told.append(words.LEFT_OUT_MORE.format(count=len(places) - SHOWN))
    left, total = estimate_input(source.size - size(text)), estimate_input(source.size)
    where = ", ".join(told)
    return own(language, words.LEFT_OUT_JSON.format(left=left, total=total, where=where, ask=words.ASK_FOR_PART))
