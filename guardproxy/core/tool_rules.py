"""What a configuration says of single calls: which are forbidden, need a person, are answered later, or end a run.

A rule is about a tool, by a glob on its name; about the texts of some of its arguments; about the paths that it
touches. Globs are shell-like, upper and lower case alike, and `*` also stands for slashes. What is judged is the call
as the model wrote it: this keeps an agent from an accident, it is no sandbox against one that hides what it does (a
path put together by a script, a link in the file system).
"""

from __future__ import annotations

import json
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate
from functools import lru_cache

from guardproxy.core.model import Call

FORBID_EXTRA = {"extra": "forbid"}
"""How the configuration reads a rule: a misspelled key would make a rule that forbids more, or nothing."""


@dataclass(frozen=True, slots=True)
class ToolRule:
    """One rule. It matches a call whose tool, every argument in `args` and one of `paths` match; "" and () = any.

    `tool`: a glob on the name, or on what follows the server's name in it (`mcp__files__delete`). `args`: a glob per
    argument (`options.mode` = `mode` in `options`; in a list each item is tried). `paths`: globs on what is a path in
    any argument, or a word of a command; one without a leading `/` or `~` matches below any directory, and what lies
    in a matching directory matches too. `reason`: said to the model and to people. Raises ValueError where a value
    cannot be meant.
    """

    tool: str
    args: Mapping[str, str] = field(default_factory=dict, hash=False)
    paths: tuple[str, ...] = ()
    reason: str = ""

    __pydantic_config__ = FORBID_EXTRA

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if not self.tool.strip():
            raise ValueError("tool: an empty pattern matches no tool; * is every tool")
        if not all(name.strip() for name in self.args):
            raise ValueError("args: an argument needs a name")
        if not all(path.strip() for path in self.paths):
            raise ValueError("paths: an empty pattern matches no path")

    @property
    def label(self) -> str:
        """The rule in short, as people are told of it."""
        parts = {**self.args, **({"paths": " ".join(self.paths)} if self.paths else {})}
        told = ", ".join(f"{name}={glob}" for name, glob in parts.items())
        return f"{self.tool}({told})" if told else self.tool

    def concerns(self, tool: str) -> bool:
        """Whether calls of the tool can match."""
        name, pattern = tool.strip().casefold(), self.tool.strip().casefold()
        return fnmatchcase(name, pattern) or fnmatchcase(_SEGMENT.split(name)[-1], pattern)

    def matches(self, call: Call) -> bool:
        """Whether the call is one that is meant. Never raises, whatever stands in its arguments."""
        if not self.concerns(call.name):
            return False
        if not self.args and not self.paths:
            return True
        arguments = read(call.arguments)
        if not all(_argued(arguments, name, pattern) for name, pattern in self.args.items()):
            return False
        if not self.paths:
            return True
        meant = _glob(self.paths)
        return any(meant(path) for text in set(_paths(arguments)) for path in _spellings(text))


@dataclass(frozen=True, slots=True)
class ToolRules:
    """The rules of a policy by what follows from them.

    `deny`: never executed. `approval`: only when a person agrees. `human`: asks a person. `later`: its result comes
    later. `final`: its call is the final answer. `deadlines`: seconds by a glob on the tool's name. Raises ValueError
    where a deadline is no length of time.
    """

    deny: tuple[ToolRule, ...] = ()
    approval: tuple[ToolRule, ...] = ()
    human: tuple[ToolRule, ...] = ()
    later: tuple[ToolRule, ...] = ()
    final: tuple[ToolRule, ...] = ()
    deadlines: Mapping[str, float] = field(default_factory=dict, hash=False)

    __pydantic_config__ = FORBID_EXTRA

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for pattern, seconds in self.deadlines.items():
            if not pattern.strip():
                raise ValueError("deadlines: an empty pattern matches no tool")
            if not 0 < seconds < float("inf"):
                raise ValueError(f"deadlines.{pattern}: must be seconds, more than 0")


def first(rules: tuple[ToolRule, ...], call: Call) -> ToolRule | None:
    """The first of the rules that the call matches."""
    return next((rule for rule in rules if rule.matches(call)), None)


_SEGMENT = re.compile(r"__|[./:]")
"""What stands between a server's name and its tool's own."""

_COMMANDS = frozenset(
    "command commands cmd cmdline command_line script code input bash_command shell argv args arguments patch".split()
)
"""Arguments that hold commands: their words are tried as paths. Other texts are documents, which may name any path."""

_WORDS_ONLY = frozenset(
    "query pattern regex search text content contents body message prompt description question thought title reason "
    "old_string new_string old_str new_str".split()
)
"""Arguments that are words, even where they look like a path: who searches for `.env` does not open it."""

_DEEP = 8
"""Lists in lists in which an argument is looked for."""

