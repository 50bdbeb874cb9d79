"""What a call asks for, in three strengths: exactly, but for cosmetics, but for numbers; and what kind of tool it is.

Exactly: keys sorted, nulls dropped, numbers in one form. Near: case, punctuation and white space of short prose, the
order of plain lists, a leading `./`, and keys that only explain the call do not count. Masked: digits do not count
either, apart from the keys that page. Reasons per rule: `loop-detectors.md` section 5 (deer-flow#5486, hermes#1824 for
paging keys, Roo-Code#5879 for nested lists).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import NamedTuple

from guardproxy.core.mask import without_digits

PROSE = 400
"""Longer strings are compared as they are: they are documents or code."""

PAGING = frozenset(
    "offset limit page cursor page_token start end start_line end_line startline endline skip after before from to "
    "line view_range first_line last_line page_size num".split()
)
"""Keys whose numbers say which part is asked for; they are never masked."""

COSMETIC = frozenset("description explanation reason reasoning thought thoughts brief timeout security_risk".split())
"""Keys that explain a call and do not change what it does, dropped where another key remains."""

_CODE = frozenset("/\\{}=|$`*~^@\n0123456789_()<>;")
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Rules:
    """Per-tool knowledge, as patterns of casefolded tool names. The defaults fit tools named in plain words.

    `ignore_args` maps a tool name to argument keys that do not count. `think_like` tools look at nothing outside:
    what they answer is no evidence. `mutates` change something; `shells` do if their command says so; `reads` only
    look, so that words like "error" in what they show are content, not a failure.
    """

    ignore_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    think_like: tuple[str, ...] = ("think", "think_*", "*thinking*", "calculat*", "wait", "wait_*", "sleep", "reflect")
    mutates: tuple[str, ...] = (
        "*edit*", "*write*", "*create*", "*update*", "*delete*", "*insert*", "*replace*", "*patch*", "*send*",
        "*book*", "*cancel*", "*modify*", "*install*", "*move*", "*rename*", "*commit*", "*push*", "*remove*", "set_*",
        "add_*", "post_*", "put_*", "*exchange*", "*return_*", "*upload*",
    )  # fmt: skip
    shells: tuple[str, ...] = (
        "*bash*", "*shell*", "sh", "*exec*", "*terminal*", "run", "run_command*", "*command*", "cmd", "powershell",
        "str_replace_editor", "*editor*",
    )  # fmt: skip
    reads: tuple[str, ...] = (
        "*read*", "view*", "open*", "cat", "grep*", "glob*", "find_*", "list*", "ls", "fetch*", "*_fetch", "webfetch",
        "websearch", "extract_*", "get_*",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tool:
    """What kind of tool a name means under some rules."""

    think: bool
    mutates: bool
    shell: bool
    reads: bool
    ignored: frozenset[str]


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def tool_of(name: str, rules: Rules) -> Tool:
    """The kind of the tool called `name` (casefolded)."""
    shell = _any(name, rules.shells)
    ignored = frozenset(rules.ignore_args.get(name, ()))
    mutates = not shell and _any(name, rules.mutates)
    return Tool(_any(name, rules.think_like), mutates, shell, not mutates and _any(name, rules.reads), ignored)


_VERBS = frozenset(
    "rm mv cp mkdir touch tee patch chmod chown ln kill truncate install uninstall unzip create str_replace insert "
    "undo_edit INSERT UPDATE DELETE DROP CREATE apply_patch".split()
)
_GIT = frozenset("apply checkout commit stash reset restore revert merge rebase add mv rm pull push clean switch".split())
_REDIRECT = re.compile(r">(?<![0-9&<>=-]>)>?(?!\s*(?:/dev/null|&|=))\s*[\w./\"'$~\\]")
_SPACED = str.maketrans("\"';&|()", "       ")

COMMAND = 512
"""Characters of a command in which what it does is looked for; a script's text follows its first words."""


_CODE = frozenset("/\\{}=|$`*~^@\n0123456789_()<>;")
_WORDS = re.compile(r"[^\W_]+")


