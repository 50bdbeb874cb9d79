"""Which turns are stopped when a run was cut, and that nothing is asked where nothing runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from guardproxy.errors import StoreError
from guardproxy.http import watching

TURN = {"session": "s", "now_ms": 100}


class Runs:
    """A store's runs: which were stopped when, or an error."""

    def __init__(self, *answers: Mapping[str, int] | Exception) -> None:
        self._answers = list(answers)
        self.since: list[int] = []

    async def stopped(self, _org: str, since_ms: int) -> Mapping[str, int]:
        self.since.append(since_ms)
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


class Running:
    """A turn under way, as far as it is looked at. `seen`: what the client has of a stream."""

    def __init__(self, session: str, now_ms: int, *, begun: bool = True, settled: bool = False, **seen: bool) -> None:
        self.seen = SimpleNamespace(session=session, now_ms=now_ms)
        self.opening = SimpleNamespace(org="default")
        self.view = self.seen if begun else None
        self.settled = settled
        self.response = object() if seen else None
        watcher = SimpleNamespace(complete=seen.get("complete", False), holding=seen.get("holding", False))
        self.look = SimpleNamespace(watcher=watcher) if seen else None
        self.stopped = ""

    def stop(self, why: str) -> None:
        self.stopped = why


@asynccontextmanager
async def watched(runs: Runs, *turns: Running) -> AsyncIterator[None]:
    proxy: Any = SimpleNamespace(turns=set(turns), books=SimpleNamespace(runs=runs))
    task = asyncio.get_running_loop().create_task(watching.watch(proxy))
    try:
        yield
    finally:
        task.cancel()


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "LOOK_S", 0.01)


WHICH: dict[str, tuple[Running, bool]] = {
    "of the run": (Running("s", 100), True),
    "that began at that moment": (Running("s", 150), True),
    "of a run that goes on": (Running("other", 100), False),
    "that began after the cut: it was let go on": (Running("s", 151), False),
    "not begun yet": (Running("s", 100, begun=False), False),
    "settled": (Running("s", 100, settled=True), False),
    "whose text flows": (Running("s", 100, complete=False), True),
    "whose call is held": (Running("s", 100, complete=True, holding=True), True),
    "whose answer the client has": (Running("s", 100, complete=True), False),
}


@pytest.mark.parametrize("name", WHICH)
async def test_which_turns_are_stopped(name: str) -> None:
    turn, expected = WHICH[name]
    async with watched(Runs({"s": 150}), turn):
        await asyncio.sleep(0.05)

    assert bool(turn.stopped) is expected


async def test_the_store_is_asked_since_the_oldest_turn_and_only_where_one_runs() -> None:
    runs, idle = Runs({}), Runs({})
    async with watched(runs, Running("a", 300), Running("b", 200)), watched(idle):
        await asyncio.sleep(0.05)

    assert set(runs.since) == {200}
    assert idle.since == []


async def test_a_store_that_was_away_is_asked_again() -> None:
    turn = Running("s", 100)
    async with watched(Runs(StoreError("away"), StoreError("away"), {"s": 150}), turn):
        await asyncio.sleep(0.1)

    assert turn.stopped == watching.WHY
