"""A response in one piece: read, calls taken out of it, held until it is judged, joined with earlier attempts."""

from __future__ import annotations

from collections.abc import Collection

from guardproxy.api._answer import Answer
from guardproxy.api._chat_cut import MAX_WHOLE
from guardproxy.api._gate import GAP, Gate, Joint, summed
from guardproxy.api._json import dumps, peek
from guardproxy.api._reading import may_call
from guardproxy.api._responses_answer import Reader
from guardproxy.api._responses_events import message_of
from guardproxy.api._responses_gate import doubled
from guardproxy.api._responses_given import Given, Sequel, given_of
from guardproxy.api._responses_items import is_call, kind_of, text_in
from guardproxy.api._watcher import Way


class WholeCut:
    """A response in one piece; held back only where something of it is to be taken out."""

    def __init__(self, reader: Reader, text: str | None, *, hold: bool) -> None:
        self.touched = False
        self.own_text = False
        self.may_be_over = False
        self.repeats = 0
        self._reader = reader
        self._text = text
        self._hold = hold
        self._parts: list[bytes] = []
        self._size = 0
        self._tried = -1  # size at the last attempt to read it

    def feed(self, chunk: bytes) -> bytes:
        self._size += len(chunk)
        if self._size <= MAX_WHOLE or self._text is not None or self._hold:
            self._parts.append(chunk)
        return chunk if self._text is None else b""

    def finish(self) -> bytes:
        self.settle()
        if self._text is None:
            return b""
        raw = b"".join(self._parts)
        payload = peek(raw)
        if not isinstance(payload, dict) or self._reader.answer.failed or not isinstance(payload.get("output"), list):
            return raw
        calls = [item for item in payload["output"] if isinstance(item, dict) and is_call(item)]
        spoken = self._reader.heard.spoken
        if spoken and not calls:
            return raw
        self.touched, self.own_text = True, not spoken
        kept = [item for item in payload["output"] if item not in calls]
        if not spoken:
            kept.append(message_of(self._text, "msg_guardproxy"))
        return dumps({**payload, "output": kept, "status": "completed", "incomplete_details": None})

    def settle(self) -> None:
        ended = bool(self._parts) and self._parts[-1].rstrip().endswith(b"}")  # else it is not worth a parse
        if not ended or self._tried == self._size or self._size > MAX_WHOLE or self._reader.answer.done:
            return
        self._tried = self._size
        payload = peek(b"".join(self._parts))
        if isinstance(payload, dict):
            self._reader.take(payload)

    def given(self) -> Given:
        """What the client has: nothing, before it has all."""
        return Given()


class GatedWhole:
    """Held as a whole until it is judged; without a gate it is only joined with what was said before."""

    may_be_over = False

    def __init__(self, way: Way, reader: Reader, gate: Gate | None, joint: Joint | None) -> None:
        self._way = way
        self._reader = reader
        self._answer: Answer = reader.answer
        self._gate = gate
        self._joined = joint is not None
        self._before = given_of(joint)
        self._raw: list[bytes] = []  # as the provider sent it
        self._out: list[bytes] = []
        self._changed = False
        self._given = False
        self._calls = 0  # of those that were given
        self.holding = False
        self.unread = 0
        """1: nobody can read it, and nothing of it may be handed on."""

    @property
    def touched(self) -> bool:
        return self._way.touched or self._changed

    @property
    def own_text(self) -> bool:
        return self._way.own_text

    @property
    def repeats(self) -> int:
        return self._way.repeats

    def feed(self, chunk: bytes) -> bytes:
        self._raw.append(chunk)
        self._out.append(self._way.feed(chunk))
        return b""

    def finish(self) -> bytes:
        self._out.append(self._way.finish())
        self._way.settle()
        if self._gate is not None and self._gate.firm:
            self._read()
        self.holding = self._waits()
        return b"" if self.holding else self.release()

    def settle(self) -> None:
        self._way.settle()

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """The body, once; with `keep` only with the calls at these positions."""
        if self._given:
            return b""
        self.holding = False
        self._given = True
        raw = b"".join(self._out)
        payload = peek(raw)
        output = payload.get("output") if isinstance(payload, dict) else None
        if not isinstance(payload, dict) or not isinstance(output, list) or payload.get("error"):
            return raw
        kept = _kept(output, keep)
        self._calls = sum(isinstance(item, dict) and is_call(item) for item in kept)
        if len(kept) == len(output) and not self._joined:
            return raw
        self._changed = True
        whole = {**payload, "output": [*self._before.items, *kept]}
        if self._joined:
            whole |= {key: self._before.base[key] for key in ("id", "created_at") if key in self._before.base}
            usage = payload.get("usage")
            whole["usage"] = summed(self._before.usage, usage) if isinstance(usage, dict) else dict(self._before.usage)
        if not self._before.streamed:
            return dumps(whole)
        sequel = Sequel(self._before)
        out = b"".join([sequel.item(item) for item in kept if isinstance(item, dict)])
        return out + sequel.end(whole, whole["usage"])

    def _read(self) -> None:
        """See that all clients read the same in it."""
        raw = b"".join(self._out)
        payload = peek(raw)
        if not isinstance(payload, dict):
            self.unread = int(may_call(raw) and b"{" in raw)
        elif may_call(raw) and doubled(raw):
            self._out, self._changed = [dumps(payload)], True

    def joint(self) -> Joint:
        """What the client was given so far, or will be with the next attempt: all but calls, and text that is held."""
        before = self._before
        payload = peek(b"".join(self._raw))
        fields = payload if isinstance(payload, dict) else {}
        shown = self._given or self._gate is None or not self._gate.text
        items = [item for item in self._reader.heard.items if shown and not is_call(item)]
        texts = [text for item in items if kind_of(item) == "message" and (text := text_in(item))]
        usage = fields.get("usage")
        return Given(
            before.base or {key: value for key, value in fields.items() if key not in ("output", "usage")},
            before.role,
            GAP.join([part for part in (before.text, *texts) if part]),
            before.calls + self._calls,
            summed(before.usage, usage) if isinstance(usage, dict) else before.usage,
            streamed=before.streamed,
            items=(*before.items, *items),
            opened=before.opened,
            index=before.index + len(items),
            number=before.number,
        )

    def _waits(self) -> bool:
        """Whether somebody has to judge it."""
        gate = self._gate
        if gate is None or not self._answer.done or self._answer.failed:
            return False
        heard = self._reader.heard
        calls = () if self._way.touched else heard.built()
        if not calls:
            return gate.text
        unseen = heard.call_count > len(calls)  # so many that not all of them are kept
        wanted = gate.every or any(not call.name or gate.wants(call.name) for call in calls)
        return gate.calls and (unseen or wanted)


def _kept(output: list[object], keep: Collection[int] | None) -> list[object]:
    """The items without the calls that are not at these positions among the calls."""
    kept, at = [], -1
    for item in output:
        call = isinstance(item, dict) and is_call(item)
        at += call
        if keep is None or not call or at in keep:
            kept.append(item)
    return kept
