"""The names that clients may read in the calls of a stream, whatever they make of pieces: the first, the last, all."""

from __future__ import annotations

from guardproxy.api._calls import index_of, inner_of
from guardproxy.api._gathered import choices, entries_of, said
from guardproxy.api._kinds import payload_of
from guardproxy.api._normal import place_of

_OLDER = -1  # where the pieces of a `function_call` are put together


class Names:
    """Those of one stream so far."""

    def __init__(self) -> None:
        self._joined: dict[int | None, str] = {}  # by the index that a client puts pieces together by
        self._last: dict[int | None, str] = {}
        self.seen: set[str] = set()
        """Every name that somebody may have read."""

    def take(self, event: bytes) -> None:
        """Those of one event."""
        for choice in choices(payload_of(event)):
            older = said(choice).get("function_call")
            if isinstance(older, dict):
                self._add(_OLDER, older.get("name"))
            for entry in entries_of(said(choice)):
                self._add(index_of(entry.get("index")), inner_of(entry).get("name"))

    def _add(self, index: int | None, name: object) -> None:
        if not isinstance(name, str) or not name:
            return
        at = place_of(index) if index is not None else None
        joined, last = self._joined.get(at, ""), self._last.get(at, "")
        self.seen.add(name)
        if name in (last, joined):
            return  # said again, as some providers do with every piece
        self._last[at] = name
        self._joined[at] = joined + name
        self.seen.add(joined + name)
