"""How long each detector takes, on one turn in 256: a clock around each on every turn would cost as much as they do.

The first turns are looked at more often, so that a proxy of little traffic has the metric, too.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from guardproxy.core import session
from guardproxy.core.detectors import RULES
from guardproxy.core.detectors._signs import signs
from guardproxy.telemetry import Telemetry

if TYPE_CHECKING:
    from guardproxy.core.policy import Policy
    from guardproxy.core.view import View

EVERY = 256
"""Turns of which one is timed: its detectors are asked once more, after the answer is out."""


class Timing:
    """Of one worker."""

    __slots__ = ("_gap", "_left", "_telemetry")

    def __init__(self, telemetry: Telemetry) -> None:
        self._telemetry = telemetry
        for rule in RULES:  # so that the first error is seen as one
            telemetry.count("guardproxy.detector.errors", {"rule": rule}, 0)
        self._gap, self._left = 1, 0

    def turn(self, view: View, policy: Policy) -> None:
        """A turn is over."""
        self._left -= 1
        if self._left <= 0 and view.admitted and view.steps:
            self._left = self._gap
            self._gap = min(2 * self._gap, EVERY)
            self.measure(view, policy)

    def measure(self, view: View, policy: Policy) -> None:
        """Ask each detector that this turn asked, with a clock beside it."""
        trail = session.trail(view)
        if not trail.steps:
            return
        for rule, settings in policy.asked(signs(trail)):
            began = time.perf_counter()
            try:
                RULES[rule].detect(trail, settings)
            except Exception:  # noqa: BLE001, S112  # it was counted and told when the turn asked
                continue
            took = time.perf_counter() - began
            self._telemetry.count("guardproxy.detector.duration", {"rule": rule}, took)
