"""What shapes a conversation's history stays as it was when the conversation began, whatever policy holds by now.

Truncation is made anew with every request, over all of its results: with other numbers in the middle of a run, the
provider would see another prefix, and its prompt cache would be of no use. What is appended (advice, notes of hygiene)
stands in the ledger and needs no such thing. So a conversation that begins under truncation has its settings beside the
ledger's texts; one that has none of them there began without.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import orjson

from guardproxy.core.hygiene import truncate
from guardproxy.core.policy import Policy
from guardproxy.http.ledger import ROUNDS

if TYPE_CHECKING:
    from guardproxy.core.view import View
    from guardproxy.http.turn import Turn

ANCHOR = f"{ROUNDS}shape"
"""Where it lies in the ledger: no place of a text or a round, which older workers pass over."""

KIND = "truncate"
"""The kind of hygiene that changes what a conversation has already."""


def shape(policy: Policy) -> str:
    """What a policy makes of histories; "" = it leaves them as they are."""
    settings = policy.hygiene.get(KIND)
    if not isinstance(settings, truncate.Settings) or settings.mode != "enforce":
        return ""
    return orjson.dumps({"language": policy.language, KIND: asdict(settings)}).decode()


def pinned(view: View) -> bool:
    """Whether the conversation began under truncation."""
    return bool(view.ledger) and ANCHOR in view.ledger


def hygiene(turn: Turn) -> tuple[Mapping[str, object], str]:
    """The hygiene of a turn's conversation, and its language (or auto). A new one's is noted, to be kept."""
    policy, view = turn.chosen.policy, turn.seen
    if pinned(view):
        kept = _read(turn.proxy.ledger.opened(ANCHOR, view.ledger[ANCHOR]))
        if kept is not None:
            return {**policy.hygiene, KIND: kept[1]}, kept[0]
    if not turn.chosen.shape:
        return policy.hygiene, policy.language
    if view.new_session or not view.since_ms:  # nothing was answered here yet
        turn.pin = turn.chosen.shape
        return policy.hygiene, policy.language
    return {name: settings for name, settings in policy.hygiene.items() if name != KIND}, policy.language


def kept(turn: Turn) -> dict[str, bytes]:
    """What the ledger is to keep of it."""
    return {ANCHOR: turn.proxy.ledger.sealed(ANCHOR, turn.pin.encode())} if turn.pin else {}


def _read(raw: bytes) -> tuple[str, truncate.Settings] | None:
    """None for what is not to be read: of another secret, or another version."""
    try:
        found = orjson.loads(raw)
        return str(found["language"]), truncate.Settings(**found[KIND])
    except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
        return None
