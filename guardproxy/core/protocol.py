"""Whether what an assistant wrote is an agent's call: judged by what answers it and by what the head asks for.

Pure. People chat with assistants that answer in fenced code, and paste errors back: that is no run of calls. A text is
one where the user text after it has a form that only programs write (`harness.is_observation`), or where the head of
the conversation asks for such a form and says that its outcome comes back. Requests that offer tools are judged by the
first alone: their agents are told of calls and results in other words. Texts that a harness rejects make no call.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from guardproxy.core.harness import is_harness, is_observation, is_rejection, result_of
from guardproxy.core.model import Ask, Call, Message, value
from guardproxy.core.written import (
    ACKNOWLEDGED,
    CODE,
    EDIT,
    FENCE,
    JSON,
    MARKUP,
    REACT,
    TAGS,
    TRANSCRIPT,
    Written,
    written,
)

LOOKED_AT = 65_536
"""Characters of each of the head's messages in which a protocol is looked for."""

HEADS = 256
"""Heads remembered per process."""

_FEEDBACK = re.compile(
    r"\b(?-i:Observations?)\b|\b(?:is|are|be|gets?) (?:then )?(?:executed|run)\b|"
    r"\binteract(?:ing|s)?\b[^.\n]{0,60}\b(?:shell|computer|terminal|environment|interpreter)|"
    r"working directly in the command line|"
    r"\byou(?:'ll| will| can)?(?: then)? (?:receive|get|see|be (?:given|shown|sent|told))\b[^.\n]{0,60}"
    r"\b(?:outputs?|results?|observations?|responses?)\b|"
    r"\b(?:I|system|environment|shell|terminal|tool|harness|computer|interpreter)\b[^.\n]{0,30}\b"
    r"(?:(?:will )(?:then )?(?:give|return|respond|reply|show|send|provide)|gives|returns|responds|replies|shows|sends|"
    r"provides)\b[^.\n]{0,60}\b(?:outputs?|results?|responses?)\b",
    re.IGNORECASE,
)
"""That what is written is carried out and its outcome comes back; asking for an output or a result says nothing."""

_ONE = re.compile(
    r"\b(?:one|single|exactly|only)\b\W+(?:\w+\W+){0,3}?(?:commands?|code[ -]?blocks?|code blobs?|actions?|tool calls?)"
    r"\b|_one_ command|(?:response|reply|answer) should be an? \w+ (?:command|statement|query)|using code blobs",
    re.IGNORECASE,
)
_ACTION = re.compile(r"\bAction(?: \d+)?:|\bAction Input\b|\"(?:action|tool|tool_name|command)\"", re.IGNORECASE)
_ENDINGS = ("Final Answer:", "Finish[", "finish[", "final_answer(")

_heads: dict[int, frozenset[str]] = {}
_MARKED, _FENCED, _NAMED = frozenset((MARKUP,)), frozenset((FENCE, CODE)), frozenset((REACT, JSON, TAGS))


@value
class Told:
    """A text's calls with their results (None: none came), and the words of a person that follow them."""

    calls: tuple[Call, ...]
    results: tuple[Message | None, ...]
    words: str | None


def declared(ask: Ask) -> frozenset[str]:
    """The forms in which the head asks for calls in text, if it says that their outcome comes back.

    Markup of tools needs no asking, unless the request offers tools: then it went astray, and nobody carries it out.
    """
    if ask.tools:
        return frozenset()
    key = hash(("protocol", *[message.text for message in ask.head]))
    if key not in _heads:
        if len(_heads) >= HEADS:
            _heads.clear()
        _heads[key] = _declares("\n".join(message.text[:LOOKED_AT] for message in ask.head))
    return _heads[key]


def _declares(text: str) -> frozenset[str]:
    if _FEEDBACK.search(text) is None:
        return _MARKED
    fenced = _MARKED | _FENCED if _ONE.search(text) else _MARKED
    return fenced | _NAMED if _ACTION.search(text) else fenced


def told(ask: Ask, text: str, replies: Sequence[str]) -> Told | None:
    """What an assistant's text and the user texts after it are as calls; None: words."""
    found = written(text)
    if found is None:
        return None
    results = [reply for reply in replies if is_observation(reply)]
    words = [reply for reply in replies if not _by_program(reply)]
    if any(map(is_rejection, replies)) and not results:
        return None
    if not results:
        if found.form == EDIT:
            return _edit(found, replies, words)
        if found.final and found.form != TRANSCRIPT:
            return None
        inside = found.observed is not None and not replies  # a crew keeps the result in the assistant's message
        if not inside and found.form != TRANSCRIPT and found.form not in declared(ask):
            return None
        results, words = list(replies), []  # without a label they can only be results: the protocol says so
    if found.observed is not None and not results:
        results = [found.observed]
    failed = True if found.form == EDIT else None  # an edit is answered with a label only where it does not fit
    said = "\n".join(words) if words and found.final else None
    return Told(found.calls, _paired(found.calls, results, failed=failed), said)


def _by_program(text: str) -> bool:
    return text.startswith(ACKNOWLEDGED) or is_harness(text) or is_observation(text)


def _edit(found: Written, replies: Sequence[str], words: Sequence[str]) -> Told | None:
    """Aider's own answer to an edit that fits; what a person says after it is new."""
    done = next((reply for reply in replies if reply.startswith(ACKNOWLEDGED[0])), None)
    return None if done is None else Told(found.calls, (Message("tool", done),), "\n".join(words) or None)


def _paired(calls: Sequence[Call], results: Sequence[str], *, failed: bool | None) -> tuple[Message | None, ...]:
    """A result for each call where there are as many, else all of what came to each."""
    if not results:
        return (None,) * len(calls)
    plain = [result_of(result) for result in results]
    if len(plain) == len(calls) > 1:
        return tuple(Message("tool", text) for text in plain)
    return (Message("tool", "\n".join(plain), failed=failed),) * len(calls)


def calls_in(ask: Ask, text: str, *, known: Callable[[], Iterable[str]]) -> tuple[Call, ...]:
    """The calls that an answer's text makes, as far as can be told before their results.

    `known`: earlier texts that turned out to make calls; what is written as they are is one, too.
    """
    found = written(text)
    if found is None or found.final:
        return ()
    if found.form in declared(ask):
        return found.calls
    return found.calls if any(one and one.form == found.form for one in map(written, known())) else ()


def ending(ask: Ask) -> str:
    """How a final answer is written in the head's own terms; "" where it names no such form."""
    text = "\n".join(message.text[:LOOKED_AT] for message in ask.head)
    return next((mark for mark in _ENDINGS if mark in text), "")
