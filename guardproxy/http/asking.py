"""The admin API for commands: asked of a running proxy, or carried out here on the store where none runs.

Either way the same routes do the same, and it is written in the audit who did it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote, urlencode

import orjson

from guardproxy.config import Config
from guardproxy.errors import GuardError
from guardproxy.http import client, whereabouts

if TYPE_CHECKING:
    from guardproxy.store.redis import Store

PREFIX = "/admin/v1"
"""In front of every path; `http.objects` says it, too, which a command need not load to ask a proxy."""

VARIABLE = "GUARDPROXY_ADMIN"
"""The environment variable with the admin listener's URL, where a command has no `--admin`."""


class Admin(Protocol):
    """Asks the admin API. Errors are `GuardError`; `BadAsk` names what is wrong in `body` or `query`."""

    def ask(self, method: str, path: str, query: Mapping[str, str] = ..., body: Mapping[str, Any] = ...) -> Any:
        """The answer's JSON. `path` begins after /admin/v1."""


def admin(config: Config, url: str = "", by: str = "") -> Admin:
    """The listener at `url`, or of the proxy that runs on this data directory; else the store itself."""
    said = url or os.environ.get(VARIABLE, "").strip()
    token = os.environ.get(client.VARIABLE, "").strip()
    found = said or whereabouts.find(config)
    return There(found, token, by) if found else Here(config, by)


class There:
    """A running proxy's."""

    def __init__(self, url: str, token: str, by: str) -> None:
        self._url = url
        self._token = token
        self._by = by or ("" if token else _me())

    def ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:
        """As `Admin.ask`."""
        asked = f"?{urlencode(query)}" if query else ""
        sent = None if method == "GET" else {**({"by": self._by} if self._by else {}), **(body or {})}
        return client.ask(self._url, method, f"{PREFIX}{path}{asked}", sent, self._token)


class Here:
    """The store's, through no listener: as `entitled` says who may do what."""

    def __init__(self, config: Config, by: str) -> None:
        self._config = config
        self._by = by

    def ask(
        self, method: str, path: str, query: Mapping[str, str] | None = None, body: Mapping[str, Any] | None = None
    ) -> Any:
        """As `Admin.ask`."""
        from guardproxy import secrets  # noqa: PLC0415 - heavy, as all below: most commands ask a proxy
        from guardproxy.http import entitled, reach  # noqa: PLC0415
        from guardproxy.http.admin_v1 import AdminV1  # noqa: PLC0415
        from guardproxy.http.auditing import Notes, at_terminal  # noqa: PLC0415
        from guardproxy.http.tokens import Keyring  # noqa: PLC0415

        config = self._config
        secret = secrets.find(os.environ, config.data_dir, shared_store=bool(config.store.url))
        keys, token = secrets.derive(secret), entitled.given()

        async def work(store: Store) -> bytes:
            notes, ring = Notes(store), Keyring(store, keys.key_hash)
            key, budgets = keys.key_hash, config.budget_values
            actor = await entitled.holder(ring, token) if token else at_terminal(self._by)
            api = AdminV1(store, keys.ledger, keyring=ring, notes=notes, hash_key=key, budgets=budgets)
            told = await api.ask(method, path, actor, query or {}, body or {})
            await notes.catch_up()
            if notes.lost():
                raise GuardError("it is done, but the audit has no word of it: the store went away in between")
            return told

        return orjson.loads(reach.ask(config, work))


def pages(asked: Admin, path: str, query: Mapping[str, str]) -> Iterator[Any]:
    """All items of a list."""
    more: dict[str, str] = {}
    while True:
        page = asked.ask("GET", path, {**query, "limit": "200", **more})
        yield from page["items"]
        if page["next"] is None:
            return
        more = {"cursor": page["next"]}


def named(name: str) -> str:
    """What is typed, as a part of a path: it leads nowhere else."""
    part = quote(name.encode("utf-8", "replace").decode(), safe="")
    return part.replace(".", "%2E") if part in (".", "..") else part


def _me() -> str:
    from guardproxy.http import terminal  # noqa: PLC0415 - heavy

    return terminal.me()
