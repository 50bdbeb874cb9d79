"""The chunks of a chat stream that is judged, or goes on with an earlier one: see `_gated`.

Calls alone are held, with what must come after them: finish reason, usage, [DONE]; text in one chunk with a call waits
with it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from guardproxy.api._answer import Answer
from guardproxy.api._calls import MAX_CALLS, inner_of
from guardproxy.api._clear import Clear, Piece
from guardproxy.api._gate import GAP, Gate, Joint, half, summed, torn
from guardproxy.api._gated import Editor, Kind
from guardproxy.api._gathered import Fields, Gathered
from guardproxy.api._joined import Joined
from guardproxy.api._kinds import base_in, blocks_in, ends, kind, newest_usage, role_in, speaks
from guardproxy.api._names import Names
from guardproxy.api._sse import events_in, payload_of


class Chunks:
    """`Events` of chat."""

    def __init__(self, editor: Editor, answer: Answer, gate: Gate | None, joint: Joint | None) -> None:
        self._edit = editor.event
        self._answer = answer
        self._gate = gate or Gate(lambda _: False)
        self._joint = joint
        self._joined = Joined(joint) if joint is not None else None
        self._clear = Clear(answer, firm=self._gate.firm)
        self._names = Names()
        self._events: list[bytes] = []  # as they are read
        self._passed: list[bytes] = []
        self._early = 0  # calls that passed
        self._given = 0  # calls given since
        self._asked: set[str] = set()  # names of which it is known whether their calls are wanted
        self._heard = 0  # pieces of names that were looked at
        self._changed = False

    @property
    def touched(self) -> bool:
        return self._changed or self._joined is not None

    @property
    def unread(self) -> int:
        return self._clear.unread

    @property
    def gathers(self) -> bool:
        return self._joined is not None

    def read(self, event: bytes) -> Iterator[Piece]:
        for piece in self._clear.pieces(event):
            self._events.append(piece.plain)
            out = self._edit(piece.plain)
            if out is piece.plain:
                yield piece
            else:
                yield from [Piece(one, one, kind(one) is Kind.CALL) for one in events_in(out)]

    def calls(self, event: Piece) -> bool:
        return event.calls or bool(event.told)

    def kind(self, event: Piece) -> Kind:
        return kind(event.plain)

    def speaks(self, event: Piece) -> bool:
        return speaks(event.plain)

    def wanted(self, event: Piece, *, shut: bool) -> bool | None:
        """Whether one of the calls so far is to be judged, whatever part of its name somebody may take for it."""
        self._names.take(event.plain, event.told)
        if shut or (event.odd and self._gate.firm) or self._joined is not None or self._wants():
            return True
        return False if all(whole for _, whole in self._answer.first.names()) else None

    def named(self) -> bool:
        """Whether every call has a name."""
        return all(name for name, _ in self._answer.first.names())

    def passed(self) -> None:
        self._early = self._count()

    def give(self, event: Piece) -> bytes:
        self._passed.append(event.plain)
        return event.raw if self._joined is None else self._joined.give(event.plain)

    def release(self, held: Sequence[Piece], keep: frozenset[int] | None) -> bytes:
        late = sum([piece.calls for piece in held])
        calls = any(self.calls(piece) for piece in held)
        if self._joined is None and (keep is None or not self._lacks(keep)) and not (calls and self._doubtful()):
            self._given = self._count() - self._early
            return b"".join([self.give(piece) for piece in held])
        self._changed = True
        return self._anew(held, late, keep)

    def end(self) -> bytes:
        joined = self._joined
        if joined is None or not (self._answer.first.finish or self._answer.done):
            return b""
        return joined.end("tool_calls" if joined.given else "stop")

    def joint(self, held: Sequence[Piece]) -> Joint:
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

    def _wants(self) -> bool:
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
        if not self._gate.firm:
            return False
        calls = self._answer.first.built()
        others = (self._names.seen - {call.name for call in calls}) | {self._clear.other(calls)}
        if any(name and self._gate.wants(name) for name in others):
            return True
        numbered = zip(self.gathered().order, calls, strict=False)  # a call that has passed keeps the name that it had
        return any(number < self._early and self._gate.wants(call.name) for number, call in numbered)

    def _count(self) -> int:
        return self._answer.first.call_count

    def _anew(self, held: Sequence[Piece], late: int, keep: frozenset[int] | None) -> bytes:
        """The held events without their calls (`late`: so many have some); those kept stand before what ends."""
        gathered = self.gathered()
        numbers = zip(gathered.order, gathered.calls, strict=False)
        kept = [
            call
            for place, (number, call) in enumerate(numbers)
            if late and number >= self._early and (keep is None or place in keep)
        ]
        if self._joined is None:
            own = Joint(base_in(self._events), role_in(self._passed), "", self._early)
            self._joined = Joined(own, own=True)
            self._joined.next = gathered.free(self._early)
        joined, self._given = self._joined, len(kept)
        choice = self._answer.first
        cut_short = late > 0 and torn(choice.built(), choice.finish)
        joined.stop = late > 0 and not kept and not joined.given and not cut_short
        chunks = gathered.chunks[-late:] if late else []
        rest = [[_unnamed(entry) for number, entry in chunk if entry and 0 <= number < self._early] for chunk in chunks]
        out = [joined.made({"tool_calls": entries}) for entries in rest if entries]
        for piece in held:
            if kept and ends(piece.plain):
                out.append(joined.calls(kept))
                kept = []
            out.append(self.give(piece))
        return b"".join([*out, joined.calls(kept)])

    def _lacks(self, keep: frozenset[int]) -> bool:
        """Whether a call that is held is not to be kept; of very many, some cannot even be told."""
        order = self.gathered().order
        return self._count() > len(order) or any(
            number >= self._early and place not in keep for place, number in enumerate(order)
        )

    def gathered(self) -> Gathered:
        """The answer so far as an assistant message of a request, and its calls."""
        return Gathered().stream(self._events, min(self._answer.choices, default=0))


def _unnamed(entry: Fields) -> Fields:
    """A piece of a call that has its name already: it gets no other one."""
    inner = inner_of(entry)
    rest = {key: value for key, value in inner.items() if key != "name"}
    if inner is entry:
        return rest
    kind = "custom" if inner is entry.get("custom") else "function"
    return {**entry, kind: rest}
