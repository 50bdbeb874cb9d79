"""The audit stream: who changed what, when, from where, and how it was before. Only added to; kept without end.

It has no content and no secrets: whoever writes an entry leaves them out. Rules: `admin.lua`. Each method is one trip
(`read` may be some) and raises `StoreError` when the server does not answer.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from guardproxy.core.tenant import masked
from guardproxy.errors import BadAsk, StoreError
from guardproxy.store._client import Client
from guardproxy.store._codec import bare

KEY = b"gp:admin{admin}:"
"""What the keys of the administration begin with: not the prefix of an organisation."""

BLOCK = 500
"""Entries that are read at once while a filter looks for some."""

FAR = 20_000
"""Entries that one call looks at, at most: then it answers what it has, and where to go on."""

_json = msgspec.json.Decoder(dict[str, tuple[Any, Any]]).decode
_written = msgspec.json.Encoder(order="sorted").encode
_ID = re.compile(r"\d{1,15}-\d{1,15}")


@dataclass(frozen=True, slots=True)
class Entry:
    """One change. `actor`: a name; `kind` of it: token, local (who needs no log-in), command, system; `token`: its id.

    `what`: session.pause, token.create, …; `subject`: what it was done to. `diff`: field -> (before, after). `id` and
    `at_ms` are the store's.
    """

    actor: str
    what: str
    subject: str = ""
    kind: str = "system"
    role: str = ""
    token: str = ""
    address: str = ""
    org: str = ""
    why: str = ""
    diff: Mapping[str, tuple[object, object]] = field(default_factory=dict, hash=False)
    id: str = ""
    at_ms: int = 0

    def words(self) -> list[str]:
        """The entry as it goes into the stream: names and texts by turns."""
        texts = {name: getattr(self, name) for name in _TEXTS}
        said = {name: text.encode("utf-8", "replace").decode() for name, text in texts.items() if text}
        said["diff"] = _written(self.diff).decode()
        return [word for name, text in said.items() for word in (name, masked(text))]


_TEXTS = ("actor", "what", "subject", "kind", "role", "token", "address", "org", "why")


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which entries: "" and 0 are any. `what` may be a part in front: `session` finds `session.pause`."""

    actor: str = ""
    what: str = ""
    subject: str = ""
    org: str = ""
    since_ms: int = 0
    until_ms: int = 0

    def takes(self, one: Entry) -> bool:
        """Whether an entry is wanted, its time apart."""
        if self.what and one.what != self.what and not one.what.startswith(f"{self.what}."):
            return False
        return all(getattr(one, name) == text for name in ("actor", "subject", "org") if (text := getattr(self, name)))


class Audit:
    """The audit stream of a store. `Store.audit` is one."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def note(self, entry: Entry) -> str:
        """Add an entry; its id."""
        words = head("note", entry=entry)
        reply: Any = await self._client.run("admin", KEY, (words,))
        return str(reply[0].decode())

    async def read(self, limit: int, before: str = "", wanted: Wanted = Wanted()) -> tuple[list[Entry], str]:
        """At most `limit` entries older than the id `before`, the newest first, and where to go on; "" = no more."""
        if before and not _ID.fullmatch(before):
            raise BadAsk("must be what `next` said", param="cursor")
        newest = f"({before}" if before else (str(wanted.until_ms) if wanted.until_ms else "+")
        oldest = str(wanted.since_ms) if wanted.since_ms else "-"
        found: list[Entry] = []
        for _ in range(FAR // BLOCK):
            raw: Any = await self._client.command("XREVRANGE", KEY + b"audit", newest, oldest, "COUNT", BLOCK)
            for one in raw:
                entry = _entry(one)
                if wanted.takes(entry):
                    if len(found) == limit:
                        return found, found[-1].id
                    found.append(entry)
                newest = f"({entry.id}"
            if len(raw) < BLOCK:
                return found, ""
        return found, newest[1:]


def head(
    act: str,
    digest: str = "",
    token: Mapping[str, object] | None = None,
    for_ms: int = 0,
    entry: Entry | None = None,
    *,
    first: bool = False,
) -> bytes:
    """ARGV[1] of `admin.lua`."""
    words = entry.words() if entry else []
    return bare((act, secrets.token_hex(8), digest, token or {}, for_ms, int(first), words))


def _entry(raw: Sequence[Any]) -> Entry:
    flat = [word.decode() for word in raw[1]]
    kept = dict(zip(flat[::2], flat[1::2], strict=True))
    try:
        diff = _json(kept.pop("diff", "{}"))
        name = raw[0].decode()
        texts = {key: text for key, text in kept.items() if key in _TEXTS}
        return Entry(**texts, diff=diff, id=name, at_ms=int(name.partition("-")[0]))
    except (msgspec.DecodeError, TypeError, ValueError) as error:
        raise StoreError(f"the store holds an audit entry that cannot be read: {error}") from error
