"""What the agent itself reports with its last request: artefacts, open items, failed validations.

The report is the header `x-guardproxy-progress`. Numbers that are not reported are not judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from guardproxy.core.bearing import ABSENT
from guardproxy.core.completion._candidate import Candidate
from guardproxy.core.completion._words import say, told
from guardproxy.core.progress import FIELDS


@dataclass(frozen=True, slots=True)
class Settings:
    """Bounds of the reported numbers; no most: no bound."""

    least: int = 0
    """Artefacts that there must be."""

    most_unresolved: int | None = None
    """Open items that there may be."""

    most_failures: int | None = None
    """Failed validations that there may be."""

    mode: Literal["off", "observe", "enforce"] = "enforce"

    @property
    def asks(self) -> bool:
        """Whether there is anything to check."""
        return self.least > 0 or (self.most_unresolved, self.most_failures) != (None, None)


def check(candidate: Candidate, settings: Settings, language: str) -> str | None:
    """Name the reported numbers that are out of bounds."""
    return told(language, _wrong(candidate.ask.declared.progress, settings, language))


def _wrong(report: tuple[int, ...], settings: Settings, language: str) -> Iterator[str]:
    numbers = {name: number for name, number in zip(FIELDS, report, strict=False) if number != ABSENT}
    made = numbers.get("artifacts", settings.least)
    if made < settings.least:
        yield say(language, "artifacts_few", count=str(made), least=str(settings.least))
    for name, most in (("unresolved", settings.most_unresolved), ("validation_failures", settings.most_failures)):
        count = numbers.get(name, 0)
        if most is not None and count > most:
            yield say(language, f"{name}_many", count=str(count), most=str(most))
