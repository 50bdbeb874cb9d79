"""Whose turn a request is and what it adds: identity, new facts, and the trail that detectors read.

Pure. Nothing here decides; `identify` and `observe` turn an ask into digests and facts for `store.begin`, `trail`
turns its answer back into steps. Rules: DESIGN section 5.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from guardproxy.core.fingerprint import GUARD_MARK, Fingerprinter, hash16, is_harness, pack, stamp, unpack
from guardproxy.core.model import Ask, Call, Flag, Kind, Message, Step, Trail
from guardproxy.core.view import Identity, RoundFact, TurnFact, View

WINDOW = 24
"""Steps that a request's own messages contribute at most (`loop-detectors.md` section 5)."""

SPECIFIC_TEXT = 200
"""Characters from which an answer's text names one conversation, whatever its head (a delivered summary)."""

SPECIFIC_ID = 9
"""Characters from which a call id is taken to be unique beyond its conversation (`call_1` is not)."""

MEMO = 16_384
"""Rounds and heads remembered per process; their hashes are 64 bits of a keyed hash, so that none can be forged."""

T = TypeVar("T")
_REGISTERED = re.compile(r"[^\x21-\x7e]+")


@dataclass(frozen=True, slots=True)
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
    opened: tuple[int, Message] | None = None
    results: list[Message] = []
    replies: list[str] = []
    for index, message in enumerate((*ask.tail, Message("assistant")), ask.tail_start):
        if message.role == "assistant":
            if opened:
                found.append(_closed(opened, results, replies))
            opened, results, replies = (index, message), [], []
        elif message.role == "tool":
            results.append(message)
        elif message.role == "user":
            replies.append(message.text)
    return found


def _closed(opened: tuple[int, Message], results: list[Message], replies: list[str]) -> Round:
    index, message = opened
    reply = "\n".join(replies) if replies else None
    return Round(index, message.text, message.calls, pair(message.calls, results), reply)


def round_digest(printer: Fingerprinter, calls: Sequence[Call], text: str) -> str:
    """Digest of what an assistant message did: its calls without ids, else its text. Equal for request and answer."""
    if not calls:
        return hash16(printer.key, "said", printer.text(text)).hex()
    key = hash(("round", tuple((call.name, call.arguments) for call in calls)))
    return _remembered(
        printer, key, lambda: hash16(printer.key, "round", *sorted(printer.call(call) for call in calls)).hex()
    )


def links(printer: Fingerprinter, tenant: str, head: str, calls: Sequence[Call], text: str) -> tuple[str, ...]:
    """Digests under which a delivered round can be found again, most specific first.

    Ids together with the head come first: two runs of different tasks may carry the same ids. Without the head only
    what is specific by itself counts; that is how a compacted conversation is recognised.
    """
    found: list[str] = []
    ids = sorted(call.id for call in calls)
    digest = round_digest(printer, calls, text)

    def add(*parts: str) -> None:
        found.append(hash16(printer.key, "link", tenant, *parts).hex())

    if ids and all(ids):
        add("ids", head, *ids)
    if calls or text.strip():
        add("round", head, digest)
    if ids and min(map(len, ids)) >= SPECIFIC_ID and len(set(ids)) == len(ids):
        add("ids", *ids)
    if not calls and len(text) >= SPECIFIC_TEXT:
        add("text", digest)
    return tuple(found)


def identify(ask: Ask, printer: Fingerprinter, tenant: str) -> Identity:
    """Say whose turn this is, as far as the request itself tells. `begin` resolves the rest."""
    parts: list[str | bytes] = [tenant]
    for message in ask.head:
        parts += [message.role, message.text, *message.media]
    head: str = _remembered(printer, hash(("head", *parts)), lambda: hash16(printer.key, "head", *parts).hex())
    last = next((m for m in reversed(ask.tail) if m.role == "assistant"), None)
    candidates = links(printer, tenant, head, last.calls, last.text) if last else ()
    session, thread = (_REGISTERED.sub("_", part) for part in (ask.declared.session, ask.declared.thread))
    return Identity(session, thread, head, last is None, candidates, ask.declared.source)


