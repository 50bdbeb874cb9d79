"""A real store, for runs that are logged here and judged again."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from guardproxy.store import embedded
from guardproxy.store.redis import Store


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    with embedded.scratch() as running:
        made = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        yield made
        await made.close()
