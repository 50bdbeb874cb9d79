"""What kind of tool a name means, and whether a shell-like command changes something.

Only words are judged: a proxy sees tools it has never heard of. What the words get wrong is put right per tool in the
configuration.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from itertools import pairwise

COMMAND = 512
"""Characters of a command in which what it does is looked for; a script's text follows its first words."""


@dataclass(frozen=True, slots=True)
class Rules:
    """What a configuration says of tools: lists of name patterns, and arguments by name pattern.

    A pattern is a glob, upper and lower case alike. What is said here wins over the words that names are judged by.
    Arguments are named as the call names them and found at any depth, defaults at the top. Raises ValueError with the
    field in front where a value cannot be meant.
    """

    defaults: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """An argument that has its default is as if absent. Defaults in a request's tool schemas count by themselves."""

    ignore_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Arguments that do not count: a nonce, a request id."""

    unordered_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Lists whose order has no meaning: labels, files to read."""

    path_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Paths: `./a`, `a/`, `b/../a`, `.//a` and `a` are one. Elsewhere that only makes calls alike, never equal."""

    time_args: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Points in time: time stamps, `now-5m`, `last 2 hours`. What holds a digit is one and the same."""

    think_like: tuple[str, ...] = ()
    """Tools that look at nothing outside; what they answer is no evidence."""

    failure_ok: tuple[str, ...] = ()
    """Tools whose failures are ordinary answers, such as a check that is meant to be red: no failed steps."""

    read_only: tuple[str, ...] = ()
    """Tools that change nothing, whatever they are called; words like "error" in what they show are content."""

    mutates: tuple[str, ...] = ()
    """Tools that change something, whatever they are called."""

    shells: tuple[str, ...] = ()
    """Tools that run commands: each call is judged by its command."""

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("think_like", "failure_ok", "read_only", "mutates", "shells"):
            _patterns(name, getattr(self, name))
        for name in ("ignore_args", "unordered_args", "path_args", "time_args"):
            for pattern, arguments in getattr(self, name).items():
                _patterns(name, (pattern,))
                if not arguments or not all(arguments):
                    raise ValueError(f"{name}.{pattern}: must name at least one argument, and no empty one")
        for pattern, values in self.defaults.items():
            _patterns("defaults", (pattern,))
            if not values:
                raise ValueError(f"defaults.{pattern}: must give at least one argument its default")
        for one, other in (("read_only", "mutates"), ("read_only", "shells"), ("mutates", "shells")):
            both = set(map(str.casefold, getattr(self, one))) & set(map(str.casefold, getattr(self, other)))
            if both:
                raise ValueError(f"{one}: {min(both)!r} is in {other} too; a tool can be one of them only")


def _patterns(name: str, patterns: tuple[str, ...]) -> None:
    if not all(pattern.strip() for pattern in patterns):
        raise ValueError(f"{name}: an empty pattern matches no tool")


DEFAULT_RULES = Rules()

_THINKING = ("think", "think_*", "*thinking*", "calculat*", "wait", "wait_*", "sleep", "reflect")
_SEGMENT = re.compile(r"__|[./:]")
"""What stands between a server and the tool's own name (`mcp__browser__wait`, `browser.wait`)."""
_PAUSING = ("*wait*", "*sleep*", "*pause*", "*delay*")
_CHANGING = (
    "*edit*", "*write*", "*create*", "*update*", "*delete*", "*insert*", "*replace*", "*patch*", "*send*",
    "*book*", "*cancel*", "*modify*", "*install*", "*move*", "*rename*", "*commit*", "*push*", "*remove*", "set_*",
    "add_*", "post_*", "put_*", "*exchange*", "return_*", "*upload*",
)  # fmt: skip
_SHELLS = (
    "*bash*", "*shell*", "sh", "*exec*", "*terminal*", "run", "run_command*", "*command*", "cmd", "powershell",
    "*editor*",
)  # fmt: skip
_READING = (
    "*read*", "view*", "open*", "cat", "grep*", "glob*", "find_*", "list*", "ls", "*fetch", "fetch*", "websearch",
    "extract_*", "get_*",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Tool:
    """What kind of tool a name means under some rules, and what of its arguments does not count."""

    think: bool
    mutates: bool
    shell: bool
    reads: bool
    looks: bool = False
    queries: bool = False
    failure_ok: bool = False
    waits: bool = False
    """Whether it may wait: a shell, and what does so where it is given nothing but a time."""

    shaped: bool = False
    """Whether any of what follows says something."""

    defaults: Mapping[str, object] = field(default_factory=dict, hash=False)
    ignored: frozenset[str] = frozenset()
    unordered: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    times: frozenset[str] = frozenset()


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern.casefold()) for pattern in patterns)


def tool_of(name: str, rules: Rules) -> Tool:
    """The kind of the tool called `name` (casefolded). What the rules say wins over words in the name."""
    read_only = _any(name, rules.read_only)
    mutates = not read_only and _any(name, rules.mutates)
    shell = not (read_only or mutates) and _any(name, rules.shells)
    said = read_only or mutates or shell
    if not said:
        shell = _any(name, _SHELLS)
        mutates = not shell and _any(name, _CHANGING)
    reads = read_only or (not mutates and not shell and _any(name, _READING))
    looks = reads or (not mutates and not shell and _any(name, _LOOKING))
    think = _any(name, rules.think_like) or (not said and _any(_SEGMENT.split(name)[-1], _THINKING))
    queries = not read_only and _any(name, _QUERYING)
    pauses = shell or (not (said or think) and _any(name, _PAUSING))
    made = Tool(think, mutates, shell, reads, looks, queries, _any(name, rules.failure_ok), pauses)
    return _with_arguments(made, name, rules)


