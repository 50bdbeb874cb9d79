"""Holds back the tool calls of a stream until they were judged: text flows meanwhile.

Before the first call that the gate wants, everything passes as it came. From it on, calls are held with all that must
come after them: finish reason, usage, [DONE]; text in one chunk with a call waits with it. Released as they are, they
are the provider's own bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from guardproxy.api._answer import Answer
from guardproxy.api._calls import MAX_CALLS, inner_of
from guardproxy.api._clear import Clear, Piece
from guardproxy.api._gate import GAP, Gate, Joint, half, summed
from guardproxy.api._gathered import Fields, Gathered
from guardproxy.api._joined import Joined
from guardproxy.api._kinds import Kind, base_in, blocks_in, ends, kind, newest_usage, payload_of, role_in, speaks
from guardproxy.api._names import Names
from guardproxy.api._sse import Decoder
from guardproxy.api._watcher import Way


class GatedStream:
    """A stream behind a gate, or one that goes on with an earlier one (`joint`), or both."""

    may_be_over = False  # nothing waits to be read

    def __init__(
        self, way: Way, edit: Callable[[bytes], bytes], answer: Answer, gate: Gate | None, joint: Joint | None
    ) -> None:
        self._way = way
        self._edit = edit  # the way of one whole event
        self._answer = answer
        self._gate = gate or Gate(lambda _: False)
        self._alone = gate is None  # nobody judges: what is held is given at the end
        self._joint = joint
        self._joined = Joined(joint) if joint is not None else None
        self._decoder = Decoder()
        self._clear = Clear(answer, firm=self._gate.firm)
        self._names = Names()
        self._events: list[bytes] = []  # as they are read
        self._passed: list[bytes] = []
        self._held: list[Piece] = []
        self._spoke = False  # something that is held has text
        self._early = 0  # calls that passed
        self._late = 0  # events with calls that are held
        self._asked: set[str] = set()  # names of which it is known whether their calls are wanted
        self._heard = 0  # pieces of names that were looked at
        self._shut = False  # a call that is wanted was seen
        self._final = self._gate.text  # what comes may be a final answer, which is held
        self._open = False  # it was judged
        self._over = False  # the stream has ended
        self._given = 0  # calls given since
        self._changed = False

    @property
    def touched(self) -> bool:
        return self._way.touched or self._changed or self._joined is not None

    @property
    def own_text(self) -> bool:
        return self._way.own_text

    @property
    def repeats(self) -> int:
        return self._way.repeats

    @property
    def holding(self) -> bool:
        """Something is held."""
        return bool(self._held)

    @property
    def unread(self) -> int:
        """Events that nobody can read, and that were left out."""
        return self._clear.unread

    def feed(self, chunk: bytes) -> bytes:
        out = b"".join([self._take(event) for event in self._decoder.feed(chunk)])
        return chunk if out == chunk else out

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        out = self._take(rest) if rest else b""
        last = self._way.finish()
        out += self._pass_all(last) if last else b""
        self._over = True
        if self._alone and not self._open:
            return out + self.release()
        return out if self._held else out + self._end()

    def settle(self) -> None:
        """Nothing waits."""

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """What is held, once; with `keep` only the calls at these positions, and what passed before."""
        if self._open:
            return b""
        held, self._held = self._held, []
        self._open = True
        if self._joined is None and (keep is None or not self._lacks(keep)) and not self._doubtful():
            self._given = self._count() - self._early
            return b"".join([self._give(piece) for piece in held])
        self._changed = True
        return self._release(held, keep)

    def raw_message(self) -> Fields:
        """The answer as an assistant message of a request."""
        return self._gathered().message

    def raw_calls(self) -> list[Fields]:
        """Its calls."""
        return self._gathered().calls

    def joint(self) -> Joint:
        """What the client was given so far, earlier attempts included."""
        before = self._joint or Joint()
        given = Answer()
        for event in self._passed:
            given.take(payload_of(event))
        return Joint(
            base=before.base or base_in(self._events),
            role=before.role or (self._joined.role if self._joined else role_in(self._passed)),
            text=GAP.join([part for part in (before.text, given.first.text) if part]),
            calls=before.calls + self._early + self._given,
            usage=summed(before.usage, newest_usage(self._events)),
            blocks=before.blocks + blocks_in(self._passed),
            streamed=True,
            half=half(given.first.built()),
        )

    def _take(self, event: bytes) -> bytes:
        return b"".join([self._edited(piece) for piece in self._clear.pieces(event)])

    def _edited(self, piece: Piece) -> bytes:
        self._events.append(piece.plain)
        out = self._edit(piece.plain)
        if out is piece.plain:
            return self._pass(piece)
        return self._pass_all(out) if out else b""

    def _pass_all(self, out: bytes) -> bytes:
        splitter = Decoder()
        events = [event for event in (*splitter.feed(out), splitter.rest()) if event]
        return b"".join([self._pass(Piece(event, event, kind(event) is Kind.CALL)) for event in events])

    def _pass(self, piece: Piece) -> bytes:
        if self._open or not (self._held or self._final or piece.calls):
            return self._give(piece)
        if piece.calls:
            return self._call(piece)
        what = kind(piece.plain)
        if what is Kind.END and self._held and not self._shut and not self._final and self._named():
            return self._pass_calls() + self._give(piece)
        waits = self._spoke if what is Kind.TEXT else what is Kind.END and bool(self._held)
        keeps = waits or (self._final and what in (Kind.TEXT, Kind.END))
        if not keeps:
            return self._give(piece)
        self._hold(piece)
        return self.release() if self._alone and self._answer.done else b""

    def _hold(self, piece: Piece) -> None:
        """Keep it. Text that comes after text that is held must not overtake it."""
        self._held.append(piece)
        self._spoke = self._spoke or speaks(piece.plain)

    def _call(self, piece: Piece) -> bytes:
        """A chunk with calls. It is no final answer then: text that was held is given."""
        before = b""
        if self._final:
            self._final, early = False, self._early
            before = self._flush()
            self._early = early  # this call is still to be judged
        if self._gate.calls or self._joined is not None:
            self._names.take(piece.plain)
            odd = piece.odd and self._gate.firm
            self._shut = self._shut or odd or self._joined is not None or self._wants()
            if self._shut or not all(whole for _, whole in self._answer.first.names()):
                self._hold(piece)
                self._late += 1
                return before
        return before + self._pass_calls() + self._give(piece)

    def _wants(self) -> bool:
        """Whether one of the calls so far is to be judged, whatever part of its name somebody may take for it."""
        if self._gate.every or self._count() > MAX_CALLS:
            return True
        if self._heard == self._names.pieces:
            return False
        self._heard = self._names.pieces
        names = self._names.seen | {name for name, _ in self._answer.first.names()}
        fresh = names - self._asked
        self._asked |= fresh
        return any(name and self._gate.wants(name) for name in fresh)

    def _doubtful(self) -> bool:
        """Whether a client may read something in the calls that was not judged: then they are given as they were."""
        if not self._late or not self._gate.firm:
            return False
        calls = self._answer.first.built()
        others = (self._names.seen - {call.name for call in calls}) | {self._clear.other(calls)}
        if any(name and self._gate.wants(name) for name in others):
            return True
        numbered = zip(self._gathered().order, calls, strict=False)  # a call that has passed keeps the name that it had
        return any(number < self._early and self._gate.wants(call.name) for number, call in numbered)

    def _named(self) -> bool:
        """Whether every call has a name."""
        return all(name for name, _ in self._answer.first.names())

    def _count(self) -> int:
        return self._answer.first.call_count

    def _pass_calls(self) -> bytes:
        """The calls so far, which nobody wants."""
        self._late, self._early = 0, self._count()
        return self._flush()

    def _flush(self) -> bytes:
        """What is held after all is not wanted."""
        held, self._held, self._spoke = self._held, [], False
        return b"".join([self._give(piece) for piece in held])

    def _give(self, piece: Piece) -> bytes:
        self._passed.append(piece.plain)
        return piece.raw if self._joined is None else self._joined.give(piece.plain)

    def _release(self, held: list[Piece], keep: frozenset[int] | None) -> bytes:
        """The held events without their calls; those that are kept stand before what must come after them."""
        gathered = self._gathered()
        numbers = zip(gathered.order, gathered.calls, strict=False)
        kept = [
            call
            for place, (number, call) in enumerate(numbers)
            if self._late and number >= self._early and (keep is None or place in keep)
        ]
        if self._joined is None:
            own = Joint(base_in(self._events), role_in(self._passed), "", self._early)
            self._joined = Joined(own, own=True)
            self._joined.next = gathered.free(self._early)
        joined, self._given = self._joined, len(kept)
        joined.stop = self._late > 0 and not kept and not joined.given
        late = gathered.chunks[-self._late :] if self._late else []
        rest = [[_unnamed(entry) for number, entry in chunk if entry and 0 <= number < self._early] for chunk in late]
        out = [joined.made({"tool_calls": entries}) for entries in rest if entries]
        for piece in held:
            if kept and ends(piece.plain):
                out.append(joined.calls(kept))
                kept = []
            out.append(self._give(piece))
        return b"".join([*out, joined.calls(kept), self._end()])

    def _end(self) -> bytes:
        """What a stream that is over, and was written anew, still lacks."""
        joined = self._joined
        if joined is None or not self._over or not (self._answer.first.finish or self._answer.done):
            return b""
        return joined.end("tool_calls" if joined.given else "stop")

    def _lacks(self, keep: frozenset[int]) -> bool:
        """Whether a call that is held is not to be kept; of very many, some cannot even be told."""
        order = self._gathered().order
        return self._count() > len(order) or any(
            number >= self._early and place not in keep for place, number in enumerate(order)
        )

    def _gathered(self) -> Gathered:
        return Gathered().stream(self._events, min(self._answer.choices, default=0))


def _unnamed(entry: Fields) -> Fields:
    """A piece of a call that has its name already: it gets no other one."""
    inner = inner_of(entry)
    rest = {key: value for key, value in inner.items() if key != "name"}
    if inner is entry:
        return rest
    kind = "custom" if inner is entry.get("custom") else "function"
    return {**entry, kind: rest}
