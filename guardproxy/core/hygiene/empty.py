"""empty: a result with nothing in it is told what that means, where silence is not how the tool says "done"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from guardproxy.core.hygiene._case import Case, Cleaned


@dataclass(frozen=True, slots=True)
class Settings:
    """`templates`: what an empty result means, by glob of the tool; the first that fits, "" = nothing is said.

    Placeholders: `{tool}`, `{arguments}`, and `{name}` for the argument of that name. One paragraph each.
    """

    mode: str = "off"
    templates: Mapping[str, str] = field(default_factory=dict)


def tidy(case: Case, settings: Settings) -> Cleaned:
    """The meaning of each new result that is empty."""
    return Cleaned()
