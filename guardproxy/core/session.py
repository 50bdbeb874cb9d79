"""Whose turn a request is and what it adds: identity, new facts, and the trail that detectors read.

Pure. Nothing here decides; `identify` and `observe` turn an ask into digests and facts for `store.begin`, `trail`
turns its answer back into steps. Rules: DESIGN section 5.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TypeVar, cast
from urllib.parse import quote

from guardproxy.core.fingerprint import GUARD_MARK, Defaults, Fingerprinter, is_boundary, pack, stamp, unpack
from guardproxy.core.harness import is_harness
from guardproxy.core.model import Ask, Call, Message, Step, Trail, value
from guardproxy.core.view import Identity, RoundFact, TurnFact, View
from guardproxy.core.volatile import learned

WINDOW = 24
"""Steps that a request's own messages contribute at most (`loop-detectors.md` section 5)."""

SPECIFIC_TEXT, SPECIFIC_ID = 200, 9
"""Characters from which an answer's text (a summary), or a call's id, names one conversation, whatever its head."""

MEMO = 16_384
"""Rounds and heads remembered per process; their hashes are 64 bits of a keyed hash, so that none can be forged."""

T = TypeVar("T")
_Called = tuple[str, tuple[bytes, ...], dict[str, int]]
_PLAIN = re.compile(r"[\x21-\x7e]+")

FAR = "*"
"""Begins a link that holds without the head: asked only where the head is unknown, as after a compaction."""

AT_MOST = 64
"""Calls of one assistant message that become steps: the ring holds no more, and a message may hold 100,000."""


@value
class Round:
    """One assistant message of the request, the results that answer its calls, and the user text that follows."""

    index: int
    text: str
    calls: tuple[Call, ...]
    results: tuple[Message | None, ...]
    reply: str | None


def pair(calls: Sequence[Call], results: Sequence[Message]) -> tuple[Message | None, ...]:
    """Match results to the calls of one assistant message.

    By id where the ids of the calls are unique and not empty (clients answer in the order of finishing), else in
    order: providers repeat ids and leave them empty (cases B48, B49, B51).
    """
    if len(calls) == 1:  # the common case, and the same answer: its id, else the order
        only = next((one for one in results if one.call_id == calls[0].id != ""), results[0] if results else None)
        return (only,)
    ids = [call.id for call in calls]
    if all(ids) and len(set(ids)) == len(ids):
        by_id = {message.call_id: message for message in reversed(results)}
        if any(call_id in by_id for call_id in ids):
            return tuple(by_id.get(call_id) for call_id in ids)
    padded = [*results[: len(calls)], *[None] * (len(calls) - len(results))]
    return tuple(padded)


def rounds(ask: Ask) -> list[Round]:
    """The rounds in the ask's tail, oldest first. Messages before the first assistant message are left out."""
    found: list[Round] = []
    opened: Message | None = None
    at, index = 0, ask.tail_start
    results: list[Message] = []
    replies: list[str] = []
    for message in ask.tail:
        role = message.role
        if role == "assistant":
            if opened is not None:
                found.append(_closed(at, opened, results, replies))
            opened, at, results, replies = message, index, [], []
        elif role == "tool":
            results.append(message)
        elif role == "user":
            replies.append(message.text)
        index += 1
    if opened is not None:
        found.append(_closed(at, opened, results, replies))
    return found


def _closed(index: int, message: Message, results: list[Message], replies: list[str]) -> Round:
    reply = "\n".join(replies) if replies else None
    return Round(index, message.text, message.calls, pair(message.calls, results) if message.calls else (), reply)


def round_digest(printer: Fingerprinter, calls: Sequence[Call], text: str) -> str:
    """Digest of what an assistant message did: its calls without ids, else its text. Equal for request and answer."""
    if not calls:
        return printer.hash16("said", printer.text(text)).hex()
    key = hash(("round", *calls))
    found = printer.memo.get(key)
    if found is None:
        made = sorted([printer.call(call) for call in calls[:AT_MOST]])
        beyond = (str(len(calls)),) if len(calls) > AT_MOST else ()
        found = _remember(printer, key, printer.hash16("round", *made, *beyond).hex())
    return cast("str", found)


