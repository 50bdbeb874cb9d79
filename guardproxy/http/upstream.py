"""Sends a request to the provider; wraps the client's errors in `UpstreamError`, so nobody else must.

`post` serves the surfaces over connections of our own (`pool`), `send` passes on the other routes, uploads and all,
with aiohttp's client. The one retry layer sits here, and only where nothing was sent. Bytes are never changed.
"""

from __future__ import annotations

import asyncio
import re
import zlib
from base64 import b64encode
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

import aiohttp
from yarl import URL

from guardproxy.errors import UpstreamError
from guardproxy.http import inflate
from guardproxy.http.exchange import MOST_HEAD, Answer, Terms
from guardproxy.http.headers import BEARER, passed_on, place_of, readable
from guardproxy.http.inflate import Inflate, TooMuchError
from guardproxy.http.pool import Pool

T = TypeVar("T")

RETRY_AFTER_S = 0.2
"""Pause before a connection is tried again: a restarting provider needs a moment."""

Body = AsyncIterable[bytes] | None

NOT_OPEN = "the upstream connection pool is not open"

_STYLED = re.compile(r"(?:/v1beta)?/openai(?:/v1|/deployments/[^/]+)?$|/v1$")
"""What an address may end with that stands in the path of a request as well (`http.route.STYLES`)."""


