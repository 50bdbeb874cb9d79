"""Puts the fragments of streamed tool calls together again: our view only, the client gets the provider's bytes.

Providers leave `index` out, give 0 to every call, send ids late, again or the same one to all, repeat names, send
arguments as objects. The rules below are the loop log's cases B39 to B49, in words: an id that differs from the one
we have, or a name together with arguments that begin where complete ones ended, is a new call; anything else goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardproxy.api._json import mend, peek, text_of
from guardproxy.core.model import Call

MAX_ARGUMENTS = 4 * 1024 * 1024
"""Characters kept of one call's arguments; nothing real comes near."""

MAX_CALLS = 1024
"""Calls kept of one answer; the rest are counted."""

MAX_TRIED = 16 * 1024 * 1024
"""Characters read of one call's arguments, over and over, to see whether they are complete."""


_ANY = "any"  # stands for every index


class _Partial:
    """A call under construction."""

    __slots__ = ("chunk", "id", "index", "name", "order", "parts", "size", "tried")

    def __init__(self, index: int | None, order: int) -> None:
        self.index = index
        self.order = order
        self.id = ""
        self.name = ""
        self.parts: list[str] = []
        self.size = 0
        self.tried = 0  # characters looked at to see whether it is whole
        self.chunk = -1  # the number of the chunk that added to it last

    def arguments(self) -> str:
        return mend("".join(self.parts))

    def whole(self) -> bool:
        """Its arguments are a complete JSON value."""
        last = self.parts[-1].rstrip() if self.parts else ""
        if (last and not last.endswith(("}", "]"))) or self.tried > MAX_TRIED:
            return False
        self.tried += self.size
        text = self.arguments().strip()
        return text.endswith(("}", "]")) and peek(text) is not None

    def piece(self, call_id: str, name: str, arguments: str) -> bool:
        """Whether a name goes on with the one we have: the call is known, and nothing but its name has come yet."""
        begun = bool(self.name) and name != self.name and self.index is not None
        return begun and call_id in ("", self.id) and not arguments and not self.size

    def take(self, call_id: str, name: str, arguments: str, chunk: int) -> None:
        self.id = self.id or call_id
        self.name = self.name + name if name and self.piece(call_id, name, arguments) else self.name or name
        self.chunk = chunk
        if arguments and self.size < MAX_ARGUMENTS:
            self.parts.append(arguments)
            self.size += len(arguments)


_NONE = _Partial(None, 0)


