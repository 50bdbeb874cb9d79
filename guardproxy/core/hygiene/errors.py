"""errors: a failed call is told what kind of failure it is and what to do: change it, wait, or do without the tool."""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.hygiene._case import Case, Cleaned


@dataclass(frozen=True, slots=True)
class Settings:
    """Recoverable failures are told how to fix them. Transient ones are told to wait `wait_seconds`, doubled with each
    failure of the same call up to `longest_seconds`; after `retries` of them the call is not to be made again. A tool
    that is gone for good ends the run by `on_fatal` (tell: only say so; finalize; pause) when it has failed so
    `fatal_after` times in the conversation. `fatal_words`, `transient_words`: more texts by which those are known.
    """

    mode: str = "off"
    retries: int = 5
    wait_seconds: int = 2
    longest_seconds: int = 300
    on_fatal: str = "finalize"
    fatal_after: int = 2
    fatal_words: tuple[str, ...] = ()
    transient_words: tuple[str, ...] = ()


def tidy(case: Case, settings: Settings) -> Cleaned:
    """What to do about each new result that failed, where that is known."""
    return Cleaned()
