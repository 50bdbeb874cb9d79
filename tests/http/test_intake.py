"""Bodies off the socket: encodings, and a bound on what they expand to. Over HTTP: `test_bad_input`."""

from __future__ import annotations

import asyncio
import gzip
import zlib
from typing import Any
from unittest.mock import Mock

import pytest
from aiohttp import StreamReader
from aiohttp.base_protocol import BaseProtocol
from aiohttp.test_utils import make_mocked_request
from multidict import CIMultiDict

from guardproxy.errors import BadAsk
from guardproxy.http import intake
from guardproxy.http.intake import Intake, expand, lower

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


def test_headers() -> None:
    """Names in lower case; of a repeated header the first."""
    received = CIMultiDict([("X-Session-Id", "a"), ("x-session-ID", "b"), ("Accept", "*/*")])

    assert lower(received) == {"x-session-id": "a", "accept": "*/*"}


async def test_a_large_body_is_decoded_beside_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[object] = []

    async def noted(function: Any, *given: Any) -> Any:
        threads.append(function)
        return function(*given)

    monkeypatch.setattr(asyncio, "to_thread", noted)
    for size, beside in ((1 << 20, 0), ((1 << 20) + 1, 1)):
        threads.clear()
        headers = {"Content-Encoding": "gzip"}
        request = make_mocked_request("POST", "/", headers=headers)
        request[intake._ARRIVED] = gzip.compress(bytes(size))
        taken = await intake.take(request, max_body=1 << 30, max_expanded=1 << 22)
        assert (len(taken.plain), len(threads)) == (size, beside)


@pytest.mark.parametrize("sized", [True, False])
async def test_a_body_may_come_in_many_parts(monkeypatch: pytest.MonkeyPatch, *, sized: bool) -> None:
    """Each of them gives it its time again, and none of them more."""
    monkeypatch.setattr(intake, "IDLE_S", 0.5)
    loop = asyncio.get_running_loop()
    protocol = BaseProtocol(loop)
    protocol.transport = Mock()
    content = StreamReader(protocol, 1 << 16, loop=loop)

    async def send() -> None:
        for part in (b"a", b"b", b"c"):
            content.feed_data(part * 3)
            content.feed_data(part)
            await asyncio.sleep(0.3)
        content.feed_eof()

    sending = asyncio.ensure_future(send())
    assert await intake._gathered(content, 1 << 20, sized=sized) == b"aaaabbbbcccc"
    await sending
    endless = StreamReader(protocol, 1 << 16, loop=loop)
    monkeypatch.setattr(intake, "IDLE_S", 0.01)
    with pytest.raises(TimeoutError):
        await intake._gathered(endless, 1 << 20, sized=sized)
