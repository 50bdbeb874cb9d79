"""An answer in one piece, on every surface: handed on as it comes, edited, held until it is judged, joined to others.

What stands where in it is the surface's own `Form`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from guardproxy.api._answer import Answer
from guardproxy.api._gate import Gate, Joint
from guardproxy.api._json import dumps, peek

MAX_WHOLE = 64 * 1024 * 1024
"""A body longer than this is handed on unread (the bound on request bodies)."""

Fields = dict[str, object]


class Form(Protocol):
    """An answer in one piece as a surface knows it. A payload is its JSON; what changes it says whether it did.

    `take`: read it; `sound`: that is enough to be judged. `clear`: its bytes as they are read, and those that go
    on where nothing is refused; None where nobody can tell what is in it. `holds`: what calls are looked for in;
    `failed`: an error is told in it. `cut`: no call is left, and `text` where nothing else is; `mend`: a reason that
    promises calls where there are none; `leave_out`: only the calls at these positions; `count`: how many there are.
    `joined`: what is given of it, behind what was given before; `joint`: all of that. `shown`: its text was, too.
    """

    @property
    def sound(self) -> bool: ...
    def take(self, payload: Fields) -> None: ...
    def clear(self, raw: bytes, *, firm: bool) -> tuple[bytes, bytes] | None: ...
    def holds(self, payload: Fields) -> bool: ...
    def failed(self, payload: Fields) -> bool: ...
    def cut(self, payload: Fields, text: str) -> bool: ...
    def mend(self, payload: Fields) -> bool: ...
    def leave_out(self, payload: Fields, keep: frozenset[int]) -> bool: ...
    def count(self, payload: Fields) -> int: ...
    def joined(self, payload: Fields, joint: Joint) -> bytes: ...
    def joint(self, before: Joint, calls: int, *, shown: bool) -> Joint: ...


class Body:
    """Handed on as it comes, and read once it is there. `parse`: its JSON; what is longer than `most` nobody reads."""

    touched = False
    own_text = False
    may_be_over = False
    repeats = 0
    _tried = -1  # size at the last attempt to read it

    def __init__(
        self,
        take: Callable[[Fields], object],
        parse: Callable[[bytes], object] = peek,
        most: int = MAX_WHOLE,
    ) -> None:
        self._take = take
        self._parse = parse
        self._most = most
        self._parts: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> bytes:
        self._size += len(chunk)
        if self._size <= self._most:
            self._parts.append(chunk)
        return chunk

    def finish(self) -> bytes:
        self.settle()
        return b""

    def settle(self) -> None:
        parts = self._parts
        if self._tried == self._size or self._size > self._most:
            return
        if not (parts and parts[-1].rstrip().endswith(b"}")):  # else it is not worth a parse
            return
        self._tried = self._size
        payload = self._parse(parts[0] if len(parts) == 1 else b"".join(parts))
        if isinstance(payload, dict):
            self._most = -1  # once
            self._take(payload)


class Whole:
    """Held as a whole, to be edited, judged or joined. `text`: it is cut, `mends`: mended."""

    may_be_over = False
    repeats = 0  # it is never halted: it has been paid for
    own_text = False
    holding = False
    unread = 0
    """1: nobody can read it, and nothing of it may be handed on."""
    _over = False
    _given = False
    _edited = False  # it was cut, or mended
    _changed = False  # it was written anew
    _calls = 0  # of those that were given
    _out = b""

    def __init__(
        self, form: Form, answer: Answer, text: str | None, gate: Gate | None, joint: Joint | None, *, mends: bool
    ) -> None:
        self._form = form
        self._answer = answer
        self._text = text
        self._mends = mends
        self._gate = gate
        self._joint = joint
        self._parts: list[bytes] = []

    @property
    def touched(self) -> bool:
        return self._edited or self._changed

    def feed(self, chunk: bytes) -> bytes:
        self._parts.append(chunk)
        return b""

    def settle(self) -> None:
        """It is read at its end."""

    def finish(self) -> bytes:
        if self._over:
            return b""
        self._over = True
        shown = raw = b"".join(self._parts)
        firm = self._gate is None or self._gate.firm
        if self._gate is not None or self._joint is not None:
            found = self._form.clear(raw, firm=firm)
            plain, shown = found or (raw, b"")
            self._parts, self._changed = [plain], shown != raw
            self.unread = int(found is None or (firm and len(raw) > MAX_WHOLE))
        payload = self._payload() if len(raw) <= MAX_WHOLE else {}
        if payload:
            self._form.take(payload)
        self._out = self._edit(shown)
        self.holding = self._waits()
        return b"" if self.holding else self.release()

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """The body, once; with `keep` only with the calls at these positions."""
        if self._given:
            return b""
        self._given, self.holding = True, False
        form, joint = self._form, self._joint
        payload = _object(self._out) if self._edited else self._payload()
        if not form.holds(payload) or (keep is None and form.failed(payload)):
            return b"data: " + dumps(payload) + b"\n\n" if payload and joint and joint.streamed else self._out
        lacks = keep is not None and form.leave_out(payload, keep)
        self._calls = form.count(payload)
        if not lacks and joint is None:
            return self._out
        self._changed = True
        return dumps(payload) if joint is None else form.joined(payload, joint)

    def joint(self) -> Joint:
        """What the client was given so far, or will be with the next attempt's text."""
        shown = self._given or self._gate is None or not self._gate.text
        return self._form.joint(self._joint or Joint(), self._calls, shown=shown)

    def _payload(self) -> Fields:
        return _object(b"".join(self._parts))

    def _edit(self, shown: bytes) -> bytes:
        if self._text is None and not self._mends:
            return shown
        payload = self._payload()
        cut = self._text is not None and self._form.cut(payload, self._text)
        self.own_text = cut and not self._answer.first.spoken
        self._edited = (self._mends and self._form.mend(payload)) or cut
        return dumps(payload) if self._edited else shown

    def _waits(self) -> bool:
        """Whether somebody has to judge it."""
        gate, first = self._gate, self._answer.first
        if gate is None or not self._form.sound:
            return False
        calls = () if self._edited else first.built()
        if not calls:
            return gate.text and not self._answer.failed
        unseen = first.call_count > len(calls)  # so many that not all of them are kept
        return gate.calls and (unseen or gate.every or any(not call.name or gate.wants(call.name) for call in calls))


def _object(raw: bytes) -> Fields:
    found = peek(raw)
    return found if isinstance(found, dict) else {}
