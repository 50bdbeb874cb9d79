"""Cuts JSON at its values, so that it stays JSON: items of lists, members of objects, the middles of long strings.

The text is not written anew: what is left out becomes a sign, all else keeps its spelling, order and numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from typing import NamedTuple

from guardproxy.core.hygiene._cut import head_end, size, tail_start

SIGN = "…"
"""What stands where something was left out."""

SCANNED = 2_000
"""Values of one list or object that are looked at one by one; of more, only the first are kept."""

DEEPEST = 12
"""Levels that are gone into: each costs another look at what it holds."""

FEW = 4
"""So many long values beside shorter ones are cut each for itself; where more are long, those in the middle go."""

FIELDS = 40
"""Members of an object that is a record, not a list by another name: its long members are cut, none left out."""

SMALLEST = 64
"""Bytes that a value is cut down to at least: less of it would say nothing."""

_SPACE = re.compile(r"[ \t\n\r]*")
_read = json.JSONDecoder(strict=False).raw_decode


class Place(NamedTuple):
    """What was left out at one place: `path` from the top, `what` ("items", "characters"), how many of how many."""

    path: str
    what: str
    left: int
    total: int


class _Child(NamedTuple):
    start: int  # of the key, if there is one
    value: int
    end: int
    name: str


class _TooLongError(ValueError):
    """A value that cannot be made so short."""


def cut(text: str, most: int, head_percent: int) -> tuple[str, tuple[Place, ...]] | None:
    """The JSON in at most that many bytes, and what is missing. None: it is no JSON, or cannot be made so short."""
    start = _skip(text, 0)
    try:
        _, end = _read(text, start)
        if _skip(text, end) != len(text):
            return None
        cutting = _Cutting(text, head_percent)
        cutting.shorten(start, end, most - size(text[:start]) - size(text[end:]), "", 0)
        made = cutting.carried_out()
        json.loads(made, strict=False)
    except (ValueError, RecursionError):
        return None
    return (made, tuple(cutting.places)) if size(made) <= most else None


def _skip(text: str, at: int) -> int:
    found = _SPACE.match(text, at)
    return found.end() if found else at


class _Cutting:
    """The pieces of a text that are to be replaced, and what they were."""

    def __init__(self, text: str, head_percent: int) -> None:
        self._text = text
        self._percent = head_percent
        self._plain = text.isascii()
        self._pieces: list[tuple[int, int, str]] = []
        self.places: list[Place] = []

    def carried_out(self) -> str:
        made, last = [], 0
        for start, end, new in sorted(self._pieces):
            made += [self._text[last:start], new]
            last = end
        return "".join((*made, self._text[last:]))

    def _size(self, start: int, end: int) -> int:
        return end - start if self._plain else size(self._text[start:end])

    def shorten(self, start: int, end: int, most: int, path: str, depth: int) -> None:
        """Make the value that stands there at most so many bytes long. Raises where that cannot be."""
        if self._size(start, end) <= most:
            return
        first = self._text[start]
        if first == '"':
            self._string(start, end, most, path)
        elif first in "[{" and depth < DEEPEST:
            self._container(start, end, most, path, depth)
        else:
            raise _TooLongError

    def _string(self, start: int, end: int, most: int, path: str) -> None:
        raw = self._text[start:end]
        said = json.loads(raw, strict=False)
        room = (most - 2 * len(SIGN.encode()) - 8) * size(said) // size(raw)  # the sign, perhaps escaped, and quotes
        while room >= SMALLEST // 2:
            head = said[: head_end(said, room * self._percent // 100)]
            tail = said[tail_start(said, room - room * self._percent // 100) :]
            new = _written(f"{head} {SIGN} {tail}", raw)
            left = len(said) - len(head) - len(tail)
            if size(new) <= most and left > 0:
                self._pieces.append((start, end, new))
                self.places.append(Place(path, "characters", left, len(said)))
                return
            room = room * 4 // 5
        raise _TooLongError

    def _container(self, start: int, end: int, most: int, path: str, depth: int) -> None:
        children, more = self._children(start)
        sizes = [self._size(one.value, one.end) for one in children]
        if not more:
            cap = _cap(sizes, most - (self._size(start, end) - sum(sizes)))
            above = sum(1 for one in sizes if one > cap)
            record = self._text[start] == "{" and len(children) <= FIELDS
            if cap >= SMALLEST and (record or above <= FEW) and self._each(children, cap, path, depth):
                return
        self._middle(start, end, children, most, path, depth, more=more)

    def _each(self, children: list[_Child], cap: int, path: str, depth: int) -> bool:
        """Cut each child that is longer than `cap`; False: one of them cannot be."""
        pieces, places = len(self._pieces), len(self.places)
        try:
            for one in children:
                self.shorten(one.value, one.end, cap, path + one.name, depth + 1)
        except _TooLongError:
            del self._pieces[pieces:], self.places[places:]
            return False
        return True

    def _middle(
        self, start: int, end: int, children: list[_Child], most: int, path: str, depth: int, *, more: bool
    ) -> None:
        """Leave out children in the middle; of the first one a part is kept where it is too long by itself."""
        if not children:
            raise _TooLongError
        sign = f'"{SIGN}"'
        if self._text[start] == "{":
            sign = f'{_written(self._free(children), "")}:"{SIGN}"'
        total = len(_read(self._text, start)[0]) if more else len(children)
        room = most - 2 - size(sign) - 16  # brackets, commas and the space around them
        front = room * (100 if more else self._percent) // 100
        kept, used = self._run(children[:-1] if more else children, start + 1, front)
        if kept == 0 and front > 2 * SMALLEST:
            key = self._size(children[0].start, children[0].value)
            if self._each(children[:1], front - key, path, depth):
                kept, used = 1, front
        behind = 0 if more else self._run_back(children[kept:], end - 1, room - used)
        if kept + behind >= total:
            return
        gone_to = children[len(children) - behind - 1].end if not more else end - 1
        self._pieces.append((children[kept].start, gone_to, sign))
        self.places.append(Place(path, "items", total - kept - behind, total))

    def _run(self, children: list[_Child], at: int, room: int) -> tuple[int, int]:
        """How many of the first children fit, with what stands between them, and their bytes."""
        used = 0
        for number, one in enumerate(children):
            long = self._size(at, one.end)
            if used + long > room:
                return number, used
            used, at = used + long, one.end
        return len(children), used

    def _run_back(self, children: list[_Child], at: int, room: int) -> int:
        used = 0
        for number, one in enumerate(reversed(children)):
            used += self._size(one.start, at)
            if used > room:
                return number
            at = one.start
        return len(children)

    def _children(self, start: int) -> tuple[list[_Child], bool]:
        """The values of a list or an object, and whether there are more of them than are looked at."""
        found: list[_Child] = []
        for one in _walk(self._text, start):
            if len(found) == SCANNED:
                return found, True
            found.append(one)
        return found, False

    @staticmethod
    def _free(children: list[_Child]) -> str:
        """A name that none of the members has."""
        names, name = {one.name for one in children}, SIGN
        while f".{name}" in names:
            name += SIGN
        return name


def _walk(text: str, at: int) -> Iterator[_Child]:
    named = text[at] == "{"
    at = _skip(text, at + 1)
    number = 0
    while text[at] not in "]}":
        begun, name = at, f"[{number}]"
        if named:
            key, at = _read(text, at)
            name = f".{key}"
            at = _skip(text, _skip(text, at) + 1)
        _, end = _read(text, at)
        yield _Child(begun, at, end, name)
        number += 1
        at = _skip(text, end)
        if text[at] == ",":
            at = _skip(text, at + 1)


def _cap(sizes: list[int], room: int) -> int:
    """The size to which the largest have to come down so that all have room; 0: there is none."""
    if room <= 0:
        return 0
    rest = len(sizes)
    for one in sorted(sizes):
        if one * rest > room:
            return room // rest
        room -= one
        rest -= 1
    return max(sizes, default=0)


def _written(text: str, like: str) -> str:
    """A string in JSON, with letters written as they are in `like`."""
    if not like.isascii():
        with suppress(UnicodeEncodeError):  # half a pair has to stay in its escaped form
            text.encode()
            return json.dumps(text, ensure_ascii=False)
    return json.dumps(text, ensure_ascii=not like.isascii() or "\\u" in like)
