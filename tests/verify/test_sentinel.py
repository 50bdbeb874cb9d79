"""A primary with its replica and a Sentinel on loopback, over TLS, for a user with the documented rights."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from guardproxy.errors import ConfigError, StoreError
from guardproxy.store._address import address
from guardproxy.store.redis import Store
from tests.accept.processes import until
from tests.store.kit import Agent
from tests.store.monitored import granted
from tests.store.processes import Node, free_ports, start, until as at_once

pytestmark = pytest.mark.verify


@dataclass(frozen=True)
class Files:
    ca: str | None
    cert: str | None = None
    key: str | None = None


@dataclass
class Trio:
    """`primary` and `replica` change places when the first one dies."""

    primary: Node
    replica: Node
    sentinel: Node

    @property
    def url(self) -> str:
        return f"redis+sentinel://127.0.0.1:1,127.0.0.1:{self.sentinel.port}/mymaster"


@pytest.fixture
def trio(tmp_path: Path) -> Iterator[Trio]:
    one, two, three = free_ports(3)
    nodes = [start(tmp_path, one, "--repl-diskless-sync-delay", "0")]
    try:
        at_once(lambda: nodes[0].ask("PING"), "a primary")
        nodes.append(start(tmp_path, two, "--replicaof", f"127.0.0.1 {one}"))
        at_once(lambda: nodes[1].ask("ROLE")[3] in (b"connected", "connected"), "a replica")
        at_once(lambda: nodes[0].ask("WAIT", 1, 200), "a replica that says what it has")
        file = tmp_path / "sentinel.conf"
        file.write_text(
            f"port {three}\nbind 127.0.0.1\nsentinel monitor mymaster 127.0.0.1 {one} 1\n"
            "sentinel down-after-milliseconds mymaster 1500\nsentinel failover-timeout mymaster 3000\n"
        )
        log = (tmp_path / "sentinel.log").open("wb")
        words = ["redis-server", str(file), "--sentinel"]
        nodes.append(Node(three, subprocess.Popen(words, stdout=log, stderr=log)))
        log.close()
        at_once(lambda: nodes[2].ask("SENTINEL", "REPLICAS", "mymaster"), "a Sentinel that knows the replica")
        yield Trio(*nodes)
    finally:
        for node in nodes:
            node.kill()


@pytest.mark.parametrize("replicas", [0, 1])
async def test_the_primary_dies(trio: Trio, replicas: int) -> None:
    told: list[bool] = []
    store = await Store.connect(
        trio.url, timeout_ms=2000, probe_ms=50, replicas=replicas, on_change=lambda up, _why: told.append(up)
    )
    try:
        agent = Agent(store, session="s")
        await agent.turn()
        if not replicas:  # a replica that is told late need not have it
            trio.primary.ask("WAIT", 1, 1000)
            await asyncio.sleep(0.1)
        trio.primary.kill()
        await until(lambda: not store.up, 5)
        with pytest.raises(StoreError):
            await agent.begin()
        if replicas:  # alone, the new primary keeps nothing that would count
            await until(lambda: trio.replica.ask("ROLE")[0] in (b"master", "master"), 15)
            trio.replica.ask("SCRIPT", "FLUSH")
            await asyncio.sleep(0.3)
            assert not store.up
            return
        await until(lambda: store.up, 15)
        assert (await agent.begin()).turn == 2
        await asyncio.sleep(0)
        assert told == [False, True]
    finally:
        await store.close()


async def test_calls_that_are_under_way_together_wait_once(trio: Trio) -> None:
    store = await Store.connect(trio.url, timeout_ms=2000, replicas=1)
    try:
        trio.primary.ask("CONFIG", "RESETSTAT")
        agents = [Agent(store, session=f"s{number}") for number in range(200)]
        assert all(view.admitted for view in await asyncio.gather(*(agent.begin() for agent in agents)))
        waits = trio.primary.ask("INFO", "commandstats")["cmdstat_wait"]["calls"]
        assert 1 <= waits < 50
        held = trio.replica.ask("ZCARD", "gp:{acme}:holds")
        assert held == len(agents)
    finally:
        await store.close()


async def test_no_sentinel_and_a_service_that_none_knows(trio: Trio) -> None:
    with pytest.raises(StoreError, match="no Sentinel names a primary of 'mymaster'"):
        await Store.connect("redis+sentinel://127.0.0.1:1/mymaster")
    with pytest.raises(StoreError, match="no Sentinel names a primary of 'other'"):
        await Store.connect(trio.url.replace("mymaster", "other"))


def made(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    new = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    made(tmp_path, "req", "-x509", *new, "-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=a test's authority")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in ("server", "client"):
        made(tmp_path, "req", *new[:-2], "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        sign = ("-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
        made(tmp_path, "x509", "-req", "-in", f"{name}.csr", "-out", f"{name}.pem", *sign)
    return tmp_path


async def test_tls_both_ways_and_a_user_with_few_rights(certificates: Path) -> None:
    plain, port = free_ports(2)
    files = ("--tls-cert-file", "server.pem", "--tls-key-file", "server.key", "--tls-ca-cert-file", "ca.pem")
    files = tuple(str(certificates / one) if one.endswith((".pem", ".key")) else one for one in files)
    node = start(certificates, plain, "--tls-port", str(port), *files)
    url = f"rediss://guardproxy:a%20word@127.0.0.1:{port}"
    ca, cert, key = (str(certificates / one) for one in ("ca.pem", "client.pem", "client.key"))
    try:
        at_once(lambda: node.ask("PING"), "a server")
        node.ask("ACL", "SETUSER", "guardproxy", "on", ">a word", *granted().split())
        store = await Store.connect(url, files=Files(ca, cert, key), timeout_ms=2000)
        assert (await Agent(store, session="s").turn()).admitted
        await store.close()
        query = f"?ssl_ca_certs={ca}&ssl_certfile={cert}&ssl_keyfile={key}"
        await (await Store.connect(url + query, timeout_ms=2000)).close()
        for wrong in (Files(ca), Files(None)):  # without our certificate; from an authority that nobody trusts
            with pytest.raises(StoreError):
                await Store.connect(url, files=wrong, timeout_ms=2000)
        with pytest.raises(ConfigError, match=r"store\.url cannot be used"):
            address(url, None, Files(ca + "no"))
        with pytest.raises(ConfigError, match=r"store\.tls is for URLs that begin with rediss"):
            address(url.replace("rediss", "redis"), None, Files(ca))
    finally:
        node.kill()
