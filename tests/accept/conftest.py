"""A real store for the acceptance tests: one Valkey for all, emptied for each test, and one to stop and freeze."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store


@pytest.fixture(scope="session")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
async def store(server: Embedded) -> AsyncIterator[Store]:
    # Two busy cores must not look like a store that is away: these tests are not about that.
    made = await Store.connect(socket_path=server.socket_path, timeout_ms=10_000)
    await made._client.command("FLUSHALL")
    yield made
    await made.close()
