"""Watches one answer of /v1/responses: the bytes go to the client, a copy is read.

Untouched answers are read in batches, after the bytes have gone. Edited ones are handed on event by event: where calls
are taken out, what follows is counted on, and the response at the end has what was given. Never raises.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

from guardproxy.api._answer import Answer
from guardproxy.api._chat_halt import OFF, RULE, Options
from guardproxy.api._gate import Gate, Joint
from guardproxy.api._gated import GatedStream
from guardproxy.api._passing import Edited
from guardproxy.api._repeats import Repeats
from guardproxy.api._responses_answer import ENDS, Reader
from guardproxy.api._responses_gate import ItemEvents
from guardproxy.api._responses_given import NOTHING, Given, Sequel, given_by, given_in, given_of
from guardproxy.api._responses_items import Fields, is_call, kind_of
from guardproxy.api._responses_whole import GatedWhole, WholeCut
from guardproxy.api._sse import Decoder, comment
from guardproxy.api._watcher import Holder, Kept, Watcher, Way
from guardproxy.core.advice import LANGUAGES
from guardproxy.core.edit import DropCalls
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Ask

__all__ = ["Watcher", "watch"]

BATCH = 16 * 1024
"""Bytes of a stream that may wait to be read: small beside a stream, large beside an event."""

SHORT = 24
"""Bytes of a chunk's end that are looked at with the next one: an end may come in pieces."""

_END = re.compile(rb"response\.(?:completed|incomplete|failed)|\[DONE\]|event: error")
"""Stands in whatever ends a stream."""


def watch(
    ask: Ask,
    *,
    strip_usage: bool = False,  # usage is never asked for here: it always comes
    drop: DropCalls | None = None,
    status: int = 200,
    content_type: str = "text/event-stream",
    options: Options = OFF,
    language: str = "en",
    gate: Gate | None = None,
    joint: Joint | None = None,
) -> Watcher:
    """A watcher for the answer to `ask`. An error answer is never edited, nor held.

    `joint`: what earlier attempts of the turn gave the client; this one goes on with it.
    """
    reader = Reader(Answer())
    ok = 200 <= status < 300
    text = drop.text if drop is not None and ok else None
    held = ok and (gate is not None or joint is not None)

    def watched(way: Way, given: Callable[[], Joint], holder: Holder | None = None) -> Watcher:
        kept = Kept(reader.raw_message, reader.raw_calls, given, reader.hosted)
        return Watcher(way, reader.answer, kept, ok=ok, holder=holder)

    if not _is_stream(ask, content_type):
        whole = WholeCut(reader, text, hold=held)
        if not held:
            return watched(whole, whole.given)
        body = GatedWhole(whole, reader, gate, joint)
        return watched(body, body.joint, body)
    halts = Repeats(options.halt_repeats, options.repeats_within) if ok and options.halt_repeats else None
    if text is None and not held and halts is None:
        return watched(_Passing(reader), partial(given_by, reader))
    editor = _Edits(reader, text, halts, language, given_of(joint))
    if not held:
        return watched(Edited(editor), editor.given)
    gated = GatedStream(ItemEvents(editor, reader, gate, joint), editor, reader.answer, gate)
    return watched(gated, gated.joint, gated)


def _is_stream(ask: Ask, content_type: str) -> bool:
    kind = content_type.lower()
    return "event-stream" in kind or ("json" not in kind and ask.stream)


class _Passing:
    """A stream that nobody edits."""

    touched = own_text = False
    repeats = 0

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._decoder = Decoder()
        self._waiting: list[bytes] = []
        self._size = 0
        self._edge = b""
        self._near = False  # the end, or a text about it

    @property
    def may_be_over(self) -> bool:
        return self._near and bool(self._waiting) and self._waiting[-1].endswith((b"\n", b"\r"))

    def feed(self, chunk: bytes) -> bytes:
        self._waiting.append(chunk)
        self._size += len(chunk)
        if not self._near:
            look = self._edge + chunk
            self._near = _END.search(look) is not None
            self._edge = look[-SHORT:]
        if self._size > BATCH:
            self._decode()
        return chunk

    def finish(self) -> bytes:
        self._decode()
        if rest := self._decoder.rest():
            self._reader.read(rest)
        self._reader.settle()
        return b""

    def settle(self) -> None:
        self._decode()
        self._reader.settle()

    def _decode(self) -> None:
        if not self._waiting:
            return
        batch = b"".join(self._waiting)
        self._waiting.clear()
        self._size = 0
        read = self._reader.read
        for event in self._decoder.feed(batch):
            read(event)


class _Edits:
    """The events without calls, or up to where it says the same again and again."""

    def __init__(self, reader: Reader, text: str | None, halts: Repeats | None, language: str, before: Given) -> None:
        self._reader = reader
        self._text = text
        self._sequel = Sequel() if text is not None else None
        self._spoke_before = bool(before.text.strip())
        self._halts = halts
        self._language = language
        self._heard = 0
        self._passed: list[bytes] = []
        self.touched = self.own_text = False
        self.repeats = 0

    def settle(self) -> None:
        self._reader.settle()

    def given(self) -> Given:
        """What the client has."""
        return given_in(self._passed, NOTHING)

    def event(self, event: bytes) -> bytes:
        """One whole event; nothing is left of those that come after the end."""
        if self.repeats:
            return b""
        payload = self._reader.parse(event) if self._halts is not None or self._sequel is not None else None
        if payload is None:
            self._reader.read(event)
        out = event
        if self._sequel is not None and isinstance(payload, dict):
            out = self._without_calls(event, payload, self._sequel)
            self.touched = self.touched or out is not event
        self._passed.append(out)
        return out + self._halt() if self._again() else out

    def _without_calls(self, event: bytes, payload: Fields, sequel: Sequel) -> bytes:
        item = payload.get("item")
        if isinstance(item, dict) and is_call(item):
            index = payload.get("output_index")
            sequel.drop(index if isinstance(index, int) else None, item)
        kind = kind_of(payload)
        if kind not in ENDS or kind == "response.failed":
            return sequel.give(event)
        response = payload.get("response")
        output = response.get("output") if isinstance(response, dict) else None
        for at, one in enumerate(output if isinstance(output, list) else ()):
            if isinstance(one, dict) and is_call(one):
                sequel.drop(at, one)
        said = b""
        if not self._reader.heard.spoken and self._text is not None:
            self.own_text = True
            said = sequel.say(self._text, "msg_guardproxy")
        return said + sequel.give(event)

    def _again(self) -> bool:
        """Whether the newest text makes it enough. An answer with a call is let go on: it does something."""
        heard = self._reader.heard
        fresh = heard.newer(self._heard)
        self._heard += len(fresh)
        if not fresh or self._halts is None or heard.call_count or self._reader.answer.done:
            return False
        return self._halts.feed("".join(fresh))

    def _halt(self) -> bytes:
        """The end of the stream in our words."""
        assert self._halts is not None  # noqa: S101  # for the type checker
        self.repeats = self._halts.count
        self.touched = True
        self._reader.answer.done = True
        self._reader.heard.finish = "length"
        given = given_in(self._passed, NOTHING)
        sequel = Sequel(given, own=True)
        words = LANGUAGES[self._language].HALTED.format(count=self.repeats)
        out = sequel.close() + sequel.say(f"{GUARD_MARK} {words}", "msg_guardproxy")
        return out + comment("cut", RULE) + sequel.end(given.base, given.usage)
