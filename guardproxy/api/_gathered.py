"""An answer as the assistant message that a later request carries: the chunks of a stream put together, or a whole one.

Unknown fields are kept, since providers ask for them again (thought signatures, reasoning); what they refuse in a
request (`index` of a call, nulls, empty lists of calls) is left out. No id is made up: a missing one is empty.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from guardproxy.api._answer import number_of
from guardproxy.api._calls import Calls, index_of, inner_of
from guardproxy.api._json import mend, peek, text_of
from guardproxy.api._sse import data_of
from guardproxy.core.model import Call

Raw = Mapping[str, object]
Fields = dict[str, object]

CALLS = ("tool_calls", "function_call")
WORDS = frozenset(("content", "refusal", "reasoning", "reasoning_content", "reasoning_text", "thinking", "transcript"))
"""Strings that come in pieces; any other string comes whole."""
_TAKEN = ("id", "name", "arguments", "input")
PIECES = ("text", "summary", "thinking")
"""The strings of a reasoning block that come in pieces."""


def said(entry: Raw) -> Fields:
    """The delta of a choice, or the message that some providers send in its place."""
    return next((found for key in ("delta", "message") if isinstance(found := entry.get(key), dict)), {})


def choices(payload: object) -> list[Fields]:
    """The choices of a chunk or completion."""
    entries = payload.get("choices") if isinstance(payload, dict) else None
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def has_calls(delta: Raw) -> bool:
    """Whether a delta adds to a call."""
    return bool(entries_of(delta)) or (isinstance(delta.get("function_call"), dict) and not delta.get("tool_calls"))


def entries_of(delta: Raw) -> list[Fields]:
    """The entries of its `tool_calls`."""
    entries = delta.get("tool_calls")
    return [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


class Gathered:
    """The message of an answer whose events or body were taken. `calls` are those of `message`, in a request's form."""

    def __init__(self) -> None:
        self._fields: Fields = {}
        self._calls = Calls()
        self._merged: dict[int, Fields] = {}  # by the order of their beginnings
        self._legacy: Fields | None = None
        self._whole: list[Fields] | None = None
        self.chunks: list[list[tuple[int, Fields]]] = []
        """Of each delta with calls: which call an entry belongs to, by the order of beginnings, and the entry."""

    def stream(self, events: Iterable[bytes], choice: int = 0) -> Gathered:
        """Take the events of a stream, of the choice with that index."""
        for event in events:
            data = data_of(event)
            for entry in choices(peek(data) if data else None):
                if number_of(entry.get("index")) != choice:
                    continue
                delta = entry.get("delta")
                if isinstance(delta, dict):
                    self._delta(delta)
                elif not self._merged and not self._legacy and not self._fields.keys() & WORDS:
                    self._message(said(entry))  # as a whole, in place of a delta
        return self

    def whole(self, payload: object) -> Gathered:
        """Take a completion."""
        for entry in choices(payload)[:1]:
            self._message(said(entry))
        return self

    def _message(self, message: Raw) -> None:
        self._whole = [_call(one) for one in entries_of(message)] or None
        if self._whole or isinstance(message.get("function_call"), dict):
            self.chunks.append([])
        legacy = message.get("function_call")
        self._legacy = _function(legacy) if isinstance(legacy, dict) else None
        self._fields |= {key: value for key, value in message.items() if value is not None and key not in CALLS}

    @property
    def order(self) -> list[int]:
        """The calls, by the order of their beginnings, in the order in which `calls` has them."""
        if self._whole is not None:
            return list(range(len(self._whole)))
        return self._calls.ordered() or ([0] if self._legacy is not None else [])

    @property
    def calls(self) -> list[Fields]:
        """The calls as a request carries them; of the older kind where there are no others."""
        if self._whole is not None:
            found = self._whole
        else:
            pairs = zip(self._calls.ordered(), self._calls.built(), strict=True)
            older = self._legacy or {}
            found = [_put(self._merged[at], call) if at in self._merged else older for at, call in pairs]
            if len(found) > 1:  # of both kinds: one message carries those of one kind
                found = [_call({"function": one}) if is_legacy(one) else one for one in found]
        return found or ([self._legacy] if self._legacy is not None else [])

    def free(self, early: int) -> int:
        """The index after those of the first `early` calls, as the provider numbered them; not all count from 0 on."""
        entries = [entry for chunk in self.chunks for number, entry in chunk if 0 <= number < early]
        indices = [index_of(entry.get("index")) for entry in entries]
        return max([early, *[index + 1 for index in indices if index is not None]])

    @property
    def message(self) -> Fields:
        """The message."""
        return assembled(self._fields, self.calls)

    def _delta(self, delta: Raw) -> None:
        entries = entries_of(delta)
        if entries:
            numbers = self._calls.sort(entries)
            self.chunks.append(list(zip(numbers, entries, strict=True)))
            for number, entry in self.chunks[-1]:
                if number >= 0:
                    _add_call(self._merged.setdefault(number, {}), entry)
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and not delta.get("tool_calls"):
            self._calls.take_legacy(legacy)
            self.chunks.append([(0, {})])
            self._legacy = self._legacy or {"name": "", "arguments": ""}
            self._legacy["name"] = self._legacy["name"] or _text(legacy.get("name"))
            self._legacy["arguments"] = f"{self._legacy['arguments']}{text_of(legacy.get('arguments'))}"
        _add(self._fields, {key: value for key, value in delta.items() if key not in CALLS and key != "role"})


