"""How an answer of /v1/responses is watched: see `_watching`.

Where calls are taken out of a stream, what follows is counted on, and the response at the end has what was given.
"""

from __future__ import annotations

from guardproxy.api._answer import Answer
from guardproxy.api._chat_halt import RULE
from guardproxy.api._json import dumps
from guardproxy.api._messages import neutral
from guardproxy.api._passing import BATCH, Passing
from guardproxy.api._repeats import Repeats
from guardproxy.api._responses_answer import ENDS, Reader
from guardproxy.api._responses_gate import ItemEvents
from guardproxy.api._responses_given import NOTHING, Given, Sequel, given_by, given_in
from guardproxy.api._responses_items import CALLS, Fields, carried_out, is_call, kind_of, own_id
from guardproxy.api._responses_whole import Response
from guardproxy.api._sse import comment, with_data
from guardproxy.api._watching import Watch, Wishes
from guardproxy.core.advice import LANGUAGES
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Ask, Call, Message

SHORT = 24
"""Bytes of a chunk's end that are looked at with the next one: an end may come in pieces."""


class ResponsesAnswer:
    """`Dialect` of items."""

    clears = True

    def __init__(self, ask: Ask, wishes: Wishes) -> None:
        self.answer = Answer()
        self._wishes = wishes
        self._reader = Reader(self.answer)
        self.take = self._reader.take
        self._edits: Edits | None = None

    @property
    def edits(self) -> bool:
        return self._wishes.text is not None or bool(self._wishes.options.halt_repeats)

    def editor(self) -> Edits:
        self._edits = Edits(self._reader, self._wishes)
        return self._edits

    def gated(self) -> tuple[Edits, ItemEvents]:
        editor = self.editor()
        return editor, ItemEvents(editor, self._reader, self._wishes.gate, self._wishes.joint)

    def passing(self) -> Unedited:
        return Unedited(self._reader)

    def form(self) -> Response:
        return Response(self._reader)

    def raw_message(self) -> list[Fields]:
        return [carried(item) for item in self._reader.heard.kept]

    def raw_calls(self) -> list[Fields]:
        return [carried(item) for item in self._reader.heard.kept if is_call(item)]

    def hosted(self) -> tuple[tuple[Call, Message | None], ...]:
        found = [carried_out(item) for item in self._reader.heard.hosted]
        return tuple([(neutral(call).calls[0], neutral(told) if told is not None else None) for call, told in found])

    def joint(self) -> Given:
        return self._edits.given() if self._edits is not None else given_by(self._reader)


watch = Watch(ResponsesAnswer)


def carried(item: Fields) -> Fields:
    """An item as a request carries it: what is null there was not said."""
    return {key: value for key, value in item.items() if value is not None}


class Unedited(Passing):
    """A stream that nobody edits. Its end is an event of any length, which says at its beginning what it is."""

    def __init__(self, reader: Reader) -> None:
        super().__init__(reader.read, reader.settle)
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
            self._near = _ends_in(look)
            self._edge = look[-SHORT:]
        if self._size > BATCH:
            self._decode()
        return chunk


def _ends_in(text: bytes) -> bool:
    """Whether there stands what stands in whatever ends a stream. An expression would look at each byte, on its own."""
    return (
        b"response.completed" in text
        or b"response.incomplete" in text
        or b"response.failed" in text
        or b"[DONE]" in text
        or b"event: error" in text
    )


class Edits:
    """The events without calls, or up to where it says the same again and again."""

    def __init__(self, reader: Reader, wishes: Wishes) -> None:
        options = wishes.options
        self._reader = reader
        self._text = wishes.text
        self._sequel = Sequel() if wishes.text is not None else None
        self._halts = Repeats(options.halt_repeats, options.repeats_within) if options.halt_repeats else None
        self._language = wishes.language
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
        part = self._reader.about(payload)
        if part is not None and part.kind in CALLS:
            return b""
        kind, response = kind_of(payload), payload.get("response")
        output = response.get("output") if isinstance(response, dict) else None
        if isinstance(response, dict) and isinstance(output, list):
            kept = [one for one in output if not (isinstance(one, dict) and is_call(one))]
            if len(kept) < len(output):
                event = with_data(event, dumps({**payload, "response": {**response, "output": kept}}))
        if kind not in ENDS or kind == "response.failed":
            return sequel.give(event)
        if self._reader.heard.spoken or self._text is None:
            return sequel.give(event)
        self.own_text = True
        return sequel.say(self._text, own_id(self._reader.answer.id)) + sequel.give(event)

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
        out = sequel.close() + sequel.say(f"{GUARD_MARK} {words}", own_id(self._reader.answer.id))
        return out + comment("cut", RULE) + sequel.end(given.base, given.usage)
