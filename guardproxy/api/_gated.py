"""Holds back the calls of a stream until they were judged, on every surface: text flows meanwhile.

Before the first call that the gate wants, everything passes as it came. From it on, calls are held with all that must
come after them. What an event is, what is given of it and what is left of those that are held is the surface's own
`Events`. Released as they are, they are the provider's own bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Generic, Protocol, TypeVar

from guardproxy.api._answer import Answer
from guardproxy.api._gate import Gate, Joint
from guardproxy.api._sse import Decoder

Event = TypeVar("Event")


class Kind(IntEnum):
    """What an event is for a gate.

    FREE waits for nothing: comments, and thoughts where they stand apart. TEXT is visible, or begins what is. CALL:
    perhaps with text. END: what must come after calls, and what is not known. NEXT: whatever may not overtake.
    """

    FREE = 0
    TEXT = 1
    CALL = 2
    END = 3
    NEXT = 4


class Editor(Protocol):
    """What is made of the events of a stream, one by one, whether they are held or not. It is who reads them."""

    @property
    def touched(self) -> bool: ...
    @property
    def own_text(self) -> bool: ...
    @property
    def repeats(self) -> int: ...
    def event(self, event: bytes) -> bytes: ...
    def settle(self) -> None: ...


class Events(Protocol[Event]):
    """The events of one stream as a surface knows them.

    `gathers`: calls are given at the end, whoever wants them. `read`: an event made clear and edited: itself as a rule,
    or several, or nothing. `calls`: it brings calls that were not seen yet. `wanted`: whether they are held (`shut`: as
    all are by now), None where that cannot be told yet; `named`: at the end it can. `passed`: they were given.
    `speaks`: text that comes after it waits, too. `release`: what is given of those that were held; `end`: what an
    answer that is over, and was written anew, still lacks. `joint`: what the client has, these being held.
    """

    @property
    def touched(self) -> bool: ...
    @property
    def unread(self) -> int: ...
    @property
    def gathers(self) -> bool: ...
    def read(self, event: bytes) -> Iterable[Event]: ...
    def calls(self, event: Event) -> bool: ...
    def wanted(self, event: Event, *, shut: bool) -> bool | None: ...
    def named(self) -> bool: ...
    def passed(self) -> None: ...
    def kind(self, event: Event) -> Kind: ...
    def speaks(self, event: Event) -> bool: ...
    def give(self, event: Event) -> bytes: ...
    def release(self, held: Sequence[Event], keep: frozenset[int] | None) -> bytes: ...
    def end(self) -> bytes: ...
    def joint(self, held: Sequence[Event]) -> Joint: ...


class GatedStream(Generic[Event]):
    """A stream behind a gate, or one that goes on with an earlier one, or both."""

    may_be_over = False  # nothing waits to be read

    def __init__(self, events: Events[Event], editor: Editor, answer: Answer, gate: Gate | None) -> None:
        self._events = events
        self._editor = editor
        self._answer = answer
        self._alone = gate is None  # nobody judges: what is held is given at the end
        self._judges = events.gathers or (gate is not None and gate.calls)
        self._decoder = Decoder()
        self._held: list[Event] = []
        self._spoke = False  # something that is held has text
        self._shut = False  # a call that is wanted was seen
        self._final = gate is not None and gate.text  # what comes may be a final answer, which is held
        self._open = False  # it was judged
        self._over = False  # the stream has ended

    @property
    def touched(self) -> bool:
        return self._editor.touched or self._events.touched

    @property
    def own_text(self) -> bool:
        return self._editor.own_text

    @property
    def repeats(self) -> int:
        return self._editor.repeats

    @property
    def holding(self) -> bool:
        """Something is held."""
        return bool(self._held)

    @property
    def unread(self) -> int:
        """Events that nobody can read, and that were left out."""
        return self._events.unread

    def feed(self, chunk: bytes) -> bytes:
        out = b"".join([self._take(event) for event in self._decoder.feed(chunk)])
        return chunk if out == chunk else out

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        out = self._take(rest) if rest else b""
        self._over = True
        if self._alone and not self._open:
            return out + self.release()
        return out if self._held else out + self._events.end()

    def settle(self) -> None:
        self._editor.settle()

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """What is held, once; with `keep` only the calls at these positions, and what passed before."""
        if self._open:
            return b""
        held, self._held = self._held, []
        self._open = True
        out = self._events.release(held, keep)
        return out + self._events.end() if self._over else out

    def joint(self) -> Joint:
        """What the client was given so far, earlier attempts included."""
        return self._events.joint(self._held)

    def _take(self, event: bytes) -> bytes:
        return b"".join([self._pass(one) for one in self._events.read(event)])

    def _pass(self, event: Event) -> bytes:
        events = self._events
        if self._open:
            return events.give(event)
        if events.calls(event):
            return self._call(event)
        if not (self._held or self._final):
            return events.give(event)
        kind = events.kind(event)
        if kind is Kind.END and self._held and not (self._shut or self._final) and events.named():
            return self._let(event)
        if not self._waits(kind):
            return events.give(event)
        self._hold(event)
        return self.release() if self._alone and self._answer.done else b""

    def _waits(self, kind: Kind) -> bool:
        if self._final and kind in (Kind.TEXT, Kind.END):
            return True
        return bool(self._held) and (kind in (Kind.END, Kind.NEXT) or (kind is Kind.TEXT and self._spoke))

    def _call(self, event: Event) -> bytes:
        """Calls begin. It is no final answer then: text that was held is given."""
        before = b""
        if self._final:
            self._final = False
            before = self._flush()
        wanted = self._judges and self._events.wanted(event, shut=self._shut)
        self._shut = wanted is True
        if wanted is not False:
            self._hold(event)
            return before
        return before + self._let(event)

    def _hold(self, event: Event) -> None:
        """Keep it. Text that comes after text that is held must not overtake it."""
        self._held.append(event)
        self._spoke = self._spoke or self._events.speaks(event)

    def _let(self, event: Event) -> bytes:
        """The calls so far, which nobody wants, and this."""
        self._events.passed()
        return self._flush() + self._events.give(event)

    def _flush(self) -> bytes:
        """What is held after all is not wanted."""
        held, self._held, self._spoke = self._held, [], False
        return b"".join([self._events.give(event) for event in held])
