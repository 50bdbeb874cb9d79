"""Addresses and arguments: what a URL may say, what odd text becomes, what an unreadable answer is."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from guardproxy.errors import ConfigError, StoreError
from guardproxy.store import _codec
from guardproxy.store._address import address
from guardproxy.store._redirect import redirected
from guardproxy.store._server import Server
from guardproxy.store._wire import Wire
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import Agent

URLS = [
    ("redis://example", "redis://example:6379/0", ()),
    ("redis://example:1/3", "redis://example:1/3", (("SELECT", "3"),)),
    ("redis://:p%40ss@example", "redis://example:6379/0", (("AUTH", "p@ss"),)),
    ("redis://me:pass@example/1", "redis://example:6379/1", (("AUTH", "me", "pass"), ("SELECT", "1"))),
    ("rediss://example:6380", "rediss://example:6380/0", ()),
    ("unix:///run/s?db=2", "unix:///run/s", (("SELECT", "2"),)),
]


@pytest.mark.parametrize(("url", "shown", "hello"), URLS)
def test_urls(url: str, shown: str, hello: tuple[tuple[str, ...], ...]) -> None:
    found = address(url)
    assert (found.shown, found.hello) == (shown, hello)
    assert (found.tls is not None) is url.startswith("rediss")
    assert "pass" not in repr(found)


ME = (("AUTH", "me", "p@ss"),)
SEVERAL = [
    # url, shown, seeds, service, hello, greeting
    ("redis+cluster://a:1,b:2", "redis+cluster://a:1,b:2", (("a", 1), ("b", 2)), "", (), ()),
    (
        "redis+cluster://me:p%40ss@a,[::1]:7001/0",
        "redis+cluster://a:6379,::1:7001",
        (("a", 6379), ("::1", 7001)),
        "",
        ME,
        (),
    ),
    ("rediss+cluster://a/", "rediss+cluster://a:6379", (("a", 6379),), "", (), ()),
    (
        "redis+sentinel://me:p%40ss@a,b:1/mymaster/2?sentinel_password=other",
        "redis+sentinel://a:26379,b:1/mymaster",
        (("a", 26379), ("b", 1)),
        "mymaster",
        (*ME, ("SELECT", "2")),
        (("AUTH", "other"),),
    ),
    (
        "rediss+sentinel://a/m?sentinel_username=you&sentinel_password=other",
        "rediss+sentinel://a:26379/m",
        (("a", 26379),),
        "m",
        (),
        (("AUTH", "you", "other"),),
    ),
]


@pytest.mark.parametrize(("url", "shown", "seeds", "service", "hello", "greeting"), SEVERAL)
def test_urls_of_several(
    url: str, shown: str, seeds: tuple[object, ...], service: str, hello: object, greeting: object
) -> None:
    found = address(url)
    assert (found.shown, found.seeds, found.service) == (shown, seeds, service)
    assert (found.hello, found.greeting) == (hello, greeting)
    assert (found.tls is not None) is url.startswith("rediss")
    assert "other" not in repr(found)
    one = found.at(("c", 3))
    assert (one.shown, one.hello, one.greeting) == (f"{'rediss' if one.tls else 'redis'}://c:3", hello, ())


UNUSABLE = [
    "", None, "http://x", "redis://:secret@x:notaport", "rediss://x?ssl_cert_reqs=maybe", "redis+cluster://:secret@a/3",
    "redis+cluster://:secret@a,,b", "redis+cluster://:secret@a:x", "redis+sentinel://:secret@a", "redis+sentinel:///m",
    "http+cluster://a", "redis+other://a", "redis+sentinel://a/m/x", "rediss://x?ssl_ca_certs=/nowhere",
]  # fmt: skip


@pytest.mark.parametrize("url", UNUSABLE)
def test_urls_that_cannot_be_used(url: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        address(url)
    assert caught.value.param == "store.url"
    assert "secret" not in caught.value.message


async def test_a_password_and_a_database_are_used(server: Embedded) -> None:
    admin = await Store.connect(socket_path=server.socket_path)
    try:
        await admin._client.command("ACL", "SETUSER", "me", "on", ">word", "~*", "+@all")
        store = await Store.connect(f"unix://me:word@{server.socket_path}")
        assert await store._client.command("ACL", "WHOAMI") == b"me"
        await store.close()
        with pytest.raises(StoreError, match="WRONGPASS") as caught:
            await Store.connect(f"unix://me:wrong-word@{server.socket_path}")
        assert "wrong-word" not in str(caught.value)
        with pytest.raises(StoreError, match="DB index"):
            await Store.connect(f"unix://{server.socket_path}?db=5")
    finally:
        await admin._client.command("ACL", "DELUSER", "me")
        await admin.close()


@pytest.fixture
async def writes(server: Embedded, store: Store, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[bytes]]:
    """What is written to the store's connection, write by write."""
    found: list[bytes] = []
    await store.ping()
    assert isinstance(store._client, Server)
    wire = store._client._wire
    assert isinstance(wire, Wire)
    transport = wire._transport
    assert transport

    class Counted:
        def write(self, data: bytes) -> None:
            found.append(data)
            transport.write(data)

    monkeypatch.setattr(wire, "_transport", Counted())
    yield found
    monkeypatch.undo()


async def test_calls_of_one_turn_of_the_loop_leave_in_one_write(store: Store, writes: list[bytes]) -> None:
    await asyncio.gather(*(store.ping() for _ in range(32)))
    assert len(writes) == 1


async def test_a_closing_does_not_wait_for_the_end_of_the_turn_of_the_loop(store: Store, writes: list[bytes]) -> None:
    """The answer is written right after it, and the client's next request may reach another worker."""
    agent = Agent(store, session="s")
    await agent.begin()
    writes.clear()
    done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
    assert store.settle_soon(agent.closing(), done.set_result)
    assert len(writes) == 1
    assert await done
    assert len(writes) == 1


@pytest.mark.parametrize("reply", [None, 1, b"", [], [b"x"] * 23])
async def test_an_answer_that_cannot_be_read_is_a_store_error(store: Store, reply: object) -> None:
    with pytest.raises(StoreError, match="cannot be read"):
        _codec.view(reply, Agent(store).opening())


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 24])
async def test_any_number_of_rounds_is_read(store: Store, count: int) -> None:
    agent = Agent(store, session="s")
    for number in range(count):
        agent.took(counts={f"tool:{number}": number + 1})
    view = await agent.begin()
    assert view.steps == count
    assert view.counts == {f"tool:{number}": number + 1 for number in range(count)}


SAID = {
    "MOVED 3999 127.0.0.1:6381": ("MOVED", 3999, "127.0.0.1", 6381),
    "MOVED 3999 :6381": ("MOVED", 3999, "", 6381),
    "ASK 1 ::1:7000": ("ASK", 1, "::1", 7000),
    "ASK 1 node.example:7000": ("ASK", 1, "node.example", 7000),
    "TRYAGAIN Multiple keys request during rehashing of slot": ("TRYAGAIN", -1, "", 0),
    "ERR MOVED 1 a:1": None,
    "MOVED to elsewhere": None,
    "NOPERM": None,
}


@pytest.mark.parametrize("said", SAID)
def test_what_a_node_of_a_cluster_says(said: str) -> None:
    found = redirected(said)
    assert (found and (found.kind, found.slot, found.host, found.port)) == SAID[said]
    assert found is None or "set store.url to redis+cluster://" in str(found)
