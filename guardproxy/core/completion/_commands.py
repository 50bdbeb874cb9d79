"""What a shell's command consists of, as far as it can be read: its parts, where they run and what they write to.

A reading for checks of what was done, not for safety: what cannot be read is None, and then nobody is accused.
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Iterator
from itertools import dropwhile
from typing import NamedTuple

LONGEST = 20_000
"""Characters of the longest command that is read."""

HERE = 32
"""Documents inside of a command that are looked for the end of."""

DEPTH = 2
"""Shells within shells that are read: `bash -lc "…"`."""

_KEYS = ("command", "cmd", "bash_command", "commands", "argv")
_OTHER = re.compile(r"python|jupyter|notebook|node|javascript|typescript|repl|sql|query|redis|mongo|browser|evaluate")
_EDITS = frozenset("view create str_replace insert undo_edit".split())
_HERE = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1([^\n]*)\n.*?^[ \t]*\2[ \t]*$", re.DOTALL | re.MULTILINE)
_TOKEN = re.compile(
    r"[ \t\r]*(?:\\\n[ \t]*)*(?:(?P<end>\n|&&|\|\||;;?|\|&?|\(|\)|&(?!>))"
    r"|(?P<to>(?:\d|&)?>>?\|?(?:&(?=[\d-]))?|<<[<-]?|<&?)"
    r"|(?P<word>(?:[^\s;|&<>()'\"\\]|\\.|'[^']*'|\"(?:[^\"\\]|\\.)*\")+)|(?P<none>$))",
    re.DOTALL,
)
_COMMENT = re.compile(r"(?:[ \t]+|(?<![^\s;&|()]))#[^\n]*")
_QUOTED = re.compile(r"'([^']*)'|\"((?:[^\"\\]|\\.)*)\"|\\(.)", re.DOTALL)
_ASSIGNED = re.compile(r"[A-Za-z_]\w*=")
_SPAN = re.compile(r"[\d.]+[smhd]?")
_KEYWORDS = frozenset("do then else elif if while until ! { }".split())
_WRAPPERS = frozenset("sudo doas time nohup env command exec nice stdbuf xvfb-run npx bunx winpty".split())
_RUNNERS = {"uv": "run", "poetry": "run", "pipenv": "run", "hatch": "run", "rye": "run", "pdm": "run"}
_RUNNERS |= {"bundle": "exec", "pnpm": "exec", "yarn": "exec", "coverage": "run", "bun": "x"}
_SHELLS = frozenset("bash sh zsh dash ksh".split())


class Part(NamedTuple):
    """One simple command. `where`: the directory it changed into before (None: not known; "": where the shell is).

    `words`: without what only runs another command. `writes`: files that its output goes to.
    """

    words: tuple[str, ...]
    where: str | None
    writes: tuple[str, ...] = ()


def parts_of(tool: str, arguments: str) -> tuple[Part, ...] | None:
    """The parts of the command that a call of a shell (its name casefolded) runs; None: they cannot be told."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return None
    if not isinstance(given, dict) or _OTHER.search(tool) or given.get("args"):
        return None
    command = next((given[key] for key in _KEYS if key in given), None)
    if isinstance(command, str) and command in _EDITS and isinstance(given.get("path"), str):
        return ()  # an editor, whatever it is called
    if isinstance(command, list) and all(isinstance(word, str) for word in command):
        return _argv(command)
    return _parts(command, DEPTH) if isinstance(command, str) else None


def literal(word: str) -> bool:
    """Whether a word stands for itself: no variable, no pattern."""
    return bool(word) and not re.search(r"[$`*?{}\[\]\n]", word)


def under(where: str | None, path: str) -> str | None:
    """The path in its shortest spelling, from where the command ran; None: it cannot be told."""
    plain = path.strip().replace("\\", "/").removeprefix("file://")
    if not literal(plain) or plain == "-":
        return None
    if not plain.startswith(("/", "~")) and not re.match("[A-Za-z]:/", plain):
        if where is None:
            return None
        plain = posixpath.join(where, plain)
    return posixpath.normpath(plain)