def _with_arguments(tool: Tool, name: str, rules: Rules) -> Tool:
    defaults = {k: v for pattern, said in rules.defaults.items() if _any(name, (pattern,)) for k, v in said.items()}
    sets = [
        frozenset(key for pattern, keys in said.items() if _any(name, (pattern,)) for key in keys)
        for said in (rules.ignore_args, rules.unordered_args, rules.path_args, rules.time_args)
    ]
    if not defaults and not any(sets):
        return tool
    ignored, unordered, paths, times = sets
    return replace(tool, shaped=True, defaults=defaults, ignored=ignored, unordered=unordered, paths=paths, times=times)


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


def replaces(arguments: str, tool: Tool) -> bool:
    """Whether a call changes a part of something, which must be there for that: no match is a failure."""
    return tool.mutates or (tool.shell and '"str_replace"' in arguments[:COMMAND])


_COMMAND = re.compile(r'"(?:command|cmd|script|code|input|bash_command)" ?: ?"((?:[^"\\]|\\.)*)"')
_ARGV = re.compile(r'"(?:command|cmd|argv|args)" ?: ?\[ ?((?:"(?:[^"\\]|\\.)*"(?: ?, ?)?)+)')
_WORD = re.compile(r'"((?:[^"\\]|\\.)*)"')
_INNER = re.compile(r"(?:\S*/)?(?:ba|z|da|k)?sh -\w*c ")
_FIRST_STRING = re.compile(r': ?"((?:[^"\\]|\\.)*)"')
_ASIDE = re.compile(r"'[^']*'|\"[^\"]*\"|\\\\;|[0-9&]?>>?\s*(?:/dev/null|&[0-9])")
_PARTS = re.compile(r"[;|&\n]+")
_WRITING = re.compile(
    r"\b(?:insert\s+into|update\s+\S+\s+set|delete\s+from|drop|alter|create|truncate|replace\s+into|merge\s+into|grant)\b"
)
GLANCE = 240
"""Characters of arguments up to which a plain look is looked for: it is short."""

_GLANCE = re.compile(
    r'"(?:cd [^;&|"\\]{1,80}&& ?)?'
    r"(?:ls|tree|pwd|cat|head|tail|wc|stat|date|which|find|grep|rg|sed -n|git (?:status|diff|log|show))"
    r'(?![^" ])(?!(?:[^"\\]|\\.)*(?:[;&|>`$]|\\n|-delete|-exec|-i\b))'
)
_SLEEP = re.compile(r"\s*sleep +[\d.]+[smh]?\s*(?P<more>[;&\n]|$)")
_TIME_ALONE = re.compile(r'\s*\{\s*"\w+"\s*:\s*"?\d+(?:\.\d+)?(?: ?m?s)?"?\s*\}\s*')
_READERS = frozenset(
    "cd ls cat grep egrep fgrep zgrep rg ag ack find fd locate head tail less more wc sort uniq cut awk sed tr column "
    "tree stat file which whereis type pwd du df ps env printenv echo printf diff cmp comm jq yq strings nl xxd "
    "hexdump date whoami id uname test [ true basename dirname realpath readlink select show describe explain".split()
)
_SAFE_GIT = frozenset("status log show diff grep ls-files ls-tree blame rev-parse rev-list describe shortlog".split())


def _command(arguments: str) -> str | None:
    """The command that a shell's arguments hold, as text, without what makes it JSON; None: it holds none."""
    found = _COMMAND.search(arguments, 0, COMMAND)
    if found is None and (listed := _ARGV.search(arguments, 0, COMMAND)) is not None:
        words = " ".join(_WORD.findall(listed[1]))  # as Codex sends it: a shell and what it is to run, word for word
        inner = _INNER.match(words)
        return _unescaped(words[inner.end() :] if inner else words)
    found = found or _FIRST_STRING.search(arguments, 0, COMMAND)
    return None if found is None else _unescaped(found.group(1))


def _unescaped(text: str) -> str:
    return text.replace("\\n", "\n").replace('\\"', '"').replace("\\\\", "\\")


def only_looks(arguments: str, tool: Tool) -> bool:
    """Whether a call is known to change nothing: a tool that looks by its name, a shell that runs only readers."""
    if not tool.shell:
        return tool.looks and not (tool.queries and _WRITING.search(arguments[:COMMAND].lower()) is not None)
    command = _command(arguments)
    if command is None or changes(arguments):
        return False
    parts = [part.split() for part in _PARTS.split(_ASIDE.sub(" ", command))]
    return all(_reads(words) for words in parts if words)  # an empty command changes nothing, too


def glances(arguments: str) -> bool:
    """Whether a shell's command is one plain look and nothing else; told in a microsecond, so that most are not."""
    return len(arguments) <= GLANCE and _GLANCE.search(arguments) is not None


def _reads(words: list[str]) -> bool:
    if words[0] == "git":
        return len(words) > 1 and words[1] in _SAFE_GIT
    if words[0] == "xargs":
        words = [word for word in words[1:] if word[:1] not in "-{" and not word.isdigit()] or words
    inner = [after for word, after in pairwise(words) if word in ("-exec", "-execdir")]
    return words[0].lower() in _READERS and _READERS.issuperset(inner) and "-delete" not in words


def waits(arguments: str, tool: Tool) -> str:
    """What a call that begins with a pause is: "only" a pause, "first" one and then a look, or neither."""
    if not tool.shell:
        return "only" if tool.waits and _TIME_ALONE.fullmatch(arguments) is not None else ""
    if "sleep" not in arguments[:COMMAND]:
        return ""
    slept = _SLEEP.match(_command(arguments) or "")
    return "" if slept is None else "first" if slept["more"] else "only"