def observe(ask: Ask, printer: Fingerprinter, now_ms: int) -> TurnFact:
    """The facts of a request: its rounds within the window, the digest that knows a retry, and the last user text."""
    found = rounds(ask)
    seen = {printer.text(m.text) for m in ask.head if m.role == "user"}
    facts = [_round_fact(turn, printer, now_ms, seen) for turn in found]
    blank = pack(printer.blank_step(now_ms))
    boundary = pack(printer.boundary(now_ms))
    return TurnFact(_conversation(ask, printer), ask.count, _window(facts), _last_user(ask, printer), boundary, blank)


def _remembered(printer: Fingerprinter, key: int, make: Callable[[], T]) -> T:
    """What was made for `key` before. Agents send the same history with every request; the memo is bounded."""
    found = printer.memo.get(key)
    if found is None:
        if len(printer.memo) >= MEMO:
            printer.memo.clear()
        found = printer.memo[key] = make()
    return cast("T", found)


def _round_fact(turn: Round, printer: Fingerprinter, now_ms: int, seen: set[bytes]) -> RoundFact:
    said = printer.text(turn.reply) if turn.reply else b""
    fresh = bool(said) and said not in seen and not is_harness(turn.reply or "")
    seen.add(said)
    if not turn.calls:
        digest = round_digest(printer, turn.calls, turn.text)
        return RoundFact(digest, turn.index, _spoken(turn, printer, now_ms, genuine=fresh))
    answers = tuple(None if r is None else (r.text, r.media, r.failed) for r in turn.results)
    calls = tuple((call.name, call.arguments) for call in turn.calls)
    digest, facts, counts = _remembered(printer, hash((calls, answers)), lambda: _called(turn, printer))
    return RoundFact(digest, turn.index, tuple(stamp(fact, now_ms) for fact in facts), counts)


def _called(turn: Round, printer: Fingerprinter) -> tuple[str, tuple[bytes, ...], dict[str, int]]:
    """Digest, facts (without their time) and counters of a round with calls."""
    facts, counts = [], dict[str, int]()
    for number, (call, result) in enumerate(zip(turn.calls, turn.results, strict=True)):
        step = printer.step(call, result, first=number == 0, at_ms=0)
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
    texts: list[str] = []
    for message in reversed(ask.tail):
        if message.role == "assistant":
            break
        if message.role == "user":
            texts.append(message.text)
    text = "\n".join(reversed(texts))
    return printer.text(text).hex() if text.strip() and not is_harness(text) else ""


def _conversation(ask: Ask, printer: Fingerprinter) -> str:
    """Digest by which a retry is known: the head, the number of messages and the last four.

    Not the whole history: cost must not grow with it, and histories only grow, so that equal length and equal end
    mean an equal conversation.
    """
    parts: list[str | bytes] = [str(ask.count), *(m.text for m in ask.head)]
    for message in ask.tail[-4:]:
        parts += [message.role, message.text, message.call_id, *message.media]
        parts += [part for call in message.calls for part in (call.id, call.name, call.arguments)]
    return hash16(printer.key, "conversation", *parts).hex()


def unpack_all(facts: Iterable[bytes]) -> list[Step]:
    """Steps of the facts that this version can read; others are left out (a rolling upgrade writes both)."""
    steps = []
    for fact in facts:
        try:
            steps.append(unpack(fact))
        except ValueError:
            continue
    return steps


def trail(view: View) -> Trail:
    """The steps since the last genuine user message, oldest first, with their ordinals in the thread."""
    steps = unpack_all(view.ring)
    first = view.steps - len(steps)
    for position in range(len(steps) - 1, -1, -1):
        if steps[position].kind is Kind.BOUNDARY:
            return Trail(tuple(steps[position + 1 :]), first + position + 1)
    return Trail(tuple(steps), first)


def answered(step: Step) -> bool:
    """Whether the step is a call that has its result."""
    return step.kind is Kind.CALL and not step.flags & Flag.UNANSWERED
