"""A real store for the HTTP tests: one server, emptied before each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.scenes import Heard


@pytest.fixture(scope="session")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
async def store(server: Embedded) -> AsyncIterator[Store]:
    made = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    await made._client.command("FLUSHALL")
    yield made
    await made.close()


@pytest.fixture
def heard() -> Heard:
    return Heard()
