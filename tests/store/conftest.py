"""Real servers for the store's tests: the embedded Valkey always, Debian's Redis with the marker `redis_server`, and a
Redis Cluster of three for the tests that ask for no more than a store.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import emptied
from tests.store.monitored import heard
from tests.store.processes import Nodes, cluster

SERVERS = ["valkey", pytest.param("redis", marks=pytest.mark.redis_server)]


def binary_of(name: str) -> Path | None:
    if name == "valkey":
        return None
    found = shutil.which("redis-server")
    assert found, "the marker redis_server asks for Debian's redis-server: apt install redis-server"
    return Path(found)


@contextlib.contextmanager
def monitored(name: str) -> Iterator[Embedded]:
    with embedded.scratch(binary_of(name)) as running, heard(running.socket_path) as found:
        yield running
    assert found.calls
    assert found.wrong == []  # in no call of any test: keys in several slots, or more than docs/redis.md allows


@pytest.fixture(scope="session")
def started() -> Iterator[Callable[[str], Embedded | Nodes]]:
    """Each server once: the files of a run are shared out one by one, and every file asks for one after the other."""
    found: dict[str, Embedded | Nodes] = {}
    with contextlib.ExitStack() as stack:

        def start(name: str) -> Embedded | Nodes:
            if name not in found:
                found[name] = stack.enter_context(cluster() if name == "cluster" else monitored(name))
            return found[name]

        yield start


@pytest.fixture(scope="session", params=[*SERVERS, pytest.param("cluster", marks=pytest.mark.redis_server)])
def servers(request: pytest.FixtureRequest, started: Callable[[str], Embedded | Nodes]) -> Embedded | Nodes:
    return started(request.param)


@pytest.fixture
def server(servers: Embedded | Nodes) -> Embedded:
    if isinstance(servers, Nodes):
        pytest.skip("is about one server and its socket")
    return servers


@pytest.fixture
async def store(servers: Embedded | Nodes) -> AsyncIterator[Store]:
    async with emptied(servers) as made:
        yield made


@pytest.fixture
def own_server(server_name: str) -> Iterator[Embedded]:
    """A server that a test may stop, freeze and kill."""
    with embedded.scratch(binary_of(server_name)) as running:
        yield running


@pytest.fixture(params=SERVERS)
def server_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)
