"""One connection: one answer after the other, no more held than may be, and its end seen from both sides."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from inspect import signature

import pytest
import uvloop

from guardproxy.http import connection, quiet
from guardproxy.http.connection import READ
from guardproxy.http.incoming import AHEAD
from guardproxy.http.request import MalformedBody, Request
from guardproxy.http.streamed import Response, Streamed
from guardproxy.http.whole import Whole
from tests.http.raw import Echo, serving, until

GET = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"
BIG = 8 << 20  # more than sockets take by themselves


def post(size: int, *more: str) -> str:
    return "\r\n".join(("POST / HTTP/1.1", "Host: x", f"Content-Length: {size}", *more, "", ""))


class Held:
    """Answers when it is told to; knows how often it was asked, and how it ended."""

    def __init__(self) -> None:
        self.asked = 0
        self.cancelled = 0
        self.go = asyncio.Event()

    async def __call__(self, request: Request) -> Response:
        self.asked += 1
        try:
            await self.go.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return Whole(200, [], request.raw_path.encode())


async def test_one_after_the_other_in_order() -> None:
    """Also those that were sent ahead, in the same packet or a later one; only one is under way."""
    held = Held()
    async with serving(held) as running, running.client() as client:
        client.send("GET /1 HTTP/1.1\r\n\r\nGET /2 HTTP/1.1\r\n\r\n")
        await until(lambda: held.asked)
        client.send("GET /3 HTTP/1.1\r\n\r\n", "GET /4 HTTP/1.1\r\nConnection: close\r\n\r\nGET /5 HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.01)
        assert held.asked == 1
        held.go.set()
        answers = [await client.answer() for _ in range(4)]
        assert [body for _, body in answers] == [b"/1", b"/2", b"/3", b"/4"]
        assert [b"Connection: close" in head for head, _ in answers] == [False, False, False, True]
        assert await client.rest() == b""
    assert held.asked == 4


async def test_any_number_may_be_sent_ahead_bit_by_bit() -> None:
    """What comes behind a request under way is not looked at until that is answered."""
    held, many = Held(), AHEAD + 20
    async with serving(held) as running, running.client() as client:
        client.send(GET)
        await until(lambda: held.asked)
        (one,) = running.server.connections
        for number in range(many):
            client.send(f"GET /{number} HTTP/1.1\r\n\r\n")
            await until(lambda number=number: len(one._tail) > number)
        held.go.set()
        await client.answer()
        assert [(await client.answer())[1] for _ in range(many)] == [b"/%d" % number for number in range(many)]


@pytest.mark.parametrize(
    ("head", "lasts", "says"),
    [
        ("GET / HTTP/1.1\r\n\r\n", True, b""),
        ("GET / HTTP/1.1\r\nConnection: keep-alive\r\n\r\n", True, b""),
        ("GET / HTTP/1.1\r\nConnection: close\r\n\r\n", False, b"Connection: close"),
        ("GET / HTTP/1.1\r\nConnection: x, Close\r\n\r\n", False, b"Connection: close"),
        ("GET / HTTP/1.0\r\n\r\n", False, b""),
        ("GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", True, b"Connection: keep-alive"),
        ("HEAD / HTTP/1.1\r\n\r\n", True, b""),
    ],
)
async def test_whether_it_is_kept(head: str, lasts: bool, says: bytes) -> None:
    echo = Echo()
    async with serving(echo) as running, running.client() as client:
        for _ in range(2 if lasts else 1):
            client.send(head)
            said, _ = await client.answer(bodiless=head.startswith("HEAD"))
            assert said.startswith(b"HTTP/1.1 200 OK" if "1.1" in head else b"HTTP/1.0 200 OK")
            assert (b"\r\nConnection: " in said) is bool(says)
            assert says in said
        if not lasts:
            assert await client.rest() == b""


async def test_a_client_that_leaves_ends_what_is_done_for_it() -> None:
    """Whether it ends the connection, breaks it, or only says that it sends no more: the last cannot be told from the
    first.
    """
    held = Held()
    async with serving(held) as running:
        for number, end in enumerate(("close", "abort", "half"), 1):
            async with running.client() as client:
                client.send(GET)
                await until(lambda number=number: held.asked == number)
                if end == "half":
                    client.writer.write_eof()
                    assert await client.rest() == b""
                elif end == "close":
                    client.writer.close()
                else:
                    client.writer.transport.abort()
                await until(lambda number=number: held.cancelled == number)
        await until(lambda: not running.server.connections)


async def test_a_client_that_leaves_in_its_body() -> None:
    ended: list[BaseException] = []

    async def read(request: Request) -> Response:
        try:
            while await request.part():
                pass
        except BaseException as error:
            ended.append(error)
            raise
        return Whole(200, [], b"")

    async with serving(read) as running:
        async with running.client() as client:
            client.send(post(10), "abc")
            await until(lambda: running.server.connections)
            await asyncio.sleep(0.01)
        await until(lambda: ended)
    assert isinstance(ended[0], asyncio.CancelledError)


async def test_no_more_of_a_body_is_read_than_may_wait() -> None:
    go, sizes = asyncio.Event(), []

    async def slow(request: Request) -> Response:
        await go.wait()
        while part := await request.part():
            sizes.append(len(part))
        return Whole(200, [], str(sum(sizes)).encode())

    async with serving(slow) as running, running.client() as client:
        client.send(post(BIG), bytes(BIG))
        (one,) = running.server.connections
        await until(lambda: one._stopped)
        assert one._request is not None
        held = one._request.held
        assert 2 * READ < held <= 4 * READ
        await asyncio.sleep(0.02)
        assert one._request.held == held
        go.set()
        assert (await client.answer())[1] == str(BIG).encode()
        assert max(sizes) <= 4 * READ


async def test_what_nobody_reads_is_dropped_all_the_same() -> None:
    """Also where no more was read, since nobody took it."""
    go = asyncio.Event()

    async def refuse(request: Request) -> Response:
        await go.wait()
        return Whole(400, [], request.raw_path.encode())

    async with serving(refuse) as running, running.client() as client:
        client.send(post(BIG), bytes(BIG), "GET /next HTTP/1.1\r\n\r\n")
        (one,) = running.server.connections
        await until(lambda: one._stopped)
        go.set()
        assert [(await client.answer())[1] for _ in range(2)] == [b"/", b"/next"]


async def test_no_more_is_read_ahead_than_may_wait() -> None:
    held = Held()
    async with serving(held) as running, running.client() as client:
        client.send(GET)
        await until(lambda: held.asked)
        client.send(post(BIG), bytes(BIG))
        (one,) = running.server.connections
        await until(lambda: one._stopped)
        size = one._tail_size
        assert size <= 3 * READ
        await asyncio.sleep(0.02)
        assert one._tail_size == size
        held.go.set()
        await client.answer()
        assert (await client.answer())[1] == b"/"


async def test_all_of_a_body_may_be_waited_for() -> None:
    """Then whoever waits says how much that may be, and it is not stopped before."""
    woken = 0

    async def gather(request: Request) -> Response:
        nonlocal woken
        await request.gathered(BIG, 5)
        woken += 1
        return Whole(200 if request.arrived else 413, [], str(len(request.taken())).encode())

    async with serving(gather) as running, running.client() as client:
        client.send(post(BIG), bytes(BIG))
        assert (await client.answer())[1] == str(BIG).encode()
        client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", f"{BIG + 1:x}\r\n", bytes(BIG + 1))
        assert (await client.answer())[0].startswith(b"HTTP/1.1 413")
    assert woken == 2


async def test_a_slow_client_is_waited_for() -> None:
    """A stream, and an answer in one piece, are held back; memory is bounded, and the bytes are all there."""
    sent = 0

    async def much(request: Request) -> Response:
        nonlocal sent
        if request.raw_path == "/whole":
            return Whole(200, [], bytes(BIG))
        response = Streamed(200, [])
        response.prepare(request)
        for _ in range(64):
            await response.write(bytes(BIG // 64))
            sent += BIG // 64
        return response

    async with serving(much) as running, running.client(receive=1 << 16) as client:
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]
        client.send(GET)
        (one,) = running.server.connections
        await until(lambda: one.clogged)
        before = sent
        await asyncio.sleep(0.02)
        assert before == sent < BIG
        assert one._transport is not None
        assert one._transport.get_write_buffer_size() < BIG // 8
        client.writer.transport.resume_reading()  # type: ignore[attr-defined]
        assert len((await client.answer())[1]) == BIG
        client.send("GET /whole HTTP/1.1\r\n\r\nGET /whole HTTP/1.1\r\n\r\n")
        for _ in range(2):
            assert len((await client.answer())[1]) == BIG


async def test_a_slow_client_that_leaves() -> None:
    ended: list[BaseException] = []

    async def endless(request: Request) -> Response:
        response = Streamed(200, [])
        response.prepare(request)
        try:
            while True:
                await response.write(bytes(1 << 16))
        except BaseException as error:
            ended.append(error)
            raise

    async with serving(endless) as running:
        async with running.client(receive=1 << 16) as client:
            client.send(GET)
            await until(lambda: any(one.clogged for one in running.server.connections))
            client.writer.transport.abort()
            await until(lambda: ended)
        await until(lambda: not running.server.connections)
    assert isinstance(ended[0], asyncio.CancelledError | ConnectionResetError)


async def test_expect_100_continue() -> None:
    async def reads(request: Request) -> Response:
        if request.raw_path == "/no":
            return Whole(401, [], b"")
        if not request.arrived:
            request.go_on()
        await request.gathered(100, 5)
        return Whole(200, [], request.taken())

    async with serving(reads) as running, running.client() as client:
        client.send(post(2, "Expect: 100-Continue"))
        assert (await client.answer())[0] == b"HTTP/1.1 100 Continue"
        client.send("hi")
        head, body = await client.answer()
        assert (head[:15], body) == (b"HTTP/1.1 200 OK", b"hi")
        client.send(post(2, "Expect: 100-continue"), "hi")
        assert (await client.answer())[0].startswith((b"HTTP/1.1 100", b"HTTP/1.1 200"))
    async with serving(reads) as running, running.client() as client:
        client.send(post(2, "Expect: 100-continue").replace("1.1", "1.0"), "")
        await asyncio.sleep(0.01)
        client.send("hi")
        assert (await client.answer())[0].startswith(b"HTTP/1.0 200"), "HTTP/1.0 knows no 100"
    async with serving(reads) as running, running.client() as client:
        client.send(post(2, "Expect: 100-continue").replace(" /", " /no"))
        assert (await client.answer())[0].startswith(b"HTTP/1.1 401")
        client.send("hi", GET.replace(" /", " /no"))
        assert (await client.answer())[0].startswith(b"HTTP/1.1 401"), "the body it sent all the same is dropped"


async def test_the_rest_of_a_body_is_dropped_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer reaches a client that still sends; what it sends is no request."""

    async def refuse(request: Request) -> Response:
        answer = Whole(400, [], request.raw_path.encode())
        if request.raw_path == "/close":
            answer.force_close()
        return answer

    async with serving(refuse) as running:
        async with running.client() as client:
            client.send(post(BIG), bytes(1000))
            assert (await client.answer())[1] == b"/"
            (one,) = running.server.connections
            client.send(bytes(BIG - 1000), "GET /next HTTP/1.1\r\n\r\n")
            assert (await client.answer())[1] == b"/next"
            assert one._timer is None
            client.send(post(4).replace(" /", " /close"), "ab")
            assert (await client.answer())[0].endswith(b"Connection: close")
            client.send("cd", GET)
            assert await client.rest() == b""
        monkeypatch.setattr(connection, "LINGER_S", 0.01)
        async with running.client() as client:
            client.send(post(10), "abc")
            await client.answer()
            assert await client.rest() == b""
        async with running.client() as client:
            client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n")
            await client.answer()
            client.send("no size\r\n", GET)
            assert await client.rest() == b""


