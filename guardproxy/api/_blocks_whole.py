"""A whole answer made of blocks: read, without its calls, behind a gate, or joined to earlier attempts."""

from __future__ import annotations

from collections.abc import Collection

from guardproxy.api import _blocks_cut
from guardproxy.api._blocks_answer import Reader
from guardproxy.api._blocks_clear import whole
from guardproxy.api._blocks_cut import CALLING
from guardproxy.api._blocks_halt import Halt
from guardproxy.api._chat_cut import MAX_WHOLE
from guardproxy.api._gate import GAP, Gate, Joint, summed
from guardproxy.api._json import dumps, peek
from guardproxy.core.edit import DropCalls

Fields = dict[str, object]


class Whole:
    """Handed on at once where nobody edits or judges it; else held as a whole."""

    may_be_over = False
    repeats = 0

    def __init__(
        self, reader: Reader, drop: DropCalls | None, halt: Halt | None, gate: Gate | None, joint: Joint | None
    ) -> None:
        self.touched = self.own_text = self.holding = False
        self.unread = 0
        """1: nobody can read it, and nothing of it may be handed on."""
        self._reader = reader
        self._drop = drop
        self._halt = halt
        self._gate = gate
        self._joint = joint
        self._passes = drop is None and halt is None and gate is None and joint is None
        self._parts: list[bytes] = []
        self._size = 0
        self._tried = -1
        self._given = False
        self._anew = False  # written so that all read the same
        self._calls = 0  # of those that were given

    def feed(self, chunk: bytes) -> bytes:
        self._size += len(chunk)
        if self._size <= MAX_WHOLE or not self._passes:
            self._parts.append(chunk)
        return chunk if self._passes else b""

    def finish(self) -> bytes:
        if self._gate is not None or self._joint is not None:
            firm = self._gate is None or self._gate.firm
            raw = b"".join(self._parts)
            found = whole(raw, firm=firm)
            self._anew = found != raw
            too_long = firm and self._size > MAX_WHOLE
            self.unread = int(found is None or too_long)
            self._parts = [found or b""]
        self.settle()
        if self._passes:
            return b""
        self.holding = self._waits()
        return b"" if self.holding else self.release()

    def settle(self) -> None:
        ended = bool(self._parts) and self._parts[-1].rstrip().endswith(b"}")  # else it is not worth a parse
        if not ended or self._tried == self._size or self._size > MAX_WHOLE or self._reader.answer.choices:
            return
        self._tried = self._size
        self._reader.take(self._payload())

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """The body, once; with `keep` only with the calls at these positions."""
        if self._given or self._passes:
            return b""
        self._given, self.holding = True, False
        raw, payload = b"".join(self._parts), self._payload()
        content = payload.get("content")
        if (self._reader.answer.failed and keep is None) or not isinstance(content, list):
            return raw
        changed = self._anew
        if self._drop is not None:
            changed = _blocks_cut.whole(payload, self._drop.text, self._reader.blocks) or changed
            self.own_text = changed and not self._reader.blocks.spoken
        elif keep is not None:
            changed = _take_out(payload, content, keep) or changed
        if self._halt is not None:
            changed = self._halt.whole(payload) or changed
        left = payload.get("content")
        self._calls = sum(map(_called, left)) if isinstance(left, list) else 0
        if self._joint is not None:
            _join(payload, self._joint)
            changed = True
        self.touched = changed
        return dumps(payload) if changed else raw

    def joint(self) -> Joint:
        """What the client was given so far, or will be with the next attempt's text."""
        self.settle()
        before = self._joint or Joint()
        shown = self._given or self._gate is None or not self._gate.text
        text = self._reader.blocks.text if shown else ""
        return Joint(
            base=before.base or self._reader.base,
            text=GAP.join([part for part in (before.text, text) if part]),
            calls=before.calls + self._calls,
            usage=summed(before.usage, self._reader.usage),
        )

    def _payload(self) -> Fields:
        found = peek(b"".join(self._parts))
        return found if isinstance(found, dict) else {}

    def _waits(self) -> bool:
        """Whether somebody has to judge it."""
        gate, answer, blocks = self._gate, self._reader.answer, self._reader.blocks
        if gate is None or not answer.choices:
            return False
        calls = () if self._drop is not None else blocks.built()
        if not calls:
            return gate.text and not answer.failed
        unseen = blocks.call_count > len(calls)  # so many that not all of them are kept
        return gate.calls and (unseen or gate.every or any(not call.name or gate.wants(call.name) for call in calls))


def _called(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == CALLING


def _take_out(payload: Fields, content: list[object], keep: Collection[int]) -> bool:
    """Leave only the calls at these positions."""
    left, position = [], 0
    for block in content:
        if _called(block):
            position += 1
            if position - 1 not in keep:
                continue
        left.append(block)
    if len(left) == len(content):
        return False
    payload["content"] = left
    if not any(map(_called, left)):
        payload["stop_reason"] = "end_turn"
    return True


def _join(payload: Fields, joint: Joint) -> None:
    """Put what was said before in front, under the first answer's id."""
    payload |= joint.base
    usage, content = payload.get("usage"), payload.get("content")
    if isinstance(usage, dict):
        payload["usage"] = summed(joint.usage, usage)
    if joint.text and isinstance(content, list):
        spoken = bool(content) and isinstance(content[0], dict) and content[0].get("type") == "text"
        payload["content"] = [{"type": "text", "text": joint.text + (GAP if spoken else "")}, *content]
