"""Whose turn a request is and what it adds: identity, new facts, and the trail that detectors read.

Pure. Nothing here decides; `identify` and `observe` turn an ask into digests and facts for `store.begin`, `trail`
turns its answer back into steps. Rules: DESIGN section 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from guardproxy.core import conversation
from guardproxy.core.brought import adding, brought, last_answered
from guardproxy.core.fact import BOUNDARY, pack, reported, stamp, unpack_all
from guardproxy.core.fingerprint import GUARD_MARK, Defaults, Fingerprinter
from guardproxy.core.harness import is_harness
from guardproxy.core.model import NO_FP, Ask, Call, Message, Trail
from guardproxy.core.rounds import Round, latest, rounds, within
from guardproxy.core.tenant import named, owned
from guardproxy.core.view import Identity, RoundFact, TurnFact, View
from guardproxy.core.volatile import learned
from guardproxy.core.written import own_words

WINDOW = 24
"""Steps that a request's own messages contribute at most (`loop-detectors.md` section 5)."""

SPECIFIC_TEXT, SPECIFIC_ID = 200, 9
"""Characters from which an answer's text (a summary), or a call's id, names one conversation, whatever its head."""

_Called = tuple[str, tuple[bytes, ...], dict[str, int]]

FAR = "*"
"""Begins a link that holds without the head: asked only where the head is unknown, as after a compaction."""

EMPTY = "-"
"""Begins the link of an answer in which nothing was said: it says where in the conversation that was, too."""

HALF = 16
"""Characters of a digest that, beside as many of another one, tell rounds apart: 64 bits each."""

AT_MOST = 64
"""Calls of one assistant message that become steps: the ring holds no more, and a message may hold 100,000."""


def round_digest(printer: Fingerprinter, calls: Sequence[Call], text: str) -> str:
    """Digest of what an assistant message did: its calls without ids, else its text. Equal for request and answer.

    Calls that stand in a text are its words; but calls that a client has written there itself are those of the answer.
    """
    if not calls:
        text, calls = own_words(text)
    if not calls:
        return printer.hash16("said", printer.text(text)).hex()
    if len(calls) == 1:
        return printer.call(calls[0]).hex()
    key = hash(("round", *calls))
    found = printer.memo[key]
    if found is None:
        made = sorted([printer.call(call) for call in calls[:AT_MOST]])
        beyond = (str(len(calls)),) if len(calls) > AT_MOST else ()
        found = printer.memo.keep(key, printer.hash16("round", *made, *beyond).hex())
    return cast("str", found)


def links(printer: Fingerprinter, tenant: str, head: str, calls: Sequence[Call], text: str) -> tuple[str, ...]:
    """Digests under which a delivered round can be found again, most specific first. `head`: as `identify` has it.

    Ids together with the head come first: two runs of different tasks may carry the same ids. Without the head only
    what is specific by itself counts; that is how a compacted conversation is recognised.
    """
    if not calls:
        text, calls = own_words(text)
    known = hash(("links", tenant, head, text if len(calls) == 0 else "", *calls))
    found = printer.memo[known]
    if found is None:
        found = printer.memo.keep(known, _links(printer, tenant, head, calls, text))
    return cast("tuple[str, ...]", found)


def _links(printer: Fingerprinter, tenant: str, head: str, calls: Sequence[Call], text: str) -> tuple[str, ...]:
    """Half of the head (which is the tenant's) and half of what was delivered; FAR ones name the tenant themselves."""
    ids = sorted([call.id for call in calls]) if len(calls) != 1 else [calls[0].id]
    digest, half, named = round_digest(printer, calls, text), head[:HALF], ""
    found = []
    if ids and all(ids):
        named = printer.hash16("link", tenant, "ids", *ids).hex()
        found.append(half + named[:HALF])
    if calls or text.strip():
        found.append(half + digest[:HALF])
    if named and min(map(len, ids)) >= SPECIFIC_ID and len(set(ids)) == len(ids):
        found.append(FAR + named)
    if not calls and len(text) >= SPECIFIC_TEXT:
        found.append(FAR + printer.hash16("link", tenant, "text", digest).hex())
    return tuple(found)


