"""The names that clients may read in the calls of a stream, whatever they make of pieces: the first, the last, all."""

from __future__ import annotations

from collections.abc import Sequence

from guardproxy.api._calls import index_of, inner_of
from guardproxy.api._gathered import Fields, choices, entries_of, said
from guardproxy.api._normal import is_older, place_of
from guardproxy.api._sse import payload_of

_OLDER = -1  # where the pieces of a `function_call` are put together
_LONGEST = 64  # characters of a name


class Names:
    """Those of one stream so far."""

    def __init__(self) -> None:
        self._joined: dict[object, list[str]] = {}  # by what a client may put pieces together by: all, or the last few
        self._last: dict[object, str] = {}
        self.seen: set[str] = set()
        """Every name that somebody may have read."""
        self.pieces = 0
        """How many pieces of names have come."""

    def take(self, event: bytes, told: Sequence[Fields] | None = None) -> None:
        """Those of one event; `told`: what clients get of it in place of the entries that it has."""
        if told is None and b"name" not in event and b"\\u00" not in event:
            return
        for choice in choices(payload_of(event)):
            own = str(choice.get("index"))
            older = said(choice).get("function_call")
            if isinstance(older, dict) and told is None:
                self._add((_OLDER,), older.get("name"))
            for entry in entries_of(said(choice)) if told is None else told:
                index = index_of(entry.get("index"))
                keys: tuple[object, ...] = (None,)
                if index is not None:
                    keys = (_OLDER if is_older(index) else place_of(index), (own, index))
                self._add(keys, inner_of(entry).get("name"))

    def _add(self, keys: tuple[object, ...], name: object) -> None:
        if not isinstance(name, str) or not name:
            return
        self.pieces += 1
        self.seen.add(name)
        for key in keys:
            joined = self._joined.get(key, [""])
            if name in (self._last.get(key, ""), joined[0]):
                continue  # said again, as some providers do with every piece
            self._last[key] = name
            late = [one + name for one in (*joined[1:], "") if len(one) + len(name) <= _LONGEST]
            self._joined[key] = [joined[0] + name, *late]  # some of those before may be of a call that another one has
            self.seen.update(self._joined[key])
