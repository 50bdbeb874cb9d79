"""A request's body: in parts, or together within a bound and a time. Over sockets: `test_connection`."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from guardproxy.http.request import MalformedBody, Request


class Connection:
    """As much of one as a request asks for."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.seen_s = self.loop.time()
        self.flowed = 0
        self.written = b""

    def flow(self) -> None:
        self.flowed += 1

    def watch(self, seconds: float) -> None:
        self.watched = seconds

    def write(self, data: bytes) -> None:
        self.written += data


def made(**headers: str) -> tuple[Request, Any]:
    connection: Any = Connection()
    return Request(connection, "POST", "/", list(headers.items()), headers), connection


async def test_parts_that_came_together_come_together() -> None:
    request, connection = made()
    request.add(b"a")
    request.add(b"b")
    assert await request.part() == b"ab"
    waiting = asyncio.ensure_future(request.part())
    await asyncio.sleep(0)
    request.news()  # nothing has come
    request.add(b"c")
    request.news()
    assert await waiting == b"c"
    assert (request.size, request.held, connection.flowed) == (3, 0, 2)
    ending = asyncio.ensure_future(request.part())
    await asyncio.sleep(0)
    request.arrived = True
    request.news()
    assert await ending == b""
    assert await request.part() == b""
    assert request.taken() == b""


async def test_what_came_before_it_broke_is_there() -> None:
    request, _ = made()
    request.add(b"a")
    request.fail(MalformedBody())
    request.fail(ConnectionResetError())  # the first one says why
    assert await request.part() == b"a"
    with pytest.raises(MalformedBody):
        await request.part()
    with pytest.raises(MalformedBody):
        await request.gathered(9, 1)


async def test_a_body_that_is_there_cannot_break() -> None:
    request, _ = made()
    request.arrived = True
    request.fail(MalformedBody())
    assert await request.part() == b""


async def test_all_of_it_is_waited_for_without_a_look_at_each_part() -> None:
    request, _ = made()
    waiting = asyncio.ensure_future(request.gathered(3, 5))
    for _ in range(3):
        await asyncio.sleep(0)
        assert request.gathers
        first = request._waiting
        request.add(b"a")
        request.news()
        assert request._waiting is first
        assert first is None or not first.done()
    request.add(b"a")
    request.news()
    await waiting
    assert not request.gathers
    assert (request.size, request.arrived) == (4, False)


async def test_whoever_is_cancelled_waits_no_more() -> None:
    request, _ = made()
    waiting = asyncio.ensure_future(request.gathered(3, 5))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert not request.gathers
    request.news()
    request.late()


async def test_what_does_not_come_is_late() -> None:
    request, connection = made()
    request.late()  # nobody waits
    waiting = asyncio.ensure_future(request.gathered(3, 5))
    await asyncio.sleep(0)
    assert connection.watched == 5
    request.late()
    with pytest.raises(TimeoutError):
        await waiting


async def test_dropped() -> None:
    request, connection = made()
    request.add(b"a")
    request.drop()
    assert (request.held, connection.flowed) == (0, 1)


@pytest.mark.parametrize(
    ("headers", "modern", "says"),
    [
        ({"expect": " 100-Continue"}, True, True),
        ({"expect": "100-continue"}, False, False),
        ({"expect": "something"}, True, False),
        ({}, True, False),
    ],
)
async def test_who_waits_is_told_to_go_on(headers: dict[str, str], *, modern: bool, says: bool) -> None:
    request, connection = made(**headers)
    request.modern = modern
    request.go_on()
    assert connection.written == (b"HTTP/1.1 100 Continue\r\n\r\n" if says else b"")
    assert not request.begun, "the answer itself has not begun"
    request.send(b"x")
    assert request.begun
