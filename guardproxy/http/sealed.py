"""Content that waits in the store is sealed: what an approval is about, and the conversation of a checkpoint.

AES-GCM under the ledger key (`secrets.Keys.ledger`), a random nonce in front. What it belongs to (kind and id) is the
associated data: what was sealed for one approval opens for no other, and the edit of one is not the original.
"""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass

import orjson
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE = 12
"""Bytes, as AES-GCM wants them (NIST SP 800-38D)."""

ASKED, EDITED, CHECKPOINT, ANSWER, TOLD = "approval", "edited", "checkpoint", "answer", "told"
"""Kinds: what is to be approved (its id), what a person made of it (the same id), a conversation (its session), an
answer that was not accepted (its session), what the model was told in a turn (its session).
"""


TEXTS = ("tool", "arguments", "question", "answer", "reason")
"""The texts of a `Held`."""


@dataclass(frozen=True, slots=True)
class Held:
    """What an approval is about. `arguments` as the model wrote them, or as a person edited them; `message` is the
    assistant message whole, as JSON; `question` is for a person, `answer` is the person's. `position`: of the call
    among those of the message; -1 = not known, as in what an older version kept.
    """

    tool: str = ""
    arguments: str = ""
    message: bytes = b""
    question: str = ""
    answer: str = ""
    position: int = -1
    reason: str = ""  # of the rule that asks


class Sealer:
    """Seals and opens. `key`: 32 bytes."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def seal(self, kind: str, name: str, content: bytes) -> bytes:
        """The content, readable with the same key, kind and name only."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, content, _belongs(kind, name))

    def open(self, kind: str, name: str, sealed: bytes) -> bytes | None:
        """The content, or None: it was sealed under another secret, for something else, or was tampered with."""
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], _belongs(kind, name))
        except (InvalidTag, ValueError):  # ValueError: too short to have a nonce
            return None

    def seal_told(self, session: str, text: str) -> str:
        """What the model was told, for the record of a turn."""
        return base64.b64encode(self.seal(TOLD, session, text.encode("utf-8", "replace"))).decode()

    def open_told(self, session: str, sealed: str) -> str:
        """What `seal_told` sealed; "" where it cannot be opened."""
        try:
            return (self.open(TOLD, session, base64.b64decode(sealed)) or b"").decode()
        except ValueError:  # no base64, no UTF-8
            return ""

    def seal_held(self, approval: str, held: Held, kind: str = ASKED) -> bytes:
        """An approval's content. Bytes of `message` that are no UTF-8 are replaced."""
        fields = {name: getattr(held, name) for name in TEXTS}
        said: dict[str, object] = {
            name: text.encode("utf-8", "replace").decode() for name, text in fields.items() if text
        }
        said["message"] = held.message.decode("utf-8", "replace")
        if held.position >= 0:
            said["position"] = held.position
        return self.seal(kind, approval, orjson.dumps(said))

    def open_held(self, approval: str, sealed: bytes, kind: str = ASKED) -> Held | None:
        """What `seal_held` sealed, or None as `open`. Fields of another version are left out."""
        raw = self.open(kind, approval, sealed)
        said = orjson.loads(raw) if raw is not None else None
        if not isinstance(said, dict):
            return None
        texts = {name: str(said.get(name, "")) for name in TEXTS}
        position = said.get("position")
        position = position if isinstance(position, int) and position >= 0 else -1
        return Held(**texts, message=str(said.get("message", "")).encode(), position=position)


def _belongs(kind: str, name: str) -> bytes:
    return f"{kind}:{name}".encode("utf-8", "replace")
