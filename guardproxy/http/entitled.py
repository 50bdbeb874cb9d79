"""Who types a command that works on the store itself, and whether they may.

Whoever has the data directory, or the store's URL and the secret, may do everything: nothing here could keep them from
it. Whoever gives a token acts as its holder, and may do no more than they could at the admin listener.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from guardproxy.errors import GuardError
from guardproxy.http.auditing import Actor, at_terminal
from guardproxy.http.client import VARIABLE

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.tokens import Keyring
    from guardproxy.store.redis import Store

ALL = None
"""What a command is about that is about all organisations."""


def typist(config: Config, role: str, org: str | None, by: str = "", *, fresh: bool = False) -> Actor:
    """Who types a command that needs `role` and is about `org` (`ALL`; "" = whatever its token is for).

    `GuardError` 401 for a token that is none, or not live; 403 for one that does not suffice. `fresh`: there may be no
    tokens at all as yet.
    """
    token = given()
    if not token:
        return at_terminal(by)
    from guardproxy import secrets  # noqa: PLC0415 - heavy, as all below: most commands have no token
    from guardproxy.http import gate, reach  # noqa: PLC0415
    from guardproxy.http.tokens import Keyring  # noqa: PLC0415

    async def work(store: Store) -> Actor:
        secret = secrets.find(os.environ, config.data_dir, shared_store=bool(config.store.url))
        keyring = Keyring(store, secrets.derive(secret).key_hash)
        if fresh and not await keyring.used():
            return at_terminal(by)
        return await holder(keyring, token)

    actor = reach.ask(config, work, fresh=fresh)
    gate.suffices(actor, role)
    if actor.org and org is ALL:
        raise GuardError(
            f"this token is for {actor.org} alone; this is about all of them", status=403, code="other_org"
        )
    if actor.org and org not in ("", actor.org):
        raise GuardError(f"this token is for {actor.org} alone", status=403, code="other_org")
    return actor


def given() -> str:
    """The token in the environment; "" if there is none."""
    return os.environ.get(VARIABLE, "").strip()


async def holder(keyring: Keyring, token: str) -> Actor:
    """Whose live token that is. `GuardError` 401 if nobody's."""
    from guardproxy.http import gate  # noqa: PLC0415 - heavy

    try:
        return gate.vouched(await keyring.find(token))
    except GuardError as error:
        if error.status != gate.UNKNOWN:
            raise
        told = f"{VARIABLE}: {error.message}; without it you act as who has the store and the secret"
        raise GuardError(told, status=error.status, code=error.code) from error
