"""What of a request and its answer travels: headers, addresses, encodings. Connections that fail: `test_bad_input`."""

from __future__ import annotations

import gzip
import zlib

import pytest
from multidict import CIMultiDict

from guardproxy.errors import UpstreamError
from guardproxy.http.upstream import Inflater, Upstream

Pairs = list[tuple[str, str]]


@pytest.mark.parametrize(
    ("base", "path", "expected"),
    [
        ("https://api.openai.com/v1", "/v1/chat/completions", "https://api.openai.com/v1/chat/completions"),
        ("https://api.openai.com/v1/", "/v1/models", "https://api.openai.com/v1/models"),
        ("http://p/openai/v2", "/v1/models?a=%2F&b=%C3%A9+x&a=2", "http://p/openai/v2/models?a=%2F&b=%C3%A9+x&a=2"),
        ("http://p/v1", "/v1/files/a%2Fb", "http://p/v1/files/a%2Fb"),
        ("http://p/v1", "/v1/files/..%2fx", "http://p/v1/files/..%2fx"),
    ],
)
def test_addresses(base: str, path: str, expected: str) -> None:
    """Byte for byte: nothing is decoded and encoded again."""
    assert str(Upstream(base)._url(path)) == expected


@pytest.mark.parametrize(
    ("url", "address", "port"),
    [("https://h/v1", "h", 443), ("http://h/v1", "h", 80), ("http://[::1]:11434/v1", "::1", 11434)],
)
def test_where_it_is(url: str, address: str, port: int) -> None:
    made = Upstream(url)

    assert (made.address, made.port) == (address, port)


def test_made_up_paths_cannot_fill_the_memory() -> None:
    made = Upstream("http://p/v1")
    for number in range(3000):
        made._url(f"/v1/x?n={number}")

    assert len(made._urls) < 1100


async def test_not_open() -> None:
    with pytest.raises(UpstreamError, match="not open"):
        async with Upstream("http://p/v1").send("GET", "/v1/models", None, []):
            pass


PLAIN = b'{"a": 1}' * 300


@pytest.mark.parametrize("encoding", ["gzip", "x-gzip", "deflate"])
@pytest.mark.parametrize("size", [1, 7, 100_000])
def test_inflater(encoding: str, size: int) -> None:
    raw = zlib.compress(PLAIN) if encoding == "deflate" else gzip.compress(PLAIN[:99]) + gzip.compress(PLAIN[99:])
    inflater = Inflater(encoding, 1 << 20)
    found = b"".join(inflater.feed(raw[at : at + size]) for at in range(0, len(raw), size))

    assert (found, inflater.blind) == (PLAIN, False)


BLIND = {
    "another encoding": ("br", PLAIN, 1 << 20, b""),
    "not what it says": ("gzip", PLAIN, 1 << 20, b""),
    "a bomb": ("gzip", gzip.compress(bytes(1 << 20)), 1000, b""),
}


@pytest.mark.parametrize("name", BLIND)
def test_a_view_that_is_lost(name: str) -> None:
    """The client gets its bytes all the same; we see no more of them."""
    encoding, raw, limit, seen = BLIND[name]
    inflater = Inflater(encoding, limit)

    assert inflater.feed(raw) == seen
    assert inflater.blind
    assert inflater.feed(raw) == b""


@pytest.mark.parametrize(
    ("url", "key", "sent"),
    [
        ("http://user:s3cret@h/v1", "", "Basic dXNlcjpzM2NyZXQ="),
        ("http://us%40er:p%3Aw@h/v1", "", "Basic dXNAZXI6cDp3"),
        ("http://user@h:81/v1", "", "Basic dXNlcjo="),
        ("http://user:s3cret@h/v1", "ours", "Bearer ours"),
    ],
)
def test_a_password_in_the_address_is_sent_and_never_shown(url: str, key: str, sent: str) -> None:
    made = Upstream(url, api_key=key)
    asked = made.request_headers(CIMultiDict({"Authorization": "Bearer c"}), "/v1/x", identity=False, plain=False)

    assert dict(asked)["Authorization"] == sent
    assert "@" not in made.base
    assert "s3cret" not in f"{made.base} {made._terms} {made._url('/v1/models')}"
