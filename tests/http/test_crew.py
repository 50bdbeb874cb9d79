"""The parent's view of its workers (whole ones at work: test_serve)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

import pytest

from guardproxy.errors import GuardError
from guardproxy.http import crew
from guardproxy.http.crew import Crew
from guardproxy.http.worker import listener
from guardproxy.store.embedded import Embedded
from guardproxy.telemetry import Fleet


def start(server: Embedded, port: int, document: Mapping[str, object] = {}):
    def of(name: str) -> dict[str, object]:
        return {
            "document": document,
            "secret": "0123456789abcdef",
            "socket_path": server.socket_path,
            "host": "127.0.0.1",
            "port": port,
            "name": name,
        }

    return of


async def test_a_worker_that_cannot_start_says_why(server: Embedded) -> None:
    with listener("127.0.0.1", 0) as held:
        made = Crew(1, start(server, held.getsockname()[1], {"listen": {"prot": 1}}), Fleet())
        try:
            with pytest.raises(GuardError, match=r"listen\.prot: unknown key"):
                await made.open()
        finally:
            await made.drain()


async def test_a_worker_that_cannot_listen_says_why(server: Embedded) -> None:
    with listener("127.0.0.1", 0, shared=False) as held:
        held.listen()
        made = Crew(1, start(server, held.getsockname()[1]), Fleet())
        try:
            with pytest.raises(GuardError, match=r"in use"):
                await made.open()
        finally:
            await made.drain()


@pytest.mark.parametrize("size", [1, 3])
async def test_what_cannot_be_told_to_a_worker_fails_the_start_at_once(
    server: Embedded, size: int, caplog: pytest.LogCaptureFixture
) -> None:
    """No JSON has such a number."""
    made = Crew(size, start(server, 0, {"listen": {"port": 10**30}}), Fleet())
    began = time.monotonic()
    try:
        with pytest.raises(GuardError, match=r"^a worker cannot be started: TypeError: "):
            await made.open()
    finally:
        await made.drain()

    assert time.monotonic() - began < 5
    assert "never retrieved" not in caplog.text


async def test_the_first_that_cannot_start_ends_the_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Crew(2, lambda name: {"name": name}, Fleet())

    async def live(slot: int, name: str) -> None:
        if slot:
            raise OSError("no descriptors")
        await asyncio.sleep(60)

    monkeypatch.setattr(made, "_live", live)
    with pytest.raises(GuardError, match=r"OSError: no descriptors"):
        await asyncio.wait_for(made.open(), 2)
    made.kill()
    for task in made._tasks:
        task.cancel()


async def test_life(server: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crew, "SHORTEST_PAUSE", 0.01)
    with listener("127.0.0.1", 0) as held:
        made = Crew(2, start(server, held.getsockname()[1]), fleet := Fleet())
        await made.open()
        assert made.ready == 2

        await made.collect()
        assert "guardproxy.build_info" in fleet.total().series
        assert await made.reload({"policy": {"mode": "observe"}}, {}) == ""
        assert "policy: must be a mapping" in await made.reload({"policy": "x"}, {})

        made.renew()
        await _until(lambda: made.ready < 2)
        await _until(lambda: made.ready == 2)
        told = {"policy": {"mode": "observe"}}  # they were started with what stood before, and are told of what stands
        await _until(lambda: all(member.document == told for member in made._members.values()))
        began = time.monotonic()
        await made.drain()

    assert time.monotonic() - began < 15
    assert made.ready == 0


async def test_a_drain_that_takes_too_long_ends_in_a_kill(
    server: Embedded, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(crew, "DRAIN_SECONDS", -10)
    with listener("127.0.0.1", 0) as held:
        made = Crew(1, start(server, held.getsockname()[1]), Fleet())
        await made.open()
        await made.drain()

    assert made.ready == 0
    assert "1 workers did not end in time and are killed" in caplog.text


async def _until(what, seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not what():
            await asyncio.sleep(0.02)
