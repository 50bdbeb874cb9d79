"""Resolves the names of the user's servers, and leaves out private addresses: each time, as a name that is public today
may point inside tomorrow. What an address says by itself is in `_hosts`.
"""

from __future__ import annotations

import socket
from collections.abc import Iterable

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from guardproxy._hosts import WHY, is_private, plain


class PrivateError(OSError):
    """A name of private addresses alone."""


class PublicResolver(AbstractResolver):
    """Resolves names; those in `allowed` may have private addresses."""

    def __init__(self, allowed: Iterable[str], inner: AbstractResolver | None = None) -> None:
        self._allowed = frozenset(allowed)
        self._inner = inner or aiohttp.ThreadedResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """The addresses of a name. PrivateError where none of them is public."""
        found = await self._inner.resolve(host, port, family)
        if plain(host) in self._allowed:
            return found
        public = [one for one in found if not is_private(one["host"])]
        if not public:
            raise PrivateError(WHY)
        return public

    async def close(self) -> None:
        """Close the resolver inside."""
        await self._inner.close()
