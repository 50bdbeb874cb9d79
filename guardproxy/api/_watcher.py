"""What a surface sees of one answer, the same for every surface: how it passes is the surface's own `Way`."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from guardproxy.api._answer import Answer
from guardproxy.api._gate import Joint, half
from guardproxy.api._gathered import assembled
from guardproxy.api._json import dumps
from guardproxy.core.model import Call, Message, Usage


class Way(Protocol):
    """How an answer passes through."""

    @property
    def touched(self) -> bool: ...
    @property
    def own_text(self) -> bool: ...
    @property
    def may_be_over(self) -> bool: ...
    @property
    def repeats(self) -> int: ...
    def feed(self, chunk: bytes) -> bytes: ...
    def finish(self) -> bytes: ...
    def settle(self) -> None: ...


class Holder(Way, Protocol):
    """A way that holds back what is to be judged before the client gets it."""

    @property
    def holding(self) -> bool: ...
    @property
    def unread(self) -> int: ...
    def release(self, keep: frozenset[int] | None = None) -> bytes: ...
    def joint(self) -> Joint: ...


class Kept(Protocol):
    """An answer, once its way has settled, as its surface has it: the message that a request carries, and its calls."""

    @property
    def answer(self) -> Answer: ...
    def raw_message(self) -> object: ...
    def raw_calls(self) -> list[dict[str, object]]: ...
    def hosted(self) -> tuple[tuple[Call, Message | None], ...]: ...
    def joint(self) -> Joint: ...


class Plain:
    """An answer of which no more is kept than our view of it."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer

    def raw_message(self) -> dict[str, object]:
        return assembled({"content": self.answer.first.text or None}, self.raw_calls())

    def raw_calls(self) -> list[dict[str, object]]:
        return [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in self.answer.first.built()
        ]

    def hosted(self) -> tuple[tuple[Call, Message | None], ...]:
        return ()

    def joint(self) -> Joint:
        answer, first = self.answer, self.answer.first
        known = {key: value for key, value in (("id", answer.id), ("model", answer.model)) if value}
        text, calls = first.text, first.call_count
        return Joint(known, bool(text or calls), text, calls, half=half(first.built()))


class Seen(NamedTuple):
    """What an answer was: text and calls of the first choice, what all of them have in common. See `Watcher`."""

    calls: tuple[Call, ...]
    call_count: int
    text: str
    text_chars: int
    produced_chars: int
    usage: Usage | None
    response_model: str
    response_id: str
    finish_reason: str
    complete: bool
    failed: bool


class Watcher:
    """The view of one answer, choice 0 where there are several. All of it may be asked for at any time."""

    def __init__(self, way: Way, kept: Kept, *, ok: bool, holder: Holder | None = None) -> None:
        self._way = way
        self._answer = kept.answer
        self._kept = kept
        self._ok = ok
        self._holder = holder
        self.feed = way.feed
        """The bytes for the client: the same object where untouched."""

    def finish(self) -> bytes:
        """The rest, after the last chunk."""
        return self._way.finish()

    @property
    def holding(self) -> bool:
        """Something is held back: it has to be released, or answered by another attempt."""
        return self._holder is not None and self._holder.holding

    @property
    def unread(self) -> int:
        """Events of it that nobody can read, and that were left out; a whole answer counts as one."""
        return self._holder.unread if self._holder is not None else 0

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """What was held, byte for byte; with `keep` only the calls at these positions of `seen().calls`.

        Calls that passed before anything was held stay. What comes after a release passes.
        """
        return self._holder.release(keep) if self._holder is not None else b""

    def raw_message(self) -> bytes:
        """The answer as the assistant message that a request of this surface carries, unknown fields included."""
        self._way.settle()
        return dumps(self._kept.raw_message())

    def raw_calls(self) -> tuple[bytes, ...]:
        """The calls of that message, in the order of `seen().calls`."""
        self._way.settle()
        return tuple([dumps(call) for call in self._kept.raw_calls()])

    @property
    def hosted(self) -> tuple[tuple[Call, Message | None], ...]:
        """Calls that the provider has carried out by itself, with their results: surfaces that have them say so."""
        self._way.settle()
        return self._kept.hosted()

    def joint(self) -> Joint:
        """What the client was given of this turn's answer so far, for the attempt that goes on with it."""
        self._way.settle()
        return self._holder.joint() if self._holder is not None else self._kept.joint()

    def seen(self) -> Seen:
        """All of it at once."""
        answer = self._read()
        first = answer.first
        return Seen(
            first.built(),
            first.call_count,
            first.text,
            first.chars,
            first.produced if len(answer.choices) < 2 else self.produced_chars,
            answer.usage,
            answer.model,
            answer.id,
            first.finish,
            self._ok and not answer.failed and (answer.done or bool(first.finish)),
            answer.failed,
        )

    def _read(self) -> Answer:
        self._way.settle()
        return self._answer

    @property
    def calls(self) -> tuple[Call, ...]:
        """The calls that the model made, also those taken out."""
        return self._read().first.built()

    @property
    def call_count(self) -> int:
        """How many calls the model made; of very many not all are kept."""
        return self._read().first.call_count

    @property
    def answers(self) -> tuple[tuple[str, tuple[Call, ...]], ...]:
        """(text, calls) of every choice."""
        choices = self._read().choices
        return tuple((choices[index].text, choices[index].built()) for index in sorted(choices))

    @property
    def text(self) -> str:
        """The model's visible text, up to 256 Ki characters."""
        return self._read().first.text

    @property
    def text_chars(self) -> int:
        """Characters of visible text, unbounded."""
        return self._read().first.chars

    @property
    def produced_chars(self) -> int:
        """Characters of text, reasoning and arguments over all choices: what an estimate of the output starts from."""
        return sum(choice.produced for choice in self._read().choices.values())

    @property
    def usage(self) -> Usage | None:
        """What the provider counted, if it said so."""
        return self._read().usage

    @property
    def response_model(self) -> str:
        """The model that the provider names."""
        return self._read().model

    @property
    def response_id(self) -> str:
        """The provider's id of the answer."""
        return self._read().id

    @property
    def finish_reason(self) -> str:
        """As the provider gave it; presence of calls decides, not this."""
        return self._read().first.finish

    @property
    def first_token(self) -> bool:
        """Something of the answer has arrived: text, thought or call."""
        return any(choice.produced or choice.built() for choice in self._read().choices.values())

    @property
    def failed(self) -> bool:
        """The provider reported an error inside an answer that began well."""
        return self._read().failed

    @property
    def complete(self) -> bool:
        """The whole answer has arrived: a finish reason or [DONE], and no error."""
        answer = self._read()
        return self._ok and not answer.failed and (answer.done or bool(answer.first.finish))

    @property
    def ended(self) -> bool:
        """[DONE] has come: nothing more will. Cheap enough to be asked after each chunk, unlike the rest.

        A finish reason does not end a stream: the usage comes after it. Some providers never send [DONE].
        """
        if self._way.may_be_over:
            self._way.settle()
        return self._answer.done

    @property
    def halted(self) -> int:
        """At how many repeats the stream was halted; 0 = it was not. Halted means ended, and nothing more is read."""
        return self._way.repeats

    @property
    def touched(self) -> bool:
        """The client was given other bytes than the provider sent, a stripped usage chunk apart."""
        return self._way.touched

    @property
    def own_text(self) -> bool:
        """Our text was put in the place of an answer that had none of its own; `text` stays the model's."""
        return self._way.own_text
