"""A JSON schema with only what its tool certainly insists on; `_schema` says what that is, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from guardproxy.core.canon import COSMETIC

Schema = Mapping[str, Any]

MAPS = ("properties", "$defs", "definitions")
"""Keywords that hold schemas by name."""

_LISTS = ("anyOf", "oneOf", "allOf")
_KINDS = {dict: "object", list: "array", str: "string", bool: "boolean", int: "integer", float: "number"}

FORMS = 48
"""Forms of an argument that are looked at for null; one with more may be null for all we know."""


def kind_of(value: object) -> str:
    """The name that JSON has for what a value is."""
    return _KINDS.get(type(value), "null")


def lenient(node: Any, root: Schema) -> dict[str, Any]:
    """The schema with only what counts; what is left out makes it ask for less."""
    if not isinstance(node, Mapping):
        return {}
    if isinstance(node.get("$ref"), str):
        return {key: node[key] for key in ("$ref", "default", "nullable") if key in node} | _maps(node, root)
    made = {key: node[key] for key in ("type", "const", "default", "nullable") if key in node}
    if isinstance(node.get("enum"), list) and node["enum"]:
        made["enum"] = node["enum"]
    made |= _maps(node, root)
    for key in _LISTS:
        if isinstance(node.get(key), list) and node[key]:
            forms = [lenient(one, root) for one in node[key]]
            made.setdefault("allOf", []).extend(forms if key == "allOf" else [{"anyOf": forms}])
    if isinstance(node.get("items"), Mapping) and "prefixItems" not in node:
        made["items"] = lenient(node["items"], root)
    if isinstance(node.get("additionalProperties"), Mapping) and "patternProperties" not in node:
        made["additionalProperties"] = lenient(node["additionalProperties"], root)
    required = node.get("required")
    if isinstance(required, list):
        made["required"] = [name for name in required if isinstance(name, str) and _needed(name, node, root)]
    return made


def _maps(node: Schema, root: Schema) -> dict[str, Any]:
    """The named schemas of a node."""
    return {
        key: {name: lenient(one, root) for name, one in node[key].items()}
        for key in MAPS
        if isinstance(node.get(key), Mapping)
    }


def _needed(name: str, node: Schema, root: Schema) -> bool:
    """Whether a tool cannot do without an argument that its schema requires."""
    properties = node.get("properties")
    one = properties.get(name) if isinstance(properties, Mapping) else None
    return isinstance(one, Mapping) and name not in COSMETIC and not _may_be_null(one, root)


def _may_be_null(node: Any, root: Schema) -> bool:
    """Whether one of the forms of an argument takes null, or is none that can be read."""
    seen: set[int] = set()  # forms may share forms
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        if len(seen) > FORMS or not isinstance(one, Mapping) or _says_null(one):
            return True
        if isinstance(one.get("$ref"), str):
            waiting.append(resolved(one["$ref"], root))
            continue
        waiting += [form for key in ("anyOf", "oneOf") if isinstance(one.get(key), list) for form in one[key]]
    return False


def _says_null(node: Schema) -> bool:
    if "default" in node or node.get("nullable") is True:
        return True
    if isinstance(node.get("$ref"), str):
        return False
    types, listed = node.get("type"), node.get("enum")
    if types == "null" or (isinstance(types, list) and "null" in types):
        return True
    return (isinstance(listed, list) and None in listed) or ("const" in node and node["const"] is None)


def resolved(ref: str, root: Schema) -> Any:
    """What a reference inside the schema leads to. Raises LookupError where it leads nowhere or outside."""
    if not ref.startswith("#"):
        raise LookupError(ref)
    found: Any = root
    for part in ref[1:].split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        found = found[int(key)] if isinstance(found, list) else found[key]
    return found
