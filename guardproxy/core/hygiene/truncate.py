"""truncate: a tool result that is too long is cut in its middle, with a mark that says how much and how to get it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from guardproxy.core.hygiene._case import Case, Cleaned

LEAST = 200
"""Tokens below which hardly more than the mark would be left."""


@dataclass(frozen=True, slots=True)
class Settings:
    """`max_tokens` of one result, estimated as everywhere: four bytes each. `tools`: other numbers by glob of the tool,
    0 = whole. `head_percent`: how much of what is kept stands in front. Raises ValueError for what would keep nothing.
    """

    mode: str = "off"
    max_tokens: int = 10_000
    head_percent: int = 60
    tools: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse what cannot be meant."""
        if self.max_tokens < LEAST:
            raise ValueError(f"max_tokens: must be at least {LEAST}")
        if not 0 <= self.head_percent <= 100:
            raise ValueError("head_percent: must be from 0 to 100")
        for pattern, most in self.tools.items():
            if not pattern.strip() or 0 < most < LEAST or most < 0:
                raise ValueError(f"tools.{pattern}: must be 0 (whole) or at least {LEAST}")


def tidy(case: Case, settings: Settings) -> Cleaned:
    """Replacements for every result of the conversation that is too long, the same text each time."""
    return Cleaned()
