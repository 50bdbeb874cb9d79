"""`tally`: the number of failures that a result tells."""

from __future__ import annotations

import pytest

from guardproxy.core.tally import EDGE, LAST, failures, passed


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("3 failed", 3),
        ("==== 3 failed, 12 passed in 0.21s ====", 3),
        ("2 failed, 1 error in 3s", 3),
        ("Tests run: 5, Failures: 1, Errors: 2, Skipped: 0", 3),
        ("FAILED (failures=2, errors=1)", 3),
        ("Tests: 4 failed, 6 passed", 4),
        ("4 tests failed", 4),
        ("1 failed\n...\n2 failed", 2),  # the sum stands at the end
        ("all well", -1),
        ("AssertionError: 3 != 4", -1),
        ("failed in 3.2 failed", -1),
        ("0 failed", 0),
        ("9 failed" + "\n" + "x" * EDGE, -1),
        ("", -1),
    ],
)
def test_failures(text: str, count: int) -> None:
    assert failures(text) == count


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("==== 12 passed in 0.21s ====", True),
        ("ok (12 tests)", True),
        ("ok then", False),
        ("Tests: 0 failed, 6 passed, 6 total\nTime: 1s", True),
        ("ok  \texample.com/x\t0.42s\n", True),
        ("running 3 tests\ntest result: ok. 3 passed; 0 failed", True),
        ("OK (12 tests)", True),
        ("BUILD SUCCESSFUL in 3s", True),
        ("Success: no issues found in 12 source files", True),
        ("All 12 tests passed", True),
        ("0 passed", False),
        ("token refreshed", False),
        ("accuracy 0.83", False),
        ("there is no book on it", False),
        ("12 passed" + "x" * LAST, False),
        ("", False),
    ],
)
def test_passed(text: str, *, expected: bool) -> None:
    assert passed(text) is expected
