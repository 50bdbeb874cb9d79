"""/v1/embeddings: bytes <-> model. Pure.

No model speaks here: a request is priced, held and settled, and is never a turn of a run, whoever's it is. An answer
may have tens of megabytes of numbers, so only its ends are read: usage and model stand beside the list.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence

from guardproxy.api._answer import Answer
from guardproxy.api._asked import model_of
from guardproxy.api._declared import declare
from guardproxy.api._error import error, failure
from guardproxy.api._gate import Joint
from guardproxy.api._json import peek, read_object
from guardproxy.api._prefix import Prefixes
from guardproxy.api._reply import Finish
from guardproxy.api._sse import comment
from guardproxy.api._too_long import too_long
from guardproxy.api._usage import given_of
from guardproxy.api._watcher import Plain, Watcher
from guardproxy.api._whole import Body
from guardproxy.core.edit import Edit
from guardproxy.core.model import Ask, Message
from guardproxy.errors import BadAsk

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

SURFACE = "embeddings"
PATHS = ("/v1/embeddings",)
REPLY_ID = "embd-guardproxy-"
"""Begins the id of an answer of ours; there is none but errors."""

SMALL = 64 * 1024
"""Bytes of an answer that is parsed; of a longer one only the ends are looked at."""

EDGE = 4096
"""Bytes of each end."""

_MODEL = re.compile(rb'"model"\s*:\s*("(?:[^"\\]|\\.)*")')
_USAGE = re.compile(rb'"usage"\s*:\s*(?=\{)')
_SAID = 512
"""Bytes of a request that tell it from others, with its length: what is asked twice is of no interest here."""


def read(body: bytes, headers: Mapping[str, str], *, short: bool = False, prefixes: Prefixes | None = None) -> Ask:
    """The request as an Ask. Header names are lower-case. Raises BadAsk with the offending `param`."""
    del short, prefixes
    parsed = read_object(body)
    given = parsed.get("input")
    if given is None or given in ([], ""):
        what = "is missing" if given is None else "must not be empty"
        raise BadAsk(f"`input` {what}.", code="missing_required_parameter", param="input")
    asked = f"{len(body)} {body[-_SAID:].decode('utf-8', 'replace')}"
    return Ask(
        surface=SURFACE,
        model=model_of(parsed, headers),
        stream=False,
        body=body,
        count=1,
        head=(Message("user", asked),),
        tail=(),
        tail_start=1,
        declared=declare(headers, parsed),
        max_tokens=0,
        aside=True,
        parsed=parsed,
    )


def widen(ask: Ask) -> Ask:
    """There is no more of it."""
    return ask


def message(ask: Ask, index: int) -> Message | None:
    """There is none to which anything could be added."""
    del ask, index
    return None


def write(ask: Ask, edits: Sequence[Edit]) -> bytes:
    """The body to send, as it came: no edit is one of such a request."""
    del edits
    return ask.body


class _Numbers(Answer):
    """What is known of an answer."""

    def take(self, payload: object) -> None:
        super().take(payload)
        if self.usage is None and isinstance(payload, dict):
            self.usage = given_of(payload.get("usage"))
        self.done = not self.failed
        self.choice(0).chars = 1  # numbers are an answer: to ask the same again is no loop


def _parsed(body: bytes) -> object:
    return peek(body) if len(body) <= SMALL else _ends(body)


def _ends(body: bytes) -> dict[str, object]:
    """Usage and model of a long answer. No text in it holds quotes, so that these keys are what they seem."""
    found: dict[str, object] = {}
    for part in (body[:EDGE], body[-EDGE:]):
        if model := _MODEL.search(part):
            found["model"] = peek(model[1])
        if usage := _USAGE.search(part):
            try:
                text = part[usage.end() :].decode("utf-8", "replace")
                found["usage"] = json.JSONDecoder(strict=False).raw_decode(text)[0]
            except (ValueError, RecursionError):
                continue
    if isinstance(found.get("usage"), dict) and given_of(found["usage"]) is None:
        del found["usage"]
    return found


def watch(ask: Ask, *, status: int = 200, **_more: object) -> Watcher:
    """A watcher for the answer to `ask`: it is never touched."""
    del ask
    answer = _Numbers()
    return Watcher(Body(answer.take, _parsed, sys.maxsize), Plain(answer), ok=200 <= status < 300)


def reply(ask: Ask, text: str, *, reply_id: str, created: int, finish: Finish | None = None) -> tuple[str, bytes]:
    """Nothing can be said in numbers: raises the BadAsk (400 `session_cut`) that says it."""
    del ask, reply_id, created, finish
    raise BadAsk(text, code="session_cut")


def closing(ask: Ask, joint: Joint | None, text: str, *, reply_id: str, created: int) -> bytes:
    """As `reply`."""
    del joint
    return reply(ask, text, reply_id=reply_id, created=created)[1]
