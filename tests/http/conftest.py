"""A real store for the HTTP tests: one server, emptied before each test; for tests of tenants a Redis Cluster, too."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.scenes import Heard
from tests.store.kit import emptied
from tests.store.processes import Nodes, cluster

OF_TENANTS = {
    "test_admin_v1",
    "test_approvals",
    "test_audit",
    "test_background",
    "test_budgeting",
    "test_budgets",
    "test_by_model",
    "test_charging",
    "test_chosen",
    "test_control",
    "test_costs",
    "test_crossing",
    "test_erase",
    "test_erasing",
    "test_exporting",
    "test_gateway_budgets",
    "test_hostile_tenants",
    "test_keyring",
    "test_keys",
    "test_metering",
    "test_objects",
    "test_operators",
    "test_orgs",
    "test_overrun",
    "test_panic",
    "test_policies",
    "test_roles",
    "test_room",
    "test_sessions",
    "test_shaping",
    "test_soft_limits",
    "test_spellings",
    "test_standing",
    "test_switch",
    "test_teams",
    "test_tenancy",
    "test_tokens",
    "test_usage",
}
"""Modules of which every test passes on a cluster, too: what is said of organisations, and what holds for them."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Their tests are made twice; the second is for `make verify`."""
    if "servers" in metafunc.fixturenames and metafunc.module.__name__.rpartition(".")[2] in OF_TENANTS:
        on = ["valkey", pytest.param("cluster", marks=pytest.mark.redis_server)]
        metafunc.parametrize("servers", on, indirect=True, scope="session")


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Iterator[Embedded | Nodes]:
    if getattr(request, "param", "valkey") == "cluster":
        with cluster(replicas=1) as nodes:
            yield nodes
        return
    with embedded.scratch() as running:
        yield running


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
def heard() -> Heard:
    return Heard()
