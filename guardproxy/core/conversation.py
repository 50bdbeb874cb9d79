"""The digests of a conversation: how it began, and where it stands.

Pure. By the first a run's requests are put together where nothing tells whose they are, by the second a retry is known.
"""

from __future__ import annotations

from typing import cast

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Ask

NEWEST = 4
"""Messages that are looked at to say where a conversation stands."""


def head(ask: Ask, printer: Fingerprinter) -> str:
    """Digest of the leading system messages and the first user message."""
    key = hash(("head", ask.head))
    found = printer.memo[key]
    if found is None:
        parts: list[str | bytes] = []
        for message in ask.head:
            parts += (message.role, message.text, *message.media)
        found = printer.memo.keep(key, printer.hash16("head", *parts).hex())
    return cast("str", found)


def of(tenant: str, digest: str, printer: Fingerprinter) -> str:
    """The same digest as that of one tenant alone: others may hold the same conversation."""
    key = hash(("head", tenant, digest))
    found = printer.memo[key] or printer.memo.keep(key, printer.hash16("head", tenant, digest).hex())
    return cast("str", found)


def standing(ask: Ask, printer: Fingerprinter, upto: int | None = None) -> str:
    """Digest of the head, the number of messages and the last four. `upto`: as it was with so many of the tail.

    Not of the whole history: cost must not grow with it, and histories only grow, so that equal length and equal end
    mean an equal conversation.
    """
    end = len(ask.tail) if upto is None else upto
    count = ask.count if upto is None else ask.tail_start + upto
    parts: list[str | bytes] = ["conversation", str(count), head(ask, printer)]
    for message in ask.tail[max(0, end - NEWEST) : end]:
        parts += (message.role, message.text, message.call_id, *message.media)
        for call in message.calls:
            parts += (call.id, call.name, call.arguments)
    return printer.quick16(*parts).hex()
