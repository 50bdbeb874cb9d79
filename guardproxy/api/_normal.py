"""Answers in odd spellings brought into the usual one, so that every call in them is judged: our view, not the bytes.

The usual one: one choice, number 0, its calls a list of entries with one holder of a name each, in `delta` where it is
streamed. Calls of other choices keep apart from those of the first by their indices. What is usual stays the object
that it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardproxy.api._answer import Choice, number_of
from guardproxy.api._calls import index_of, inner_of
from guardproxy.api._gate import GAP
from guardproxy.api._gathered import CALLS, WORDS, Fields
from guardproxy.api._json import text_of
from guardproxy.core.model import Call

APART = 10**9
"""Between the indices of two choices; a provider's own are smaller."""

_BESIDE = 10**8  # between the calls that one entry holds, and from those of a choice to its older `function_call`
_OLDER = 5  # so many times that stands a choice's `function_call`
_SAID = frozenset(("delta", "message"))
_HOLDERS = ("function", "custom")
_CALLED = frozenset((*_HOLDERS, "name", "arguments", "input"))
_ENTRY = _CALLED | {"id", "index", "type"}

Raw = Mapping[str, object]


def place_of(index: int) -> int:
    """The index that a client sees of a call, by which it may put pieces together."""
    return index % APART % _BESIDE


def is_older(index: int) -> bool:
    """Whether a call with this index came as a `function_call`."""
    return index % APART // _BESIDE == _OLDER


def entries_in(value: object, keys: frozenset[str]) -> Iterator[Fields]:
    """The objects of a list, or of what stands in the place of one: a single one, or an object of them."""
    if isinstance(value, list):
        for item in value:
            yield from entries_in(item, keys) if isinstance(item, list) else _one(item, keys)
    else:
        yield from _one(value, keys)


def _one(value: object, keys: frozenset[str]) -> Iterator[Fields]:
    if not isinstance(value, dict):
        return
    inner = [] if value.keys() & keys else [item for item in value.values() if isinstance(item, dict | list)]
    if not inner:
        yield value
    for item in inner:
        yield from entries_in(item, keys)


