"""`pause`: how long a call says that it waits."""

from __future__ import annotations

import pytest

from guardproxy.core.pause import LONGEST_MS, announced_ms


@pytest.mark.parametrize(
    ("arguments", "shell", "expected"),
    [
        ('{"command":"sleep 45"}', True, 45_000),
        ('{"command":"sleep 0.5m"}', True, 30_000),
        ('{"command":"sleep 2h && date"}', True, 7_200_000),
        ('{"command":["bash","-lc","sleep 5"],"workdir":"/app"}', True, 5_000),
        ('{"command":"sleep 99999999"}', True, LONGEST_MS),
        ('{"seconds": 30}', False, 30_000),
        ('{"time":2}', False, 2_000),
        ('{"time":1500}', False, 1_500),
        ('{"duration": "2.5"}', False, 2_500),
        ('{"ms":400}', False, 400),
        ('{"wait_ms":400,"x":1}', False, 400),
        ('{"duration_seconds":90}', False, 90_000),
        ('{"minutes":5}', False, 300_000),
        ('{"timeout_ms":60000}', False, 0),  # it may be over sooner
        ('{"text":"Done"}', False, 0),
        ('{"thought":"sleep 5"}', False, 0),
        ("", False, 0),
        ('{"seconds":"soon"}', False, 0),
    ],
)
def test_announced(arguments: str, *, shell: bool, expected: int) -> None:
    assert announced_ms(arguments, shell=shell) == expected
