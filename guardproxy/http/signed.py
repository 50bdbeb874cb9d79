"""Requests that we send to a server of the user's: signed, never redirected, answered in time and within a bound.

The signature is `x-guardproxy-signature: t=SECONDS,v1=HEX`: HMAC-SHA256 with the shared secret over `SECONDS.BODY`. The
time is inside, so that a request that was overheard cannot be played again later.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from guardproxy import __version__
from guardproxy._hosts import WHY, refused
from guardproxy.http.private import PrivateError, PublicResolver

HEADER = "x-guardproxy-signature"
"""Name of the header with the signature."""

TOLERANCE_S = 300
"""Seconds that a signature is taken for: clocks differ, requests wait in queues."""

MOST_BYTES = 65_536
"""Bytes of an answer that are read: a verdict and a text for a model."""


def sign(secret: str, body: bytes, now_s: int) -> str:
    """The header's value for a body sent at `now_s` (seconds since 1970)."""
    digest = hmac.new(secret.encode(), b"%d.%b" % (now_s, body), hashlib.sha256)
    return f"t={now_s},v1={digest.hexdigest()}"


def genuine(secret: str, header: str, body: bytes, now_s: int, tolerance_s: int = TOLERANCE_S) -> bool:
    """Whether a header is ours for that body, and not older or newer than the tolerance. For the receiving side."""
    parts = dict(part.strip().partition("=")[::2] for part in header.split(","))
    sent = parts.get("t", "")
    if not (sent.isascii() and sent.isdigit() and len(sent) <= 12) or abs(now_s - int(sent)) > tolerance_s:
        return False
    return hmac.compare_digest(sign(secret, body, int(sent)).encode(), f"t={sent},v1={parts.get('v1', '')}".encode())


@dataclass(frozen=True, slots=True)
class Receiver:
    """A server of the user's. `secret` is shared with it; neither it nor the path is ever shown in a message.

    `private_hosts`: hosts that may have a private address.
    """

    url: str = field(repr=False)
    secret: str = field(repr=False)
    timeout_s: float = 5.0
    private_hosts: frozenset[str] = frozenset()

    @property
    def origin(self) -> str:
        """Scheme, host and port: what a log may say (paths and passwords in addresses are secrets of some services)."""
        parts = urlsplit(self.url)
        host = parts.hostname or ""
        named = f"[{host}]" if ":" in host else host
        return f"{parts.scheme}://{named}{f':{parts.port}' if parts.port else ''}"


@dataclass(frozen=True, slots=True)
class Received:
    """What came back. `status` 0: no answer; `wrong` says why, without secrets. `body` is cut at MOST_BYTES."""

    status: int
    body: bytes = b""
    wrong: str = ""
    whole: bool = True


def open_session(to: Receiver) -> aiohttp.ClientSession:
    """Connections to a receiver, without cookies. Call it inside the running loop."""
    resolver = PublicResolver(to.private_hosts)
    connector = aiohttp.TCPConnector(limit=32, keepalive_timeout=30, ttl_dns_cache=60, resolver=resolver)
    return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=False)


async def post(session: aiohttp.ClientSession, to: Receiver, body: bytes, *, request_id: str, now_s: int) -> Received:
    """Send a JSON body once. Never raises what a network or a server may do; `request_id` is the same on each try."""
    headers = {
        "Content-Type": "application/json",
        "Accept-Encoding": "identity",
        "User-Agent": f"guardproxy/{__version__}",
        "x-guardproxy-id": request_id,
        HEADER: sign(to.secret, body, now_s),
    }
    timeout = aiohttp.ClientTimeout(total=to.timeout_s)
    try:
        if refused(to.url, to.private_hosts):
            return Received(0, wrong=WHY)
        async with session.post(URL(to.url), data=body, headers=headers, timeout=timeout, allow_redirects=False) as got:
            read = await _bounded(got)
            return Received(got.status, read[:MOST_BYTES], whole=len(read) <= MOST_BYTES)
    except TimeoutError:
        return Received(0, wrong=f"no answer within {to.timeout_s:g} s")
    except (aiohttp.ClientError, OSError, ValueError, RuntimeError) as error:  # the last: a session that was closed
        private = isinstance(getattr(error, "os_error", error), PrivateError)
        return Received(0, wrong=WHY if private else f"cannot be reached ({type(error).__name__})")


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    """The body, no further than one byte past the bound; the rest is not waited for."""
    read = bytearray()
    async for chunk in answer.content.iter_any():
        read += chunk
        if len(read) > MOST_BYTES:
            answer.close()
            break
    return bytes(read[: MOST_BYTES + 1])
