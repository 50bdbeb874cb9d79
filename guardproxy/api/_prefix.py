"""Reads the body of a long conversation from where it goes on: agents send the same beginning with every request.

The beginning is known by its hash at every 16 KB; what is kept of it are positions, no text. Only what comes after it
is parsed. The result is the same as that of reading the whole body, messages that nobody looks at apart: their strings
are not decoded. Cost: a hash over the body (xxh3, a tenth of a parse) and a parse of its end. Pure but for the memo.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple, overload

import msgspec
import xxhash

from guardproxy.api._body import READ, Body, decode, decode_list
from guardproxy.api._json import loads
from guardproxy.api._spans import head_of, spans_of
from guardproxy.core.memo import Memo
from guardproxy.errors import BadAsk

GRID = 16 << 10
"""Bytes between two places where a beginning is known. Bodies up to four times as long are read whole: as quick."""

KEPT = 8_192
"""Places kept in mind, up to twice as many, some 400 bytes each; a conversation of 600 KB has 37."""

FRONTS, FRONT_MOST = 32, 64 << 10
"""What stands before the messages (tools) is kept read: so many, up to twice as many, of at most so many bytes."""

_KEY = b'"messages"'
_OPEN = b'{"messages":['
_BETWEEN = b" \t\r\n,"


_UNREADABLE = (msgspec.DecodeError, RecursionError, ValueError)


class Place(NamedTuple):
    """A beginning: where its list of messages opens, where message `before` of it starts, where its head stands.

    `front`: a digest of what stands before the list. `prior`: a place before it in the same text. `spread`: how many
    messages those before it are to the surface.
    """

    opens: int
    at: int
    before: int
    head: tuple[tuple[int, int], ...]
    front: bytes = b""
    prior: Place | None = None
    spread: int = 0


Count = Callable[[Mapping[str, object]], int]
"""How many messages one of the body is, to a surface that spreads them out."""


class Messages(Sequence[Mapping[str, object]]):
    """The messages of a body, read when they are looked at. `BadAsk` for one that is not JSON after all."""

    def __init__(self, body: bytes, place: Place, later: Sequence[msgspec.Raw]) -> None:
        self._body = body
        self._place = place
        self._later = later
        self._known: dict[int, Mapping[str, object]] = {}

    def __len__(self) -> int:
        return self._place.before + len(self._later)

    @overload
    def __getitem__(self, index: int) -> Mapping[str, object]: ...
    @overload
    def __getitem__(self, index: slice) -> list[Mapping[str, object]]: ...
    def __getitem__(self, index: int | slice) -> Mapping[str, object] | list[Mapping[str, object]]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        found = self._known.get(index)  # -1 is nobody's number
        if found is not None:
            return found
        at = index + len(self) if index < 0 else index
        found = self._known[at] = self._read(at)
        return found

    @property
    def reach(self) -> tuple[int, int]:
        """From which message on they can be read without going back, and how many those before it are spread out."""
        return self._place.before, self._place.spread

    @property
    def heads(self) -> int:
        """How many in front can be read without going back."""
        return min(len(self._place.head), self._place.before)

    def longer(self, size: int) -> Iterator[tuple[int, Mapping[str, object]]]:
        """The messages that take more than so many bytes, newest part first; only parts that can hold one are read."""
        first, part, place = self._place.before, self._later, self._place
        while True:
            yield from ((first + at, _object(raw, first + at)) for at, raw in enumerate(part) if _long(raw, size))
            if not place.before:
                return
            prior = place.prior or Place(place.opens, place.opens, 0, place.head, place.front)
            first, part = prior.before, self._between(prior, place) if place.at - prior.at > size else ()
            place = prior

    def _read(self, at: int) -> Mapping[str, object]:
        before = self._place.before
        if not 0 <= at < before + len(self._later):
            raise IndexError(at)
        if at >= before:
            return _object(self._later[at - before], at)
        head = self._place.head
        if at < len(head):
            start, end = head[at]
            return _object(self._body[start:end], at)
        while at < self._place.before:
            self.go_back()
        return _object(self._later[at - self._place.before], at)

    def go_back(self) -> None:
        """Take in what lies between this place and the one before it, or the first message."""
        place = self._place
        prior = place.prior or Place(place.opens, place.opens, 0, place.head, place.front)
        self._later = [*self._between(prior, place), *self._later]
        self._place = prior

    def _between(self, prior: Place, place: Place) -> Sequence[msgspec.Raw]:
        """The messages from one place to the next."""
        return decode_list(b"[" + self._body[prior.at : place.at].rstrip(_BETWEEN) + b"]")


class Prefixes:
    """What is known of the beginnings of bodies. `seed` should be secret: nobody can then make two that look alike."""

    def __init__(self, seed: int = 0, kept: int = KEPT) -> None:
        self._seed = seed
        self._places = Memo[bytes, Place](kept)
        self._fronts = Memo[bytes, dict[str, object]](FRONTS)

    def read(self, body: bytes, count: Count | None = None) -> tuple[Messages, dict[str, object]] | None:
        """The messages of a body and the other keys that we read. None: it has to be read whole.

        `count`: of a surface that spreads messages out; what it counted is kept with the places.
        """
        if len(body) <= 2 * GRID:
            return None
        digests = self._digests(body, 0 if count is None else 1)
        known, place = self._deepest(digests)
        try:
            if place is None:
                return self._beginning(body, digests, count)
            return self._end(body, digests, known, place, count)
        except _UNREADABLE:
            return None  # whoever reads it whole says what is wrong with it, or copes

    def _digests(self, body: bytes, kind: int) -> list[bytes]:
        view, hasher = memoryview(body), xxhash.xxh3_128(seed=self._seed ^ kind)
        digests = []
        for end in range(GRID, len(body) + 1, GRID):
            hasher.update(view[end - GRID : end])
            digests.append(hasher.digest())
        return digests

    def _deepest(self, digests: Sequence[bytes]) -> tuple[int, Place | None]:
        """How many of the digests the longest known beginning spans, and what is known of it."""
        for number in range(len(digests), 0, -1):
            place = self._places[digests[number - 1]]
            if place is not None:
                return number, place
        return 0, None

    def _beginning(
        self, body: bytes, digests: Sequence[bytes], count: Count | None
    ) -> tuple[Messages, dict[str, object]] | None:
        """A body of which nothing is known."""
        _readable(body)
        parsed = decode(body)
        opens = body.index(b"[", body.index(_KEY)) + 1
        spans = spans_of(body, opens, parsed.messages)
        head = head_of(body, spans)
        if not head or body.count(_KEY, 0, opens) + body.count(_KEY, spans[-1][1]) != 1:
            return None
        place = Place(opens, spans[0][0], 0, head, xxhash.xxh3_128_digest(body[:opens], self._seed))
        found = Messages(body, place, parsed.messages)
        self._note(digests, 0, place, spans, found, count)
        return found, _others(parsed)

    def _end(
        self, body: bytes, digests: Sequence[bytes], known: int, place: Place, count: Count | None
    ) -> tuple[Messages, dict[str, object]] | None:
        """A body whose beginning is known."""
        end = _OPEN + body[place.at :]
        _readable(end)
        later = decode(end)
        spans = spans_of(body, place.at, later.messages)
        if not spans or body.find(_KEY, spans[-1][1]) >= 0:
            return None
        found = Messages(body, place, later.messages)
        if known < len(digests):
            self._note(digests, known, place, spans, found, count)
        return found, self._before(body, place) | _others(later)

    def _before(self, body: bytes, place: Place) -> dict[str, object]:
        """The keys that stand before the messages. Mostly the same in many conversations, and never written to."""
        if place.opens > FRONT_MOST:
            return _others(decode(body[: place.opens] + b"]}"))
        found = self._fronts[place.front]
        if found is None:
            found = self._fronts.keep(place.front, _others(decode(body[: place.opens] + b"]}")))
        return found

    def _note(
        self,
        digests: Sequence[bytes],
        known: int,
        place: Place,
        spans: Sequence[tuple[int, int]],
        messages: Messages,
        count: Count | None,
    ) -> None:
        """Keep the new places: at each, the last message that starts before it. `spans`: what follows `place`."""
        first, prior = place.before, place if place.before else None
        spread = place.spread
        at = 0
        for number in range(known, len(digests)):
            border = (number + 1) * GRID
            if border > spans[-1][1]:
                break
            while at + 1 < len(spans) and spans[at + 1][0] <= border:
                spread += count(messages[first + at]) if count is not None else 0
                at += 1
            if first + at >= len(place.head):
                if prior is None or prior.before < first + at:
                    prior = Place(place.opens, spans[at][0], first + at, place.head, place.front, prior, spread)
                self._places.keep(digests[number], prior)


def _long(raw: msgspec.Raw, size: int) -> bool:
    return len(memoryview(raw)) > size


def _readable(text: bytes) -> None:
    """ValueError for what is no UTF-8: strings that are passed over are not looked into."""
    if not text.isascii():
        text.decode()


def _others(parsed: Body) -> dict[str, object]:
    return {name: found for name in READ if (found := getattr(parsed, name)) is not msgspec.UNSET}


def _object(raw: bytes | msgspec.Raw, at: int) -> Mapping[str, object]:
    try:
        found = loads(bytes(raw))
    except ValueError as error:
        param = f"messages[{at}]"
        raise BadAsk(f"`{param}` is not valid JSON: {error}", code="invalid_json", param=param) from None
    if not isinstance(found, dict):
        param = f"messages[{at}]"
        raise BadAsk(f"`{param}` must be an object.", code="invalid_type", param=param)
    return found