def _argv(words: list[str]) -> tuple[Part, ...] | None:
    if len(words) > 2 and posixpath.basename(words[0]) in _SHELLS and re.fullmatch(r"-\w*c", words[1]):
        return _parts(words[2], DEPTH - 1)
    if len(words) == 1:
        return _parts(words[0], DEPTH)
    return (Part(_bare(words), ""),)


def _parts(command: str, depth: int) -> tuple[Part, ...] | None:
    """The parts, in order; None where the command is too long, its quotes do not end, or nothing can be told."""
    if len(command) > LONGEST or command.count("<<") > HERE:
        return None
    text = _HERE.sub(r"\3", command)
    found: list[Part] = []
    where: list[str | None] = [""]
    for words, writes, ended in _simple(text):
        if words is None:
            return None
        if words[:1] in (["cd"], ["pushd"]):
            where[-1] = under(where[-1], words[1]) if len(words) > 1 else None
        elif words or writes:
            inner = _inner(words, depth)
            found += inner if inner is not None else [Part(_bare(words), where[-1], tuple(writes))]
        if ended == "(":
            where.append(where[-1])
        elif ended == ")" and len(where) > 1:
            where.pop()
    return tuple(found)


def _inner(words: list[str], depth: int) -> list[Part] | None:
    """The parts of `bash -c "…"`."""
    bare = _bare(words)
    if len(bare) < 3 or posixpath.basename(bare[0]) not in _SHELLS or not re.fullmatch(r"-\w*c", bare[1]):
        return None
    return list(_parts(bare[2], depth - 1) or ()) if depth else None


def _simple(text: str) -> Iterator[tuple[list[str] | None, list[str], str]]:
    """Words, targets of output and the sign at the end of each simple command; None: the text cannot be read."""
    words: list[str] = []
    writes: list[str] = []
    at, to = 0, ""
    while at < len(text):
        if not to and (comment := _COMMENT.match(text, at)) is not None:
            at = comment.end()
        token = _TOKEN.match(text, at)
        if token is None or (token["to"] or "").startswith("<<"):
            yield None, [], ""
            return
        at = token.end()
        if token["to"]:
            to = token["to"]
        elif token["word"]:
            word = _QUOTED.sub(
                lambda part: part[1] or re.sub(r"\\(.)", r"\1", part[2] or "") or part[3] or "", token["word"]
            )
            if not to:
                words.append(word)
            elif ">" in to and not to.endswith("&"):
                writes.append(word)
            to = ""
        elif token["end"]:
            yield words, writes, token["end"]
            words, writes, to = [], [], ""
    yield words, writes, ""


def _bare(words: list[str] | tuple[str, ...]) -> tuple[str, ...]:
    """The command itself: without assignments, keywords and programs that only run another one."""
    rest = list(words)
    while rest:
        name = posixpath.basename(rest[0])
        if _ASSIGNED.match(rest[0]) or rest[0] in _KEYWORDS or (name in _WRAPPERS and len(rest) > 1):
            rest = _past_flags(rest[1:])
        elif name == "timeout" and len(rest) > 2:
            rest = list(dropwhile(lambda word: word.startswith("-") or _SPAN.fullmatch(word) is not None, rest[1:]))
        elif name in _RUNNERS and len(rest) > 2 and rest[1] == _RUNNERS[name]:
            rest = _past_flags(rest[2:], keep="-m")
        elif re.fullmatch(r"(?:python|py)[\d.]*|-m", name) and "-m" in rest[:4] and len(rest) > rest.index("-m") + 1:
            rest = rest[rest.index("-m") + 1 :]
        else:
            break
    return tuple(rest)


def _past_flags(words: list[str], keep: str = "") -> list[str]:
    return list(dropwhile(lambda word: word.startswith("-") and word != keep, words))
