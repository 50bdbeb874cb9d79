"""gzip and deflate in pieces: members, bare deflate, and a bound that holds to the byte."""

from __future__ import annotations

import gzip
import zlib

import pytest

from guardproxy.http.inflate import MAX_MEMBERS, Inflate, TooMuchError
from tests.cheap import cheap

BODY = b'{"model": "m"}' * 9000


def bare(data: bytes) -> bytes:
    codec = zlib.compressobj(wbits=-15)
    return codec.compress(data) + codec.flush()


MADE = {
    "one member": ("gzip", gzip.compress(BODY)),
    "members": ("gzip", b"".join(gzip.compress(BODY[at : at + 1000]) for at in range(0, len(BODY), 1000))),
    "an empty member": ("gzip", gzip.compress(b"") + gzip.compress(BODY) + gzip.compress(b"")),
    "padded": ("x-gzip", gzip.compress(BODY) + bytes(500)),
    "deflate": ("deflate", zlib.compress(BODY)),
    "bare deflate": ("deflate", bare(BODY)),
}


@pytest.mark.parametrize("size", [1, 2, 999, 1 << 20])
@pytest.mark.parametrize("name", MADE)
def test_inflate(name: str, size: int) -> None:
    encoding, raw = MADE[name]
    inflate = Inflate(encoding, len(BODY))
    found = b"".join([inflate.feed(raw[at : at + size]) for at in range(0, len(raw), size)])

    assert (found == BODY, inflate.complete) == (True, True)
    with pytest.raises(TooMuchError):
        Inflate(encoding, len(BODY) - 1).feed(raw)


@pytest.mark.parametrize(
    ("encoding", "raw"),
    [
        ("gzip", b"hello"),
        ("gzip", gzip.compress(BODY) + b"more"),
        ("gzip", gzip.compress(b"") * (MAX_MEMBERS + 1)),
        ("deflate", zlib.compress(BODY) + b"more"),
        ("deflate", b"\xff\xff\xff"),
    ],
    ids=range(5),
)
def test_no_such_body(encoding: str, raw: bytes) -> None:
    with pytest.raises(zlib.error):
        Inflate(encoding, 1 << 20).feed(raw)


@pytest.mark.parametrize(
    "raw", [b"", b"\x1f", gzip.compress(BODY)[:-1], gzip.compress(b"") + b"\x1f\x8b"], ids=range(4)
)
def test_incomplete(raw: bytes) -> None:
    inflate = Inflate("gzip", 1 << 20)
    inflate.feed(raw)

    assert not inflate.complete


def test_a_limit_that_is_reached_is_no_absence_of_one() -> None:
    inflate = Inflate("gzip", 10)

    assert inflate.feed(gzip.compress(bytes(10))) == bytes(10)
    with pytest.raises(TooMuchError):
        inflate.feed(gzip.compress(bytes(1 << 20)))


def test_many_members_cost_little() -> None:
    raw = gzip.compress(b"") * 9_999 + gzip.compress(bytes(1 << 20))
    with cheap(2):
        Inflate("gzip", 1 << 20).feed(raw)