def assembled(fields: Raw, calls: list[Fields]) -> Fields:
    """A message of these fields with these calls."""
    message: Fields = {"role": "assistant", "content": None, **fields}
    if not calls:
        message["content"] = message["content"] or ""
    elif is_legacy(calls[0]):
        message["function_call"] = calls[0]
    else:
        message["tool_calls"] = calls
    if message["content"] == "" and calls:
        message["content"] = None
    return {key: _mended(value) for key, value in message.items()}


def is_legacy(call: Raw) -> bool:
    """Whether it is a `function_call`."""
    return "function" not in call and "custom" not in call and "id" not in call


def _add(into: Fields, new: Raw) -> None:
    """Add a delta's fields to those that came before."""
    for key, value in new.items():
        old = into.get(key)
        if value is None:
            continue
        if old is None:
            into[key] = _copy(value)
        elif isinstance(old, dict) and isinstance(value, dict):
            _add(old, value)
        elif isinstance(old, list) or (isinstance(value, list) and key == "content"):
            into[key] = _add_items(old if isinstance(old, list) else _part(old), value)
        elif isinstance(old, str) and isinstance(value, str) and key in WORDS:
            into[key] = old + value
        elif value != "":
            into[key] = value


def _add_items(old: list[object], new: object) -> list[object]:
    """Blocks of one kind and place that follow each other are pieces of one."""
    for item in new if isinstance(new, list) else _part(new):
        last = old[-1] if old else None
        if isinstance(last, dict) and isinstance(item, dict) and _continues(last, item):
            for key, value in item.items():
                piece = key in PIECES and isinstance(value, str) and isinstance(last.get(key), str)
                if piece:
                    last[key] += value
                elif isinstance(value, list) and isinstance(last.get(key), list):
                    last[key] = _add_items(last[key], value)  # Mistral's thoughts
                elif value is not None:
                    last[key] = _copy(value)
        else:
            old.append(_copy(item))
    return old


def _continues(last: Raw, item: Raw) -> bool:
    same = all(last.get(key) == item.get(key) for key in ("type", "index"))
    pieces = any(key in item or "signature" in item for key in PIECES)
    return same and pieces and not last.get("signature") and ("type" in item or "index" in item)


def _part(text: object) -> list[object]:
    return [{"type": "text", "text": text}] if text else []


def _copy(value: object) -> object:
    """What may be added to without changing the chunk that it came with."""
    if isinstance(value, dict):
        return {key: _copy(item) for key, item in value.items()}
    return _add_items([], value) if isinstance(value, list) else value


def _add_call(into: Fields, entry: Raw) -> None:
    """Add what an entry has beside id, name and arguments to its call."""
    inner = inner_of(entry)
    _add(into, {key: value for key, value in entry.items() if key not in _TAKEN and value is not inner})
    if inner is not entry:
        kind = "custom" if inner is entry.get("custom") else "function"
        known = into.setdefault(kind, {})
        if isinstance(known, dict):
            _add(known, {key: value for key, value in inner.items() if key not in _TAKEN})


def _put(merged: Fields, call: Call) -> Fields:
    """A call that came in pieces, with the id, name and arguments that were read of it."""
    kind = "custom" if isinstance(merged.get("custom"), dict) else "function"
    known = merged.get(kind)
    inner = known if isinstance(known, dict) else {}
    said = {"name": call.name, "input" if kind == "custom" else "arguments": call.arguments}
    return _call({**merged, "id": call.id, kind: {**inner, **said}})


def _call(entry: Raw) -> Fields:
    """A call as a request carries it."""
    kind = "custom" if isinstance(entry.get("custom"), dict) else "function"
    kept = {key: value for key, value in entry.items() if value is not None and key not in ("index", kind)}
    inner = inner_of(entry)
    if inner is entry:  # name and arguments without a holder
        inner = {key: kept.pop(key) for key in ("name", "arguments", "input") if key in kept}
    made = _function(inner) if kind == "function" else {**inner, "input": text_of(inner.get("input"))}
    head = {"id": kept.pop("id", ""), "type": kept.pop("type", "") or kind}
    return {**head, kind: made, **kept}


def _function(inner: Raw) -> Fields:
    others = {key: value for key, value in inner.items() if key not in ("name", "arguments", "input")}
    return {
        "name": _text(inner.get("name")),
        "arguments": text_of(inner.get("arguments", inner.get("input"))),
        **others,
    }


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


def _mended(value: object) -> object:
    """With halves of surrogate pairs, split over two chunks, joined again."""
    if isinstance(value, str):
        return mend(value)
    if isinstance(value, dict):
        return {key: _mended(item) for key, item in value.items()}
    return [_mended(item) for item in value] if isinstance(value, list) else value
