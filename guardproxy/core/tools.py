"""What kind of tool a name means, and whether a shell-like command changes something.

Only words are judged: a proxy sees tools it has never heard of. What the words get wrong is put right per tool in the
configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

COMMAND = 512
"""Characters of a command in which what it does is looked for; a script's text follows its first words."""


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
        "add_*", "post_*", "put_*", "*exchange*", "return_*", "*upload*",
    )  # fmt: skip
    shells: tuple[str, ...] = (
        "*bash*", "*shell*", "sh", "*exec*", "*terminal*", "run", "run_command*", "*command*", "cmd", "powershell",
        "*editor*",
    )  # fmt: skip
    reads: tuple[str, ...] = (
        "*read*", "view*", "open*", "cat", "grep*", "glob*", "find_*", "list*", "ls", "*fetch", "fetch*", "websearch",
        "extract_*", "get_*",
    )  # fmt: skip


DEFAULT_RULES = Rules()


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
    b"rm mv cp mkdir touch tee patch chmod chown ln kill truncate install uninstall unzip create str_replace insert "
    b"undo_edit INSERT UPDATE DELETE DROP CREATE apply_patch".split()
)
_GIT = frozenset(
    b"apply checkout commit stash reset restore revert merge rebase add mv rm pull push clean switch".split()
)
_REDIRECT = re.compile(r">(?<![0-9&<>=-]>)>?(?!\s*(?:/dev/null|&|=))\s*[\w./\"'$~\\]")
_SPACED = bytes.maketrans(b"\"';&|()", b"       ")


def changes(arguments: str) -> bool:
    """Whether a shell-like command changes something: writes, moves, installs. Bounded to COMMAND characters."""
    part = arguments[:COMMAND]
    if ">" in part and _REDIRECT.search(part) is not None:
        return True
    words = set(part.encode("utf-8", "surrogatepass").translate(_SPACED).split())
    if not _VERBS.isdisjoint(words) or (b"git" in words and not _GIT.isdisjoint(words)):
        return True
    return (b"sed" in words and b"-i" in words) or ".write(" in part or "write_text" in part
