"""The memo is bounded, and keeps what is asked for."""

from __future__ import annotations

from guardproxy.core.memo import Memo


def test_what_is_not_there() -> None:
    assert Memo[int, str](2)[1] is None


def test_it_is_bounded() -> None:
    memo = Memo[int, int](10)
    for key in range(1000):
        assert memo.keep(key, key) == key
        assert len(memo) + len(memo._older) <= 20
    assert [memo[key] for key in (0, 900, 999)] == [None, None, 999]


def test_what_is_asked_for_stays() -> None:
    memo = Memo[int, str](10)
    memo.keep(7, "kept")
    for key in range(100, 1000):
        memo.keep(key, "")
        assert memo[7] == "kept"


def test_a_full_memo_forgets_only_the_older_half() -> None:
    memo = Memo[int, int](4)
    for key in range(5):
        memo.keep(key, key)

    assert [memo[key] for key in range(5)] == [0, 1, 2, 3, 4]