@dataclass(frozen=True, slots=True)
class Rules:
    """Per-tool knowledge, as patterns of casefolded tool names. The defaults fit tools named in plain words.

    `ignore_args` maps a tool name to argument keys that do not count. `think_like` tools look at nothing outside:
    what they answer is no evidence. `mutates` change something; `shells` do if their command says so; `reads` only
    look, so that words like "error" in what they show are content, not a failure.
    """

    ignore_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    think_like: tuple[str, ...] = ("think", "think_*", "*thinking*", "calculat*", "wait", "wait_*", "sleep", "reflect")
    mutates: tuple[str, ...] = (
        "*edit*", "*write*", "*create*", "*update*", "*delete*", "*insert*", "*replace*", "*patch*", "*send*",
        "*book*", "*cancel*", "*modify*", "*install*", "*move*", "*rename*", "*commit*", "*push*", "*remove*", "set_*",
        "add_*", "post_*", "put_*", "*exchange*", "*return_*", "*upload*",
    )  # fmt: skip
    shells: tuple[str, ...] = (
        "*bash*", "*shell*", "sh", "*exec*", "*terminal*", "run", "run_command*", "*command*", "cmd", "powershell",
        "str_replace_editor", "*editor*",
    )  # fmt: skip
    reads: tuple[str, ...] = (
        "*read*", "view*", "open*", "cat", "grep*", "glob*", "find_*", "list*", "ls", "fetch*", "*_fetch", "webfetch",
        "websearch", "extract_*", "get_*",
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tool:
    """What kind of tool a name means under some rules."""

    think: bool
    mutates: bool
    shell: bool
    reads: bool
    ignored: frozenset[str]


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def tool_of(name: str, rules: Rules) -> Tool:
    """The kind of the tool called `name` (casefolded)."""
    shell = _any(name, rules.shells)
    ignored = frozenset(rules.ignore_args.get(name, ()))
    mutates = not shell and _any(name, rules.mutates)
    return Tool(_any(name, rules.think_like), mutates, shell, not mutates and _any(name, rules.reads), ignored)


_CHANGES = re.compile(
    r"(?:^|[\s;&|\"'(])(?:sed\s+(?:-\w+\s+)*-i|rm|mv|cp|mkdir|touch|tee|patch|chmod|chown|ln|kill|truncate|"
    r"git\s+(?:apply|checkout|commit|stash|reset|restore|revert|merge|rebase|add|mv|rm|pull|push|clean|switch)|"
    r"(?:pip3?|npm|yarn|pnpm|apt|apt-get|cargo|go|conda|brew)\s+(?:install|add|remove|uninstall|get|i)|"
    r"(?:un)?(?:zip|tar)|create|str_replace|insert|undo_edit)(?=[\s\"'\\]|$)"
    r"|(?<![0-9&<>=-])>>?(?!\s*(?:/dev/null|&))\s*[\w./\"'$~\\]"
    r"|\.write\(|write_text|INSERT INTO|UPDATE |DELETE FROM|DROP |CREATE "
)


def changes(arguments: str) -> bool:
    """Whether a shell-like command changes something: writes, moves, installs. Bounded to COMMAND characters."""
    part = arguments[:COMMAND]
    if ">" in part and _REDIRECT.search(part) is not None:
        return True
    words = set(part.translate(_SPACED).split())
    if not _VERBS.isdisjoint(words) or ("git" in words and not _GIT.isdisjoint(words)):
        return True
    return ("sed" in words and "-i" in words) or ".write(" in part or "write_text" in part


def _words(text: str) -> str:
    if not _CODE.isdisjoint(text):  # a path, code or an id: only spacing is cosmetic
        plain = text.removeprefix("./")
        return plain if "  " not in plain and "\n" not in plain else " ".join(plain.split())
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold()
    return " ".join(_WORDS.findall(plain)) or plain


def _near(value: object, key: str) -> object:
    if isinstance(value, str):
        return _words(value) if len(value) <= PROSE and key not in PAGING else value
    if isinstance(value, dict):
        return {k: _near(v, k.casefold()) for k, v in value.items()}
    if isinstance(value, list):
        items = [_near(item, key) for item in value]
        return sorted(items, key=repr) if all(isinstance(item, (str, int, float)) for item in items) else items
    return value


def _kept(value: object) -> object:
    """Without nulls."""
    if isinstance(value, dict):
        return {k: _kept(v) for k, v in value.items() if v is not None}
    return [_kept(item) for item in value] if isinstance(value, list) else value


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


_SCALARS = frozenset((str, int, float, bool, type(None)))
_nested = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode
_decode = json.JSONDecoder(parse_float=_number).decode


def _encode(value: dict[str, object]) -> str:
    """One text per value, whatever the order of keys. Flat objects, which most are, take a shorter way."""
    if _SCALARS.issuperset(map(type, value.values())):
        return repr(sorted(value.items()))
    return _nested(value)


class Canon(NamedTuple):
    """A call's arguments: `exact`, `near` and `masked` texts (the latter equal the former where nothing differs)."""

    exact: str
    near: str
    masked: str | bytes
    valid: bool


def canonical(arguments: str, tool: Tool) -> Canon:
    """Canonical texts of arguments. What is not a JSON object is compared as it stands and marked invalid."""
    try:
        value = _decode(arguments) if arguments[:1] == "{" else _decode(arguments.strip() or "{}")
        if isinstance(value, dict):
            return _object(_kept(value) if "null" in arguments else value, tool)
    except (RecursionError, OverflowError, ValueError):
        pass
    return Canon(arguments, arguments, arguments, valid=False)


def _object(kept: object, tool: Tool) -> Canon:
    assert isinstance(kept, dict)
    if tool.ignored:
        kept = {k: v for k, v in kept.items() if k not in tool.ignored}
    exact = _encode(kept)
    core = kept
    if not COSMETIC.isdisjoint(kept):
        core = {k: v for k, v in kept.items() if k.casefold() not in COSMETIC} or kept
    plain = {k: _near(v, k.casefold()) for k, v in core.items()}
    near = exact if plain == kept else _encode(plain)
    masked = without_digits(near)
    if len(masked) == len(near):
        return Canon(exact, near, near, valid=True)
    if not PAGING.isdisjoint(core):
        masked += _encode({k: v for k, v in core.items() if k in PAGING}).encode("utf-8", "surrogatepass")
    return Canon(exact, near, masked, valid=True)