class Calls:
    """The calls of one choice of a stream."""

    def __init__(self) -> None:
        self._partials: list[_Partial] = []
        self._latest: dict[tuple[str, int | str | None], _Partial] = {}  # the newest, by id and index
        self._surplus: _Partial | None = None  # where the calls go that are not kept
        self._newest = _NONE  # what the newest entry was added to
        self._chunk = 0
        self._legacy = False
        self.count = 0
        """Calls seen, also those that were not kept."""

    def __bool__(self) -> bool:
        return bool(self._partials)

    def take(self, entries: object) -> int:
        """Adds the `tool_calls` of one delta; the number of characters of arguments in it."""
        self._chunk += 1
        if not isinstance(entries, list):
            return 0
        return sum([self._take_entry(entry) for entry in entries if isinstance(entry, dict)])

    def go_on(self, index: object, arguments: str) -> int:
        """Adds a fragment that has neither id nor name; the same as `take` of one such entry, cheaper."""
        self._chunk += 1
        number = index_of(index)
        latest = self._surplus or (self._partials[-1] if self._partials else self._new(number))
        if number is not None and latest.index != number:
            latest = self._target(number, "", "", arguments)
        latest.take("", "", arguments, self._chunk)
        return len(arguments)

    def take_legacy(self, function: Mapping[str, object]) -> int:
        """Adds a delta's `function_call`: one call, without id and index."""
        self._chunk += 1
        arguments = text_of(function.get("arguments"))
        if self._partials and not self._legacy:
            return 0  # said a second time, for old clients
        self._legacy = True
        target = self._partials[0] if self._partials else self._new(None)
        target.take("", _text(function.get("name")), arguments, self._chunk)
        return len(arguments)

    def sort(self, entries: Sequence[Mapping[str, object]]) -> list[int]:
        """Adds the entries of one delta; which call each belongs to, by the order of their beginnings. -1: not kept."""
        self._chunk += 1
        found = []
        for entry in entries:
            self._take_entry(entry)
            found.append(self._newest.order - 1 if self._newest is not self._surplus else -1)
        return found

    def ordered(self) -> list[int]:
        """The calls, as `sort` numbers them, in the order in which clients keep them."""
        return [partial.order - 1 for partial in self._in_order()]

    def names(self) -> Iterator[tuple[str, bool]]:
        """The name of each call, and whether it is all of it: its arguments, or another call, have begun."""
        last = len(self._partials) - 1
        for number, partial in enumerate(self._partials):
            yield partial.name, bool(partial.name) and (number < last or partial.size > 0 or self._legacy)

    def built(self) -> tuple[Call, ...]:
        """The calls in the order in which clients keep them."""
        return tuple([Call(mend(partial.name), partial.arguments(), mend(partial.id)) for partial in self._in_order()])

    def _in_order(self) -> list[_Partial]:
        partials = self._partials
        indices = [partial.index for partial in partials if partial.index is not None]
        if len(indices) == len(partials) == len(set(indices)):
            return sorted(partials, key=lambda partial: partial.index or 0)
        return partials

    def _take_entry(self, entry: Mapping[str, object]) -> int:
        function = inner_of(entry)
        call_id, name = _text(entry.get("id")), _text(function.get("name"))
        arguments = text_of(function.get("arguments", function.get("input")))
        target = self._newest = self._target(index_of(entry.get("index")), call_id, name, arguments)
        target.take(call_id, name, arguments, self._chunk)
        if call_id and target is not self._surplus:
            self._note(target)
        return len(arguments)

    def _target(self, index: int | None, call_id: str, name: str, arguments: str) -> _Partial:
        if not self._partials:
            return self._new(index)
        current = self._current(index, call_id, name)
        if current is None or self._starts_anew(current, call_id, name, arguments):
            return self._new(index)
        if current.index is None and index is not None:
            current.index = index
            self._note(current)
        return current

    def _current(self, index: int | None, call_id: str, name: str) -> _Partial | None:
        """The call that this fragment would belong to, if it begins none."""
        last = self._surplus or self._partials[-1]
        if call_id and (found := self._same(call_id, index)) is not None:
            return found
        if index is None:
            return last
        if (found := self._latest.get(("", index))) is not None:
            return found
        if self._surplus is not None and self._surplus.index == index:
            return self._surplus
        # an index not seen yet begins a call, unless the fragment has nothing that a call begins with
        if name:
            return None
        return self._latest.get((call_id, _ANY)) if call_id else last

    def _same(self, call_id: str, index: int | None) -> _Partial | None:
        """The newest call of that id, among those that may have that index."""
        if index is None:
            return self._latest.get((call_id, _ANY))
        at, bare = self._latest.get((call_id, index)), self._latest.get((call_id, None))
        if bare is None or bare.index is not None:
            return at
        return bare if at is None or bare.order > at.order else at

    def _note(self, partial: _Partial) -> None:
        """Remember where it is found; of several the newest."""
        keys: list[tuple[str, int | str | None]] = [("", partial.index)] if partial.index is not None else []
        if partial.id:
            keys += [(partial.id, partial.index), (partial.id, _ANY)]
        for key in keys:
            known = self._latest.get(key)
            stale = known is not None and key[1] is None and known.index is not None
            if known is None or stale or known.order <= partial.order:
                self._latest[key] = partial

    def _starts_anew(self, current: _Partial, call_id: str, name: str, arguments: str) -> bool:
        begins = arguments.lstrip().startswith(("{", "["))
        if call_id and current.id and call_id != current.id:
            fragment = bool(current.parts) and not begins and name in ("", current.name)
            return not fragment or current.whole()
        if not name or not current.name:
            return False
        if current.chunk == self._chunk and (begins or not arguments):
            return True  # two entries of one delta are two calls
        if name != current.name:
            return not current.piece(call_id, name, arguments)
        return begins and current.whole()

    def _new(self, index: int | None) -> _Partial:
        self.count += 1
        if len(self._partials) >= MAX_CALLS:
            self._surplus = _Partial(index, self.count)  # nobody sees it
            return self._surplus
        partial = _Partial(index, self.count)
        self._partials.append(partial)
        self._note(partial)
        return partial


def inner_of(entry: Mapping[str, object]) -> Mapping[str, object]:
    """What holds a call's name and arguments: `function`, `custom`, or the entry itself."""
    inner = entry.get("function")
    if isinstance(inner, dict):
        return inner
    inner = entry.get("custom")
    return inner if isinstance(inner, dict) else entry


def index_of(value: object) -> int | None:
    """The index of an entry; a numeral counts, anything else is none."""
    if isinstance(value, str) and value.isdecimal() and len(value) < 6:
        return int(value)
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
