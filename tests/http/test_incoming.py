"""What is a request and what is none. What can be read in two ways is refused, and what stands behind it is lost."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from guardproxy.http import incoming
from guardproxy.http.incoming import AHEAD, MAX_HEAD, MAX_HEADERS, MAX_LINE, Incoming
from guardproxy.http.request import Request
from guardproxy.http.whole import Whole
from tests.http.raw import Echo, Serving, serving

POST = "POST / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = f"{POST}Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n"

HEADS = {
    "a length and chunks": f"{POST}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "chunks and a length": f"{POST}Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n",
    "two lengths": f"{POST}Content-Length: 0\r\nContent-Length: 5\r\n\r\n",
    "the same length twice": f"{POST}Content-Length: 0\r\ncontent-length: 0\r\n\r\n",
    "lengths in one": f"{POST}Content-Length: 0, 0\r\n\r\n",
    "no length": f"{POST}Content-Length: \r\n\r\n",
    "a length below zero": f"{POST}Content-Length: -1\r\n\r\n",
    "a length with a sign": f"{POST}Content-Length: +1\r\n\r\na",
    "a length in hex": f"{POST}Content-Length: 0x1\r\n\r\na",
    "a length with a line": f"{POST}Content-Length: 1_0\r\n\r\n",
    "a length that is too long": f"{POST}Content-Length: {'9' * 30}\r\n\r\n",
    "chunks of gzip": f"{POST}Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "chunks of chunks": f"{POST}Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
    "chunks twice": f"{POST}Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "another encoding": f"{POST}Transfer-Encoding: identity\r\n\r\n",
    "almost chunks": f"{POST}Transfer-Encoding: xchunked\r\n\r\n",
    "no encoding": f"{POST}Transfer-Encoding: \r\n\r\n",
    "a tab before the name of an encoding": f"{POST}\tTransfer-Encoding: chunked\r\n\r\n",
    "chunks in HTTP/1.0": "POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "a folded header": f"{POST}x-a: b\r\n c\r\n\r\n",
    "a folded first header": "GET / HTTP/1.1\r\n Host: x\r\n\r\n",
    "a zero byte": f"{POST}x-a: b\0c\r\n\r\n",
    "a zero byte in a name": f"{POST}x\0a: b\r\n\r\n",
    "a bare CR in a header": f"{POST}x-a: b\rContent-Length: 5\r\n\r\n",
    "a control character": f"{POST}x-a: b\x01\r\n\r\n",
    "a space before the colon": f"{POST}Content-Length : 0\r\n\r\n",
    "no colon": f"{POST}Content-Length 0\r\n\r\n",
    "no name": f"{POST}: 0\r\n\r\n",
    "a space in a name": f"{POST}x a: 0\r\n\r\n",
    "HTTP/2": "GET / HTTP/2.0\r\nHost: x\r\n\r\n",
    "HTTP/2's preface": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "HTTP/0.9": "GET /\r\n\r\n",
    "HTTP/1.2": "GET / HTTP/1.2\r\nHost: x\r\n\r\n",
    "no version": "GET / HTTP\r\n\r\n",
    "a control character in the path": "GET /\x01 HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method that is none": "HELLO / HTTP/1.1\r\nHost: x\r\n\r\n",
    "a method in lower case": "get / HTTP/1.1\r\nHost: x\r\n\r\n",
    "no HTTP": "hello\r\n\r\n",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "too many headers": POST + "".join(f"x-{n}: a\r\n" for n in range(MAX_HEADERS)) + "\r\n",
    "a header too long": f"{POST}x-a: {'b' * (MAX_LINE + 1)}\r\n\r\n",
    "a name too long": f"{POST}{'b' * (MAX_LINE + 1)}: a\r\n\r\n",
    "a path too long": f"GET /{'b' * MAX_LINE} HTTP/1.1\r\nHost: x\r\n\r\n",
    "a head too long": POST + "".join(f"x-{n}: {'a' * 60_000}\r\n" for n in range(6)) + "\r\n",
    "a header without an end": f"{POST}x-a: {'b' * (2 * MAX_HEAD)}",
}
BODIES = {
    "a size that is none": f"{CHUNKED}x\r\n",
    "a size with a sign": f"{CHUNKED}+1\r\na\r\n0\r\n\r\n",
    "a size below zero": f"{CHUNKED}-1\r\na\r\n0\r\n\r\n",
    "a size with 0x": f"{CHUNKED}0x1\r\na\r\n0\r\n\r\n",
    "a size that is too long": f"{CHUNKED}{'f' * 20}\r\na\r\n0\r\n\r\n",
    "a chunk longer than its size": f"{CHUNKED}1\r\nab\r\n0\r\n\r\n",
    "a chunk without an end": f"{CHUNKED}1\r\na0\r\n\r\n",
    "a bare LF behind a size": f"{CHUNKED}1\na\r\n0\r\n\r\n",
    "a bare LF behind a chunk": f"{CHUNKED}1\r\na\n0\r\n\r\n",
    "an extension without an end": f"{CHUNKED}1;{'a' * (2 * MAX_HEAD)}",
    "too many trailers": f"{CHUNKED}0\r\n" + "".join(f"x-{n}: a\r\n" for n in range(MAX_HEADERS + 1)) + "\r\n",
    "a trailer that is none": f"{CHUNKED}0\r\nx a: b\r\n\r\n",
    "a trailer without an end": f"{CHUNKED}0\r\nx-a: {'b' * (2 * MAX_HEAD)}",
}


async def only(running: Serving, raw: str) -> bytes:
    """Everything that comes for it, with another request behind it."""
    async with running.client() as client:
        client.send(raw, "" if len(raw) > 2 * MAX_HEAD else SMUGGLED)  # what has no end has nothing behind it
        return await client.rest()


@pytest.mark.parametrize("kind", ["head", "body"])
async def test_what_is_no_request_is_answered_once_and_ends_the_connection(kind: str) -> None:
    cases, echo = (HEADS, Echo()) if kind == "head" else (BODIES, Echo())
    async with serving(echo) as running:
        for name, raw in cases.items():
            before = running.malformed
            came = await only(running, raw)
            if came or len(raw) < MAX_HEAD:  # what was not read may have reset the connection before the answer
                assert came.startswith(b"HTTP/1.1 400 Bad Request\r\n"), name
                assert came.count(b"HTTP/1.1") == 1, name
                assert b"\r\nConnection: close\r\n" in came, name
            assert running.malformed == before + 1, name
    assert echo.got == []


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_it_does_not_matter_how_the_bytes_come(size: int) -> None:
    """A message's parts are the same, wherever a packet ends."""
    raw = (
        (
            "\r\nPOST /%C3%A9?a=b HTTP/1.1\r\nHost: x\r\nx-e: \xff\r\nX-Two: 1\r\nx-two: 2\r\n"
            "Content-Length: 5\r\n\r\nhello"
            f"{CHUNKED}3;ext=1\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: 1\r\n\r\n"
            "GET /end HTTP/1.1\r\nConnection: close\r\n\r\n"
        )
        .replace("x-\xe9", "x-e")
        .encode("latin-1")
    )
    echo = Echo()
    async with serving(echo) as running, running.client() as client:
        for at in range(0, len(raw), size):
            client.send(raw[at : at + size])
            await client.writer.drain()
        assert [(await client.answer())[1] for _ in range(3)] == [b"hello", b"abcde", b""]
        assert await client.rest() == b""
    assert [path for _, path, _ in echo.got] == ["/%C3%A9?a=b", "/", "/end"]


