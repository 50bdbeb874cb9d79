"""Values of arguments that the configuration calls the same, in one form: paths, times, lists, defaults.

Runs only for tools of which a `*_args` setting speaks, so that other calls pay nothing. Arguments are found by their
name at any depth, since a list of files is often a list of objects (Roo-Code#5879).
"""

from __future__ import annotations

import json
import posixpath
from collections.abc import Mapping

from guardproxy.core.tools import Tool

MOMENT = "~"
"""Stands for any point in time."""


def shaped(arguments: Mapping[str, object], tool: Tool) -> dict[str, object]:
    """The arguments of a call of `tool` in the form that equal calls share."""
    made = {key: _value(item, key, tool) for key, item in arguments.items() if key not in tool.ignored}
    return without_defaults(made, tool.defaults) if tool.defaults else made


def without_defaults(arguments: Mapping[str, object], defaults: Mapping[str, object]) -> dict[str, object]:
    """The arguments without those that say what would hold anyway."""
    return {key: item for key, item in arguments.items() if key not in defaults or not _same(item, defaults[key])}


def _same(one: object, other: object) -> bool:
    """Equality as JSON has it: true is not 1, at any depth."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(_same(item, other[key]) for key, item in one.items())
    if isinstance(one, list) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one == other and isinstance(one, bool) == isinstance(other, bool)


def _value(value: object, key: str, tool: Tool) -> object:
    if isinstance(value, dict):
        value = {k: _value(v, k, tool) for k, v in value.items() if k not in tool.ignored}
    elif isinstance(value, list):
        value = [_value(item, key, tool) for item in value]
        if key in tool.unordered:
            value = sorted(value, key=_order)
    elif isinstance(value, str) and key in tool.paths:
        value = one_path(value)
    return _timeless(value) if key in tool.times else value


def _order(value: object) -> str:
    return json.dumps(value, sort_keys=True)


def _timeless(value: object) -> object:
    if isinstance(value, dict):
        return {k: _timeless(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_timeless(item) for item in value]
    if isinstance(value, str):
        return MOMENT if any(map(str.isdigit, value)) else value
    return value if isinstance(value, bool) or value is None else MOMENT


def one_path(text: str) -> str:
    """A path in its shortest spelling; what stands in front of `://` stays. Links in the file system are not known."""
    text = text.replace("\\", "/")
    scheme, slashes, path = text.rpartition("://")
    if not path:
        return text
    short = posixpath.normpath(path)
    return f"{scheme}{slashes}{'/' + short.lstrip('/') if short[:1] == '/' else short}"
