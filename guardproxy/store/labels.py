"""What people said of runs: labels, and the exemptions that stand because of them. Keys and rules: `label.lua`.

Each method is one trip (or two side by side) and raises `StoreError` when the server does not answer.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass, fields
from typing import Any

import msgspec

from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.errors import GuardError, StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import prefix, unpack

_pack = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class Label:
    """A false alarm, as a person said. Milliseconds of the store's clock; `until_ms` is when the exemption ends.

    `subject`: the session or the agent's digest, "" in scope tool. `action`, `turn`, `count`, `call`: the alarm itself,
    `call` being the index of the newest call then. `revoked_ms` 0: it holds. `hits`: turns on which it held something.
    """

    id: str
    session: str
    rule: str
    scope: str
    subject: str
    by: str
    tool: str = ""
    note: str = ""
    action: str = ""
    turn: int = 0
    count: int = 0
    call: int = 0
    at_ms: int = 0
    until_ms: int = 0
    revoked_ms: int = 0
    revoked_by: str = ""
    hits: int = 0


@dataclass(frozen=True, slots=True)
class Added:
    """A label as it is kept, how many ended threads go on because of it, and by what others stay ended."""

    label: Label
    opened: int
    shut: tuple[str, ...]


class Labels:
    """The labels of a store. `Store.labels` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def add(self, org: str, label: Label, for_ms: int, kept_ms: int, boundary: bytes) -> Added:
        """Keep a label, exempt for so long, let the run go on. `GuardError` when there is no such session."""
        found = await self._run(org, ("add", asdict(label), for_ms, kept_ms), boundary)
        if found[0] == b"unknown":
            raise GuardError(f"the store has no session {label.session!r}", status=404, code="not_found")
        if found[0] == b"full":
            raise GuardError("256 exemptions stand already: take some back (guardproxy false-alarms --revoke LABEL)")
        return Added(_label(found[1]), found[2], tuple(raw.decode() for raw in found[3]))

    async def revoke(self, org: str, label: str, by: str, kept_ms: int) -> Label:
        """Take a label back and end its exemption. `GuardError` where there is none, or it was taken back before."""
        found = await self._run(org, ("revoke", {"id": label, "by": by}, 0, kept_ms), b"")
        if found[0] == b"unknown":
            raise GuardError(f"the store has no label {label!r}; guardproxy false-alarms lists them", status=404)
        one = _label(found[1])
        if found[0] == b"revoked":
            raise GuardError(f"label {label} was taken back before, by {one.revoked_by}", code="already_revoked")
        return one

    async def every(self, org: str) -> list[Label]:
        """All labels that are kept, the newest first, with their hits."""
        key = prefix(org)
        raw, hits = await asyncio.gather(
            self._client.command("HVALS", f"{key}labels"), self._client.command("HGETALL", f"{key}labels:hits")
        )
        flat = _list(hits)
        counted = {name.decode(): int(count) for name, count in zip(flat[::2], flat[1::2], strict=True)}
        labels = [_label(one, counted) for one in _list(raw)]
        return sorted(labels, key=lambda one: (one.at_ms, one.id), reverse=True)

    async def standing(self, org: str) -> tuple[int, tuple[ScopedExemption, ...]]:
        """The version, and the exemptions that stand. In this order: what is newer than the version is read again."""
        key = prefix(org)
        version, raw = await asyncio.gather(
            self._client.command("GET", f"{key}exempt"), self._client.command("HVALS", f"{key}exempted")
        )
        found = sorted((_label(one) for one in _list(raw)), key=lambda one: (one.at_ms, one.id))
        number = int(version) if isinstance(version, bytes) else 0
        return number, tuple(ScopedExemption(x.id, x.rule, x.scope, x.subject, x.until_ms, x.tool) for x in found)

    async def hit(self, org: str, label: str, hits: int) -> None:
        """Count turns on which an exemption held something back."""
        await self._client.command("HINCRBY", f"{prefix(org)}labels:hits", label, hits)

    async def _run(self, org: str, head: tuple[object, ...], boundary: bytes) -> list[Any]:
        return _list(await self._client.run("label", prefix(org).encode(), (_pack(head), _pack(boundary))))


_FIELDS = {one.name for one in fields(Label)}


def _label(raw: bytes, hits: dict[str, int] | None = None) -> Label:
    """A label as it is kept; what another version wrote beside it is left out."""
    kept = {name: held for name, held in unpack(raw).items() if name in _FIELDS}
    try:
        return Label(**kept | ({"hits": hits.get(kept["id"], 0)} if hits is not None else {}))
    except (KeyError, TypeError) as error:
        raise StoreError(f"the store holds a label that cannot be read: {error}") from error


def _list(reply: object) -> list[Any]:
    if not isinstance(reply, list):
        message = "the store gave an answer that cannot be read"
        raise StoreError(message)
    return reply
