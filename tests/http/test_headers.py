"""Which headers of a request and its answer travel, and in which of them the provider's key does."""

from __future__ import annotations

from typing import Any

import pytest
from multidict import CIMultiDict

from guardproxy.http.headers import response_headers
from guardproxy.http.upstream import Upstream

Pairs = list[tuple[str, str]]


def headers(
    *received: tuple[str, str],
    key: str = "",
    identity: bool = False,
    plain: bool = False,
    path: str = "/v1/x",
    url: str = "http://p/v1",
) -> Pairs:
    made = Upstream(url, api_key=key)
    return made.request_headers(CIMultiDict(received), path, identity=identity, plain=plain)


ENCODING = ("Accept-Encoding", "identity")
KEPT: dict[str, tuple[Pairs, dict[str, Any], Pairs]] = {
    "as they are, in their order": (
        [("X-B", "1"), ("x-a", "2"), ("X-B", "3"), ("User-Agent", "ä"), ("Cookie", "c=1")],
        {},
        [("X-B", "1"), ("x-a", "2"), ("X-B", "3"), ("User-Agent", "ä"), ("Cookie", "c=1"), ENCODING],
    ),
    "hop by hop": (
        [
            ("Host", "us"),
            ("Connection", "keep-alive, X-Secret"),
            ("x-secret", "1"),
            ("Keep-Alive", "timeout=5"),
            ("TE", "trailers"),
            ("Trailer", "X"),
            ("Transfer-Encoding", "chunked"),
            ("Upgrade", "h2c"),
            ("Proxy-Authorization", "Basic x"),
            ("Proxy-Connection", "close"),
            ("Content-Length", "3"),
            ("Expect", "100-continue"),
            ("X-Kept", "1"),
        ],
        {},
        [("X-Kept", "1"), ENCODING],
    ),
    "what is meant for us": (
        [("x-guardproxy-session-id", "s"), ("X-GuardProxy-Progress", "{}"), ("x-guard", "1")],
        {},
        [("x-guard", "1"), ENCODING],
    ),
    "the client's key": ([("Authorization", "Bearer c")], {}, [("Authorization", "Bearer c"), ENCODING]),
    "our key in its place": (
        [("authorization", "Bearer c"), ("AUTHORIZATION", "Bearer d")],
        {"key": "ours"},
        [("Authorization", "Bearer ours"), ENCODING],
    ),
    "our key in its place, in Anthropic's protocol": (
        [("X-Api-Key", "c"), ("Anthropic-Version", "2023-06-01"), ("authorization", "Bearer c")],
        {"key": "ours"},
        [("Anthropic-Version", "2023-06-01"), ("x-api-key", "ours"), ENCODING],
    ),
    "the client's key in Anthropic's protocol": (
        [("x-api-key", "c"), ("anthropic-version", "2023-06-01"), ("anthropic-beta", "b")],
        {},
        [("x-api-key", "c"), ("anthropic-version", "2023-06-01"), ("anthropic-beta", "b"), ENCODING],
    ),
    "our key, whatever the client's is in": (
        [("api-key", "c"), ("x-api-key", "theirs")],
        {"key": "ours"},
        [("x-api-key", "theirs"), ("Authorization", "Bearer ours"), ENCODING],
    ),
    "our key on Azure's routes": (
        [("authorization", "Bearer c"), ("Api-Key", "d")],
        {"key": "ours", "path": "/openai/deployments/d/chat/completions?api-version=1"},
        [("api-key", "ours"), ENCODING],
    ),
    "our key on Azure's newer routes": (
        [("Api-Key", "d")],
        {"key": "ours", "path": "/openai/v1/chat/completions"},
        [("api-key", "ours"), ENCODING],
    ),
    "our key on routes that begin so": (
        [("authorization", "Bearer c")],
        {"key": "ours", "path": "/openai/v1/chat/completions"},
        [("Authorization", "Bearer ours"), ENCODING],
    ),
    "our key for a deployment in the address": (
        [("authorization", "Bearer c")],
        {"key": "ours", "url": "https://r.openai.azure.com/openai/deployments/d"},
        [("api-key", "ours"), ENCODING],
    ),
    "the client's key on Azure's routes": (
        [("api-key", "c")],
        {"path": "/openai/deployments/d/chat/completions"},
        [("api-key", "c"), ENCODING],
    ),
    "an encoded body": ([("Content-Encoding", "gzip")], {}, [("Content-Encoding", "gzip"), ENCODING]),
    "a body that we decoded": ([("Content-Encoding", "gzip")], {"plain": True}, [ENCODING]),
    "encodings that we can read": (
        [("Accept-Encoding", "br;q=1.0, gzip;q=0.8, zstd, deflate")],
        {},
        [("Accept-Encoding", "gzip;q=0.8, deflate")],
    ),
    "encodings that we cannot": ([("Accept-Encoding", "br, *")], {}, [ENCODING]),
    "an answer that we change": ([("Accept-Encoding", "gzip")], {"identity": True}, [ENCODING]),
}


@pytest.mark.parametrize("name", KEPT)
def test_request_headers(name: str) -> None:
    received, how, expected = KEPT[name]

    assert headers(*received, **how) == expected


def test_response_headers() -> None:
    received = CIMultiDict(
        [
            ("Content-Type", "application/json"),
            ("Content-Length", "9"),
            ("Date", "now"),
            ("Connection", "X-Hop"),
            ("X-Hop", "1"),
            ("Transfer-Encoding", "chunked"),
            ("Set-Cookie", "a=1"),
            ("Set-Cookie", "b=2"),
            ("x-ratelimit-remaining", "3"),
            ("Content-Encoding", "gzip"),
        ]
    )

    assert response_headers(received.items(), "X-Hop") == [
        ("Content-Type", "application/json"),
        ("Set-Cookie", "a=1"),
        ("Set-Cookie", "b=2"),
        ("x-ratelimit-remaining", "3"),
        ("Content-Encoding", "gzip"),
    ]
