"""Which files a run has changed, as far as its calls say so plainly: editing tools, patches, plain shell commands.

What is undone again counts as unchanged. What cannot be told (variables, patterns, programs) is left out.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import NamedTuple

from guardproxy.core.completion._candidate import Act, Candidate
from guardproxy.core.completion._commands import Part, literal, parts_of, under
from guardproxy.core.model import Flag

_EDITING = (
    "*edit*", "*write*", "*create_file*", "*new_file*", "*str_replace*", "*insert*", "*apply_diff*", "*apply_patch*",
    "*replace_in_file*", "*search_and_replace*", "*save_file*", "*notebook*", "patch", "*update_file*",
)  # fmt: skip
_REMOVING = ("*delete_file*", "*remove_file*", "rm")
_MOVING = ("*move_file*", "*rename_file*")
_LOOKING = ("*read*", "*view*", "*list*", "*search_file*", "*get*")
_PATHS = frozenset(
    "path file_path filepath filename file target_file notebook_path absolute_path relative_path target_path".split()
)
_FROM = frozenset("source src old_path from source_path".split())
_TO = frozenset("destination dest dst new_path to destination_path target_path".split())
_PATCH = re.compile(r"^\*\*\* (Add File|Update File|Delete File|Move to): (.+?)\s*$", re.MULTILINE)
_NOT_DONE = re.compile(
    r"(?i)\b(?:reject\w*|denied|declin\w*|refus\w*|not (?:allowed|permitted|applied|written|changed|saved)|n['’]t want|"
    r"cancel\w*|abort\w*|blocked|skipp\w*|permission|dry[ -]?run|no changes?|unchanged|preview)\b|"
    r"拒绝|取消|未修改|没有修改"
)
_UNDOING = frozenset("checkout restore stash reset clean switch revert".split())


class Change(NamedTuple):
    """`how`: created (perhaps anew), changed, removed; undone: back to what it was ("" as path: everything)."""

    how: str
    path: str


def changed(candidate: Candidate) -> dict[str, str]:
    """The files that are not as they were, each with how."""
    state: dict[str, str] = {}
    for act in candidate.acts:
        if act.succeeded and not act.flags & (Flag.CLEARED | Flag.PENDING) and not _NOT_DONE.search(act.text[:400]):
            for change in _changes(act):
                _note(state, change)
    return state


def _note(state: dict[str, str], change: Change) -> None:
    how, path = change
    if how == "undone" and (not path or path not in state):
        state.clear()
    elif how == "undone" or (how == "removed" and state.get(path) == "created"):
        state.pop(path)
    elif how == "removed" and any(known.startswith(f"{path}/") for known in state):
        for known in [known for known in state if known.startswith(f"{path}/")]:
            state.pop(known)
    elif how == "created" and state.get(path) == "changed":
        return
    else:
        state[path] = "created" if how == "changed" and state.get(path) == "created" else how


def _changes(act: Act) -> Iterator[Change]:
    tool = act.kind
    try:
        given = json.loads(act.call.arguments)
    except (ValueError, RecursionError):
        if _named(act.tool, _EDITING):
            yield from _patched(act.call.arguments)
        return
    if isinstance(given, dict) and (given.get("dry_run") or given.get("dryRun") or given.get("preview")):
        return
    parts = parts_of(act.tool, act.call.arguments) if tool.shell else ()
    if parts:
        for part in parts:
            yield from _ran(part)
            if part.words[:1] in (("apply_patch",), ("applypatch",)):
                yield from _patched(json.dumps(given, ensure_ascii=False).replace("\\n", "\n"))
    elif _named(act.tool, _EDITING) and not _named(act.tool, _LOOKING):
        yield from _edited(given)
    elif _named(act.tool, _REMOVING):
        yield from (Change("removed", path) for path in _found(given, _PATHS))
    elif _named(act.tool, _MOVING):
        yield from (Change("removed", path) for path in _found(given, _FROM))
        yield from (Change("created", path) for path in _found(given, _TO))


def _named(tool: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(tool, pattern) for pattern in patterns)


def _edited(given: object) -> Iterator[Change]:
    """What an editing tool changed. An editor that takes commands has one for looking."""
    if isinstance(given, dict):
        command = given.get("command")
        if command in ("view", "undo_edit"):
            return
        how = "created" if command == "create" else "changed"
        yield from (Change(how, path) for path in _found(given, _PATHS))
        for value in given.values():
            if isinstance(value, str) and "*** " in value:
                yield from _patched(value)
    elif isinstance(given, str):
        yield from _patched(given)


def _found(given: object, keys: frozenset[str], depth: int = 2) -> Iterator[str]:
    """The paths under the keys, also in lists of objects."""
    if isinstance(given, list) and depth:
        for item in given:
            yield from _found(item, keys, depth - 1)
    if not isinstance(given, dict):
        return
    for key, value in given.items():
        if key.casefold() in keys and isinstance(value, str) and (path := under("", value)):
            yield path
        elif isinstance(value, list):
            yield from _found(value, keys, depth)


def _patched(text: str) -> Iterator[Change]:
    for how, name in _PATCH.findall(text):
        path = under("", name)
        if path:
            yield Change(
                {"Add File": "created", "Delete File": "removed", "Move to": "created"}.get(how, "changed"), path
            )


def _ran(part: Part) -> Iterator[Change]:
    """What a simple command changed."""
    for name in part.writes:
        if literal(name) and (path := under(part.where, name)):
            yield Change("created", path)
    words = part.words
    if words[:1] == ("git",):
        yield from _git(part)
        return
    name, rest = words[0] if words else "", [word for word in words[1:] if word[:1] != "-" and word]
    if name == "sed" and any(re.match(r"--in-place|-[a-zA-Z]*i", word) for word in words[1:]):
        scripts = [after for word, after in pairwise(words) if word in ("-e", "-f", "--expression", "--file")]
        yield from _each("changed", part, [word for word in rest if word not in scripts] if scripts else rest[1:])
    elif name in ("touch", "tee"):
        yield from _each("created", part, rest)
    elif name == "rm":
        yield from _each("removed", part, rest)
    elif name in ("mv", "cp") and len(rest) == 2:
        yield from _each("removed", part, rest[:1] if name == "mv" else [])
        yield from _each("created", part, rest[1:])


def _each(how: str, part: Part, names: list[str]) -> Iterator[Change]:
    for name in names:
        path = under(part.where, name)
        if path is not None:
            yield Change(how, path)


def _git(part: Part) -> Iterator[Change]:
    words = part.words
    rest = [word for word in words[2:] if word[:1] != "-"]
    if words[1:2] == ("rm",):
        yield from _each("removed", part, rest)
    elif words[1:2] == ("mv",) and len(rest) == 2:
        yield from _each("removed", part, rest[:1])
        yield from _each("created", part, rest[1:])
    elif words[1:2] and words[1] in _UNDOING and not {"-b", "-c", "list", "show"} & set(words):
        paths = [under(part.where, name) for name in rest]
        yield from (Change("undone", path or "") for path in paths or [""])
