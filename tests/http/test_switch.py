"""The panic switch: what the store could not take is kept, told, and not told twice."""

from __future__ import annotations

import pytest

from guardproxy.errors import StoreError
from guardproxy.http.switch import Switch, stood


class FakeStore:
    def __init__(self) -> None:
        self.on = False
        self.away = False
        self.written: list[bool] = []

    async def panic(self, on: bool | None) -> bool:
        if self.away:
            raise StoreError("gone")
        if on is not None:
            self.on = on
            self.written.append(on)
        return self.on


async def test_how_it_stood() -> None:
    switch = Switch(store := FakeStore())  # type: ignore[arg-type]
    assert await stood(switch.panic) is False
    await switch.panic(True)
    assert await stood(switch.panic) is True
    store.away = True
    assert await stood(switch.panic) is None


async def test_the_store_has_the_truth() -> None:
    switch = Switch(store := FakeStore())  # type: ignore[arg-type]

    assert await switch.panic(None) == (False, False)
    assert await switch.panic(True) == (True, False)
    store.on = False  # by another machine
    assert await switch.panic(None) == (False, False)
    await switch.catch_up()
    assert store.written == [True]


async def test_what_the_store_missed_is_told_once() -> None:
    switch = Switch(store := FakeStore())  # type: ignore[arg-type]
    store.away = True
    assert await switch.panic(False) == (False, True)
    assert await switch.panic(True) == (True, True)
    assert await switch.panic(None) == (True, True)
    await switch.catch_up()
    store.away = False
    for _ in range(2):
        await switch.catch_up()

    assert store.written == [True]
    assert await switch.panic(None) == (True, False)


async def test_a_later_word_wins() -> None:
    switch = Switch(store := FakeStore())  # type: ignore[arg-type]
    store.away = True
    await switch.panic(True)
    store.away = False
    await switch.panic(False)
    await switch.catch_up()

    assert store.written == [False]


async def test_nothing_is_known_while_the_store_is_away() -> None:
    switch = Switch(store := FakeStore())  # type: ignore[arg-type]
    store.away = True
    with pytest.raises(StoreError):
        await switch.panic(None)
