"""Named policies that the admin API keeps, as all workers of all machines see them. Keys and rules: `policy.lua`.

What a policy says is opaque here. Each method is one trip and raises `StoreError` when the server does not answer.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import orjson

from guardproxy.errors import GuardError, StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import bare, prefix
from guardproxy.store.registry import ANY, SLOT

MOST = 100
"""Policies, and revisions of one that are kept."""


_kept = msgspec.msgpack.Decoder(tuple[int, int, str]).decode


@dataclass(frozen=True, slots=True)
class Kept:
    """A policy as it was written. `revision` counts the changes of its name. `version`: what it came to then.

    `wrong`: why it cannot be read, as another version of us wrote it.
    """

    name: str
    written: Mapping[str, Any]
    revision: int = 0
    at_ms: int = 0
    by: str = ""
    version: str = ""
    wrong: str = ""


class Policies:
    """The policies of a store. `Store.policies` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def now(self) -> str:
        """A word that is another one as soon as any policy is."""
        return str((await self._run("now")).decode())

    async def every(self) -> tuple[str, dict[str, Kept]]:
        """That word, and all policies by name."""
        now, flat = await self._run("list")
        pairs = zip(flat[::2], flat[1::2], strict=True)
        found = {name.decode(): _read(name.decode(), raw) for name, raw in pairs}
        return now.decode(), dict(sorted(found.items()))

    async def revisions(self, name: str) -> list[Kept]:
        """The revisions of a policy, also of one that was forgotten, the newest first."""
        return [_read(name, raw) for raw in await self._run("revisions", name)]

    async def put(self, one: Kept, expected: str = ANY) -> None:
        """Keep a policy. `GuardError` 412: it is at another revision than `expected`; 409: there are too many."""
        document = orjson.dumps({"written": one.written, "by": one.by, "version": one.version})
        _check(await self._run("put", one.name, expected, document), one.name)

    async def delete(self, name: str, expected: str = ANY) -> None:
        """Forget a policy; its revisions stay. `GuardError` 404, 412."""
        _check(await self._run("delete", name, expected), name)

    async def _run(self, act: str, name: str = "", expected: str = ANY, document: bytes = b"") -> Any:
        head = bare((act, secrets.token_hex(8), name, expected, MOST))
        return await self._client.run("policy", prefix(SLOT).encode(), (head, document))


def _check(word: object, name: str) -> None:
    if word == b"done":
        return
    said = {
        b"changed": (412, "stale", f"the policy {name!r} is not as you saw it: get it again"),
        b"unknown": (404, "not_found", f"the store has no policy {name!r}"),
        b"full": (409, "full", f"{MOST} policies are kept, which is the most"),
    }.get(word if isinstance(word, bytes) else b"")
    if said is None:
        raise StoreError("the store gave an answer that cannot be read")
    status, code, message = said
    raise GuardError(message, status=status, code=code)


def _read(name: str, raw: bytes) -> Kept:
    try:
        revision, at_ms, document = _kept(raw)
        kept = orjson.loads(document)
        return Kept(name, kept["written"], revision, at_ms, str(kept["by"]), str(kept["version"]))
    except (msgspec.DecodeError, TypeError, ValueError, KeyError) as error:
        return Kept(name, {}, wrong=f"the store holds it in a form that cannot be read: {error}")
