"""`unchanged_poll`: looks at something that is not ready; patience, targets, progress."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.unchanged_poll import Settings, detect
from tests.core.detectors.scripts import Turn, trails


def poll(number: int, answer: str = "still running") -> Turn:
    return ("status", f'{{"id":{number}}}', answer)


@pytest.mark.parametrize(
    ("turns", "pause_ms", "count"),
    [
        ([poll(1)], 4000, None),
        ([poll(1)] * 8, 4000, 8),
        ([poll(1)] * 8, 45_000, 8),
        ([poll(1)] * 8, 45_001, 4),
        ([poll(1)] * 9, 60_000, 5),
        ([poll(1), poll(2)] * 4, 4000, 4),
        ([poll(1), ("read", "{}", "x")] * 4 + [poll(1)], 4000, 5),
        ([poll(1)] * 4 + [poll(1, "step 2 of 9, running")] + [poll(1)] * 3, 4000, 3),
        ([poll(1)] * 4 + [poll(1, "done")], 4000, None),
        ([("bash", '{"command":"sleep 50; curl -s x"}', "it is well")] * 8, 4000, 4),
        ([poll(1), ("sleep", '{"seconds":20}', "")] * 7 + [poll(1)], 4000, 8),
        ([poll(1), ("sleep", '{"seconds":50}', "")] * 7 + [poll(1)], 4000, 4),
        ([poll(1), ("sleep", '{"seconds":25}', ""), ("sleep", '{"seconds":25}', "")] * 7 + [poll(1)], 4000, 4),
        ([poll(1)] * 3 + [("read", f'{{"n":{n}}}', "x") for n in range(7)] + [poll(1)] * 2, 4000, 2),
    ],
)
def test_counts(turns: list[Turn], pause_ms: int, count: int | None) -> None:
    found = detect(trails(turns, pause_ms)[-1], Settings())
    assert (found.count if found else None) == count


def test_of_several_targets_in_a_round_the_most_asked_one_is_told() -> None:
    both: Turn = [("status", '{"id":1}', "still running"), ("status", '{"id":2}', "still running")]
    found = detect(trails([poll(1), poll(1), both])[-1], Settings())
    assert found is not None
    assert found.count == 3
    assert len(found.members) == 1
