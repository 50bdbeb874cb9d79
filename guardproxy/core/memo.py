"""What was computed and may be asked for again: bounded, and what was used lately stays."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class Memo(dict[K, T | None]):
    """Values by what they were made of, or its hash; `memo[key]` is None where there is none.

    Two halves: when the newer one has `most` entries it becomes the older one, and what was there is forgotten. An
    entry that is asked for moves to the newer half. So at most twice `most` are kept, and a full memo never forgets
    at once what the runs under way need.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most
        self._older: dict[K, T | None] = {}

    def __missing__(self, key: K) -> T | None:
        found = self._older.pop(key, None)
        return None if found is None else self.keep(key, found)

    def keep(self, key: K, made: T) -> T:
        """Remember a value, and give it back."""
        if len(self) >= self._most:
            self._older = dict(self)
            self.clear()
        self[key] = made
        return made
