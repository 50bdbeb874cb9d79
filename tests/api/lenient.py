"""A client that forgives everything: every name that anybody might read as that of a call in an answer's bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Fields = dict[str, Any]


def names(raw: bytes, *, stream: bool) -> set[str]:
    """All names of calls in it, by the first, the last or all of their pieces, by every choice or across them."""
    found: set[str] = set()
    for errors in ("ignore", "replace"):
        for first in (False, True):
            joined: dict[Any, str] = {}
            for payload in _payloads(raw.decode(errors=errors), stream=stream, first=first):
                for keys, name in _pieces(payload):
                    found.add(name)
                    for key in keys:
                        joined[key] = joined.get(key, "") + name
                        found.add(joined[key])
    return found


def _payloads(text: str, *, stream: bool, first: bool) -> Iterator[Any]:
    if not stream:
        yield from _read(text, first=first)
        return
    lines = [line.strip("\ufeff \t") for line in text.splitlines()]
    block: list[str] = []
    for line in [*lines, ""]:
        if line.lower().startswith("data:"):
            yield from _read(line[5:], first=first)
            block.append(line[5:])
        elif line.startswith("{"):
            yield from _read(line, first=first)
        elif not line:
            if len(block) > 1:
                yield from _read("\n".join(block), first=first)
            block = []


def _read(text: str, *, first: bool) -> Iterator[Any]:
    def paired(pairs: list[tuple[str, Any]]) -> Fields:
        folded = [(key.casefold(), value) for key, value in pairs]
        return dict(reversed(folded)) if first else dict(folded)

    decoder = json.JSONDecoder(object_pairs_hook=paired, strict=False, parse_int=lambda digits: int(digits[:9]))
    try:
        value = decoder.raw_decode(text.strip("\ufeff \t\r\n"))[0]
        yield from value if isinstance(value, list) else [value]
    except (ValueError, RecursionError):
        return


def _items(value: Any) -> list[Any]:
    if isinstance(value, dict):
        inner = [one for one in value.values() if isinstance(one, dict)]
        return [value, *inner]
    return value if isinstance(value, list) else []


def _pieces(payload: Any) -> Iterator[tuple[list[Any], str]]:
    """Each piece of a name, and by what it may be put together with others."""
    if not isinstance(payload, dict):
        return
    for choice in _items(payload.get("choices")):
        if not isinstance(choice, dict):
            continue
        for said in (choice.get("delta"), choice.get("message")):
            if not isinstance(said, dict):
                continue
            older = said.get("function_call")
            if isinstance(older, dict) and isinstance(older.get("name"), str):
                yield ["older"], older["name"]
            for entry in _items(said.get("tool_calls")):
                yield from _named(choice.get("index"), entry)


def _named(choice: Any, entry: Any) -> Iterator[tuple[list[Any], str]]:
    if not isinstance(entry, dict):
        return
    at = entry.get("index")
    for holder in (entry.get("function"), entry.get("custom"), entry):
        if isinstance(holder, dict) and isinstance(holder.get("name"), str) and holder["name"]:
            yield ([str(at), (choice, str(at))] if at is not None else []), holder["name"]
