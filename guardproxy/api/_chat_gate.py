"""Holds back the tool calls of a stream until they were judged: text flows meanwhile.

Before the first call that the gate wants, everything passes as it came. From it on, calls are held with all that must
come after them: finish reason, usage, [DONE]; text in one chunk with a call waits with it. Released as they are, they
are the provider's own bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from guardproxy.api._answer import Answer
from guardproxy.api._calls import MAX_CALLS
from guardproxy.api._gate import GAP, Gate, Joint, summed
from guardproxy.api._gathered import Fields, Gathered
from guardproxy.api._joined import Joined
from guardproxy.api._kinds import Kind, base_in, blocks_in, ends, kind, newest_usage, payload_of, role_in
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
        self._events: list[bytes] = []  # as the provider sent them
        self._passed: list[bytes] = []
        self._held: list[bytes] = []
        self._early = 0  # calls that passed
        self._late = 0  # events with calls that are held
        self._wanted: dict[str, bool] = {}
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
        if self._joined is None and (keep is None or not self._lacks(keep)):
            self._given = self._count() - self._early
            return b"".join([self._give(event) for event in held])
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
        )

    def _take(self, event: bytes) -> bytes:
        self._events.append(event)
        out = self._edit(event)
        if out is event:
            return self._pass(event)
        return self._pass_all(out) if out else b""

    def _pass_all(self, out: bytes) -> bytes:
        splitter = Decoder()
        events = [*splitter.feed(out), splitter.rest()]
        return b"".join([self._pass(event) for event in events if event])

    def _pass(self, event: bytes) -> bytes:
        if self._open or (not self._held and not self._final and self._count() == self._early):
            return self._give(event)
        what = kind(event)
        if what is Kind.CALL:
            return self._call(event)
        if what is Kind.END and self._held and not self._shut and not self._final and self._named():
            return self._pass_calls() + self._give(event)
        keeps = self._final if what is Kind.TEXT else what is Kind.END and (self._final or bool(self._held))
        if not keeps:
            return self._give(event)
        self._held.append(event)
        return self.release() if self._alone and self._answer.done else b""

    def _call(self, event: bytes) -> bytes:
        """A chunk with calls. It is no final answer then: text that was held is given."""
        before = b""
        if self._final:
            self._final, early = False, self._early
            before = self._flush()
            self._early = early  # this call is still to be judged
        if self._gate.calls or self._joined is not None:
            self._shut = self._shut or self._joined is not None or self._wants()
            if self._shut or not all(whole for _, whole in self._answer.first.names()):
                self._held.append(event)
                self._late += 1
                return before
        return before + self._pass_calls() + self._give(event)

    def _wants(self) -> bool:
        """Whether one of the calls so far is to be judged."""
        names = [name for name, _ in self._answer.first.names()]
        for name in names:
            if name not in self._wanted:
                self._wanted[name] = bool(name) and self._gate.wants(name)
        return any(self._wanted[name] for name in names) or self._count() > MAX_CALLS

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
        held, self._held = self._held, []
        return b"".join([self._give(event) for event in held])

    def _give(self, event: bytes) -> bytes:
        self._passed.append(event)
        return event if self._joined is None else self._joined.give(event)

    def _release(self, held: list[bytes], keep: frozenset[int] | None) -> bytes:
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
        rest = [[entry for number, entry in chunk if 0 <= number < self._early] for chunk in late]
        out = [joined.made({"tool_calls": entries}) for entries in rest if entries]
        for event in held:
            if kept and ends(event):
                out.append(joined.calls(kept))
                kept = []
            out.append(self._give(event))
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
