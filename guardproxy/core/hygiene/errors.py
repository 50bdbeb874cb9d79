"""errors: a failed call is told what kind of failure it is and what to do: change it, wait, or do without the tool.

Whether a call failed is judged as detectors judge it (`Flag.FAILED`); of what failed, only what is plain gets a kind.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from guardproxy.core.advice import LANGUAGES, quoted
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.hygiene import _error_kind
from guardproxy.core.hygiene._case import Case, Cleaned, Done, Fatal, Mode, Result, inner
from guardproxy.core.model import Ask, Call, Flag, Message
from guardproxy.core.rounds import rounds

NAMED = 8
"""Tools that are named where the one that was called does not exist."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Recoverable failures are told how to fix them. Transient ones are told to wait `wait_seconds`, doubled with each
    failure of the same call up to `longest_seconds`; after `retries` of them in a row the call is not to be made again.
    A tool that is gone for good ends the run by `on_fatal` (tell: only say so; finalize; pause) when it has failed so
    `fatal_after` times in the conversation. `fatal_words`, `transient_words`: more words by which those are known.
    Raises ValueError for what cannot be meant.
    """

    mode: Mode = "off"
    retries: int = 5
    wait_seconds: int = 2
    longest_seconds: int = 300
    on_fatal: Literal["tell", "finalize", "pause"] = "finalize"
    fatal_after: int = 2
    fatal_words: tuple[str, ...] = ()
    transient_words: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        for name in ("retries", "wait_seconds", "fatal_after"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: must be at least 1")
        if self.longest_seconds < self.wait_seconds:
            raise ValueError("longest_seconds: must not be less than wait_seconds")
        for name in ("fatal_words", "transient_words"):
            if not all(word.strip() for word in getattr(self, name)):
                raise ValueError(f"{name}: an empty word is in every text")

    def wait(self, count: int, asked: int = 0) -> int:
        """Seconds to wait after so many failures in a row. `asked`: what the failure itself asks for, if it does."""
        doubled = self.wait_seconds << min(count - 1, 30)
        return min(max(doubled, asked), self.longest_seconds)


def tidy(case: Case, settings: Settings) -> Cleaned:
    """What to do about each new result that failed, where that is known."""
    edits, done, fatal = [], [], None
    for result in case.results:
        if not result.step.flags & Flag.FAILED:
            continue
        text = result.inner
        kind = _kind(text, result.call, result.step.flags, case, settings)
        if not kind:
            continue
        edits.append(case.note(result.index, _advice(kind, text, result, case, settings)))
        done.append(Done("errors", settings.mode, result.step.tool, result.index, kind))
        if kind == "fatal" and settings.on_fatal != "tell":
            fatal = fatal or _end(result, case, settings)
    return Cleaned(tuple(edits), tuple(done), fatal)


def _kind(text: str, call: Call, flags: Flag, case: Case, settings: Settings) -> str:
    if flags & Flag.NO_TOOL and call.name in case.ask.tools:
        return "fatal"  # the request offers what whoever runs it does not know
    words = (settings.fatal_words, settings.transient_words)
    return _error_kind.kind(text, call.name, flags, case.printer.rules, *words)


def _advice(kind: str, text: str, result: Result, case: Case, settings: Settings) -> str:
    words = LANGUAGES[case.language]
    tool = quoted(result.step.tool) or "-"
    if kind != "transient":
        named = ", ".join(quoted(name) for name in case.ask.tools[:NAMED]) or "-"
        return str(words.ERRORS[kind]).format(tool=tool, tools=named)
    count = _in_a_row(result, case, settings)
    if count > settings.retries:
        return str(words.ERRORS["spent"]).format(tool=tool, count=count, retries=settings.retries)
    seconds = settings.wait(count, _error_kind.asked_seconds(text))
    return str(words.ERRORS["transient"]).format(tool=tool, count=count, retries=settings.retries, seconds=seconds)


def _end(result: Result, case: Case, settings: Settings) -> Fatal | None:
    """The end of the run, where the tool has failed for good often enough."""
    name = result.call.name
    failed = [
        1
        for call, message in _answered(case.whole())
        if call.name == name and _failed_as(call, message, case, settings) == "fatal"
    ]
    if len(failed) < settings.fatal_after:
        return None
    tool = quoted(result.step.tool) or "-"
    return Fatal(settings.on_fatal, tool, f"{tool} is not available for good: it failed so {len(failed)} times")


def _in_a_row(result: Result, case: Case, settings: Settings) -> int:
    """How often this very call has failed for a passing reason since it last did otherwise, this time included."""
    near = _nearness(case.printer, case.ask)
    same, count = near(result.call), 0
    for call, message in reversed(_answered(case.whole())):
        if call.name == result.call.name and near(call) == same:
            if _failed_as(call, message, case, settings) != "transient":
                break
            count += 1
    return max(count, 1)


def _nearness(printer: Fingerprinter, ask: Ask) -> Callable[[Call], bytes]:
    return lambda call: printer.near(call, ask.defaults.get(call.name, {}))


def _answered(ask: Ask) -> Sequence[tuple[Call, Message]]:
    """The calls of a conversation that have a result, in their order; equal ones of one message once."""
    found: list[tuple[Call, Message]] = []
    for turn in rounds(ask):
        once = {(call.name, call.arguments): (call, one) for call, one in _pairs(turn.calls, turn.results)}
        found += once.values()
    return found


def _pairs(calls: Sequence[Call], results: Sequence[Message | None]) -> list[tuple[Call, Message]]:
    return [(call, one) for call, one in zip(calls, results, strict=True) if one is not None]


def _failed_as(call: Call, message: Message, case: Case, settings: Settings) -> str:
    """The kind of failure that a result of the conversation is; "" for none."""
    flags = case.step(call, message).flags
    return _kind(inner(message), call, flags, case, settings) if flags & Flag.FAILED else ""
