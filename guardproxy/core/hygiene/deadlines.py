"""deadlines: which calls were answered later than their tool's deadline, or not at all (`tools.deadlines`)."""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.core.hygiene._case import Case, Cleaned


@dataclass(frozen=True, slots=True)
class Settings:
    """The deadlines themselves are rules of tools: `tools.deadlines`."""

    mode: str = "off"


def tidy(case: Case, settings: Settings) -> Cleaned:
    """The calls that are past their deadline; a late result is told so."""
    return Cleaned()
