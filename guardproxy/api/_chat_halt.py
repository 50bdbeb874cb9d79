"""What may be done to a chat answer beside taking calls out of it, each only where the configuration asks for it.

A stream that says the same again and again is not read to its end: the client gets a short note, the finish reason
`length` and [DONE] (case B17). A finish reason that promises calls where there are none becomes `stop` (case B16).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from guardproxy.api._answer import Answer
from guardproxy.api._chat_cut import mend
from guardproxy.api._gated import Editor
from guardproxy.api._json import dumps, peek
from guardproxy.api._repeats import Repeats
from guardproxy.api._reply import DONE, event
from guardproxy.api._sse import comment, data_of, with_data
from guardproxy.core.advice import LANGUAGES
from guardproxy.core.fingerprint import GUARD_MARK

RULE = "repeated_text"
"""The name under which a halted answer is reported."""


FEWEST = 3
"""Repeats below which healthy answers would be halted."""


@dataclass(frozen=True, slots=True)
class Options:
    """What may be done to answers. All of it is off by default.

    `halt_repeats`: near repeats of a sentence within `repeats_within` characters of text, code fences and tables apart,
    after which a stream is not read any further; 0 = never, 10 is a good number (cline#13042, opencode#12716).
    `mend_finish`: a finish reason `tool_calls` without calls becomes `stop`; some clients ask again for ever
    (mastra#14187).
    """

    halt_repeats: int = 0
    repeats_within: int = 5000
    mend_finish: bool = False

    def __post_init__(self) -> None:
        """Raise ValueError where a healthy answer would be halted, too."""
        if 0 < self.halt_repeats < FEWEST:
            raise ValueError(f"halt_repeats must be 0 (never) or at least {FEWEST}")

    @property
    def used(self) -> bool:
        """Whether there is anything to do."""
        return bool(self.halt_repeats) or self.mend_finish


OFF = Options()


class Halt:
    """The events of a stream up to where it is halted. `repeats` is the count that it was halted at."""

    def __init__(self, editor: Editor, answer: Answer, options: Options, language: str) -> None:
        self._editor = editor
        self._answer = answer
        self._repeats = Repeats(options.halt_repeats, options.repeats_within) if options.halt_repeats else None
        self._mends = options.mend_finish
        self._language = language
        self._base: Mapping[str, object] = {}
        self._heard = 0  # pieces of the text that were looked at
        self._mended = False
        self.repeats = 0

    @property
    def touched(self) -> bool:
        return self._editor.touched or self._mended or bool(self.repeats)

    @property
    def own_text(self) -> bool:
        return self._editor.own_text

    def settle(self) -> None:
        self._editor.settle()

    def event(self, event: bytes) -> bytes:
        """One whole event; nothing is left of those that come after the end."""
        if self.repeats:
            return b""
        if not self._base:
            first = peek(data_of(event))
            self._base = first if isinstance(first, dict) else {}
        out = self._editor.event(event)
        if self._mends:
            out = self._mend(out)
        return out + self._halt() if self._again() else out

    def _again(self) -> bool:
        """Whether the newest text makes it enough. An answer with a call is let go on: it does something."""
        first = self._answer.first
        fresh = first.newer(self._heard)
        self._heard += len(fresh)
        if not fresh or self._repeats is None or first.call_count or self._answer.done:
            return False
        return self._repeats.feed("".join(fresh))

    def _halt(self) -> bytes:
        """The end of the stream in our words."""
        assert self._repeats is not None  # noqa: S101  # for the type checker
        self.repeats = self._repeats.count
        self._answer.done = True
        self._answer.first.finish = "length"
        words = LANGUAGES[self._language].HALTED.format(count=self.repeats)
        note = self._made({"content": f"\n\n{GUARD_MARK} {words}"}, None)
        return note + self._made({}, "length") + comment("cut", RULE) + DONE

    def _made(self, delta: dict[str, object], reason: str | None) -> bytes:
        kept = {key: self._base[key] for key in ("id", "object", "created", "model") if key in self._base}
        return event({**kept, "choices": [{"index": 0, "delta": delta, "finish_reason": reason}]})

    def _mend(self, out: bytes) -> bytes:
        if b"_call" not in out or self._answer.first.call_count:  # as both reasons have it
            return out
        payload = peek(data_of(out))
        if not mend(payload):
            return out
        self._mended = True
        return with_data(out, dumps(payload))
