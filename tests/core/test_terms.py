"""On what terms an answer is kept back: defaults, bounds, and what is refused in which words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from guardproxy.core.terms import LONGEST_HOLD_S, REASKS, Approvals, Checkpoints, Final

WEEK, MONTH = 7 * 86_400, 30 * 86_400

BOUNDS: dict[str, tuple[Callable[[float], object], tuple[float, ...], tuple[float, ...], str]] = {
    # what is made, what is allowed, what is not, the words for it
    "retries": (lambda n: Final(retries=int(n)), (0, 10), (11,), "^retries: must not be above 10"),
    "hold_seconds": (
        lambda s: Approvals(hold_seconds=s), (1, 240), (0.5, 0, -1, 241), "^hold_seconds: must be 1 to 240"),
    "expire_seconds": (
        lambda s: Approvals(expire_seconds=s), (1, WEEK), (0, WEEK + 1), "^expire_seconds: must be between a second"),
    "max_kb": (lambda n: Checkpoints(max_kb=int(n)), (1, 65_536), (0, 65_537), "^max_kb: must be 1 to 65536"),
    "ttl_seconds": (
        lambda s: Checkpoints(ttl_seconds=s), (60, MONTH), (59, MONTH + 1), "^ttl_seconds: must be between a minute"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds(name: str) -> None:
    make, allowed, refused, words = BOUNDS[name]
    for value in allowed:
        make(value)
    for value in refused:
        with pytest.raises(ValueError, match=words):
            make(value)


def test_what_nobody_configures_is_safe() -> None:
    assert Final() == Final(hold=False, retries=2, on_failure="deliver")
    assert Approvals() == Approvals(way="answer", hold_seconds=LONGEST_HOLD_S, expire_seconds=86_400, on_expiry="deny")
    assert Checkpoints().enabled is False
    assert REASKS == 2


def test_no_request_is_held_longer_than_clients_wait() -> None:
    assert LONGEST_HOLD_S < 300
