"""The connections to a provider: made when they are needed, kept a while for the next request."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Sequence
from socket import SOCK_STREAM

from aiohappyeyeballs import start_connection
from yarl import URL

from guardproxy.http.exchange import Answer, Connection, Terms

KEPT_S = 30.0
"""Seconds that an unused connection is kept: providers and load balancers close theirs after a minute or more."""

EYEBALLS_S = 0.25
"""Seconds until the next address of a host is tried beside the first (RFC 8305)."""


class Pool:
    """The connections to one provider. Make and use it inside one running loop."""

    def __init__(self, terms: Terms) -> None:
        url = URL(terms.base, encoded=True)
        self._terms = terms
        self._host, self._port = url.raw_host or "", url.port
        self._tls = ssl.create_default_context() if url.scheme == "https" else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(["http/1.1"])
        self._named = url.host_port_subcomponent or ""
        self._idle: list[tuple[Connection, float]] = []
        self._sweeping: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()

    def post(self, target: str, headers: Sequence[tuple[str, str]], body: bytes) -> Awaitable[Answer]:
        """Send a request on a free connection. `OSError`, but for a timeout, only while nothing was sent.

        What is awaited is the connection's own work where one is free: a layer less that every answer goes through.
        """
        first, last = f"POST {target} HTTP/1.1\r\nHost: {self._named}", f"Content-Length: {len(body)}\r\n\r\n"
        head = "\r\n".join((first, *map(": ".join, headers), last))
        raw, connection = head.encode("utf-8", "surrogateescape"), self._free()
        return self._ask_new(raw, body) if connection is None else connection.ask(raw, body)

    async def _ask_new(self, head: bytes, body: bytes) -> Answer:
        connection = await self._connect()
        return await connection.ask(head, body)

    def keep(self, connection: Connection) -> None:
        """Take a connection back for the next request."""
        self._idle.append((connection, self._loop.time()))
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(KEPT_S, self._sweep)

    def close(self) -> None:
        """Close the connections that nobody uses."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        for connection, _ in self._idle:
            connection.close()
        self._idle.clear()

    def _free(self) -> Connection | None:
        oldest = self._loop.time() - KEPT_S
        while self._idle:
            connection, since_s = self._idle.pop()
            if not connection.closed and since_s > oldest:
                return connection
            connection.close()
        return None

    async def _connect(self) -> Connection:
        try:
            async with asyncio.timeout(self._terms.connect_s):
                found = await self._loop.getaddrinfo(self._host, self._port, type=SOCK_STREAM)
                sock = await start_connection(found, happy_eyeballs_delay=EYEBALLS_S)
                name = self._host if self._tls else None
                _, connection = await self._loop.create_connection(
                    lambda: Connection(self._terms, self.keep), sock=sock, ssl=self._tls, server_hostname=name
                )
        except TimeoutError:
            raise self._terms.late_connect() from None
        except UnicodeError as error:
            message = f"{self._host!r} is no name of a host: {error}"
            raise OSError(message) from None
        return connection

    def _sweep(self) -> None:
        """Close what was not used for long."""
        oldest = self._loop.time() - KEPT_S
        kept = [entry for entry in self._idle if entry[1] > oldest and not entry[0].closed]
        for connection, since_s in self._idle:
            if since_s <= oldest:
                connection.close()
        self._idle = kept
        self._sweeping = self._loop.call_later(KEPT_S / 2, self._sweep) if kept else None
