"""The headers that travel between client and provider, and in which of them the provider wants its key."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

HOP_BY_HOP = frozenset(
    {
        "host",
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "content-length",
        "expect",
    }
)
"""Headers that belong to one connection (RFC 9110, section 7.6.1), and those that the client library sets."""

READABLE = ("gzip", "deflate", "identity")
"""Content encodings that we can look into; others are not offered to the provider."""

BEARER = "Authorization"
ANTHROPIC = "anthropic-version"
"""A header that every request in Anthropic's protocol has: there a key goes in a header of its own."""

AZURE, AZURE_NEWER = "/openai/", "/openai/v1/"
"""Where Azure's routes begin: there a key goes in `api-key`. The newer ones take it as OpenAI does, too, as others do
who begin so.
"""

_USUAL = frozenset({"keep-alive", "close"})
"""Values of Connection that name no other header."""


def place_of(received: Mapping[str, str], path: str, *, deployed: bool) -> str:
    """The header for a provider's own key. `deployed`: its address is that of one of Azure's deployments."""
    if ANTHROPIC in received:
        return "x-api-key"
    azure = path.startswith(AZURE) and (not path.startswith(AZURE_NEWER) or "api-key" in received)
    return "api-key" if azure or deployed else BEARER


def passed_on(received: Iterable[tuple[str, str]], connection: str) -> list[tuple[str, str]]:
    """The headers that go to the other side, in their order: not those of one connection, nor those meant for us."""
    kept = [pair for pair in received if _goes_on(pair[0])]
    if connection and connection.lower() not in _USUAL:
        linked = {name.strip().lower() for name in connection.split(",")}
        kept = [pair for pair in kept if pair[0].lower() not in linked]
    return kept


@lru_cache(maxsize=4096)
def _goes_on(name: str) -> bool:
    low = name.lower()
    return low not in HOP_BY_HOP and low != "accept-encoding" and not low.startswith("x-guardproxy-")


@lru_cache(maxsize=4096)
def _goes_back(name: str) -> bool:
    return _goes_on(name) and name.lower() != "date"


def response_headers(received: Iterable[tuple[str, str]], connection: str) -> list[tuple[str, str]]:
    """The provider's headers that the client gets, in their order. `connection`: the value of that header."""
    kept = [pair for pair in received if _goes_back(pair[0])]
    return passed_on(kept, connection) if connection and connection.lower() not in _USUAL else kept


@lru_cache(maxsize=256)
def readable(accepted: str) -> str:
    """What the client accepts, without the encodings that we cannot look into."""
    kept = [part.strip() for part in accepted.split(",") if part.split(";")[0].strip().lower() in READABLE]
    return ", ".join(kept) or "identity"
