"""Where the numbers of the cases come from: the thresholds of a preset. A moved threshold moves every case with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from guardproxy.core.model import Rung, Triple
from guardproxy.core.presets import preset_settings

At = Callable[[int], int]
"""The number of moves played when the request goes out that carries the n-th occurrence."""

FINALS = 3
"""How often the final text is given (DESIGN section 7) before HTTP 400."""


def each(count: int) -> int:
    """Every move is an occurrence."""
    return count


def every_other(count: int) -> int:
    """One move between two occurrences."""
    return 2 * count - 1


def laps_of(period: int) -> At:
    """An occurrence is a lap of so many moves."""
    return lambda count: count * period


@dataclass(frozen=True, slots=True)
class Marks:
    """The counts of one ladder."""

    nudge: int
    firm: int
    cut: int

    def later(self, *by: int) -> Marks:
        """The same ladder where each rung comes so much later; a rung that never comes stays away."""
        return Marks(
            *(count and count + more for count, more in zip((self.nudge, self.firm, self.cut), by, strict=True))
        )

    @property
    def last(self) -> int:
        """The highest count that the ladder knows."""
        return self.cut or self.firm or self.nudge

    def ladder(self, at: At = each, *, upto: int = 0, held: bool = False) -> dict[int, str]:
        """The verdict on each request at which a rung is first reached; `upto`: so many moves are played.

        `held`: the count stays where it is in between, and a finalize is said again with every request until the cut.
        After the cut come the other final texts, then the error, which stays (`Scene.expected`).
        """
        triple, found, reached = Triple(self.nudge, self.firm, self.cut), {}, Rung.OBSERVE
        for count in range(1, self.last + 1):
            if triple.rung(count) > reached:
                reached = triple.rung(count)
                found[at(count)] = reached.name.lower()
            if held and reached is Rung.FINALIZE:
                found |= dict.fromkeys(range(at(count), at(count + 1)), "finalize")
        if self.cut:
            cut = at(self.cut)
            found |= {cut + more: "cut" for more in range(1, FINALS)} | {cut + FINALS: "over"}
        return {turn: verdict for turn, verdict in found.items() if not upto or turn <= upto}

    def whole(self, at: At = each) -> int:
        """How many moves show all of it: up to the second error, or one past the last rung."""
        return at(self.cut) + FINALS + 1 if self.cut else at(self.last) + 1


class Thresholds:
    """The settings of one preset."""

    def __init__(self, preset: str = "balanced") -> None:
        self.preset = preset
        self._settings = preset_settings(preset)

    def __call__(self, rule: str, name: str = "triple") -> Marks:
        """The ladder of a rule; `name`: of which of its triples."""
        triple: Triple = getattr(self._settings[rule], name)
        return Marks(triple.nudge, triple.firm, triple.cut)

    def setting(self, rule: str, name: str) -> Any:
        """A setting that is no ladder."""
        return getattr(self._settings[rule], name)
