"""What it would cost at most to judge a value by a schema: forms of forms grow without bound, and a worker waits.

Counted without judging, each pair of a schema and a value once, so that the count itself stays small. A count of
errors is never less than what a validator finds; 0 says that the value fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from guardproxy.core.proposals._lenient import Schema, kind_of, resolved

PAIRS, DEPTH, LOOKS, ERRORS = 2000, 200, 100_000, 400
"""Pairs that are counted (5 us each), how deep they may lie, looks of a validator (0.1 us each) and errors
that are worth their time (40 us each with all that is asked of them)."""

LISTED, QUOTED, NODES, CHARS, STEPS = 16, 100, 32, 2000, 3
"""Listed values for one look; what makes an error cost as much again: listed values that are compared and quoted,
values within the value, its characters, steps on the way to it (each form around an error copies it)."""


class Cost(NamedTuple):
    """Looks at a value, and errors weighed by the size of what they quote: the most there can be."""

    looks: int
    errors: int

    @property
    def bearable(self) -> bool:
        """Whether it may be asked for whether a value fits."""
        return self.looks <= LOOKS

    @property
    def tellable(self) -> bool:
        """Whether it may be asked for what is wrong."""
        return self.bearable and self.errors <= ERRORS


BEYOND = Cost(LOOKS + 1, ERRORS + 1)
"""The cost of what is not counted to its end."""


def cost(value: object, root: Schema) -> Cost:
    """Of judging a value by a lenient schema. Raises LookupError or TypeError where a reference leads nowhere."""
    try:
        return _Count(root).of(root, value, 0)
    except OverflowError:
        return BEYOND


class _Count:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._known: dict[tuple[int, int], Cost | None] = {}
        self._sizes: dict[int, tuple[int, int]] = {}

    def of(self, node: Any, value: object, depth: int) -> Cost:
        """The cost of one pair. Raises OverflowError where it is too much, or leads back to itself."""
        pair = id(node), id(value)  # both live as long as the count
        if pair in self._known:
            if (known := self._known[pair]) is None:
                raise OverflowError
            return known
        if len(self._known) >= PAIRS or depth >= DEPTH:
            raise OverflowError
        if not isinstance(node, dict):
            raise TypeError(node)
        self._known[pair] = None
        looks, errors = self._own(node, value, depth)
        for inner, part in self._within(node, value):
            one = self.of(inner, part, depth + 1)
            looks, errors = looks + one.looks, errors + one.errors
        if "anyOf" in node:
            forms = [self.of(form, value, depth + 1) for form in node["anyOf"]]
            looks += sum(form.looks for form in forms)
            if all(form.errors for form in forms):
                errors += self._weight(value, depth) + sum(form.errors for form in forms)
        if looks > LOOKS:
            raise OverflowError
        made = self._known[pair] = Cost(looks, errors)
        return made

    def _own(self, node: Schema, value: object, depth: int) -> tuple[int, int]:
        """Looks and errors of the keywords that hold no schema."""
        required, listed = node.get("required", ()), node.get("enum", ())
        wrong = len([name for name in required if name not in value]) if isinstance(value, dict) else 0
        wrong += "type" in node and not _is(value, node["type"])
        wrong += "const" in node or ("enum" in node and not (isinstance(value, str) and value in listed))
        looks = 1 + (len(required) + len(listed)) // LISTED
        return looks, wrong * (self._weight(value, depth) + len(listed) // QUOTED) if wrong else 0

    def _within(self, node: Schema, value: object) -> Iterator[tuple[Any, object]]:
        if isinstance(node.get("$ref"), str):
            yield resolved(node["$ref"], self._root), value
        for form in node.get("allOf", ()):
            yield form, value
        if isinstance(value, dict):
            properties, others = node.get("properties", {}), node.get("additionalProperties")
            for name, part in value.items():
                if name in properties:
                    yield properties[name], part
                elif others is not None:
                    yield others, part
        elif isinstance(value, list) and "items" in node:
            for part in value:
                yield node["items"], part

    def _weight(self, value: object, depth: int) -> int:
        nodes, chars = self._size(value)
        return 1 + nodes // NODES + chars // CHARS + depth // STEPS

    def _size(self, value: object) -> tuple[int, int]:
        """Values within a value, and its characters."""
        if isinstance(value, str):
            return 1, len(value)
        if not isinstance(value, dict | list):
            return 1, 8
        if (known := self._sizes.get(id(value))) is not None:
            return known
        sizes = [self._size(part) for part in (value.values() if isinstance(value, dict) else value)]
        named = sum(map(len, value)) if isinstance(value, dict) else 0
        made = self._sizes[id(value)] = 1 + sum(one for one, _ in sizes), named + sum(one for _, one in sizes)
        return made


def _is(value: object, types: object) -> bool:
    """Whether a value is certainly of one of the types."""
    kind = kind_of(value)
    named = types if isinstance(types, list) else [types]
    return kind in named or (kind == "integer" and "number" in named)