async def test_what_a_request_says() -> None:
    seen: list[Request] = []

    async def note(request: Request) -> Whole:
        seen.append(request)
        return Whole(200, [], b"")

    heads = [
        "GET http://a/b HTTP/1.1\r\nX-One: 1\r\nx-one: 2\r\nx-\xe9:  \xff \t\r\nEmpty:\r\n\r\n".replace(
            "x-\xe9", "x-e"
        ),
        "OPTIONS * HTTP/1.0\r\n\r\n",
        "PUT / HTTP/1.0\r\nConnection: keep-alive\r\nContent-Type: Text/JSON; a=b\r\nContent-Length: 0\r\n\r\n",
        "DELETE / HTTP/1.1\r\nConnection: Close\r\nContent-Length: 3\r\n\r\nabc",
        f"{POST}Transfer-Encoding:  Chunked \r\n\r\n0\r\n\r\n",
    ]
    async with serving(note) as running:
        for head in heads:
            async with running.client() as client:
                client.send(head)
                await client.answer()
    assert [(one.method, one.raw_path) for one in seen] == [
        ("GET", "http://a/b"),
        ("OPTIONS", "*"),
        ("PUT", "/"),
        ("DELETE", "/"),
        ("POST", "/"),
    ]
    assert list(seen[0].headers.items())[:2] == [("X-One", "1"), ("x-one", "2")]
    assert seen[0].lower == {"x-one": "1", "x-e": "\udcff", "empty": ""}
    assert seen[0].headers.getall("X-ONE") == ["1", "2"]
    assert [one.modern for one in seen] == [True, False, False, True, True]
    assert [one.keep_alive for one in seen] == [True, False, True, False, True]
    assert [one.body_exists for one in seen] == [False, False, False, True, True]
    assert [one.length for one in seen] == [None, None, 0, 3, None]
    assert seen[2].content_type == "text/json"
    assert seen[0].content_type == "application/octet-stream"


