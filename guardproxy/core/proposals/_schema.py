"""A tool's JSON schema, read leniently: what certainly does not fit, said exactly.

A schema says more than its tool insists on, and a call that the tool would have taken must not be stopped. So only
missing arguments, values of another kind and values outside a list count, and of these not:

- an argument that the tool can do without: it has a default, may be null, or only explains the call;
- null, or something empty, for an argument that is not required;
- a number for a number, written as 1.0, "1" or true; a truth value as "true" or 1; a scalar or a list of them as text;
- one thing where a list of such things is asked for; a text that holds the JSON of the list or object asked for;
- another spelling of a name or a listed value: case, `-` and `_`, a number as text;
- arguments that the schema does not name, also where `additionalProperties` is false: common generators write that
  for tools that drop what they do not know. They are named beside what is missing.

Bounds, lengths, patterns, formats and conditions are left to the tool: many clamp, cut or convert. What the schema
itself does wrong (unknown types, references that lead nowhere or outside) is no objection to a call.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, cast

from jsonschema_rs import Draft202012Validator, ValidationError

from guardproxy.core.advice import Problem, short
from guardproxy.core.memo import Memo
from guardproxy.core.proposals import _cost
from guardproxy.core.proposals._lenient import MAPS, Schema, kind_of, lenient, resolved

KEPT, LARGEST, LOOKED_AT, ITEMS, FEWER, QUOTED = 128, 150_000, 32, 32, 4, 60
"""Validators in each half of the memo; characters of a schema; errors looked at; items of a list that are looked at
for errors, and fewer where these cost too much; characters of a value quoted."""

_EMPTY: tuple[object, ...] = (None, "", [], {})
_TRUTH = frozenset("true false yes no on off 1 0 1.0 0.0".split())
_validators = Memo[int, tuple[Draft202012Validator | None, Schema]](KEPT)


def problems(schema: Schema, arguments: Mapping[str, object]) -> list[Problem]:
    """What is certainly wrong with a call's arguments; nothing where the schema itself cannot be read."""
    validator, root = _compiled(schema)
    if validator is None:
        return []
    try:
        begun = _worth_judging(validator, root, arguments)
        if begun is None:
            return []
        found = validator.iter_errors(begun)
        errors = [error for error in islice(found, LOOKED_AT) if _sure(error, root)]
        told = {problem for error in errors for problem in _told(error, root)}
    except (
        LookupError,
        AttributeError,
        TypeError,
        ValueError,
        RecursionError,
    ):  # a value or schema beyond what can be judged
        return []
    return sorted(told, key=lambda one: (one.kind == "unknown", one.path, one.kind))


def _worth_judging(validator: Draft202012Validator, root: Schema, arguments: object) -> object | None:
    """What of the arguments does not fit and can be judged in time; None where there is nothing, or too much."""
    for most in (ITEMS, FEWER):
        begun = _begun(arguments, most)
        price = _cost.cost(begun, root)
        if price.bearable and (not price.errors or validator.is_valid(begun)):
            return None
        if price.tellable:
            return begun
    return None


def quoted(value: object) -> str:
    """A value in short, with what it is."""
    if value is None:
        return "null"
    try:
        return f"{kind_of(value)} {short(json.dumps(value, ensure_ascii=False), QUOTED)}"
    except RecursionError:  # what can just be read cannot always be written
        return kind_of(value)


def plain(name: str) -> str:
    """A name however it is spelled: `filePath`, `file-path` and `file_path` are one."""
    return "".join(filter(str.isalnum, name)).casefold()


def _compiled(schema: Schema) -> tuple[Draft202012Validator | None, Schema]:
    """The validator of a schema and what it was made from; remembered, also that there is none."""
    try:
        text = json.dumps(schema, sort_keys=True)
    except (TypeError, ValueError, RecursionError):
        return None, {}
    known = _validators[hash(text)]
    return known if known is not None else _validators.keep(hash(text), _made(schema, len(text)))


def _made(schema: Schema, size: int) -> tuple[Draft202012Validator | None, Schema]:
    if size > LARGEST:
        return None, {}
    try:
        root = lenient(schema, schema)
        return (Draft202012Validator(root, validate_formats=False, offline=True) if root else None), root
    except (LookupError, TypeError, ValueError, RecursionError):
        return None, {}


def _begun(value: object, most: int) -> object:
    """A value with only the first items of its lists."""
    if isinstance(value, dict):
        return {key: _begun(item, most) for key, item in value.items()}
    return [_begun(item, most) for item in value[:most]] if isinstance(value, list) else value


def _place(error: ValidationError, root: Schema) -> tuple[Schema, Schema | None, str]:
    """The schema that an error is about, and the object schema and name under which it stands there as an argument.

    Raises LookupError or TypeError where the way to it is not plain.
    """
    node: Any = root
    holder: Schema | None = None
    name = ""
    path = iter(error.evaluation_path[:-1])
    for part in path:
        if part == "$ref":
            node = resolved(node["$ref"], root)
            continue
        if part in MAPS:
            holder, name = node, str(next(path))
            node = node[part][name]
            continue
        if part in ("items", "additionalProperties"):
            holder, name = None, ""
        node = node[part]
    return node, holder, name


