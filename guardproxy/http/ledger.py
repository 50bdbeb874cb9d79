"""The texts we added to a conversation, kept encrypted beside it so that they can be put back on every later turn.

An entry is found again by its anchor: the place of the message it was appended to, with a digest of that message and
of the one before it, without ids. Local on purpose: an anchor over the whole prefix would cost a walk over the history.
A message can carry several texts (the same request again after an empty answer): the anchor ends in their number.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from guardproxy.core.edit import AppendText, Edit, PutBack
from guardproxy.core.fingerprint import Fingerprinter, hash16
from guardproxy.core.model import Message

NONCE = 12
"""Bytes, as AES-GCM wants them (NIST SP 800-38D)."""

ROUNDS = "r"
"""Begins the anchor of rounds and calls that are put back; that of a text begins with a number."""

At = Callable[[int], Message | None]
"""The message at an index of the request, if there is one: a surface reads it from the parsed body."""


class Ledger:
    """Seals and opens ledger texts (AES-GCM, 12-byte random nonce in front). `key`: 32 bytes."""

    def __init__(self, key: bytes, printer: Fingerprinter) -> None:
        self._cipher = AESGCM(key)
        self._printer = printer

    def seal(
        self, at: At, edits: Sequence[Edit], put_back: Sequence[Edit] = (), kept: Sequence[PutBack] = ()
    ) -> dict[str, bytes]:
        """Entries by anchor: for the texts that `edits` append behind those put back, and for what `kept` puts back."""
        entries = {}
        places = [edit.index for edit in put_back if isinstance(edit, AppendText)]
        for edit in edits:
            if isinstance(edit, AppendText):
                anchor = f"{self._anchor(at, edit.index)}:{places.count(edit.index)}"
                places.append(edit.index)
                entries[anchor] = self._seal(anchor, edit.text.encode())
        for back in kept:
            anchor = f"{ROUNDS}{self._before(at, back.index)}:0"
            entries[anchor] = self._seal(anchor, _packed(back))
        return entries

    def put_back(self, at: At, entries: Mapping[str, bytes]) -> tuple[tuple[AppendText | PutBack, ...], bool]:
        """What stands in this conversation again, as the edits it was, in order; whether texts have lost their place.

        What was put back at a message goes with it: a compaction that takes it away takes calls and results together.
        """
        texts: list[tuple[int, int, str]] = []
        rounds: list[PutBack] = []
        lost = 0
        for anchor, sealed in entries.items():
            place, _, number = anchor.rpartition(":")
            if place.startswith(ROUNDS):
                rounds += self._rounds(at, anchor, place[len(ROUNDS) :], sealed)
                continue
            index = int(place.partition(":")[0])
            if self._anchor(at, index) != place:
                lost += 1
            elif text := self._open(anchor, sealed):
                texts.append((index, int(number), text.decode()))
        found = tuple(AppendText(index, text) for index, _, text in sorted(texts))
        return (*found, *sorted(rounds, key=lambda one: one.index)), lost > 0 and not found

    def _rounds(self, at: At, anchor: str, place: str, sealed: bytes) -> list[PutBack]:
        index = int(place.partition(":")[0])
        here = at(index)
        if here is None or here.role != "assistant" or self._before(at, index) != place:
            return []
        raw = self._open(anchor, sealed)
        back = _unpacked(index, raw) if raw else None
        return [] if back is None or (back.calls and not here.calls) else [back]

    def _before(self, at: At, index: int) -> str:
        """The place of a message that may not be there yet: it is known by the one in front of it."""
        return f"{index}:{self._anchor(at, index - 1).partition(':')[2]}" if index else "0:"

    def _seal(self, anchor: str, content: bytes) -> bytes:
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, content, anchor.encode())

    def _open(self, anchor: str, sealed: bytes) -> bytes:
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], anchor.encode())
        except InvalidTag:
            return b""  # the secret was changed: better no text than a wrong one

    def _anchor(self, at: At, index: int) -> str:
        here = at(index)
        if here is None:
            return ""
        before = at(index - 1) if index else None
        near = [message for message in (before, here) if message is not None]
        parts = [part for m in near for part in (m.role, m.text, *(c.name + c.arguments for c in m.calls))]
        return f"{index}:{hash16(self._printer.key, 'anchor', *parts).hex()}"


def _packed(back: PutBack) -> bytes:
    """The stored form: messages and calls are JSON already, and stay as they are, byte for byte."""
    calls = [[place, raw.decode()] for place, raw in back.calls]
    before, after = [raw.decode() for raw in back.before], [raw.decode() for raw in back.after]
    return json.dumps([1, before, calls, after, back.said]).encode()


def _unpacked(index: int, raw: bytes) -> PutBack | None:
    form, *rest = json.loads(raw)
    if form != 1:  # of another version
        return None
    before, calls, after, said = rest
    placed = tuple((place, call.encode()) for place, call in calls)
    return PutBack(index, tuple(one.encode() for one in before), placed, tuple(one.encode() for one in after), said)