def links(printer: Fingerprinter, tenant: str, head: str, calls: Sequence[Call], text: str) -> tuple[str, ...]:
    """Digests under which a delivered round can be found again, most specific first.

    Ids together with the head come first: two runs of different tasks may carry the same ids. Without the head only
    what is specific by itself counts; that is how a compacted conversation is recognised.
    """
    known = hash(("links", tenant, head, text if len(calls) == 0 else "", *calls))
    found = printer.memo.get(known)
    if found is None:
        found = _remember(printer, known, tuple(_links(printer, tenant, head, calls, text)))
    return cast("tuple[str, ...]", found)


def _links(printer: Fingerprinter, tenant: str, head: str, calls: Sequence[Call], text: str) -> Iterator[str]:
    ids = sorted([call.id for call in calls])
    digest = round_digest(printer, calls, text)
    if ids and all(ids):
        yield printer.hash16("link", tenant, "ids", head, *ids).hex()
    if calls or text.strip():
        yield printer.hash16("link", tenant, "round", head, digest).hex()
    if ids and min(map(len, ids)) >= SPECIFIC_ID and len(set(ids)) == len(ids):
        yield FAR + printer.hash16("link", tenant, "ids", *ids).hex()
    if not calls and len(text) >= SPECIFIC_TEXT:
        yield FAR + printer.hash16("link", tenant, "text", digest).hex()


def identify(ask: Ask, printer: Fingerprinter, tenant: str) -> Identity:
    """Say whose turn this is, as far as the request itself tells. `begin` resolves the rest."""
    head = _tenants_head(_head(ask, printer), printer, tenant)
    last = next((m for m in reversed(ask.tail) if m.role == "assistant"), None)
    candidates = links(printer, tenant, head, last.calls, last.text) if last else ()
    session, thread = ask.declared.session, ask.declared.thread
    if session or thread:
        session, thread = _named(session), _named(thread)
    said = last.text.strip() if last is not None and not last.calls else ""  # an empty answer leaves no link
    spoken = bool(said) and not said.startswith(GUARD_MARK) and bool(_last_words(ask))
    return Identity(session, thread, head, last is None, candidates, ask.declared.source, spoken)


def _head(ask: Ask, printer: Fingerprinter) -> str:
    """Digest of the leading system messages and the first user message."""
    key = hash(("head", ask.head))
    found = printer.memo.get(key)
    if found is None:
        parts: list[str | bytes] = []
        for message in ask.head:
            parts += (message.role, message.text, *message.media)
        found = _remember(printer, key, printer.hash16("head", *parts).hex())
    return cast("str", found)


def _tenants_head(head: str, printer: Fingerprinter, tenant: str) -> str:
    key = hash(("head", tenant, head))
    found = printer.memo.get(key) or _remember(printer, key, printer.hash16("head", tenant, head).hex())
    return cast("str", found)


def observe(ask: Ask, printer: Fingerprinter, now_ms: int) -> TurnFact:
    """The facts of a request: its rounds within the window, the digest that knows a retry, and the last user text."""
    seen: set[bytes] = set()
    found = rounds(ask)
    if any(turn.reply for turn in found):
        seen = {printer.text(m.text) for m in ask.head if m.role == "user"}
    facts = [_round_fact(turn, printer, now_ms, seen, ask.defaults) for turn in found]
    boundary, blank = printer.marks
    return TurnFact(
        _conversation(ask, printer),
        ask.count,
        _window(facts),
        _last_user(ask, printer),
        stamp(boundary, now_ms),
        stamp(blank, now_ms),
    )


def _remember(printer: Fingerprinter, key: int, made: T) -> T:
    """Keep what was made. Agents send the same history with every request; the memo is bounded."""
    if len(printer.memo) >= MEMO:
        printer.memo.clear()
    printer.memo[key] = made
    return made