def _sure(error: ValidationError, root: Schema) -> bool:
    """Whether no lenient tool would take what an error is about."""
    node, holder, name = _place(error, root)
    value, kind = error.instance, error.kind.name
    if holder is not None and value in _EMPTY and name not in holder.get("required", ()):
        return False
    if value is None and (node.get("nullable") is True or "default" in node):
        return False
    if kind == "anyOf":
        return all(any(_sure(inner, root) for inner in form) for form in _forms(error))
    if kind == "required":
        missing = plain(str(getattr(error.kind, "property", "")))
        return isinstance(value, dict) and missing not in map(plain, value)
    if kind == "type":
        types = cast("Sequence[str]", getattr(error.kind, "types", ()))
        return not any(_converts(value, one, node) for one in types)
    if kind in ("enum", "const"):
        listed = node["enum"] if kind == "enum" else [node["const"]]
        return plain(_text(value)) not in [plain(_text(one)) for one in listed]
    return False


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _converts(value: object, kind: str, node: Schema) -> bool:
    """Whether a lenient tool takes the value for one of this kind."""
    held = _held(value) if isinstance(value, str) else value
    match kind:
        case "integer" | "number":
            return isinstance(held, int | float)
        case "boolean":
            return isinstance(held, bool) or str(value).strip().casefold() in _TRUTH
        case "string":
            return isinstance(value, int | float) or (isinstance(value, list) and not any(map(_nested, value)))
        case "object":
            return isinstance(held, dict)
        case "array":
            return isinstance(held, list) or (value is not None and _fits(value, node.get("items")))
    return False


def _nested(value: object) -> bool:
    return isinstance(value, dict | list) or value is None


def _held(text: str) -> object:
    """What a text holds where it is JSON by itself."""
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        return text


def _fits(value: object, items: Any) -> bool:
    """Whether one value may be meant as a list of one."""
    types = items.get("type") if isinstance(items, Mapping) else None
    if types is None:
        return True
    return any(
        one == kind_of(value) or _converts(value, str(one), {})
        for one in ([types] if isinstance(types, str) else types)
    )


def _told(error: ValidationError, root: Schema) -> Iterator[Problem]:
    """An error in our words."""
    path, value, kind = _dotted(error.instance_path), error.instance, error.kind.name
    node, _, _ = _place(error, root)
    if kind == "required":
        missing = str(getattr(error.kind, "property", ""))
        known = node.get("properties", {})
        yield Problem("missing", _joined(path, missing), _expected(known.get(missing), root))
        if isinstance(value, dict):
            for name in islice((name for name in value if name not in known), 3):
                yield Problem("unknown", _joined(path, name))
        return
    if kind in ("enum", "const"):
        listed = node["enum"] if kind == "enum" else [node["const"]]
        yield Problem("enum", path, short(", ".join(map(_text, listed)), 4 * QUOTED), quoted(value))
    elif kind == "type":
        yield Problem("type", path, " or ".join(getattr(error.kind, "types", ())), quoted(value))
    elif (meant := _meant(error)) is not None:
        for inner in meant:
            if _sure(inner, root):
                yield from _told(inner, root)
    else:
        yield Problem("no_form", path, _expected(node, root), quoted(value))


def _forms(error: ValidationError) -> Sequence[Sequence[ValidationError]]:
    """What is wrong with a value by each of the forms that it may have."""
    return cast("Sequence[Sequence[ValidationError]]", getattr(error.kind, "context", ()))


def _meant(error: ValidationError) -> Sequence[ValidationError] | None:
    """What is wrong by the one form that was probably meant: of the right kind, with the fewest errors."""
    at = error.instance_path
    alike = [form for form in _forms(error) if all(one.kind.name != "type" or one.instance_path != at for one in form)]
    fewest = min(map(len, alike), default=0)
    found = [form for form in alike if len(form) == fewest]
    return found[0] if len(found) == 1 else None


def _expected(node: Any, root: Schema) -> str:
    """The kinds that a schema takes, as far as it says so plainly."""
    named: dict[str, None] = {}
    seen: set[int] = set()  # forms may share forms
    waiting = [node]
    while waiting and len(seen) < LOOKED_AT:
        one = waiting.pop()
        if isinstance(one, Mapping) and isinstance(one.get("$ref"), str):
            one = resolved(one["$ref"], root)
        if not isinstance(one, Mapping) or id(one) in seen:
            continue
        seen.add(id(one))
        types = one.get("type")
        if types is None:
            waiting += [form for key in ("allOf", "anyOf") for form in reversed(one.get(key, ()))]
        else:
            named |= dict.fromkeys(map(str, types if isinstance(types, list) else [types]))
    return " or ".join(named) or "any"


def _dotted(path: Sequence[str | int]) -> str:
    """`todos[0].status`."""
    made = ""
    for part in path:
        made = f"{made}[{part}]" if isinstance(part, int) else _joined(made, part)
    return short(made, QUOTED)


def _joined(path: str, name: str) -> str:
    return short(f"{path}.{name}" if path else name, QUOTED)