async def test_a_body_that_breaks_while_it_is_read() -> None:
    broken: list[Exception] = []

    async def read(request: Request) -> Response:
        try:
            await request.gathered(100, 5)
        except MalformedBody as error:
            broken.append(error)
        return Whole(400, [], b"")

    async with serving(read) as running, running.client() as client:
        client.send("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n")
        await asyncio.sleep(0.01)
        client.send("x\r\n", GET)
        assert (await client.rest()).count(b"HTTP/1.1 400") == 1
    assert len(broken) == running.malformed == 1


async def test_a_body_that_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each part gives it its time again."""
    late: list[str] = []

    async def read(request: Request) -> Response:
        try:
            await request.gathered(100, 0.1)
        except TimeoutError:
            late.append(request.raw_path)
            return Whole(408, [], b"")
        return Whole(200, [], request.taken())

    async with serving(read) as running, running.client() as client:
        client.send(post(4))
        for part in "abcd":
            await asyncio.sleep(0.04)
            client.send(part)
        assert (await client.answer())[1] == b"abcd"
        client.send(post(4), "abc")
        assert (await client.answer())[0].startswith(b"HTTP/1.1 408")
    assert late == ["/"]


async def test_what_is_no_http_is_answered_in_our_words(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Echo()) as running, running.client() as client:
        client.send("hello sk-SECRET\r\n\r\n")
        head, body = await client.answer()
        assert json.loads(body)["error"]["code"] == "malformed_http"
        assert b"\r\nContent-Type: application/json\r\nx-should-retry: false\r\n" in head
    assert "sk-SECRET" not in caplog.text


@pytest.mark.parametrize("begun", [False, True])
async def test_a_failure_of_ours(
    begun: bool, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said in a line, with its place; the client gets no half of an answer for a whole one."""
    monkeypatch.setattr(quiet.Quiet, "said", 0)

    async def fails(request: Request) -> Response:
        if begun:
            response = Streamed(200, [])
            response.prepare(request)
            await response.write(b"a")
        raise KeyError(request.raw_path)

    async with serving(fails) as running, running.client() as client:
        client.send("GET /SECRET HTTP/1.1\r\n\r\n", GET)
        came = await client.rest()
    if begun:
        assert not came.endswith(b"0\r\n\r\n")
    else:
        assert came.startswith(b"HTTP/1.1 500 Internal Server Error\r\n")
        assert b"\r\nConnection: close\r\n" in came
        assert came.count(b"HTTP/1.1") == 1
    (said,) = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert said.getMessage().startswith("a connection failed: KeyError at test_connection.py:")
    assert "SECRET" not in caplog.text
    assert running.malformed == 0


