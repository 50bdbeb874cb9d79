"""Values of `core.view` to script arguments and back. The order of fields here is the order of locals in the scripts.

msgpack carries the small values; facts and other opaque bytes travel as arguments of their own, since the scripts'
msgpack reader knows no binary type.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from struct import Struct, error as StructError, unpack_from  # noqa: N812  # an exception's name
from typing import Any

import msgspec

from guardproxy.core.model import Line
from guardproxy.core.view import Closing, Opening, Spent, View
from guardproxy.core.windows import is_rate
from guardproxy.errors import StoreError

SEPARATORS = "\x1e\x1f"
"""Stand between runs, and between session and thread of a run, in the scripts: they may not occur in either."""

RING = 64
"""Facts of a thread that `begin` answers at most (DESIGN section 2). The store may keep some more."""

AMOUNT = 2**53
"""The scripts' numbers are exact up to here; what is above, is as good as endless."""

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_facts = msgspec.msgpack.Decoder(list[bytes]).decode
_stands = partial(tuple.__new__, Spent)  # a named tuple of all its fields at half the price


def prefix(org: str) -> str:
    """What all keys of an org begin with. The braces are the hash tag: one slot of a Redis Cluster."""
    return "gp:{" + (org.replace("{", "(").replace("}", ")") or "-") + "}:"


@lru_cache(maxsize=256)
def named(
    scopes: tuple[str, ...],
    dimensions: tuple[str, ...],
    limits: tuple[int, ...],
    keyed: tuple[str, ...],
    clocks: tuple[bool, ...],
) -> tuple[str, tuple[str, ...], bytes, bytes]:
    """What is the same in every request with these lines: kinds, keys, names and limits, see `state.lua`."""
    kinds, keys, names = "", [], b""
    for scope, dimension, key, clock in zip(scopes, dimensions, keyed, clocks, strict=True):
        letter = {"session": "s", "span": "p"}.get(scope, "w")
        letter = letter.upper() if clock else letter
        keys += [key] if letter == "w" else []
        names += encode(f"{letter}:{dimension}")
        if key and is_rate(key):
            kinds += "r"
        else:
            kinds += {"s": "t", "p": "q", "w": "v"}.get(letter, letter) if dimension == "turns" else letter
    return kinds, tuple(keys), names, amounts_of(limits)


@lru_cache(maxsize=256)
def integers(number: int) -> Struct:
    """So many of them, as the scripts have them."""
    return Struct(f"<{number}q")


def amounts_of(amounts: tuple[int, ...]) -> bytes:
    """Limits or holds."""
    try:
        return integers(len(amounts)).pack(*amounts)
    except StructError:  # a client may ask for any number of tokens
        return integers(len(amounts)).pack(*[max(-1, min(amount, AMOUNT)) for amount in amounts])


def bare(values: Sequence[object]) -> bytes:
    """The values of a list one after another: the scripts read them faster than a list, and may read but the first."""
    return encode(values)[1 if len(values) < _SHORT else 3 :]


NEVER: object = 0  # never a turn, in the place of whether it offers tools; were it an int, so were False, compiled
_SHORT = 16  # a msgpack list of fewer has one byte in front, one of more three


def opening(value: Opening, *, newest: int = 0, asked: object = None) -> tuple[bytes, ...]:
    """ARGV of `begin.lua`. `newest`: send only so many rounds (0 = all). `asked`: what the script has asked for."""
    who, fact, lines = value.identity, value.fact, value.lines
    if isinstance(asked, bytes):  # whether the newest round has grown by the one that was delivered; 0: the others
        fact.grown(asked.decode())
    sent = fact.rounds[-newest:]
    scopes, dimensions, holds, limits, keyed, clocks = zip(*lines, strict=True) if lines else ((),) * 6
    kinds, keys, names, most = named(scopes, dimensions, limits, keyed, clocks)
    head = bare(
        (
            value.token,
            _name(who.session),
            _name(who.thread),
            who.head,
            who.fresh,
            who.links,
            fact.conversation,
            fact.count,
            len(sent),
            len(sent) < len(fact.rounds) if asked is None else 2,
            fact.user,
            value.lease_ms,
            NEVER if value.aside else value.tooled,
            value.offset_ms,
            value.traceparent,
            who.spoken,
            *(kinds, keys, who.owner, value.payer),
            *value.need,
        )
    )
    if len(sent) == 1:  # mostly
        (one,) = sent
        rounds, facts = bare(((one.digest, one.index, len(one.facts), one.counts),)), [bare(one.facts)]
    else:
        rounds = bare([(r.digest, r.index, len(r.facts), r.counts) for r in reversed(sent)])
        facts = [bare(r.facts) for r in sent]
    return (head, _pack(fact.boundary), _pack(fact.blank), rounds, names, most + amounts_of(holds), *facts)


def closing(value: Closing, *, swept: bool = False) -> tuple[bytes, ...]:
    """ARGV of `settle.lua`. `swept`: settle only if the lease has ended, with use = hold."""
    head = bare(
        (
            value.token,
            _name(value.session),
            _name(value.thread),
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
            STATUSES.index(value.status),
            value.waits_for,
            value.pause,
            value.pause_why,
            value.charge,
            value.later,
        )
    )
    return (head, value.record, bare(value.facts), *value.episodes, *value.ledger.values())


def extension(token: str, attempt: str, lines: Sequence[Line], offset_ms: int) -> tuple[bytes, bytes, bytes]:
    """ARGV of `extend.lua`. `attempt` is new for each, and the same when the call is sent again."""
    scopes, dimensions, holds, limits, keyed, clocks = zip(*lines, strict=True) if lines else ((),) * 6
    _, _, names, most = named(scopes, dimensions, limits, keyed, clocks)
    return bare((token, attempt, offset_ms)), names, most + amounts_of(holds)


