"""Bodies off the socket: encodings, and a bound on what they expand to. Over HTTP: `test_bad_input`."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any
from unittest.mock import Mock

import pytest

from guardproxy.errors import BadAsk
from guardproxy.http import intake
from guardproxy.http.intake import Intake, expand
from guardproxy.http.request import Request
from guardproxy.http.whole import Whole
from tests.http.raw import serving

BODY = b'{"model": "m"}' * 50
ENCODED = {
    "gzip": gzip.compress(BODY),
    "x-gzip": gzip.compress(BODY),
    "deflate": zlib.compress(BODY),
}


@pytest.mark.parametrize("encoding", ENCODED)
def test_expand(encoding: str) -> None:
    assert expand(ENCODED[encoding], encoding, len(BODY) + 1) == BODY
    assert expand(ENCODED[encoding], encoding, len(BODY)) == BODY, "the bound itself is allowed"


REFUSED = {
    "too much": (gzip.compress(BODY), "gzip", len(BODY) - 1, "body_too_large"),
    "a bomb": (gzip.compress(bytes(10_000_000)), "gzip", 1000, "body_too_large"),
    "cut off": (gzip.compress(BODY)[:-4], "gzip", 10_000, "invalid_encoding"),
    "nothing": (b"", "gzip", 10_000, "invalid_encoding"),
    "no gzip at all": (BODY, "gzip", 10_000, "invalid_encoding"),
    "brotli": (BODY, "br", 10_000, "unsupported_encoding"),
    "two at once": (BODY, "gzip, gzip", 10_000, "unsupported_encoding"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    raw, encoding, limit, code = REFUSED[name]
    with pytest.raises(BadAsk) as caught:
        expand(raw, encoding, limit)

    assert (caught.value.code, caught.value.status, caught.value.param) == (code, 400, "content-encoding")


def test_encoded() -> None:
    assert not Intake(BODY, BODY).encoded
    assert Intake(ENCODED["gzip"], BODY).encoded


async def test_a_large_body_is_decoded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[object] = []

    async def noted(function: Any, *given: Any) -> Any:
        threads.append(function)
        return function(*given)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    for size, beside in ((1 << 20, 0), ((1 << 20) + 1, 1)):
        threads.clear()
        request = Request(Mock(), "POST", "/", [], {"content-encoding": "gzip"})
        request.body = gzip.compress(bytes(size))
        taken = await intake.take(request, max_body=1 << 30, max_expanded=1 << 22)
        assert (len(taken.plain), len(threads)) == (size, beside)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("sized", [False, True])
async def test_a_body_off_the_socket(monkeypatch: pytest.MonkeyPatch, *, sized: bool, ahead: bool) -> None:
    """Its parts together, within its bound, each within its time. `ahead`: it is waited for before it is taken."""
    monkeypatch.setattr(intake, "IDLE_S", 0.1)
    said: list[str] = []

    async def take(request: Request) -> Whole:
        try:
            if ahead:
                said.append(str(await intake.arrive(request, max_body=8)))
            taken = await intake.take(request, max_body=8, max_expanded=8)
        except BadAsk as error:
            return Whole(error.status, [], error.code.encode())
        return Whole(200, [], taken.raw)

    def framed(*parts: bytes) -> list[bytes]:
        return list(parts) if sized else [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]

    async with serving(take) as running:
        for parts, most, whole, answer in (
            ((b"abc", b"de", b"fgh"), 8, True, b"abcdefgh"),
            ((b"abcdefgh",), 8, True, b"abcdefgh"),
            ((b"abc", b"defghi"), 9, True, b"body_too_large"),
            ((b"abc",), 8, False, b"request_timeout"),
        ):
            async with running.client() as client:
                framing = f"Content-Length: {most}" if sized else "Transfer-Encoding: chunked"
                client.send(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n")
                for part in framed(*parts):
                    client.send(part)
                    await asyncio.sleep(0.005)
                if whole and not sized:
                    client.send("0\r\n\r\n")
                assert (await client.answer())[1] == answer
    assert said == (["True", "True", "False", "False"] if ahead else [])
