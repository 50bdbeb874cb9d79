"""How many series there may be: of a label, of an instrument, of a whole proxy. What is over the bound is `_other`.

The first values and series keep their names for as long as the process lives, so that no counter ever falls. Workers
bound their own, and the parent bounds their sum: eight workers with fifty names each are four hundred.
"""

from __future__ import annotations

from guardproxy.telemetry import semconv as s
from guardproxy.telemetry._instruments import TABLE, Instrument

MAX_SAMPLES = 50_000
"""Time series in one scrape, each bucket of a histogram counted: the documented bound of a proxy, workers and all."""

MAX_SERIES = 2000
"""Series of one counter or gauge, as in the OpenTelemetry SDK."""

MAX_HISTOGRAMS = 500
"""Series of one histogram: each is a dozen time series or more."""

MAX_VALUES = {
    s.ORG: 200,
    s.TEAM: 200,
    s.GEN_AI_AGENT: 200,
    s.GEN_AI_TOOL: 100,
    s.GEN_AI_REQUEST_MODEL: 100,
    s.GEN_AI_RESPONSE_MODEL: 100,
}
"""How many values a label may take; they come from clients, so that the first ones win."""

MAX_VALUES_ELSE = 50
"""For every other label."""

MAX_CHARS = 100
"""Of a label's value."""

Labels = tuple[str, ...]


def most(instrument: Instrument) -> int:
    """How many series an instrument may have, the one of what is over the bound included."""
    return MAX_HISTOGRAMS if instrument.kind == "histogram" else MAX_SERIES


_KEPT_BACK = sum(instrument.samples for instrument in TABLE)  # each has its series for what is over the bound


class Bounds:
    """Which values and series have names by now."""

    __slots__ = ("_samples", "_series", "_values")

    def __init__(self) -> None:
        self._values: dict[str, set[str]] = {}
        self._series: dict[str, set[Labels]] = {}
        self._samples = _KEPT_BACK

    def key(self, instrument: Instrument, labels: tuple[object, ...]) -> Labels:
        """The series that a value with these labels belongs to. ValueError for too few or too many labels."""
        key = tuple([self._value(label, value) for label, value in zip(instrument.labels, labels, strict=True)])
        known = self._series.setdefault(instrument.name, set())
        if key in known:
            return key
        other = (s.OTHER,) * len(key)
        if len(known) >= most(instrument) - 1 or self._samples + instrument.samples > MAX_SAMPLES:
            return other
        if key != other:  # that one has its place already
            known.add(key)
            self._samples += instrument.samples
        return key

    def _value(self, label: str, value: object) -> str:
        text = str(value)[:MAX_CHARS].encode(errors="replace").decode()
        known = self._values.setdefault(label, set())
        if text in known or not text:
            return text
        if len(known) >= MAX_VALUES.get(label, MAX_VALUES_ELSE):
            return s.OTHER
        known.add(text)
        return text
