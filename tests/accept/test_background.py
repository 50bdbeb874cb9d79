"""Answers made in the background whose workers are killed: charged in full, settled by who fetches them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

import aiohttp
import pytest

from guardproxy.store.redis import Store
from tests.accept.processes import Served, serving
from tests.http.test_background import MOST, USED, Maker
from tests.http.test_room import budget, counters
from tests.live import Got, Provider, Said, serve

pytestmark = [
    pytest.mark.verify,  # a start of a whole proxy
    pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc"),
]

RUNS = 6


class Many(Maker):
    """An answer of its own for each request, named by it."""

    def says(self, got: Got) -> Said:
        self.answer = got.json["input"] if got.method == "POST" else got.path.partition("?")[0].rpartition("/")[2]
        return super().says(got)


async def begin(served: Served, name: str) -> aiohttp.ClientResponse:
    """Ask for one over a connection of its own, and read until it has begun."""
    body = {"model": "m", "input": name, "background": True, "stream": True, "max_output_tokens": MOST}
    answer = await served.client.post(f"{served.url}/v1/responses", json=body, headers={"Authorization": "Bearer k"})
    seen = b""
    while b"in_progress" not in seen:
        seen += await answer.content.readany()
    return answer


async def until(store: Store, wanted: tuple[int, int]) -> None:
    async with asyncio.timeout(30):
        while {*(await counters(store)).values()} != {wanted}:
            await asyncio.sleep(0.05)


async def test_workers_are_killed_in_the_middle_of_their_streams(tmp_path: Path) -> None:
    provider, maker = Provider(), Many()
    provider.script = maker.says
    config = {"budgets": [budget("org", "output_tokens", 10**6)]}
    async with serve(provider.handle) as upstream, serving(tmp_path, config, upstream, 2) as served:
        store = await Store.connect(socket_path=served.socket_path, timeout_ms=5000)
        answers = await asyncio.gather(*(begin(served, f"resp_{number}") for number in range(RUNS)))
        assert {*(await counters(store)).values()} == {(0, RUNS * MOST)}
        for pid in served.workers():
            os.kill(pid, signal.SIGKILL)
        for answer in answers:
            answer.close()
        await until(store, (RUNS * MOST, 0))
        maker.done(USED)
        for _ in range(3):  # twice over, and by both workers that have come in their place
            for number in range(RUNS):
                await fetched(served, f"resp_{number}")
        await until(store, (RUNS * USED["output_tokens"], 0))
        await store.close()
        maker.broken.set()


async def fetched(served: Served, name: str) -> None:
    async with asyncio.timeout(30):
        while True:
            with contextlib.suppress(aiohttp.ClientError):
                headers = {"Connection": "close"}
                async with served.client.get(
                    f"{served.url}/v1/responses/{name}?stream=true", headers=headers
                ) as answer:
                    assert b"response.completed" in await answer.read()
                    return
            await asyncio.sleep(0.1)
