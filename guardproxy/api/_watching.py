"""How every surface watches one answer: the bytes go to the client, a copy is read.

Untouched answers are read in batches, after the bytes have gone: `feed` hands back the very object it got. Edited ones
are handed on event by event. Never raises on what a provider sends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

from guardproxy.api._chat_halt import OFF, Options
from guardproxy.api._gate import Gate, Joint
from guardproxy.api._gated import Editor, Events, GatedStream
from guardproxy.api._passing import Edited
from guardproxy.api._watcher import Kept, Watcher, Way
from guardproxy.api._whole import Body, Form, Whole
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Ask

_made = tuple.__new__  # a named tuple of all its fields at half the price


class Wishes(NamedTuple):
    """What is to be made of an answer. `text`: stands in the place of its calls, and of an answer without words."""

    strip_usage: bool
    text: str | None
    options: Options
    language: str
    gate: Gate | None
    joint: Joint | None


class Dialect(Kept, Protocol):
    """One answer as a surface reads it.

    `editor`: who reads a stream that is handed on in whole events; `edits`: there is something to be done to them.
    `clears`: what is edited is made clear before, as what is judged always is. `gated`: the same editor with the events
    of a stream that is judged; `passing`: a stream that nothing is done to. `form`: of an answer in one piece; `take`:
    who reads one that nothing is done to.
    """

    @property
    def edits(self) -> bool: ...
    @property
    def clears(self) -> bool: ...
    @property
    def take(self) -> Callable[[dict[str, object]], None]: ...
    def editor(self) -> Editor: ...
    def gated(self) -> tuple[Editor, Events[Any]]: ...
    def passing(self) -> Way: ...
    def form(self) -> Form: ...


class Watch:
    """The `watch` of a surface."""

    def __init__(self, dialect: Callable[[Ask, Wishes], Dialect]) -> None:
        self._dialect = dialect

    def __call__(
        self,
        ask: Ask,
        *,
        strip_usage: bool = False,
        drop: DropCalls | None = None,
        status: int = 200,
        content_type: str = "text/event-stream",
        options: Options = OFF,
        language: str = "en",
        gate: Gate | None = None,
        joint: Joint | None = None,
    ) -> Watcher:
        """A watcher for the answer to `ask`. An error answer and one with several choices are never edited, nor held.

        `joint`: what earlier attempts of the turn gave the client; this one goes on with it.
        """
        ok = 200 <= status < 300
        if not ok or ask.choices != 1:
            drop = gate = joint = None
            options = OFF
        text = drop.text if drop is not None else None
        dialect = self._dialect(ask, _made(Wishes, (strip_usage and ok, text, options, language, gate, joint)))
        judged = gate is not None or joint is not None
        kind = content_type.lower()
        if not ("event-stream" in kind or ("json" not in kind and ask.stream)):
            if not judged and text is None and not options.mend_finish:
                return Watcher(Body(dialect.take), dialect, ok=ok)
            whole = Whole(dialect.form(), dialect.answer, text, gate, joint, mends=options.mend_finish)
            return Watcher(whole, dialect, ok=ok, holder=whole if judged else None)
        if not judged and not dialect.edits:
            return Watcher(dialect.passing(), dialect, ok=ok)
        if not judged and not dialect.clears:
            return Watcher(Edited(dialect.editor()), dialect, ok=ok)
        editor, events = dialect.gated()
        gated = GatedStream(events, editor, dialect.answer, gate)
        return Watcher(gated, dialect, ok=ok, holder=gated)