_WORD_ENDS = re.compile(r"[\s;|&<>(){}\[\],=`]+")
_QUOTES = re.compile(r"[\"']")
_VARIABLE = re.compile(r"\$\{(\w+)\}")
_HOME = re.compile(r"(?:/home/[^/]+|/users/[^/]+|/root|[a-z]:/users/[^/]+|\$home|\$\{home\}|~[\w.-]*)(?=/|$)")


def read(arguments: str) -> object:
    """What the text of arguments says; an object written as a text in a text is read, too. Else the text itself."""
    value: object = arguments
    for _ in range(2):
        try:
            value = json.loads(value, strict=False) if isinstance(value, str) else value
        except (ValueError, RecursionError):
            break
    return value if isinstance(value, dict | list) else arguments


def _argued(arguments: object, name: str, pattern: str) -> bool:
    """Whether the argument's text matches. Arguments that cannot be read may hold it anywhere: agents mend some."""
    if not isinstance(arguments, dict):
        return _alike(arguments, f"*{pattern}*")
    return any(_alike(item, pattern) for item in _found(arguments, name))


def _found(value: object, name: str, deep: int = _DEEP) -> Iterator[object]:
    """The values under a (dotted) name, in each item of a list."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        value = read(value)
    if isinstance(value, list) and deep:
        for item in value:
            yield from _found(item, name, deep - 1)
    if not isinstance(value, dict):
        return
    if name in value:
        yield value[name]
    head, dot, rest = name.partition(".")
    if dot and head in value:
        yield from _found(value[head], rest)


def _alike(value: object, pattern: str) -> bool:
    """Whether the text of a value matches: as it stands, or without white space that does not count."""
    folded = pattern.casefold()
    for text in _texts(value):
        plain = text.casefold()
        if fnmatchcase(plain, folded) or fnmatchcase(" ".join(plain.split()), folded):
            return True
    return False


def _texts(value: object) -> Iterator[str]:
    """How a value can be read as a text: a list item by item, and as the words of one command."""
    if isinstance(value, str):
        yield value
        return
    if isinstance(value, list):
        said = [item for item in value if isinstance(item, str)]
        yield from said
        yield " ".join(said)
    try:
        yield json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    except RecursionError:  # deeper than any glob means
        return


def _paths(value: object, key: str = "") -> Iterator[str]:
    """What may be a path: each text of the arguments, and the words of commands."""
    waiting: list[tuple[str, object]] = [(key, value)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += [(name.casefold(), item) for name, item in value.items()]
        elif isinstance(value, list):
            waiting += [(key, item) for item in value]
        elif isinstance(value, str) and key not in _WORDS_ONLY:
            yield value
            if key in _COMMANDS or not key:
                yield from _words(value)


def _words(command: str) -> Iterator[str]:
    """The words of a command, quotes taken as borders and as nothing; `a:b` and `a=b` are two words and one."""
    command = _VARIABLE.sub(r"$\1", command)
    for bare in {_QUOTES.sub(" ", command), _QUOTES.sub("", command)}:
        for word in _WORD_ENDS.split(bare):
            yield word
            if ":" in word:
                yield from word.split(":")


def _spellings(text: str) -> Iterator[str]:
    """A path in its shortest spelling, and the same from the home directory or, out of a directory, from the root."""
    path = text.strip().replace("\\", "/").casefold().removeprefix("file://")
    if not path or "\n" in path:
        return
    path = posixpath.normpath(path)
    path = "/" + path.lstrip("/") if path[0] == "/" else path
    yield path
    home = _HOME.match(path)
    if home is not None:
        yield "~" + path[home.end() :]
    if path.startswith("../"):  # nobody knows where from: what is forbidden there is presumed
        yield "/" + path.replace("../", "")


def _forms(pattern: str) -> Iterator[str]:
    """The globs that a pattern stands for: below any directory where it is relative; `/**/` is also nothing."""
    path = pattern.strip().replace("\\", "/").casefold().removeprefix("./")
    home = _HOME.match(path)
    path = "~" + path[home.end() :] if home is not None and path[0] in "~$" else path
    path = path.removesuffix("/**").rstrip("/") or "/"
    for form in {path, path.replace("/**/", "/")}:
        yield form
        if form[0] not in "/~" and not re.match("[a-z]:/", form):
            yield "*/" + form.removeprefix("**/")
            yield form.removeprefix("**/")


@lru_cache(maxsize=256)
def _glob(patterns: tuple[str, ...]) -> Callable[[str], object]:
    """What tells whether a path in its shortest spelling is one of those meant, or lies below one."""
    forms = {form for pattern in patterns for form in _forms(pattern)}
    below = {f"{form.rstrip('/')}/*" for form in forms}
    return re.compile("|".join(translate(form) for form in sorted(forms | below))).match