def _round_fact(turn: Round, printer: Fingerprinter, now_ms: int, seen: set[bytes], defaults: Defaults) -> RoundFact:
    fresh = False
    if turn.reply is not None:
        said = printer.text(turn.reply) if turn.reply else b""
        fresh = bool(said) and said not in seen and not is_harness(turn.reply)
        seen.add(said)
    if not turn.calls:
        digest = round_digest(printer, turn.calls, turn.text)
        return RoundFact(digest, turn.index, _spoken(turn, printer, now_ms, genuine=fresh))
    given = repr([defaults.get(call.name) for call in turn.calls[:AT_MOST]]) if defaults else ""
    key = hash(("called", turn.calls, turn.results, given))
    known = printer.memo.get(key) or _remember(printer, key, _called(turn, printer, defaults))
    digest, facts, counts = cast("_Called", known)
    return RoundFact(digest, turn.index, tuple([stamp(fact, now_ms) for fact in facts]), counts)


def _named(name: str) -> str:
    """A client's name in plain characters; other ones are written as percent codes, so that no two names meet."""
    return name if not name or _PLAIN.fullmatch(name) else quote(name, safe="!#$&'()*+,/:;=?@[]~", errors="replace")


def _called(turn: Round, printer: Fingerprinter, defaults: Defaults) -> _Called:
    """Digest, facts (without their time) and counters of a round with calls."""
    facts, counts = [], dict[str, int]()
    for number, (call, result) in enumerate(zip(turn.calls[:AT_MOST], turn.results[:AT_MOST], strict=True)):
        step = printer.step(call, result, first=number == 0, at_ms=0, defaults=defaults.get(call.name, {}))
        facts.append(pack(step))
        counts[f"tool:{step.tool}"] = counts.get(f"tool:{step.tool}", 0) + 1
        counts[f"call:{step.call.hex()}"] = 1  # equal calls of one round are one occurrence
    return round_digest(printer, turn.calls, turn.text), tuple(facts), counts


def _spoken(turn: Round, printer: Fingerprinter, now_ms: int, *, genuine: bool) -> tuple[bytes, ...]:
    """A reply without calls is a step; a genuine user message after it begins a new span in front of it.

    In front, since the answer to the same question asked again is what a monologue repeats (case B18).
    """
    own = turn.text.startswith(GUARD_MARK)
    if turn.reply is None:
        return ()
    step = pack(printer.text_step(turn.text, turn.reply, at_ms=now_ms))
    starts = genuine and not own and bool(turn.text.strip())
    return (pack(printer.boundary(now_ms)), step) if starts else (step,)


def _window(facts: list[RoundFact]) -> tuple[RoundFact, ...]:
    total, first = 0, len(facts)
    while first and total < WINDOW:
        first -= 1
        total += len(facts[first].facts)
    return tuple(facts[first:])


def _last_user(ask: Ask, printer: Fingerprinter) -> str:
    text = _last_words(ask)
    return printer.text(text).hex() if text else ""


def _last_words(ask: Ask) -> str:
    """What the user said after the newest assistant message; "" for nothing or a harness form."""
    texts: list[str] = []
    for message in reversed(ask.tail):
        if message.role == "assistant":
            break
        if message.role == "user":
            texts.append(message.text)
    text = "\n".join(reversed(texts))
    return text if text.strip() and not is_harness(text) else ""


def _conversation(ask: Ask, printer: Fingerprinter) -> str:
    """Digest by which a retry is known: the head, the number of messages and the last four.

    Not the whole history: cost must not grow with it, and histories only grow, so that equal length and equal end
    mean an equal conversation.
    """
    parts: list[str | bytes] = ["conversation", str(ask.count), _head(ask, printer)]
    for message in ask.tail[-4:]:
        parts += (message.role, message.text, message.call_id, *message.media)
        for call in message.calls:
            parts += (call.id, call.name, call.arguments)
    return printer.hash16(*parts).hex()


def unpack_all(facts: Iterable[bytes]) -> list[Step]:
    """Steps of the facts that this version can read; others are left out (a rolling upgrade writes both)."""
    facts = tuple(facts)
    try:
        return [unpack(fact) for fact in facts]
    except ValueError:
        steps = []
    for fact in facts:
        with suppress(ValueError):
            steps.append(unpack(fact))
    return steps


def trail(view: View) -> Trail:
    """The steps since the last genuine user message, oldest first, with their ordinals in the thread."""
    facts = view.ring
    for position in range(len(facts) - 1, -1, -1):
        if is_boundary(facts[position]):
            facts = facts[position + 1 :]
            break
    steps = unpack_all(facts)
    return learned(Trail(tuple(steps), view.steps - len(steps)))
