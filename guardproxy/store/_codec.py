"""Values of `core.view` to script arguments and back. The order of fields here is the order of locals in the scripts.

msgpack carries the small values; facts and other opaque bytes travel as arguments of their own, since the scripts'
msgpack reader knows no binary type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from guardproxy.core.view import Closing, Opening, Spent, View
from guardproxy.errors import StoreError

SEPARATOR = "\x1f"
"""Stands between session and thread in the scripts, so it may not occur in either."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode


def prefix(org: str) -> str:
    """What all keys of an org begin with. The braces are the hash tag: one slot of a Redis Cluster."""
    return "gp:{" + (org.replace("{", "(").replace("}", ")") or "-") + "}:"


def opening(value: Opening, *, newest: int = 0) -> tuple[bytes, ...]:
    """ARGV of `begin.lua`. `newest`: send only so many rounds (0 = all); the script says if it needs the others."""
    who, fact = value.identity, value.fact
    sent = fact.rounds[-newest:]
    head: tuple[Any, ...] = (
        value.token,
        _name(who.session),
        _name(who.thread),
        who.head,
        who.fresh,
        who.links,
        fact.conversation,
        fact.count,
        len(sent),
        len(sent) < len(fact.rounds),
        fact.user,
        value.lines,
        value.lease_ms,
        value.tooled,
        value.offset_ms,
        value.traceparent,
        who.spoken,
    )
    rounds = _encode([(r.digest, r.index, len(r.facts), r.counts) for r in reversed(sent)])
    return (_encode(head), fact.boundary, fact.blank, rounds, *(f for r in sent for f in r.facts))


def closing(value: Closing, *, swept: bool = False) -> tuple[bytes, ...]:
    """ARGV of `settle.lua`. `swept`: settle only if the lease has ended, with use = hold."""
    head = (
        value.token,
        value.outcome,
        value.answer,
        value.spent,
        value.delivered,
        value.links,
        len(value.facts),
        len(value.episodes),
        list(value.ledger),
        value.close,
        value.close_session,
        value.count,
        value.offset_ms,
        swept,
    )
    return (_encode(head), value.record, *value.facts, *value.episodes, *value.ledger.values())


def view(reply: object, value: Opening) -> View:
    """The answer of `begin.lua`."""
    if not isinstance(reply, list) or len(reply) != _ANSWER:
        message = "the store gave an answer to begin that cannot be read"
        raise StoreError(message)
    sid, thread, turn, now, retry, admitted, closed_by, answers, rearmed, equal, steps, span, span_at = reply[:13]
    born, new_session, counted, panic, traceparent, main, exempt, spent, short, counts = reply[13:23]
    ring, episodes, ledger = reply[23:]
    lines = value.lines
    return View(
        session=sid.decode(),
        thread=thread.decode(),
        turn=turn,
        now_ms=now,
        retry=retry == 1,
        admitted=admitted == 1,
        short=tuple(lines[i - 1] for i in sorted(short)) if short else (),
        spent=tuple(map(Spent, lines, spent[::2], spent[1::2])),
        closed=closed_by != b"",
        closed_by=closed_by.decode(),
        answers=answers,
        rearmed=rearmed,
        equal=equal,
        steps=steps,
        ring=tuple(ring),
        episodes=tuple(episodes),
        ledger=dict(pairs(ledger)),
        counts=dict(pairs(counts)),
        span=span,
        span_started_ms=span_at,
        session_started_ms=born,
        new_session=new_session == 1,
        counted=counted == 1,
        panic=panic == 1,
        traceparent=traceparent.decode(),
        main=main == 1,
        exempt=exempt,
    )


_ANSWER = 26
"""Fields of the answer of `begin.lua`."""


def pairs(flat: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """A flat list of names and values, as Redis answers hashes."""
    return zip([name.decode() for name in flat[::2]], flat[1::2], strict=True)


def unpack(state: bytes) -> dict[str, Any]:
    """A map as the scripts keep it (sessions, threads). `StoreError` if it is none."""
    try:
        fields = _unpack(state)
    except msgspec.DecodeError as error:
        raise StoreError(f"the store holds what cannot be read: {error}") from error
    return fields if isinstance(fields, dict) else {}


def _name(text: str) -> str:
    return text.replace(SEPARATOR, "_") if SEPARATOR in text else text


def _encode(value: object) -> bytes:
    """Lone surrogates (from a client's JSON escapes) have no UTF-8 form; they become question marks."""
    try:
        return _pack(value)
    except UnicodeEncodeError:
        return _pack(_clean(value))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_clean(name): _clean(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean(item) for item in value]
    return value
