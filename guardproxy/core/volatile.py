"""Parts of results that change by themselves, learned from a run: what differs each time while the rest is equal.

Patterns (`mask`) know time stamps and labelled ids wherever they stand. A bare token such as `a8f3kq91` may as well be
what the answer is about (a new commit), so that it is left out only on evidence: the same call, again and again with
nothing else in between, gave at least TIMES answers that differ in such tokens alone. Plain numbers are never left out
that way: a counter that moves is progress (cases B19, B22). Facts hold no content; a step carries a second fingerprint
of its result without these tokens (`signature`, which only errors have otherwise).
"""

from __future__ import annotations

import re

from guardproxy.core.model import NO_FP, Flag, Fp, Kind, Step, Trail
from guardproxy.core.referral import resolved

TIMES = 3
"""Different answers after which a part counts as volatile: as many as make a plain repeat (`repeated_call`)."""

PERIOD = 6
"""Different calls that may take turns meanwhile: the longest cycle looked for."""

LOOK = 36
"""Steps looked at: six laps of the longest cycle; by then every rule has ended it."""

END = 160
"""Characters at each end in which tokens are looked for: what tools add by themselves stands there."""

LETTERS = 24
"""Letters (bytes of them) that must remain: of an answer that is little but the token, the token is the content."""

SHORTEST = 6
"""Characters of a token that may be drawn by lot: `utf8` and `h2o` are words."""

_CLASSES = bytes(48 if 48 <= c < 58 else 97 if chr(c).isalpha() and c < 128 else 32 for c in range(256))
_NO_LETTERS = bytes(c for c in range(128) if not chr(c).isalpha())
_BLENDED = (b"a0a", b"0a0", b"a00a", b"0aa0")
"""Letters and digits that take turns, by class; of twenty random tokens of eight characters these find nineteen."""

HEX_TURNS, TURNS = 2, 5
"""Changes between letters and digits in a token drawn by lot, where its letters end at f and elsewhere."""

_TOLD = re.compile(rb"[0-9]of[0-9]|^(?:[0-9]+[dhms])+$")
_TURN = re.compile(b"0a")  # a pattern for one literal is found twice as fast as by `in` where both bytes are common
_EPOCH = re.compile(rb"1(?<![0-9A-Za-z.]1)[5-9][0-9]{8}(?:[0-9]{3}){0,3}(?![0-9A-Za-z])")
"""A time between 2017 and 2033, in seconds or down to nanoseconds."""

_NO_EVIDENCE = int(Flag.FAILED | Flag.VOID | Flag.PENDING | Flag.MEDIA | Flag.CLEARED | Flag.UNANSWERED)
_THINK = int(Flag.THINK)
_has = int.__and__


def sketch(text: str) -> bytes | None:
    """The text without tokens that look drawn by lot, at its ends; None where there are none, or little else."""
    short = len(text) <= 2 * END
    ends = (text if short else text[:END] + " " + text[-END:]).encode("utf-8", "surrogatepass")
    shape = ends.translate(_CLASSES)
    if _TURN.search(shape) is None and (b"0000000000" not in shape or _EPOCH.search(ends) is None):
        return None  # most texts
    parts = (text,) if short else (text[:END], text[-END:])
    raw = [part.encode("utf-8", "surrogatepass") for part in parts]
    rest = list(map(_without, raw))
    made = b"".join(rest)
    if rest == raw or len(made.translate(None, _NO_LETTERS)) < LETTERS:
        return None
    return made if short else text[END:-END].encode("utf-8", "surrogatepass").join(rest)


def _without(raw: bytes) -> bytes:
    shape = raw.translate(_CLASSES)
    spans = _drawn(raw, shape) if _TURN.search(shape) is not None else []
    spans += [found.span() for found in _EPOCH.finditer(raw)]
    rest, last = [], 0
    for begin, end in sorted(set(spans)):
        rest.append(raw[last:begin])
        last = end
    return b"~".join((*rest, raw[last:]))


def _drawn(raw: bytes, shape: bytes) -> list[tuple[int, int]]:
    """Begin and end of the tokens in which letters and digits take turns as only chance makes them."""
    spans = []
    for mark in _BLENDED:
        at = shape.find(mark)
        while at >= 0:
            begin, end = shape.rfind(b" ", 0, at) + 1, shape.find(b" ", at)
            end = end if end >= 0 else len(shape)
            if end - begin >= SHORTEST and _by_lot(raw[begin:end], shape[begin:end]):
                spans.append((begin, end))
            at = shape.find(mark, end)
    return spans


def _by_lot(token: bytes, shape: bytes) -> bool:
    """Whether no person names or numbers things like that: `step3of9` and `1h20m30s` tell how far something is."""
    turns = shape.count(b"0a") + shape.count(b"a0")
    hexadecimal = not token.translate(None, b"0123456789abcdef") or not token.translate(None, b"0123456789ABCDEF")
    return turns >= (HEX_TURNS if hexadecimal else TURNS) and _TOLD.search(token) is None


def learned(trail: Trail) -> Trail:
    """The trail in which results that differ only in volatile tokens are equal, where that has shown.

    One that only refers to an earlier one is that one to begin with.
    """
    trail = resolved(trail)
    steps = trail.steps
    if not any(map(_sketched, steps[-PERIOD:])):
        return trail
    start = _begun(steps)
    answers: dict[Fp, set[Fp]] = {}
    for one in steps[start:]:
        if _sketched(one):
            answers.setdefault(one.near, set()).add(one.result)
    volatile = {near for near, results in answers.items() if len(results) >= TIMES}
    if not volatile:
        return trail
    later = [_settled(one) if one.near in volatile and _sketched(one) else one for one in steps[start:]]
    return Trail((*steps[:start], *later), trail.first)


def _settled(one: Step) -> Step:
    """The step with its result in the form without volatile tokens; by hand, at a third of what `replace` costs."""
    kind, tool, print_, near, masked = one.kind, one.tool, one.call, one.near, one.masked
    return Step(kind, tool, print_, near, masked, one.signature, one.masked_result, one.signature, one.flags, one.at_ms)


def _sketched(one: Step) -> bool:
    return one.kind is Kind.CALL and one.signature != NO_FP and not _has(one.flags, _NO_EVIDENCE)


def _begun(steps: tuple[Step, ...]) -> int:
    """Where the newest run begins in which every call came at least TIMES times and was answered alike."""
    counts: dict[tuple[Fp, Fp], int] = {}
    start = len(steps)
    for place in range(len(steps) - 1, max(-1, len(steps) - LOOK - 1), -1):
        one = steps[place]
        if one.kind is not Kind.CALL or _has(one.flags, _THINK):
            continue
        pair = one.near, one.signature if _sketched(one) else one.result
        counts[pair] = counts.get(pair, 0) + 1
        if len(counts) > PERIOD:
            break
        if min(counts.values()) >= TIMES:
            start = place
    return start