def view(reply: object, value: Opening) -> View:
    """The answer of `begin.lua`. `StoreError` if it is none."""
    try:
        return _view(reply, value)
    except (ValueError, TypeError, StructError) as error:  # msgspec's own are among them
        raise StoreError(f"the store gave an answer to begin that cannot be read: {error}") from error


def _view(reply: Any, value: Opening) -> View:
    answer, ring, kept, since, *told = reply
    steps, turn, now, retry, admitted, answers, rearmed, equal, span, span_at, *rest = _NUMBERS.unpack_from(answer)
    born, new_session, counted, panic, main, exempt, since_ms, status, missing, *sizes = rest
    at, found = _NUMBERS.size, []
    for size in sizes:
        found.append(answer[at : at + size])
        at += size
    sid, thread, closed_by, traceparent, counters, rare = found
    short, counts, *asked = _unpack(rare) if rare else ((), {})
    raised, paused, paused_why, approval, state = asked or ((), "", "", "", "")
    lines = _raised(value.lines, raised) if raised else value.lines
    spent = integers(2 * len(lines)).unpack(counters) if counters else ()
    facts = _facts(_SIZED(0xDD, kept) + ring) if kept else []
    made: Any = View(sid.decode(), thread.decode(), turn, now)  # forty keywords would cost three times what follows
    made.retry = retry == 1
    made.admitted = admitted == 1
    made.short = tuple([lines[i - 1] for i in sorted(short)]) if short else ()
    made.spent = tuple(map(_stands, zip(lines, spent[::2], spent[1::2], strict=False)))
    made.closed = closed_by != b""
    made.closed_by = closed_by.decode()
    made.answers = answers
    made.rearmed = rearmed
    made.equal = equal
    made.steps = steps
    made.ring = tuple(facts[max(0, len(facts) - since - RING) : len(facts) - since] if since else facts[-RING:])
    if told:
        made.episodes, made.ledger = tuple(told[0]), dict(pairs(told[1]))
    made.counts = counts or {}
    made.span = span
    made.span_started_ms = span_at
    made.session_started_ms = born
    made.new_session = new_session == 1
    made.counted = counted == 1
    made.main = main == 1
    made.panic = panic == 1
    made.exempt = exempt
    made.traceparent = traceparent.decode()
    made.since_ms = since_ms
    made.status = STATUSES[status]
    made.missing, made.carried = missing & 1 == 1, missing > 1
    if asked:
        made.paused, made.paused_why, made.approval, made.approval_state = paused, paused_why, approval, state
    view: View = made
    return view


def _raised(lines: tuple[Line, ...], raised: Sequence[int]) -> tuple[Line, ...]:
    """The lines with the limits that people raised for this session: a flat list of places and limits."""
    limits = dict(zip(raised[::2], raised[1::2], strict=True))
    return tuple([line._replace(limit=int(limits.get(i, line.limit))) for i, line in enumerate(lines, 1)])


_NUMBERS = Struct("<25q")
_SIZED = Struct(">BI").pack


def pairs(flat: Sequence[Any]) -> Iterable[tuple[str, Any]]:
    """A flat list of names and values, as Redis answers hashes."""
    return zip([name.decode() for name in flat[::2]], flat[1::2], strict=True)


def unpack(state: bytes) -> dict[str, Any]:
    """A map as the scripts keep it (labels). `StoreError` if it is none."""
    try:
        fields = _unpack(state)
    except msgspec.DecodeError as error:
        raise StoreError(f"the store holds what cannot be read: {error}") from error
    return fields if isinstance(fields, dict) else {}


FORM = 3
"""How the scripts keep a session: the first byte of it. See `state.lua`, and there for the order of the values."""

SESSION = ("born", "at", "seen", "idle", "turn", "span", "span_at", "threads", "answers", "tooled")
TEXTS = ("closed", "main", "latest", "traceparent")

STATUSES = ("active", "need_human", "waiting")
"""Of a thread, by their numbers in the scripts."""


def session(state: bytes) -> dict[str, Any]:
    """A session as the scripts keep it. `used`: its counters by name. Nothing for one that another version kept."""
    if state[:1] != bytes([FORM]):
        return {}
    numbers = unpack_from("<10d", state, 1)
    found: dict[str, Any] = {name: int(number) for name, number in zip(SESSION, numbers, strict=True)}
    at = 1 + 8 * len(SESSION)
    for name in TEXTS:  # each with its length in front
        end = at + 4 + int.from_bytes(state[at : at + 4], "little")
        found[name], at = state[at + 4 : end].decode(), end
    more = []
    for _ in ("notes", "layout", "counters"):
        end = at + 4 + int.from_bytes(state[at : at + 4], "little")
        more.append(state[at + 4 : end])
        at = end
    return found | {"used": _used(*more[1:])}


def _used(layout: bytes, counters: bytes) -> dict[str, int]:
    """What is used, of each counter: `s:<dimension>` of the session, `p:<dimension>` of its present span."""
    names = _unpack(_SIZED(0xDD, len(counters) // 16) + layout)
    return dict(zip(names, integers(2 * len(names)).unpack(counters)[::2], strict=True))


def _name(text: str) -> str:
    if "\x1f" not in text and "\x1e" not in text:
        return text
    for separator in SEPARATORS:
        text = text.replace(separator, "_")
    return text


def encode(value: object) -> bytes:
    """As msgpack. Lone surrogates (from a client's JSON escapes) have no UTF-8 form; they become question marks."""
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