async def test_no_second_head_behind_an_answer_that_has_begun() -> None:
    """A handler that fails in the middle says so with an answer of its own: nobody could tell it from the first one."""

    async def breaks_off(request: Request) -> Response:
        first = Streamed(200, [])
        first.prepare(request)
        await first.write(b"half")
        return Whole(500, [], b"a fault")

    async with serving(breaks_off) as running, running.client() as client:
        client.send(GET, GET)
        came = await client.rest()
        assert came.count(b"HTTP/1.1") <= 1
        assert b"a fault" not in came
        assert not came.endswith(b"0\r\n\r\n")  # the client sees that it is not whole


async def test_an_answer_that_cannot_be_written_is_a_failure_of_ours() -> None:
    async def splits(request: Request) -> Response:
        return Whole(200, [("x-a", "b\r\nx-c: d")], b"")

    async with serving(splits) as running, running.client() as client:
        client.send(GET)
        head, _ = await client.answer()
        assert head.startswith(b"HTTP/1.1 500")
        assert b"x-c" not in head


async def test_the_connection_is_kept_alive_by_the_kernel_too() -> None:
    async with serving(Echo()) as running, running.client() as client:
        client.send(GET)
        await client.answer()
        (one,) = running.server.connections
        assert one._transport is not None
        sock = one._transport.get_extra_info("socket")
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


PLAIN = [name for name, test in list(globals().items()) if name.startswith("test_") and not signature(test).parameters]


@pytest.mark.parametrize("name", PLAIN)
def test_the_same_on_uvloop(name: str) -> None:
    """A worker runs on it where there is one; its transports are not those of asyncio."""
    uvloop.run(globals()[name]())