class Upstream:
    """One provider. `url` ends before the surface's path, such as `https://api.openai.com/v1`.

    `name` is given where there are several; "" is the only one. `setting`: where its address is configured.
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "",
        setting: str = "upstream.url",
        api_key: str = "",
        connect_s: float = 10,
        first_byte_s: float = 600,
        idle_s: float = 300,
        retries: int = 0,
    ) -> None:
        self.name = name
        self._setting = setting
        parts = urlsplit(url.rstrip("/"))
        self.base = parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
        """Without a name and a password: it is shown to clients when something goes wrong."""
        self.address = parts.hostname or ""
        self.port = parts.port or (443 if parts.scheme == "https" else 80)
        self._root = _STYLED.sub("", self.base)
        self._deployed = "/openai/deployments/" in self.base
        self._api_key = api_key
        self._authorization = f"Bearer {api_key}" if api_key else _basic(parts)
        self._urls: dict[str, URL] = {}
        self._targets: dict[str, str] = {}
        self._idle_s = idle_s
        self._retries = retries
        self.on_retry: Callable[[str], None] = lambda _error: None
        """Told of every retry, with the kind of error."""
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=connect_s, sock_read=first_byte_s)
        self._session: aiohttp.ClientSession | None = None
        self._terms = Terms(self.base, connect_s, first_byte_s, idle_s)
        self._pool: Pool | None = None

    async def start(self) -> None:
        """Open the connection pools (inside the running loop)."""
        self._pool = Pool(self._terms)
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=30, ttl_dns_cache=60)
        self._session = aiohttp.ClientSession(
            connector=connector,
            timeout=self._timeout,
            auto_decompress=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            cookie_jar=aiohttp.DummyCookieJar(),
            max_line_size=MOST_HEAD,
            max_field_size=MOST_HEAD,
        )

    async def close(self) -> None:
        """Close the connection pools."""
        if self._pool:
            self._pool.close()
        if self._session:
            await self._session.close()

    async def post(self, path: str, body: bytes, headers: list[tuple[str, str]]) -> Answer:
        """The beginning of the provider's answer to `path`. Whoever has read it, or has had enough, calls its `end`."""
        if self._pool is None:
            raise UpstreamError(NOT_OPEN)
        target = self._targets.get(path) or self._target(path)
        try:
            return await self._pool.post(target, headers, body)
        except TimeoutError:
            raise
        except OSError as error:
            begin = partial(self._pool.post, target, headers, body)
            return await self._tried(begin, error)

    @asynccontextmanager
    async def send(
        self, method: str, path: str, body: Body, headers: Iterable[tuple[str, str]]
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """The provider's answer to `path` (such as `/v1/chat/completions?x=1`). Leaving the block early closes it."""
        answer = await self._begun(method, self._url(path), body, list(headers))
        if answer.connection is not None and answer.connection.protocol is not None:
            answer.connection.protocol.read_timeout = self._idle_s  # it has begun to answer
        try:
            if answer.status < 200:  # only 101 comes that far, and nobody asked for another protocol
                raise self._terms.broken("it wants to speak another protocol")
            yield answer
        except (TimeoutError, aiohttp.ClientError) as error:
            answer.close()
            raise self._wrap(error) from error
        except BaseException:
            answer.close()
            raise
        answer.release()

    async def _begun(self, method: str, url: URL, body: Body, headers: list[tuple[str, str]]) -> aiohttp.ClientResponse:
        if self._session is None:
            raise UpstreamError(NOT_OPEN)
        make = self._session.request
        try:
            return await self._tried(partial(make, method, url, data=body, headers=headers, allow_redirects=False))
        except (TimeoutError, aiohttp.ClientError, ValueError) as error:
            raise self._wrap(error) from error

    async def _tried(self, begin: Callable[[], Awaitable[T]], failed: OSError | None = None) -> T:
        """The answer's beginning. A connection that could not be made is tried again: nothing was sent on it.

        `failed`: how the first try has ended.
        """
        for left in range(self._retries, -1, -1):
            try:
                if failed is None:
                    return await begin()
                error, failed = failed, None
            except TimeoutError:
                raise
            except OSError as now:
                error = now
            if _sent(error) or not left:
                raise self._wrap(error) from error
            self.on_retry(type(error).__name__)
            await asyncio.sleep(RETRY_AFTER_S)
        raise AssertionError  # the last round returns or raises

    def request_headers(
        self, received: Mapping[str, str], path: str, *, identity: bool, plain: bool
    ) -> list[tuple[str, str]]:
        """The client's headers for the provider. `identity`: ask for an unencoded answer; `plain`: so is our body."""
        kept = passed_on(received.items(), received.get("Connection", ""))
        if plain and "Content-Encoding" in received:
            kept = [pair for pair in kept if pair[0].lower() != "content-encoding"]
        if self._authorization:
            place = place_of(received, path, deployed=self._deployed) if self._api_key else BEARER
            theirs = {"authorization", "api-key", place.lower()}
            kept = [pair for pair in kept if pair[0].lower() not in theirs]
            kept.append((place, self._authorization if place == BEARER else self._api_key))
        kept.append(("Accept-Encoding", "identity" if identity else readable(received.get("Accept-Encoding", ""))))
        return kept

    def _url(self, path: str) -> URL:
        url = self._urls.get(path)
        if url is None:
            if len(self._urls) > 1024:
                self._urls.clear()
            ours = path.startswith("/v1/") or path.partition("?")[0] == "/v1"
            full = self.base + path[3:] if ours else self._root + path
            url = self._urls[path] = URL(full, encoded=True)
        return url

    def _target(self, path: str) -> str:
        if len(self._targets) > 1024:
            self._targets.clear()
        self._targets[path] = target = self._url(path).raw_path_qs
        return target

    def _wrap(self, error: BaseException) -> UpstreamError:
        if isinstance(error, asyncio.TimeoutError):
            message = f"the provider at {self.base} did not answer in time"
            made = UpstreamError.before if isinstance(error, aiohttp.ConnectionTimeoutError) else UpstreamError
            return made(message, status=504, code="upstream_timeout")
        if isinstance(error, OSError) and not _sent(error):
            message = f"the provider at {self.base} cannot be reached ({error}); check {self._setting}"
            return UpstreamError.before(message, code="upstream_unreachable")
        message = f"the provider at {self.base} broke off ({type(error).__name__}: {error})"
        return UpstreamError(message, code="upstream_broken")


def _sent(error: BaseException) -> bool:
    """Whether something of the request may have left: with aiohttp's client an `OSError` does not say it alone."""
    return isinstance(error, aiohttp.ClientOSError) and not isinstance(error, aiohttp.ClientConnectorError)


def _basic(parts: SplitResult) -> str:
    """The name and password in an address, as the header that they stand for; "" if there are none."""
    if parts.username is None:
        return ""
    told = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return "Basic " + b64encode(told.encode()).decode()


class Inflater:
    """Decodes a copy of an encoded body for our own view. `limit` bounds what it may expand to; past it: no view."""

    def __init__(self, encoding: str, limit: int) -> None:
        self._inflate = Inflate(encoding, limit) if encoding in inflate.READABLE else None

    @property
    def blind(self) -> bool:
        """The view is lost, for good."""
        return self._inflate is None

    def feed(self, chunk: bytes) -> bytes:
        """The decoded bytes; empty once the view is lost."""
        if self._inflate is None:
            return b""
        try:
            return self._inflate.feed(chunk)
        except (zlib.error, TooMuchError):
            self._inflate = None
            return b""
