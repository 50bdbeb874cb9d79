"""What an answer holds, gathered chunk by chunk or read whole. Never raises, whatever the provider sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from guardproxy.api._calls import MAX_CALLS, Calls
from guardproxy.api._json import mend
from guardproxy.api._messages import calls_of, neutral, text_in
from guardproxy.api._usage import merge, usage_of
from guardproxy.core.model import Call, Usage

MAX_TEXT = 256 * 1024
"""Characters of text kept of one choice; more are only counted."""

MAX_CHOICES = 128
"""The API's own bound on `n`."""

REASONING = ("reasoning_content", "reasoning")
"""Where providers put thoughts: counted as produced, never part of the text."""

DEFERRED = "queued"
"""How an answer ends that is made in the background, and fetched later."""


class Choice:
    """One of the `n` answers."""

    def __init__(self) -> None:
        self.calls = Calls()
        self.whole_calls: tuple[Call, ...] = ()
        self._whole_count = 0
        self.finish = ""
        self.chars = 0
        self.produced = 0
        self.spoken = False  # some of its text is more than white space
        self._texts: list[str] = []

    @property
    def text(self) -> str:
        """The text so far, bounded."""
        return mend("".join(self._texts))

    def newer(self, known: int) -> list[str]:
        """The pieces of text that were kept after the first `known`."""
        return self._texts[known:]

    def built(self) -> tuple[Call, ...]:
        """Its calls, repaired."""
        return self.whole_calls or self.calls.built()

    def names(self) -> Iterator[tuple[str, bool]]:
        """The name of each call, and whether it is all of it."""
        if self.whole_calls:
            return iter([(call.name, True) for call in self.whole_calls])
        return self.calls.names()

    @property
    def call_count(self) -> int:
        """Its calls, also those that were not kept."""
        return self._whole_count or self.calls.count

    def add_text(self, text: str) -> None:
        """One more piece of visible text."""
        size = len(text)
        if self.chars < MAX_TEXT:
            self._texts.append(text[: MAX_TEXT - self.chars])
        self.chars += size
        self.produced += size
        if not self.spoken and text and not text.isspace():
            self.spoken = True

    def take_delta(self, delta: Mapping[str, object]) -> None:
        """One delta of a stream."""
        content = delta.get("content")
        if content:
            self.add_text(content if isinstance(content, str) else neutral({"content": content}).text)
        if "tool_calls" in delta:
            self.produced += self.calls.take(delta["tool_calls"])
        legacy = delta.get("function_call")
        if isinstance(legacy, dict) and not delta.get("tool_calls"):
            self.produced += self.calls.take_legacy(legacy)
        refusal = delta.get("refusal")
        if isinstance(refusal, str) and refusal:
            self.add_text(refusal)
        self._think(delta)

    def take_message(self, message: Mapping[str, object]) -> None:
        """The message of an answer that came whole."""
        self.add_text(text_in(message))
        calls = calls_of(message)
        self.whole_calls, self._whole_count = calls[:MAX_CALLS], len(calls)
        for call in calls:
            self.produced += len(call.arguments)
        self._think(message)

    def _think(self, said: Mapping[str, object]) -> None:
        for key in REASONING:
            thought = said.get(key)
            if isinstance(thought, str) and thought:
                self.produced += len(thought)
                return


def number_of(index: object) -> int:
    """The number of a choice with that `index`; what is none, or far too large, is the first."""
    return index if type(index) is int and 0 <= index < MAX_CHOICES else 0


class Answer:
    """All choices, the usage, and what the provider says of itself."""

    def __init__(self) -> None:
        self.choices: dict[int, Choice] = {}
        self.usage: Usage | None = None
        self.model = ""
        self.id = ""
        self.failed = False  # the provider reported an error inside the answer
        self.done = False  # [DONE] was seen

    def choice(self, index: object) -> Choice:
        """The choice of that index; what is no index, or far too large a one, is the first."""
        number = number_of(index)
        if number not in self.choices:
            self.choices[number] = Choice()
        return self.choices[number]

    @property
    def first(self) -> Choice:
        """The choice that an agent goes on with."""
        return self.choices[min(self.choices)] if self.choices else Choice()

    def take(self, payload: object) -> None:
        """One chunk of a stream, or a whole completion."""
        if not isinstance(payload, dict):
            return
        if payload.get("error"):
            self.failed = True
        self.id = self.id or _text(payload.get("id"))
        self.model = self.model or _text(payload.get("model"))
        self._count(payload)
        entries = payload.get("choices")
        if isinstance(entries, list):
            for entry in entries:
                if isinstance(entry, dict):
                    self._take_choice(entry)

    def _take_choice(self, entry: Mapping[str, object]) -> None:
        choice = self.choice(entry.get("index"))
        delta = entry.get("delta")
        message = entry.get("message")
        if isinstance(delta, dict):
            choice.take_delta(delta)
        elif isinstance(message, dict) and not choice.produced and not choice.calls:
            choice.take_message(message)
        choice.finish = _text(entry.get("finish_reason")) or choice.finish
        if "usage" in entry:  # Moonshot puts it here
            self.usage = merge(self.usage, usage_of(entry["usage"]))

    def _defer(self, payload: Mapping[str, object]) -> None:
        """XAI's answer to `deferred`: a name by which the answer is fetched later. It is none that came out empty."""
        name = payload["request_id"]
        if isinstance(name, str) and name and not (self.id or self.failed or "data" in payload):
            self.id, self.done = mend(name), True
            choice = self.choice(0)
            choice.finish, choice.chars = DEFERRED, 1

    def _count(self, payload: Mapping[str, object]) -> None:
        if "usage" in payload:
            self.usage = merge(self.usage, usage_of(payload["usage"]))
        elif "request_id" in payload and "choices" not in payload:
            self._defer(payload)
        groq = payload.get("x_groq")
        if isinstance(groq, dict):
            self.usage = merge(self.usage, usage_of(groq.get("usage")))


def _text(value: object) -> str:
    return mend(value) if isinstance(value, str) else ""
