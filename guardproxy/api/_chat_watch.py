"""How an answer of /v1/chat/completions is watched: see `_watching`."""

from __future__ import annotations

from collections.abc import Callable

from guardproxy.api._answer import Answer
from guardproxy.api._chat_cut import StreamCut
from guardproxy.api._chat_gate import Chunks
from guardproxy.api._chat_halt import Halt
from guardproxy.api._chat_whole import Completion
from guardproxy.api._gated import Editor
from guardproxy.api._gathered import Fields, Gathered
from guardproxy.api._passing import Passing
from guardproxy.api._template import Reader
from guardproxy.api._watcher import Plain
from guardproxy.api._watching import Watch, Wishes
from guardproxy.core.model import Ask

SHORT = 24
"""A chunk longer than the last event of a stream with its surroundings: such an event may come in pieces."""


class ChatAnswer(Plain):
    """`Dialect` of chat."""

    clears = False
    _gathered: Callable[[], Gathered] | None = None  # its message, where more of it is kept than our view

    def __init__(self, ask: Ask, wishes: Wishes) -> None:
        self.answer = Answer()
        self.take = self.answer.take
        self._ask = ask
        self._wishes = wishes

    @property
    def edits(self) -> bool:
        wishes = self._wishes
        return wishes.strip_usage or wishes.text is not None or wishes.options.used

    def editor(self) -> Editor:
        wishes = self._wishes
        cut = StreamCut(wishes.text, self._ask.model) if wishes.text is not None else None
        edits = Edits(self.answer, cut, strip_usage=wishes.strip_usage)
        return Halt(edits, self.answer, wishes.options, wishes.language) if wishes.options.used else edits

    def gated(self) -> tuple[Editor, Chunks]:
        editor = self.editor()
        chunks = Chunks(editor, self.answer, self._wishes.gate, self._wishes.joint)
        self._gathered = chunks.gathered
        return editor, chunks

    def passing(self) -> Unedited:
        return Unedited(Reader(self.answer).read)

    def form(self) -> Completion:
        form = Completion(self.answer, usage=self._ask.wants_usage)
        if self._wishes.gate is not None or self._wishes.joint is not None:
            self._gathered = form.gathered
        return form

    def raw_message(self) -> Fields:
        return self._gathered().message if self._gathered is not None else super().raw_message()

    def raw_calls(self) -> list[Fields]:
        return self._gathered().calls if self._gathered is not None else super().raw_calls()


watch = Watch(ChatAnswer)


class Unedited(Passing):
    """A stream that nobody edits."""

    @property
    def may_be_over(self) -> bool:
        if not self._waiting:
            return False
        last = self._waiting[-1]
        return b"DONE" in (last if len(last) > SHORT else b"".join((self._tail, *self._waiting[-SHORT:])))


class Edits:
    """The events without the usage chunk, or without calls."""

    repeats = 0

    def __init__(self, answer: Answer, cut: StreamCut | None, *, strip_usage: bool) -> None:
        self._answer = answer
        self._reader = Reader(answer, shortcuts=cut is None)
        self._strip = strip_usage
        self._cut = cut

    @property
    def touched(self) -> bool:
        return self._cut is not None and self._cut.touched

    @property
    def own_text(self) -> bool:
        return self._cut is not None and self._cut.own_text

    def settle(self) -> None:
        """Nothing waits."""

    def event(self, event: bytes) -> bytes:
        payload = self._reader.read(event)
        if self._strip and isinstance(payload, dict) and _only_usage(payload):
            return b""
        if self._cut is None:
            return event
        if payload is None and self._answer.done:
            return self._cut.end(self._answer) + event
        return self._cut.chunk(event, payload, self._answer)


def _only_usage(payload: dict[str, object]) -> bool:
    return not payload.get("choices") and isinstance(payload.get("usage"), dict)