async def test_the_most_that_is_taken() -> None:
    echo = Echo()
    headers = "".join(f"x-{n}: a\r\n" for n in range(MAX_HEADERS - 3))
    async with serving(echo) as running, running.client() as client:
        client.send(f"{POST}{headers}x-a: {'b' * MAX_LINE}\r\nx-b: {'b' * MAX_LINE}\r\n\r\n")
        assert (await client.answer())[0].startswith(b"HTTP/1.1 200 OK")
        client.send(f"GET /{'b' * (MAX_LINE - 1)} HTTP/1.1\r\nHost: x\r\n\r\n")
        assert (await client.answer())[0].startswith(b"HTTP/1.1 200 OK")
    assert running.malformed == 0


async def test_requests_that_are_sent_ahead_are_few() -> None:
    """More than that is not kept: the last one taken says so, and its client sends the others again."""
    echo = Echo()
    async with serving(echo) as running, running.client() as client:
        client.send("".join(f"GET /{n} HTTP/1.1\r\n\r\n" for n in range(AHEAD + 10)))
        came = await client.rest()
    assert [path for _, path, _ in echo.got] == [f"/{n}" for n in range(AHEAD)]
    assert came.count(b"HTTP/1.1 200 OK") == AHEAD
    assert came.count(b"Connection: close") == 1
    assert running.malformed == 0


async def test_what_stands_behind_a_wish_for_another_protocol_is_read_as_http() -> None:
    echo = Echo()
    asks = "Connection: Upgrade\r\nUpgrade: h2c\r\n"
    async with serving(echo) as running, running.client() as client:
        client.send(f"GET /1 HTTP/1.1\r\n{asks}\r\n{POST}{asks}Content-Length: 2\r\n\r\nhi", "GET /2 HTTP/1.1\r\n\r\n")
        assert [(await client.answer())[1] for _ in range(3)] == [b"", b"hi", b""]
        client.send("GET /3 HTTP/1.1\r\n\r\n")
        await client.answer()
        client.send("CONNECT a:1 HTTP/1.1\r\n\r\n", SMUGGLED)
        assert (await client.answer())[0].endswith(b"Connection: close")
        assert await client.rest() == b""
    assert [path for _, path, _ in echo.got] == ["/1", "/", "/2", "/3", "a:1"]


async def test_a_request_before_what_is_none_is_answered() -> None:
    echo = Echo()
    async with serving(echo) as running, running.client() as client:
        client.send(f"GET /1 HTTP/1.1\r\n\r\nno HTTP\r\n\r\n{SMUGGLED}")
        came = await client.rest()
    assert [line for line in came.split(b"\r\n") if b"HTTP/1.1 " in line] == [
        b"HTTP/1.1 200 OK",
        b"HTTP/1.1 400 Bad Request",
    ]
    assert len(echo.got) == 1


async def test_how_long_a_body_is_may_not_be_said_twice() -> None:
    """The parser sees to it, too."""
    for name in (b"Content-Length", b"transfer-encoding"):
        reading = Incoming(Mock())
        reading.on_message_begin()
        reading.on_header(name, b"0")
        with pytest.raises(ValueError, match=r"^$"):
            reading.on_header(name.swapcase(), b"0")


def test_names_that_clients_make_up_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(incoming, "_KNOWN", 3)
    monkeypatch.setattr(incoming, "_names", {})
    for n in range(10):
        assert incoming._known(b"X-%d" % n) == (f"X-{n}", f"x-{n}")
        assert len(incoming._names) <= 3
    long = b"a" * (incoming._LONG + 1)
    incoming._known(long)
    assert long not in incoming._names
