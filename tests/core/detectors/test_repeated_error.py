"""`repeated_error`: the same failing call in a row, by the kind of its error; retries with backoff get one more."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.repeated_error import Settings, detect
from guardproxy.core.exemption import Exemption, Spared
from guardproxy.core.model import Rung, Trail
from tests.core.detectors.scripts import Turn, steps_of, trails

FULL: Turn = ("book", '{"seat":1}', "Error: no seat left")


def crash(line: int) -> Turn:
    return ("py", '{"code":"f()"}', f'File "x", line {line}\n  f()\nValueError: bad value')


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([FULL], None),
        ([FULL] * 3, 3),
        ([crash(n) for n in (3, 14, 159)], 3),
        ([FULL, ("book", '{"seat":1}', "Error: card refused"), FULL], None),
        ([FULL, ("book", '{"seat":2}', "Error: no seat left"), FULL], None),
        ([FULL, ("book", '{"seat":1}', "booked"), FULL], None),
        ([FULL, ("think", '{"thought":"again"}', ""), FULL, ("calculate", '{"e":"1+1"}', "2"), FULL], 3),
        ([("look", "{}", "fine")] * 3, None),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count


@pytest.mark.parametrize(
    ("times", "rung"),
    [
        ((0, 1000, 2000), Rung.NUDGE),
        ((0, 2000, 10_000), Rung.OBSERVE),
        ((0, 0, 0), Rung.NUDGE),
        ((0, 2000, 10_000, 40_000), Rung.NUDGE),
        ((0, 2000, 10_000, 40_000, 80_000), Rung.FIRM),  # the last pause is long and need not grow
        ((0, 2000, 10_000, 40_000, 80_000, 120_000), Rung.FIRM),
        ((0, 2000, 10_000, 40_000, 80_000, 120_000, 160_000), Rung.FINALIZE),
        ((0, 2000, 10_000, 40_000, 80_000, 120_000, 160_000, 200_000), Rung.CUT),
        ((0, 2000, 10_000, 12_000), Rung.FIRM),  # no backoff after all
        ((0, 60_000, 120_000), Rung.NUDGE),
    ],
)
def test_growing_pauses_earn_one_more(times: tuple[int, ...], rung: Rung) -> None:
    steps = [step for at in times for step in steps_of(("get", '{"u":"x"}', "503 Service Unavailable"), at)]
    found = detect(Trail(tuple(steps)), Settings())
    assert found is not None
    assert found.rung is rung
    later = len(times) < 8 and times[1:3] == (2000, 10_000) and times[-1] != 12_000
    at = tuple(range(len(times)))
    assert found.spared == (Spared(Exemption.GROWING_PAUSES, "repeated_error", len(times), at) if later else None)


def tries(*waits: str) -> list[Turn]:
    """The same call, failing each time, with these commands between."""
    get: Turn = ("get", '{"u":"x"}', "503 Service Unavailable")
    turns: list[Turn] = [get]
    for wait in waits:
        turns += [("bash", f'{{"command":"{wait}"}}', ""), get]
    return turns


@pytest.mark.parametrize(
    ("waits", "rung"),
    [
        (("sleep 5", "sleep 15"), Rung.OBSERVE),
        (("sleep 5", "sleep 15", "sleep 45"), Rung.OBSERVE),
        (("sleep 5", "sleep 15", "sleep 45", "sleep 120"), Rung.NUDGE),
        (("sleep 5", "sleep 15", "sleep 45", "sleep 120", "sleep 120"), Rung.FIRM),
        (("sleep 60", "sleep 60", "sleep 60"), Rung.OBSERVE),  # long enough by itself
        (("sleep 10", "sleep 10"), Rung.OBSERVE),
        (("sleep 10", "sleep 10", "sleep 10"), Rung.NUDGE),
        (("sleep 10", "sleep 5"), Rung.NUDGE),
        (("sleep 0.1", "sleep 0.2"), Rung.NUDGE),
        (("sleep 5", "true"), Rung.NUDGE),
    ],
)
def test_announced_waits_earn_more(waits: tuple[str, ...], rung: Rung) -> None:
    turns = [turn for turn in tries(*waits) if "true" not in turn[1]]  # type: ignore[operator, index]
    found = detect(trails(turns)[-1], Settings())
    assert found is not None
    assert found.rung is rung
    assert (found.spared is not None) == (found.rung < Settings().triple.rung(found.count))