def unanswered(ask: Ask, printer: Fingerprinter, head: str, upto: int | None = None) -> tuple[str, ...]:
    """The link of a request (`upto`: the first messages of its tail) that was given no call and no word in its answer.

    Clients keep an empty message in its place, which says nothing; only what stands in front of that tells whose it is.
    """
    return (EMPTY + head[:HALF] + conversation.standing(ask, printer, upto)[:HALF],)


def identify(ask: Ask, printer: Fingerprinter, tenant: str, owner: str = "") -> Identity:
    """Say whose turn this is, as far as the request itself tells. `begin` resolves the rest.

    `tenant` and `owner`: `Tenant.scope` and `Tenant.owner`.
    """
    head = conversation.of(tenant, conversation.head(ask, printer), printer)
    last, at = None, len(ask.tail)
    for message in reversed(ask.tail):
        at -= 1
        if message.role == "assistant":
            last = message
            break
    calls, text = (last.calls, last.text) if last else ((), "")
    if last is not None and not calls and (newest := latest(ask)):
        text, calls = own_words(newest.text)
    candidates = links(printer, tenant, head, calls, text) if last else ()
    if last and not candidates:
        candidates = unanswered(ask, printer, head, at)
    session, thread = ask.declared.session, ask.declared.thread
    if session or thread:
        session, thread = owned(owner, named(session)), owned("", named(thread))
    said = "" if calls else text.strip()
    spoken = bool(said) and not said.startswith(GUARD_MARK) and bool(_last_words(ask))
    return Identity(session, thread, head, last is None, candidates, ask.declared.source, spoken, owner)


def observe(ask: Ask, printer: Fingerprinter, now_ms: int, tenant: str = "") -> TurnFact:
    """The facts of a request: its rounds within the window, the digest that knows a retry, and the last user text.

    `tenant`: whose retry it may be, where several share an org.
    """
    seen: set[bytes] = set()
    found = within(rounds(ask), WINDOW, AT_MOST)
    for turn in found:
        if turn.reply:
            seen = {printer.text(m.text) for m in ask.head if m.role == "user"}
            break
    facts = [_round_fact(turn, printer, now_ms, seen, ask.defaults) for turn in found]
    boundary, blank = printer.marks
    digest = conversation.standing(ask, printer)
    newest = found[-1] if found else None
    several = newest is not None and len(newest.calls) > 1 and not newest.written
    return TurnFact(
        conversation.of(tenant, digest, printer) if tenant else digest,
        ask.count,
        reported(_window(facts), ask.declared.progress),
        _last_user(ask, printer),
        stamp(boundary, now_ms),
        stamp(blank, now_ms),
        partial(_since, newest, printer, now_ms, ask) if newest is not None and several else None,
    )


def _since(turn: Round, printer: Fingerprinter, now_ms: int, ask: Ask, delivered: str) -> RoundFact | None:
    """What is new in a round that has grown: its last calls, where they are the answer that was delivered last."""
    for some in range(1, min(len(turn.calls) - 1, AT_MOST) + 1):
        calls = turn.calls[-some:]
        if round_digest(printer, calls, "") == delivered:
            last = replace(turn, calls=calls, results=turn.results[-some:])
            fact = _round_fact(last, printer, now_ms, set(), ask.defaults)
            return reported((fact,), ask.declared.progress)[0]
    return None


