"""What user messages right after results bring, as part of what the round brought: a screenshot, a page's text.

Tools of browsers and desktops answer "Scrolled down" and send what is to be seen as a message of its own, since many
providers take no pictures in results. Harness forms say nothing, equal words say the same each time, and what only
counts how many steps are left is no news. Cost: nothing where no user message follows results.
"""

from __future__ import annotations

import re
from dataclasses import replace

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.harness import is_harness
from guardproxy.core.model import NO_FP, Flag, Fp, Message, Step
from guardproxy.core.rounds import Round

_FAILED, _MEDIA = int(Flag.FAILED), int(Flag.MEDIA)
_TOLD_OTHERWISE = ~int(Flag.VOID | Flag.SILENT | Flag.ZERO)

_COUNTED = re.compile(r"(?i)\b(?:steps?|turns?|iterations?|rounds?|attempts?|tokens?|budget|remaining|left)\b")
COUNTDOWN = 200
"""Characters of the longest reminder of how far the run is ("You have 17 steps left"): its numbers are no news."""


def last_answered(results: tuple[Message | None, ...]) -> int:
    """The place of the last call that has a result; -1: none has."""
    return next((place for place in range(len(results) - 1, -1, -1) if results[place] is not None), -1)


def brought(turn: Round, printer: Fingerprinter) -> Fp:
    """What user messages add to the results of the round; NO_FP: nothing. Words after written calls are its results."""
    told: list[str | bytes] = [*turn.media]
    if not turn.written:
        told += [printer.text(_numberless(text)) for text in turn.replies if text.strip() and not is_harness(text)]
    return printer.hash16("brought", *told) if told else NO_FP


def _numberless(text: str) -> str:
    if len(text) > COUNTDOWN or _COUNTED.search(text) is None:
        return text
    return "".join([sign for sign in text if not sign.isdigit()])


def adding(step: Step, more: Fp, printer: Fingerprinter, *, media: bool) -> Step:
    """The step whose call brought `more` beside its result; `media`: a picture or a file is among it."""
    flags, sign = int(step.flags), step.signature
    if media:
        flags = (flags & _TOLD_OTHERWISE) | _MEDIA
    if not flags & _FAILED and sign != NO_FP:  # the result without its volatile parts
        sign = NO_FP if media else printer.hash16(sign, more)
    result, alike = printer.hash16(step.result, more), printer.hash16(step.masked_result, more)
    return replace(step, result=result, masked_result=alike, signature=sign, flags=Flag(flags))
