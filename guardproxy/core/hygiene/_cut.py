"""Where a text may be cut: within a number of bytes, at a line's end if one is near, never inside of one letter."""

from __future__ import annotations

import unicodedata

NEAR = 4
"""A line's end is near if it lies in the last quarter of what is kept."""

_JOINERS = frozenset("\u200c\u200d")
_MARKS = frozenset(("Mn", "Mc", "Me"))


def size(text: str) -> int:
    """Bytes of the text in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def head_end(text: str, most: int) -> int:
    """Where the longest beginning of at most that many bytes ends, or the line before it."""
    if most <= 0:
        return 0
    if text.isascii():
        end = min(most, len(text))
    else:
        raw = text[:most].encode("utf-8", "surrogatepass")
        end = most
        while 0 < end < len(raw) and raw[end] & 0xC0 == 0x80:
            end -= 1
        end = len(raw[:end].decode("utf-8", "surrogatepass"))
    if end >= len(text):
        return len(text)
    line = text.rfind("\n", end - end // NEAR, end) + 1
    end = line or end
    while end > 0 and _inside(text, end):
        end -= 1
    return end


def tail_start(text: str, most: int) -> int:
    """Where the longest end of at most that many bytes starts, or the line after it."""
    if most <= 0:
        return len(text)
    if text.isascii():
        start = max(0, len(text) - most)
    else:
        raw = text[-most:].encode("utf-8", "surrogatepass")
        begun = max(0, len(raw) - most)
        while begun < len(raw) and raw[begun] & 0xC0 == 0x80:
            begun += 1
        start = len(text) - len(raw[begun:].decode("utf-8", "surrogatepass"))
    if start <= 0:
        return 0
    line = text.find("\n", start, start + (len(text) - start) // NEAR) + 1
    start = line or start
    while start < len(text) and _inside(text, start):
        start += 1
    return start


def _inside(text: str, at: int) -> bool:
    """Whether what stands at a place belongs to what stands before it (UAX 29, but for conjuncts of Indic scripts)."""
    before, here = text[at - 1], text[at]
    if before == "\r":
        return here == "\n"
    if here.isascii():
        return before == "\u200d"
    if here in _JOINERS or before == "\u200d" or unicodedata.category(here) in _MARKS:
        return True
    if "\ud800" <= before <= "\udbff":
        return "\udc00" <= here <= "\udfff"
    if "\U0001f3fb" <= here <= "\U0001f3ff" or "\U000e0020" <= here <= "\U000e007f":
        return True  # a colour of skin, a flag of a region
    if "\u1160" <= here <= "\u11ff":
        return "\u1100" <= before <= "\u11ff" or "\uac00" <= before <= "\ud7a3"
    return _flag(here) and _flags_before(text, at) % 2 == 1


def _flag(letter: str) -> bool:
    """One half of a country's flag."""
    return "\U0001f1e6" <= letter <= "\U0001f1ff"


def _flags_before(text: str, at: int) -> int:
    begun = at
    while begun > 0 and _flag(text[begun - 1]):
        begun -= 1
    return at - begun