class Stream:
    """What has to be known of the chunks before, to read the next one."""

    def __init__(self, known: Choice | None = None) -> None:
        self._known = known  # the choice so far, as it was read; None before there is one
        self._listed = False  # calls have come, and not of the older kind
        self.older = False
        """The first call was of the older kind, and nothing else has come: it stays what it is."""
        self._echo: list[str] | None = None  # the arguments of a `function_call` that says a call once more
        self._named = ""
        self._told: list[Fields] = []
        self._left = False  # one of them was left out

    @property
    def told(self) -> tuple[Fields, ...]:
        """All entries of the last chunk, where one was left out as said before: a client may take it for a new one."""
        return tuple(self._told) if self._left else ()

    def chunk(self, payload: Fields, known: Choice) -> list[Fields]:
        """The chunk in the usual spelling: the object itself, or one or two others."""
        self._known, self._told, self._left = known, [], False
        entries = payload.get("choices")
        if isinstance(entries, list) and len(entries) < 2 and all(_usual(entry) for entry in entries):
            delta = entries[0]["delta"] if entries else {}
            self._note(delta)
            mixed = (delta.get("function_call") and self._listed) or (delta.get("tool_calls") and self.older)
            if not mixed:
                return [payload]
        found = list(entries_in(entries, _SAID))
        if not found:
            return [payload]
        delta = {}
        for entry in found:
            self._add(delta, entry)
        older = delta.pop("function_call", None) if self.older and delta.get("tool_calls") else None
        self._note(delta)
        made = _made(payload, found, "delta", delta)
        if older is None:
            return [made]
        return [{**payload, "choices": [{"index": 0, "delta": {"function_call": older}}], "usage": None}, made]

    def other(self, calls: tuple[Call, ...]) -> str:
        """The name of a `function_call` whose arguments are not those of the call that had its name; empty: none."""
        said = "".join(self._echo or ())
        same = self._echo is None or any(call.name == self._named and call.arguments == said for call in calls)
        return "" if same else self._named

    def _note(self, delta: Raw) -> None:
        if not self._listed and not self.older:
            self.older = isinstance(delta.get("function_call"), dict) and not delta.get("tool_calls")
        self._listed = self._listed or bool(delta.get("tool_calls"))

    def _add(self, into: Fields, entry: Raw) -> None:
        """Add one choice to the delta that is made of all."""
        choice = number_of(entry.get("index"))
        deltas = _parts(entry.get("delta"))
        for delta in deltas:
            self._add_part(into, delta, choice, found := calls_in(delta, choice), found)
        for message in _parts(entry.get("message")):
            spoken = self._known is not None and (self._known.produced or self._known.call_count)
            found = calls_in(message, choice)
            new = [one for one in found if not self._is_known(one, into)]
            words = {} if spoken or any(delta.get("content") for delta in deltas) else message
            self._add_part(into, {**words, **{key: message.get(key) for key in CALLS}}, choice, found, new)

    def _add_part(self, into: Fields, part: Raw, choice: int, found: Sequence[Fields], calls: Sequence[Fields]) -> None:
        _add_words(into, part)
        self._told += found
        self._left = self._left or len(calls) < len(found)
        if calls:
            told = [{**one, "index": index_of(one.get("index")) or 0} for one in calls] if self.older else calls
            into["tool_calls"] = [*_listed(into), *told]
        for older in _parts(part.get("function_call")):
            entry: Fields = {"index": choice * APART + _OLDER * _BESIDE, "type": "function", "function": older}
            self._told.append(entry)
            if self.older or not (self._listed or _listed(into) or choice):
                self._left = self._left or "function_call" in into
                into["function_call"] = older
            elif self._repeats(older, into):
                self._left = True
            else:
                into["tool_calls"] = [*_listed(into), entry]

    def _repeats(self, older: Raw, into: Raw) -> bool:
        """Whether a `function_call` says once more what `tool_calls` have said, for old clients."""
        name, arguments = older.get("name"), text_of(older.get("arguments"))
        if self._echo is not None and name in (None, "", self._named):
            self._echo.append(arguments)
            return True
        known = [inner_of(entry).get("name") for entry in _listed(into)]
        known += [found for found, _ in self._known.names()] if self._known is not None else []
        if self._echo is None and name and isinstance(name, str) and name in known:
            self._echo, self._named = [arguments], name
            return True
        return False

    def _is_known(self, entry: Raw, into: Raw) -> bool:
        """Whether a message beside deltas holds a call that they have said, or begun to say."""
        inner = inner_of(entry)
        name, arguments = inner.get("name"), text_of(inner.get("arguments", inner.get("input")))
        calls = list(self._known.built()) if self._known is not None else []
        calls += [Call(str(one.get("name")), text_of(one.get("arguments")), "") for one in map(inner_of, _listed(into))]
        return any(call.name == name and call.arguments.startswith(arguments) for call in calls)


def completion(payload: Fields) -> Fields:
    """A completion in one piece in the usual spelling."""
    entries = payload.get("choices")
    if isinstance(entries, list) and len(entries) < 2 and all(_usual_whole(entry) for entry in entries):
        return payload
    found = list(entries_in(entries, _SAID))
    if not found:
        return payload
    message: Fields = {}
    older: list[Fields] = []
    calls: list[Fields] = []
    for entry in found:
        for part in (*_parts(entry.get("message")), *_parts(entry.get("delta"))):
            _add_words(message, part, gap=GAP)
            calls += calls_in(part, 0)
            older += _parts(part.get("function_call"))
    if not calls and len(older) == 1:
        message["function_call"] = older[0]
    else:
        said = [_content(inner_of(entry)) for entry in calls]
        calls += [{"type": "function", "function": one} for one in older if _content(one) not in said]
    if calls:
        message["tool_calls"] = calls
    return _made(payload, found, "message", message)


