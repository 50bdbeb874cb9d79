"""The configuration file as a plain document: YAML read strictly, environment references filled in. No schema here.

Every problem is a line `path: what is wrong`; they are collected, so that one run names them all.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from guardproxy.errors import ConfigError

LARGEST = 1 << 20
"""Bytes of a configuration file. Real ones have a few kilobytes."""

_MOST_VALUES = 100_000  # YAML aliases can make a small file large
_REFERENCE = re.compile(r"\$\$\{|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?\}|\$\{")
_DEEPEST = 30
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

Document = dict[str, Any]


class _Loader(yaml.SafeLoader):
    """Safe YAML in which a key given twice is an error: the first one would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002 - PyYAML's signature
        seen: set[str] = set()
        for key, _ in node.value:
            name = key.value if isinstance(key, yaml.ScalarNode) else ""
            if name in seen and name != "<<":
                raise yaml.MarkedYAMLError(problem=f"the key {name!r} is given twice", problem_mark=key.start_mark)
            seen.add(name)
        return super().construct_mapping(node, deep)

    def construct_number(self, node: yaml.ScalarNode) -> int | float | str:
        """A number, or the text of what only YAML 1.1 takes for one: to it 1:20 is 80."""
        if ":" in node.value:
            return str(node.value)
        return self.construct_yaml_int(node) if node.tag.endswith(":int") else self.construct_yaml_float(node)


for _tag in ("int", "float"):
    _Loader.add_constructor(f"tag:yaml.org,2002:{_tag}", _Loader.construct_number)


def read(path: Path) -> str:
    """The text of a configuration file."""
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST + 1)
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror or error}") from error
    if len(raw) > LARGEST:
        raise ConfigError(f"{path} has more than {LARGEST} bytes: that is no configuration of ours")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path} is not UTF-8 (byte {error.start})") from error


def parse(text: str, name: str) -> Document:
    """YAML text as a document; `name` is the file's, for messages. An empty file is an empty document."""
    try:
        document = yaml.load(text, _Loader)  # noqa: S506 - a subclass of SafeLoader
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{name}:{where} {error.problem or error.context or 'is no YAML'}") from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a timestamp like 2020-99-99
        raise ConfigError(f"{name}: is no YAML: {' '.join(str(error).split())}") from error
    if document is None:
        return {}
    if not isinstance(document, dict):
        raise ConfigError(f"{name}: must be a mapping of sections, not {_kind(document)}")
    return document


def fill(document: Document, env: Mapping[str, str]) -> tuple[Document, dict[str, str]]:
    """`${NAME}` and `${NAME:-default}` replaced in every text value (`$${` stays `${`), and the problems by path."""
    problems: dict[str, str] = {}
    count = 0

    def walk(value: Any, path: tuple[str, ...]) -> Any:
        nonlocal count
        count += 1
        if count > _MOST_VALUES or len(path) > _DEEPEST:
            raise ConfigError("the configuration is too large or refers to itself")
        if isinstance(value, dict):
            return {key: walk(item, (*path, str(key))) for key, item in value.items()}
        if isinstance(value, list):
            return [walk(item, (*path, str(index))) for index, item in enumerate(value)]
        if isinstance(value, str):
            return _REFERENCE.sub(lambda match: _resolve(match, env, lambda wrong: note(path, wrong)), value)
        return value

    def note(path: tuple[str, ...], wrong: str) -> str:
        problems[".".join(path)] = wrong
        return ""

    return walk(document, ()), problems


def spare(document: Document, problems: Mapping[str, str], needed: Sequence[str]) -> tuple[Document, Mapping[str, str]]:
    """Leave out what a command can do without that only reaches the store: a key of the provider's that is not in its
    environment. `needed`: the sections in which every reference must be answered; empty = all.
    """
    left = {path: wrong for path, wrong in problems.items() if not needed or path.startswith(tuple(needed))}
    for path in problems.keys() - left.keys():
        section = path.split(".")[:-1] or [path]  # whole: one without its secret would be refused, too
        while section:
            *above, last = section
            place = get(document, ".".join(above)) if above else document
            if isinstance(place, dict) and last in place:
                del place[last]
                break
            section = above  # of a list: all of it
    return document, left


def unprintable(value: object, path: tuple[str, ...] = ()) -> dict[str, str]:
    """Problems by path: text that would forge a header or a log line, or cannot be sent at all."""
    if isinstance(value, str):
        return {".".join(path): "must not hold a line break or another control character"} if _odd(value) else {}
    if isinstance(value, Mapping):
        inner = [(str(key), item) for key, item in value.items()]
        problems = {".".join(path): "has a key with a control character"} if any(_odd(key) for key, _ in inner) else {}
    elif isinstance(value, list):
        problems, inner = {}, [(str(index), item) for index, item in enumerate(value)]
    else:
        return {}
    for key, item in inner:
        problems |= unprintable(item, (*path, key))
    return problems


def _odd(text: str) -> bool:
    return _UNPRINTABLE.search(text) is not None


def _resolve(match: re.Match[str], env: Mapping[str, str], problem: Callable[[str], str]) -> str:
    if match[0] == "$${":
        return "${"
    name = match["name"]
    if name is None:
        return problem("has a broken reference: write ${NAME} or ${NAME:-default}, and $${ for a plain ${")
    value = env.get(name) or match["default"]  # as in the shell, :- stands in for an empty value too
    if value is None and name not in env:
        return problem(f"refers to ${{{name}}}, which is not set in the environment")
    return value or ""


def put(document: Document, path: str, value: object) -> None:
    """Set the value at a dotted path; what is no mapping on the way is left for the schema to complain of."""
    *sections, last = path.split(".")
    for section in sections:
        inner = document.get(section)
        if inner is None:
            inner = document[section] = {}
        if not isinstance(inner, dict):
            return
        document = inner
    document[last] = value


def get(document: Mapping[str, Any], path: str) -> object:
    """The value at a dotted path, or None."""
    value: object = document
    for section in path.split("."):
        value = value.get(section) if isinstance(value, Mapping) else None
    return value


def nearest(name: str, known: Iterable[str]) -> str:
    """`; did you mean 'x'?` or the known names, for an unknown `name`."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f"; did you mean '{close[0]}'?"
    return f"; known here: {', '.join(names)}" if names else ""


def _kind(value: object) -> str:
    return {list: "a list", str: "text", bool: "true or false"}.get(type(value), "a number")
