"""The texts we added to a conversation, kept encrypted beside it so that they can be put back on every later turn.

An entry is found again by its anchor: the place of the message it was appended to, with a digest of that message and
of the one before it, without ids. Local on purpose: an anchor over the whole prefix would cost a walk over the history.
A message can carry several texts (the same request again after an empty answer): the anchor ends in their number.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from guardproxy.core.edit import AppendText, Edit
from guardproxy.core.fingerprint import Fingerprinter, hash16
from guardproxy.core.model import Message

NONCE = 12
"""Bytes, as AES-GCM wants them (NIST SP 800-38D)."""

At = Callable[[int], Message | None]
"""The message at an index of the request, if there is one: a surface reads it from the parsed body."""


class Ledger:
    """Seals and opens ledger texts (AES-GCM, 12-byte random nonce in front). `key`: 32 bytes."""

    def __init__(self, key: bytes, printer: Fingerprinter) -> None:
        self._cipher = AESGCM(key)
        self._printer = printer

    def seal(self, at: At, edits: Sequence[Edit], put_back: Sequence[AppendText] = ()) -> dict[str, bytes]:
        """Entries for the texts that `edits` append behind those put back, by anchor."""
        entries = {}
        places = [edit.index for edit in put_back]
        for edit in edits:
            if isinstance(edit, AppendText):
                anchor = f"{self._anchor(at, edit.index)}:{places.count(edit.index)}"
                places.append(edit.index)
                nonce = os.urandom(NONCE)
                entries[anchor] = nonce + self._cipher.encrypt(nonce, edit.text.encode(), anchor.encode())
        return entries

    def put_back(self, at: At, entries: Mapping[str, bytes]) -> tuple[AppendText, ...]:
        """The stored texts whose place is still in this conversation, as the edits they were, in their order."""
        found = []
        for anchor, sealed in entries.items():
            place, _, number = anchor.rpartition(":")
            index = int(place.partition(":")[0])
            if self._anchor(at, index) == place:
                text = self._open(anchor, sealed)
                if text:
                    found.append((index, int(number), text))
        return tuple(AppendText(index, text) for index, _, text in sorted(found))

    def _open(self, anchor: str, sealed: bytes) -> str:
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], anchor.encode()).decode()
        except InvalidTag:
            return ""  # the secret was changed: better no text than a wrong one

    def _anchor(self, at: At, index: int) -> str:
        here = at(index)
        if here is None:
            return ""
        before = at(index - 1) if index else None
        near = [message for message in (before, here) if message is not None]
        parts = [part for m in near for part in (m.role, m.text, *(c.name + c.arguments for c in m.calls))]
        return f"{index}:{hash16(self._printer.key, 'anchor', *parts).hex()}"
