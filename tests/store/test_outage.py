"""A store that is frozen, dead, slow to come up or no store at all: what a request may lose, and the way back."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Iterator

import pytest
import uvloop

from guardproxy.errors import StoreError
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.kit import ORG, Agent

LIMIT_S = 0.25
SLACK_S = 0.15  # two shared cores: the loop may be late by itself
AT_ONCE_S = LIMIT_S / 3  # far from what waiting costs; nobody is asked, and the loop may be late by itself


class Changes(list[tuple[bool, str]]):
    def __call__(self, up: bool, reason: str) -> None:
        self.append((up, reason))


@pytest.fixture
def changes() -> Changes:
    return Changes()


@pytest.fixture
async def store(own_server: Embedded, changes: Changes) -> AsyncIterator[Store]:
    made = await Store.connect(socket_path=own_server.socket_path, probe_ms=50, on_change=changes)
    yield made
    await made.close()


@contextlib.contextmanager
def frozen(server: Embedded) -> Iterator[None]:
    os.kill(server.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(server.pid, signal.SIGCONT)


async def seconds(store: Store, agents: int = 1) -> list[float]:
    """How long begins take that fail."""

    async def one(number: int) -> float:
        began = time.perf_counter()
        with pytest.raises(StoreError):
            await Agent(store, session="lost", thread=str(number)).begin()
        return time.perf_counter() - began

    return await asyncio.gather(*(one(number) for number in range(agents)))


async def eventually(holds: Callable[[], bool], within_s: float = 5) -> None:
    until = time.monotonic() + within_s
    while not holds():
        assert time.monotonic() < until, "it did not come"
        await asyncio.sleep(0.01)


async def test_a_frozen_server_costs_its_time_limit_once_and_then_nothing(
    own_server: Embedded, store: Store, changes: Changes
) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    with frozen(own_server):
        first = await seconds(store, 20)
        assert LIMIT_S * 0.9 < max(first) < LIMIT_S + SLACK_S
        for _ in range(20):
            assert max(await seconds(store)) < AT_ONCE_S
            await asyncio.sleep(0.02)  # over several probes
        assert [up for up, _ in changes] == [False]
    await eventually(lambda: store.up)
    await asyncio.sleep(0)
    assert [up for up, _ in changes] == [False, True]
    assert (await agent.turn()).turn == 2


async def test_a_call_that_a_frozen_server_took_is_settled_by_its_token(own_server: Embedded, store: Store) -> None:
    agent = Agent(store, session="s")
    with frozen(own_server), pytest.raises(StoreError):
        await agent.begin()
    await eventually(lambda: store.up)
    assert agent.last
    agent.view = await store.begin(agent.last)  # whether it was carried out or not
    await agent.settle()
    assert (await agent.begin()).spent[1].used == 1


async def test_an_error_says_whether_the_store_may_have_heard(own_server: Embedded, store: Store) -> None:
    agent = Agent(store, session="s")
    await agent.turn()
    with frozen(own_server):
        for unsent in (False, True):  # the breaker is open the second time
            with pytest.raises(StoreError) as told:
                await agent.begin()
            assert told.value.unsent is unsent


async def test_a_killed_server_is_noticed_without_traffic_and_used_again_when_it_is_back(
    own_server: Embedded, store: Store, changes: Changes
) -> None:
    assert own_server.process
    await Agent(store, session="s").turn()
    own_server.process.kill()
    own_server.process.wait()
    await eventually(lambda: not store.up)
    assert max(await seconds(store, 20)) < AT_ONCE_S
    own_server.stop()
    back = embedded.start(own_server.data_dir, server=None, durable=False)
    try:
        await eventually(lambda: store.up)
        await asyncio.sleep(0)
        assert [up for up, _ in changes] == [False, True]
        assert (await Agent(store, session="s").begin()).admitted
    finally:
        back.stop()


async def test_a_lost_connection_alone_is_no_outage(own_server: Embedded, store: Store, changes: Changes) -> None:
    agent = Agent(store, session="s")
    for number in range(5):
        killer = await Store.connect(socket_path=own_server.socket_path)
        await killer._client.command("CLIENT", "KILL", "TYPE", "normal")
        await killer.close()
        assert (await agent.turn()).turn == number + 1
    assert changes == []


async def test_a_cancelled_call_does_not_shift_the_answers_of_others(store: Store) -> None:
    agents = [Agent(store, session=f"s{i}") for i in range(20)]
    tasks = [asyncio.ensure_future(agent.begin()) for agent in agents]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    for number, view in enumerate(found):
        assert isinstance(view, asyncio.CancelledError) if number % 2 == 0 else view.session == f"s{number}"


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def test_a_loop_that_was_busy_does_not_take_the_server_for_frozen(
    own_server: Embedded, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def main() -> None:
        store = await Store.connect(socket_path=own_server.socket_path)  # nobody listens in, which costs it time
        large = "x" * 200_000  # more than one read, and more than the socket holds
        tasks = [asyncio.ensure_future(store._client.command("ECHO", large)) for _ in range(6)]
        for _ in range(3):
            await asyncio.sleep(0)  # the calls are out
        time.sleep(LIMIT_S + 0.1)  # the loop stands still; the answers lie in the socket
        assert [len(str(answer)) for answer in await asyncio.gather(*tasks)] == [200_003] * 6
        assert store.up
        await store.close()

    with asyncio.Runner(loop_factory=new_loop) as runner:
        runner.run(main())


async def _serve(answer: bytes | None) -> tuple[asyncio.Server, int]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await reader.read(4096):
            if answer is not None:
                writer.write(answer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "not a Redis"),
        (b"-NOAUTH Authentication required.\r\n" * 20, "NOAUTH"),
        (b"-LOADING Redis is loading the dataset in memory\r\n" * 20, "LOADING"),
        (None, "in time"),
    ],
)
async def test_what_is_no_store_is_said_at_the_start(answer: bytes | None, said: str) -> None:
    server, port = await _serve(answer)
    try:
        with pytest.raises(StoreError, match=said):
            await Store.connect(f"redis://:secret-word@127.0.0.1:{port}/0", timeout_ms=200)
    finally:
        server.close()


async def test_nothing_there_an_error_or_an_open_breaker_as_asked(changes: Changes) -> None:
    with pytest.raises(StoreError, match="cannot be reached") as caught:
        await Store.connect("redis://:secret-word@127.0.0.1:1/0")
    assert "secret-word" not in str(caught.value)
    store = await Store.connect("redis://127.0.0.1:1", required=False, on_change=changes)
    try:
        assert max(await seconds(store)) < AT_ONCE_S
        assert [up for up, _ in changes] == [False]
    finally:
        await store.close()


async def test_after_closing_calls_fail_at_once(store: Store) -> None:
    await store.close()
    assert max(await seconds(store)) < AT_ONCE_S


FULL = [("maxmemory", "1", "0", "OOM"), ("min-replicas-to-write", "1", "0", "NOREPLICAS")]


@pytest.mark.parametrize(("setting", "bad", "good", "said"), FULL, ids=[row[3] for row in FULL])
async def test_a_server_that_takes_no_writes_is_away(
    own_server: Embedded, store: Store, changes: Changes, setting: str, bad: str, good: str, said: str
) -> None:
    admin = await Store.connect(socket_path=own_server.socket_path)
    agent = Agent(store, session="s")
    await agent.turn()
    await admin._client.command("CONFIG", "SET", setting, bad)
    await seconds(store, 20)
    for _ in range(20):
        assert max(await seconds(store)) < AT_ONCE_S
        await asyncio.sleep(0.02)  # over several probes: it answers each, and takes none of what they write
    assert [(up, said in reason) for up, reason in changes] == [(False, True)]
    await admin._client.command("CONFIG", "SET", setting, good)
    await eventually(lambda: store.up)
    await asyncio.sleep(0)
    assert [up for up, _ in changes] == [False, True]
    assert (await agent.turn()).turn == 2
    await admin.close()


async def test_a_replica_is_no_store(own_server: Embedded, store: Store, changes: Changes) -> None:
    admin = await Store.connect(socket_path=own_server.socket_path)
    await admin._client.command("REPLICAOF", "127.0.0.1", "1")
    await seconds(store)
    await asyncio.sleep(0.2)
    assert [(up, "READONLY" in reason) for up, reason in changes] == [(False, True)]
    await admin._client.command("REPLICAOF", "NO", "ONE")
    await eventually(lambda: store.up)
    await admin.close()


@pytest.mark.parametrize(
    ("said", "away"),
    [
        (b"-MISCONF Errors writing to the AOF file: No space left on device\r\n", True),
        (b"-ERR Error running script (call to f_1): @user_script:3: -OOM command not allowed\r\n", True),
        (b"-NOPERM this user has no permissions\r\n", False),
        (b"-ERR an OOM is spoken of\r\n", False),
    ],
)
async def test_which_errors_are_an_outage(changes: Changes, said: bytes, away: bool) -> None:
    """What Redis says of a full disk, and how older ones say it of a script."""
    gone = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while got := await reader.read(65536):
            pings = got.count(b"\r\nCLIENT\r\n") + got.count(b"\r\nSCRIPT\r\n") + got.count(b"\r\nPING\r\n")
            writer.write(b"+OK\r\n" * pings + said * got.count(b"\r\nGET\r\n"))
        writer.close()
        gone.set()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    store = await Store.connect(f"redis://127.0.0.1:{server.sockets[0].getsockname()[1]}", on_change=changes)
    try:
        with pytest.raises(StoreError, match="refused"):
            await store._client.command("GET", "key")
        await asyncio.sleep(0)
        assert (store.up, [up for up, _ in changes]) == (not away, [False] if away else [])
    finally:
        await store.close()
        await gone.wait()
        await asyncio.sleep(0)
        server.close()


async def test_a_hold_that_no_replica_has_counts_as_no_answer(own_server: Embedded, changes: Changes) -> None:
    """This server has none. What a failover may forget without harm does not wait."""
    made = await Store.connect(socket_path=own_server.socket_path, probe_ms=20, replicas=1, on_change=changes)
    try:
        assert await made.session_state(ORG, "s") is None
        began = time.perf_counter()
        with pytest.raises(StoreError, match="0 of 1 replicas have what it was told"):
            await Agent(made, session="s").begin()
        assert time.perf_counter() - began < LIMIT_S
        await asyncio.sleep(0.3)  # over a probe, which waits for replicas too
        assert [up for up, _ in changes] == [False]
        assert not made.up
    finally:
        await made.close()