def calls_in(part: Raw, choice: int) -> list[Fields]:
    """The entries of its calls, each with one holder of a name."""
    listed = part.get("tool_calls")
    if isinstance(listed, dict) and not listed.keys() & _ENTRY:  # an object of them: the keys are the indices
        entries = [{"index": key, **entry} for key, value in listed.items() for entry in entries_in(value, _ENTRY)]
    else:
        entries = list(entries_in(listed, _ENTRY))
    usual = [not choice and _usual_entry(entry) for entry in entries]
    return [
        one
        for entry, as_is in zip(entries, usual, strict=True)
        for one in ([entry] if as_is else _split(entry, choice))
    ]


def _split(entry: Fields, choice: int) -> list[Fields]:
    """The calls that one entry may be read as."""
    index = index_of(entry.get("index"))
    kept = {key: value for key, value in entry.items() if key not in _CALLED}
    holders = [(kind, holder) for kind in _HOLDERS for holder in _holders(entry.get(kind))]
    if isinstance(entry.get("name"), str) or not holders:
        flat: Fields = {key: entry[key] for key in ("name", "arguments", "input") if key in entry}
        holders.append(("function", flat))
    made = []
    for number, (kind, holder) in enumerate(holders):
        one = {**kept, kind: {**holder, "arguments": entry["arguments"]} if _bare(holder, entry) else holder}
        if index is not None or choice or number:
            one["index"] = choice * APART + number * _BESIDE + (index or 0) % _BESIDE
        made.append(one)
    return made


def _bare(holder: Raw, entry: Raw) -> bool:
    """Whether a name stands where its holder should, and the arguments beside it."""
    return holder.keys() == {"name"} and isinstance(entry.get("function"), str) and "arguments" in entry


def _holders(value: object) -> list[Fields]:
    if isinstance(value, str) and value:
        return [{"name": value}]
    return _parts(value)


def _parts(value: object) -> list[Fields]:
    return [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, dict)]


def _listed(fields: Raw) -> list[Fields]:
    entries = fields.get("tool_calls")
    return entries if isinstance(entries, list) else []


def _content(inner: Raw) -> tuple[object, str]:
    return inner.get("name"), text_of(inner.get("arguments", inner.get("input")))


def _add_words(into: Fields, part: Raw, gap: str = "") -> None:
    for key, value in part.items():
        if key in CALLS or (value is None and key in into):
            continue
        old = into.get(key)
        if isinstance(old, str) and isinstance(value, str) and key in WORDS:
            into[key] = gap.join(text for text in (old, value) if text)
        elif not old:
            into[key] = value


def _made(payload: Fields, entries: list[Fields], key: str, said: Fields) -> Fields:
    """The payload with one choice that says all of it."""
    head = {name: value for name, value in entries[0].items() if name not in _SAID}
    number = {"index": 0} if number_of(head.get("index")) else {}
    reason = next((entry["finish_reason"] for entry in entries if entry.get("finish_reason")), None)
    usage = next(({"usage": entry["usage"]} for entry in entries if entry.get("usage")), {})
    return {**payload, "choices": [{**head, **number, key: said, "finish_reason": reason, **usage}]}


def _usual(entry: object) -> bool:
    """Whether it is a choice as the API has it."""
    if not isinstance(entry, dict) or number_of(entry.get("index")) or entry.get("message") is not None:
        return False
    delta = entry.get("delta")
    return isinstance(delta, dict) and _usual_calls(delta)


def _usual_whole(entry: object) -> bool:
    if not isinstance(entry, dict) or entry.get("delta") is not None:
        return False
    message = entry.get("message")
    return isinstance(message, dict) and _usual_calls(message)


def _usual_calls(said: Raw) -> bool:
    calls, older = said.get("tool_calls"), said.get("function_call")
    if not calls:
        return older is None or isinstance(older, dict) or not older
    return not older and isinstance(calls, list) and all(_usual_entry(entry) for entry in calls)


def _usual_entry(entry: object) -> bool:
    """Whether it has one holder of a name."""
    if not isinstance(entry, dict):
        return not isinstance(entry, list)
    found = [entry.get(kind) for kind in _HOLDERS if entry.get(kind) is not None]
    if not found:
        return "function" not in entry or entry.get("function") is None
    number = entry.get("index")
    far = isinstance(number, int) and not -1 <= number < _BESIDE
    return not far and len(found) == 1 and isinstance(found[0], dict) and "name" not in entry
