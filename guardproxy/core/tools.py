"""What kind of tool a name means, and whether a shell-like command changes something.

Only words are judged: a proxy sees tools it has never heard of. What the words get wrong is put right per tool in the
configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise

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
    looks: bool = False
    queries: bool = False


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def tool_of(name: str, rules: Rules) -> Tool:
    """The kind of the tool called `name` (casefolded)."""
    shell = _any(name, rules.shells)
    ignored = frozenset(rules.ignore_args.get(name, ()))
    mutates = not shell and _any(name, rules.mutates)
    reads = not mutates and _any(name, rules.reads)
    looks = reads or (not mutates and not shell and _any(name, _LOOKING))
    return Tool(_any(name, rules.think_like), mutates, shell, reads, ignored, looks, _any(name, _QUERYING))


_LOOKING = (
    "*search*", "*find*", "*lookup*", "look*", "*grep*", "*list*", "*get*", "*fetch*", "*query*", "*sql*", "*select*",
    "*browse*", "*retriev*", "recall*", "*describe*", "*show*", "*inspect*", "*count*",
)  # fmt: skip
_QUERYING = ("*query*", "*sql*")


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


_COMMAND = re.compile(r'"(?:command|cmd|script|code|input|bash_command)" ?: ?"((?:[^"\\]|\\.)*)"')
_FIRST_STRING = re.compile(r': ?"((?:[^"\\]|\\.)*)"')
_ASIDE = re.compile(r"'[^']*'|\"[^\"]*\"|\\\\;|[0-9&]?>>?\s*(?:/dev/null|&[0-9])")
_PARTS = re.compile(r"[;|&\n]+")
_WRITING = re.compile(
    r"\b(?:insert\s+into|update\s+\S+\s+set|delete\s+from|drop|alter|create|truncate|replace\s+into|merge\s+into|grant)\b"
)
_SLEEP = re.compile(r"\s*sleep +[\d.]+[smh]?\s*(?P<more>[;&\n]|$)")
_READERS = frozenset(
    "cd ls cat grep egrep fgrep zgrep rg ag ack find fd locate head tail less more wc sort uniq cut awk sed tr column "
    "tree stat file which whereis type pwd du df ps env printenv echo printf diff cmp comm jq yq strings nl xxd "
    "hexdump date whoami id uname test [ true basename dirname realpath readlink select show describe explain".split()
)
_SAFE_GIT = frozenset("status log show diff grep ls-files ls-tree blame rev-parse rev-list describe shortlog".split())


def _command(arguments: str) -> str | None:
    """The command that a shell's arguments hold, as text, without what makes it JSON; None: it holds none."""
    found = _COMMAND.search(arguments, 0, COMMAND) or _FIRST_STRING.search(arguments, 0, COMMAND)
    if found is None:
        return None
    return found.group(1).replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def only_looks(arguments: str, tool: Tool) -> bool:
    """Whether a call is known to change nothing: a tool that looks by its name, a shell that runs only readers."""
    if not tool.shell:
        return tool.looks and not (tool.queries and _WRITING.search(arguments[:COMMAND].lower()) is not None)
    command = _command(arguments)
    if command is None or changes(arguments):
        return False
    parts = [part.split() for part in _PARTS.split(_ASIDE.sub(" ", command))]
    return all(_reads(words) for words in parts if words)  # an empty command changes nothing, too


def _reads(words: list[str]) -> bool:
    if words[0] == "git":
        return len(words) > 1 and words[1] in _SAFE_GIT
    if words[0] == "xargs":
        words = [word for word in words[1:] if word[:1] not in "-{" and not word.isdigit()] or words
    inner = [after for word, after in pairwise(words) if word in ("-exec", "-execdir")]
    return words[0].lower() in _READERS and _READERS.issuperset(inner) and "-delete" not in words


def waits(arguments: str) -> str:
    """What a shell command that begins with a pause is: "only" a pause, "first" one and then a look, or neither."""
    if "sleep" not in arguments[:64]:
        return ""
    slept = _SLEEP.match(_command(arguments) or "")
    return "" if slept is None else "first" if slept["more"] else "only"
