"""What a kind of hygiene may know of a request, and what it answers: values, and the newest results as steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeVar

from guardproxy.core.advice import LANGUAGES
from guardproxy.core.edit import AppendText, Edit
from guardproxy.core.envelope import opened
from guardproxy.core.fingerprint import GUARD_MARK, Fingerprinter, strip_own
from guardproxy.core.model import Ask, Call, Message, Step, value
from guardproxy.core.outcome import body
from guardproxy.core.rounds import Round, latest
from guardproxy.core.session import AT_MOST
from guardproxy.core.tool_rules import ToolRule

Mode = Literal["off", "observe", "enforce"]
"""What is done by a kind of hygiene: nothing, only said, or done."""

T = TypeVar("T")


@value
class Done:
    """What was done (mode enforce) or would have been done (observe) to one new result. `what`: one word for reports.

    `index`: of the result in the request; of the assistant message where a call has no result.
    """

    name: str
    mode: str
    tool: str
    index: int
    what: str = ""


@value
class Fatal:
    """A tool that is gone for good. `action`: finalize or pause, as the settings say. `reason`: for people."""

    action: str
    tool: str
    reason: str


@value
class Cleaned:
    """The edits of a request, what they were for, and whether the run cannot go on. `errors`: parts that raised."""

    edits: tuple[Edit, ...] = ()
    done: tuple[Done, ...] = ()
    fatal: Fatal | None = None
    errors: tuple[str, ...] = ()


@value
class Result:
    """A new result, its call, and the step that they make: whether it failed is judged there and nowhere else."""

    index: int
    call: Call
    message: Message
    step: Step

    @property
    def inner(self) -> str:
        """The text without our words and without what a client puts around it."""
        return inner(self.message)


def inner(message: Message) -> str:
    """A result's text without our words and without what a client puts around it."""
    raw = strip_own(message.text)
    found = opened(raw)
    return body(raw if found is None else found.text)


@dataclass(frozen=True)
class Case:
    """One request. `whole` gives the ask with all messages in its tail; `deadlines`: seconds by glob of the tool.

    `long`, where a surface has it, gives the results before the tail that may have more than so many bytes.
    """

    ask: Ask
    whole: Callable[[], Ask]
    printer: Fingerprinter
    deadlines: Mapping[str, float]
    since_ms: int
    language: str
    long: Callable[[int], Sequence[tuple[int, Message]]] | None = None

    @cached_property
    def round(self) -> Round | None:
        """The newest assistant message with its results; None: there is none, or its calls stand in its text."""
        found = latest(self.ask)
        return None if found is None or found.written or not found.calls else found

    @cached_property
    def results(self) -> tuple[Result, ...]:
        """The new results, in the order of their calls."""
        newest = self.round
        if newest is None:
            return ()
        ask = self.ask
        places = {id(one): ask.tail_start + at for at, one in enumerate(ask.tail) if one.role == "tool"}
        pairs = zip(newest.calls[:AT_MOST], newest.results[:AT_MOST], strict=True)
        return tuple(
            Result(places[id(result)], call, result, self.step(call, result)) for call, result in pairs if result
        )

    def step(self, call: Call, result: Message) -> Step:
        """The step of a call with its result."""
        return self.printer.step(call, result, first=True, at_ms=0, defaults=self.ask.defaults.get(call.name, {}))

    def note(self, index: int, text: str) -> AppendText:
        """Our words behind the result at `index`, in the one form that all of them have."""
        return AppendText(index, f"\n\n{own(self.language, text)}")


def own(language: str, text: str) -> str:
    """Words of ours in the form that all have: the mark, who speaks, what is said."""
    words = LANGUAGES[language]
    return f"{GUARD_MARK} {words.SOURCE}{words.JOIN}{text}"


def chosen(by_glob: Mapping[str, T], tool: str, default: T) -> T:
    """What is set for the tool: the first glob that fits, as everywhere in the rules of tools."""
    return next((found for pattern, found in by_glob.items() if ToolRule(pattern).concerns(tool)), default)