def _round_fact(turn: Round, printer: Fingerprinter, now_ms: int, seen: set[bytes], defaults: Defaults) -> RoundFact:
    fresh = False
    if turn.reply is not None:
        said = printer.text(turn.reply) if turn.reply else b""
        fresh = bool(said) and said not in seen and not is_harness(turn.reply)
        seen.add(said)
    if turn.written:
        return _written_fact(turn, printer, now_ms, fresh=fresh)
    if not turn.calls:
        digest = round_digest(printer, turn.calls, turn.text)
        return RoundFact(digest, turn.index, _spoken(turn, printer, now_ms, genuine=fresh))
    given = repr([defaults.get(call.name) for call in turn.calls[:AT_MOST]]) if defaults else ""
    key = hash(("called", turn.calls, turn.results, turn.text, given, turn.replies, turn.media))
    known = printer.memo[key] or printer.memo.keep(key, _called(turn, printer, defaults))
    digest, facts, counts = cast("_Called", known)
    if len(facts) == 1:  # mostly
        return RoundFact(digest, turn.index, (stamp(facts[0], now_ms, turn.index),), counts)
    return RoundFact(digest, turn.index, tuple([stamp(fact, now_ms, turn.index) for fact in facts]), counts)


def _written_fact(turn: Round, printer: Fingerprinter, now_ms: int, *, fresh: bool) -> RoundFact:
    """Calls in a text are steps like others; the round is known by the text. After a final one a person may speak."""
    key = hash(("called", turn.calls, turn.results, turn.media))
    _, facts, counts = cast("_Called", printer.memo[key] or printer.memo.keep(key, _called(turn, printer, {})))
    stamped = tuple([stamp(fact, now_ms, turn.index) for fact in facts])
    spoken = (pack(printer.boundary(now_ms)),) if fresh else ()
    return RoundFact(round_digest(printer, (), turn.text), turn.index, (*stamped, *spoken), counts)


def _called(turn: Round, printer: Fingerprinter, defaults: Defaults) -> _Called:
    """Digest, facts (without their time) and counters of a round with calls."""
    facts, counts, exact = [], dict[str, int](), ""
    more = brought(turn, printer) if turn.replies or turn.media else NO_FP
    last = last_answered(turn.results[:AT_MOST]) if more != NO_FP else -1
    for number, (call, result) in enumerate(zip(turn.calls[:AT_MOST], turn.results[:AT_MOST], strict=True)):
        step = printer.step(call, result, first=number == 0, at_ms=0, defaults=defaults.get(call.name, {}))
        if number == last:
            step = adding(step, more, printer, media=bool(turn.media))
        facts.append(pack(step, NO_FP if number or turn.written or not turn.text else printer.words(turn.text)))
        tool, exact = f"tool:{step.tool}", step.call.hex()
        counts[tool] = counts.get(tool, 0) + 1
        counts[f"call:{exact}"] = 1  # equal calls of one round are one occurrence
    digest = exact if len(turn.calls) == 1 else round_digest(printer, turn.calls, turn.text)  # of one it is the call's
    return digest, tuple(facts), counts


def carried_out(pairs: Sequence[tuple[Call, Message | None]], printer: Fingerprinter, now_ms: int) -> tuple[bytes, ...]:
    """The facts of calls that the provider has carried out inside one answer: a round, whatever their order was.

    In one round equal calls are one occurrence: nobody could have said anything between them.
    """
    if not pairs:
        return ()
    calls, results = tuple([call for call, _ in pairs]), tuple([result for _, result in pairs])
    _, facts, _ = _called(Round(0, "", calls, results, None), printer, {})
    return tuple([stamp(fact, now_ms) for fact in facts])


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
    """What the user said after the newest assistant message; "" for nothing, harness forms, a written call's result."""
    texts: list[str] = []
    for message in reversed(ask.tail):
        if message.role == "assistant":
            if texts and not message.calls:
                newest = latest(ask)
                texts = [newest.reply or ""] if newest is not None else texts
            break
        if message.role == "user":
            texts.append(message.text)
    text = "\n".join(reversed(texts))
    return text if text.strip() and not is_harness(text) else ""


def trail(view: View, *, whole: bool = False) -> Trail:
    """The steps since the last genuine user message (`whole`: all), oldest first, with their ordinals in the thread."""
    facts = view.ring
    for position in range(len(facts) - 1, -1, -1):
        if facts[position].startswith(BOUNDARY) and not whole:
            facts = facts[position + 1 :]
            break
    steps = unpack_all(facts)
    return learned(Trail(tuple(steps), view.steps - len(steps)))
