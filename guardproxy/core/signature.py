"""Which error a failed result reports: the same words whatever was asked, by what program and when."""

from __future__ import annotations

import re
from functools import lru_cache

from guardproxy.core.outcome import EDGE, dated_to, edges_of, raised, reports

REPORT = 2_400
"""Characters of a test report that are searched and compared: its list of failures is at the front or the end."""

_WORDS = re.compile(r"[^\W\d_]{2,}")
_QUOTED = re.compile(r"[\[(]?[\"'`\[]([^\"'`\]]{2,80})[\"'`\]]")
_VALUES = re.compile(r'(?<=")[^"\\\n]{4,400}(?=")')
"""Strings of a call's arguments as they stand in its JSON, without escapes: long enough to be no common word."""


_NAMES = re.compile(r"[\w@~.+/-]{3,200}")
_NO_WORD = frozenset("0123456789./_+-@")
"""Names in a call's arguments that are no plain words: paths, packages, hosts, programs."""

_PROGRAM = re.compile(r"([\w./~+-]{2,120}): (?=\S)")


@lru_cache(maxsize=256)
def _vocabulary(arguments: str) -> frozenset[str]:
    return frozenset(word for word in _WORDS.findall(arguments.casefold()) if len(word) > 3)


@lru_cache(maxsize=256)
def _echoes(arguments: str) -> tuple[str, ...]:
    """What of the call an error may repeat: whole values, and names inside of commands; the longest first."""
    names = [name.strip(".-") for name in _NAMES.findall(arguments) if not _NO_WORD.isdisjoint(name)]
    return tuple(sorted({*_VALUES.findall(arguments), *filter(None, names)}, key=len, reverse=True))


def _before_echo(line: str, arguments: str) -> str:
    """The line up to the first quotation of what the call itself said: what follows only elaborates on it."""
    for quoted in _QUOTED.finditer(line):
        if quoted.start() >= 6 and quoted.group(1) in arguments:
            return line[: quoted.start()]
    return line


def _without_values(line: str, arguments: str) -> str:
    """The line without the values of the call that it repeats as they are: addresses, paths, names, the program."""
    begun = _PROGRAM.match(line)
    if begun is not None and begun[1] in arguments:
        line = line[begun.end() :]
    for value in _echoes(arguments):
        if value in line:
            line = line.replace(value, " ")
    return line


def _decisive(text: str) -> str:
    dated = dated_to(text)
    return raised(text[-REPORT:]) or text[dated : dated + EDGE].split("\n", 1)[0]


def signature_text(text: str, arguments: str) -> str:
    """What kind of error a failed result reports: its decisive line in words, without those the call itself brought.

    A test report keeps its counts and all of its text, since fewer failures are progress; an exception is its last
    line; anything else its first line up to 20 words, without what a log puts in front, and nothing after it has quoted
    the call's own arguments.
    """
    edges = edges_of(text)
    if len(text) > 120 and reports(edges, edges.lower()):
        return text[:REPORT]
    said = arguments[:4096]
    line = _before_echo(_decisive(text)[:400], said)
    echoed = _vocabulary(said)
    line = _without_values(line, said)
    words = [word for word in _WORDS.findall(line.casefold()) if word not in echoed]
    return " ".join(words[:20]) or line
