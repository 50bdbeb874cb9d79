"""/v1/completions: bytes <-> model. Pure.

A prompt and the text behind it: no conversation, no calls. So a request costs and is counted like any other, and its
run is found by its prompt, but nothing is ever said to the model in it: a prompt with words of ours behind it would be
another one. A surface without `feedback` is one on which nobody can be told anything (`http.turn.Turn.talks`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from guardproxy.api import _messages
from guardproxy.api._answer import Answer, number_of
from guardproxy.api._asked import boolean, count, model_of, usage_wish, wrong
from guardproxy.api._chat_write import write as _write
from guardproxy.api._declared import declare
from guardproxy.api._error import error, failure
from guardproxy.api._gate import GAP, Joint
from guardproxy.api._json import dumps, mend, read_object
from guardproxy.api._prefix import Prefixes
from guardproxy.api._reply import DONE, JSON, MOST_CHOICES, NO_USAGE, SSE, Finish, event
from guardproxy.api._sse import Decoder, comment
from guardproxy.api._template import Reader
from guardproxy.api._too_long import too_long
from guardproxy.api._usage import merge, usage_of
from guardproxy.api._watcher import Plain, Watcher
from guardproxy.api._whole import Body
from guardproxy.core.edit import Edit, LimitOutput, SpliceUsage
from guardproxy.core.model import Ask, Message

__all__ = [
    "PATHS",
    "REPLY_ID",
    "SURFACE",
    "closing",
    "comment",
    "error",
    "failure",
    "message",
    "read",
    "reply",
    "too_long",
    "watch",
    "widen",
    "write",
]

SURFACE = "completions"
PATHS = ("/v1/completions",)
REPLY_ID = "cmpl-guardproxy-"
"""Begins the id of an answer of ours."""

OBJECT = "text_completion"


def read(body: bytes, headers: Mapping[str, str], *, short: bool = False, prefixes: Prefixes | None = None) -> Ask:
    """The request as an Ask. Header names are lower-case. Raises BadAsk with the offending `param`.

    A prompt is short, or read but once: `short` and `prefixes`, which spare reading of histories, change nothing.
    """
    del short, prefixes
    parsed = read_object(body)
    text, prompts = _prompt(parsed.get("prompt"))
    head = (Message("user", text),)
    stream = boolean(parsed, "stream")
    wants_usage, may_splice = usage_wish(parsed) if stream else (False, False)
    made = max(count(parsed, "n") or 1, count(parsed, "best_of") or 1)  # of `best_of` all are paid for
    return Ask(
        surface=SURFACE,
        model=model_of(parsed, headers),
        stream=stream,
        body=body,
        count=1,
        head=head,
        tail=(),
        tail_start=1,
        declared=declare(headers, parsed),
        max_tokens=count(parsed, "max_tokens"),
        choices=made * prompts,
        wants_usage=wants_usage,
        may_splice_usage=may_splice,
        language=_messages.language(head, ()),
        parsed=parsed,
    )


def _prompt(prompt: object) -> tuple[str, int]:
    """What is asked, as one text, and how many prompts it is: a text, a list of them, tokens, or lists of tokens."""
    if prompt is None or isinstance(prompt, str):
        return prompt or "", 1
    if not isinstance(prompt, list):
        raise wrong("prompt", "a text or a list")
    several = bool(prompt) and isinstance(prompt[0], str | list)
    if several and all(isinstance(one, str) for one in prompt):
        return "\n".join(prompt), len(prompt)
    return dumps(prompt).decode(), len(prompt) if several else 1


def widen(ask: Ask) -> Ask:
    """There is no more of it."""
    return ask


def message(ask: Ask, index: int) -> Message | None:
    """The prompt is the only message."""
    return ask.head[0] if index == 0 else None


def write(ask: Ask, edits: Sequence[Edit]) -> bytes:
    """The body to send. Of all edits only those that leave the prompt alone are carried out."""
    mine = [edit for edit in edits if isinstance(edit, LimitOutput | SpliceUsage)]
    return _write(replace(ask, model=""), mine) if mine else ask.body  # whatever the model: `max_tokens` here


class Said(Answer):
    """The texts of an answer."""

    def _take_choice(self, entry: Mapping[str, object]) -> None:
        choice = self.choice(number_of(entry.get("index")))
        text, finish = entry.get("text"), entry.get("finish_reason")
        if isinstance(text, str) and text:
            choice.add_text(mend(text))
        if isinstance(finish, str) and finish:
            choice.finish = mend(finish)
            choice.chars = max(1, choice.chars)  # no text is an answer here: to ask the same again is no loop
        if "usage" in entry:
            self.usage = merge(self.usage, usage_of(entry["usage"]))

    def take_whole(self, payload: Mapping[str, object]) -> None:
        """An answer in one piece."""
        self.take(payload)
        self.done = self.done or bool(self.choices)


class _Stream:
    """A stream; `strip`: without the chunk of usage that the client has not asked for."""

    touched = False
    own_text = False
    may_be_over = False
    repeats = 0

    def __init__(self, answer: Said, *, strip: bool) -> None:
        self._reader = Reader(answer, texts=True)
        self._decoder = Decoder()
        self._strip = strip

    def feed(self, chunk: bytes) -> bytes:
        passed = b"".join([self._event(one) for one in self._decoder.feed(chunk)])
        return chunk if not self._strip or passed == chunk else passed

    def finish(self) -> bytes:
        rest = self._decoder.rest()
        passed = self._event(rest) if rest else b""
        return passed if self._strip else b""

    def settle(self) -> None:
        """Nothing waits."""

    def _event(self, one: bytes) -> bytes:
        payload = self._reader.read(one)
        mine = isinstance(payload, dict) and not payload.get("choices") and isinstance(payload.get("usage"), dict)
        return b"" if mine and self._strip else one


def watch(
    ask: Ask,
    *,
    strip_usage: bool = False,
    status: int = 200,
    content_type: str = SSE,
    **_more: object,
) -> Watcher:
    """A watcher for the answer to `ask`. There are no calls to be taken out, and no text is held or ended early."""
    answer, ok, kind = Said(), 200 <= status < 300, content_type.lower()
    streamed = "event-stream" in kind or ("json" not in kind and ask.stream)
    way = _Stream(answer, strip=strip_usage and ok) if streamed else Body(answer.take_whole)
    return Watcher(way, Plain(answer), ok=ok)


def reply(ask: Ask, text: str, *, reply_id: str, created: int, finish: Finish | None = None) -> tuple[str, bytes]:
    """(content type, body) of a well-formed answer with our text. `finish`: nobody has tools here."""
    del finish
    base = {"id": reply_id, "object": OBJECT, "created": created, "model": ask.model}
    numbers = range(min(max(ask.choices, 1), MOST_CHOICES))
    if not ask.stream:
        return JSON, dumps({**base, "choices": [_choice(text, at, "stop") for at in numbers], "usage": NO_USAGE})
    said = b"".join(event({**base, "choices": [_choice(text, at, "stop")]}) for at in numbers)
    return SSE, said + _end(ask, base)


def closing(ask: Ask, joint: Joint | None, text: str, *, reply_id: str, created: int) -> bytes:
    """The end of an answer in our words, behind what the client was given of it; `reply_id`: where nothing was."""
    given = joint or Joint()
    named = {"id": reply_id, "model": ask.model, **given.base}
    base = {**named, "object": OBJECT, "created": created}
    if not ask.stream:
        whole = GAP.join(part for part in (given.text, text) if part)
        return dumps({**base, "choices": [_choice(whole, 0, "stop")], "usage": NO_USAGE})
    return event({**base, "choices": [_choice((GAP if given.text else "") + text, 0, "stop")]}) + _end(ask, base)


def _choice(text: str, index: int, finish: str) -> dict[str, object]:
    return {"text": text, "index": index, "logprobs": None, "finish_reason": finish}


def _end(ask: Ask, base: Mapping[str, object]) -> bytes:
    return (event({**base, "choices": [], "usage": NO_USAGE}) if ask.wants_usage else b"") + DONE
