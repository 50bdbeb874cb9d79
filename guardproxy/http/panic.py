"""`guardproxy panic`: asks a running proxy's admin listener to switch every intervention off or on again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardproxy.errors import GuardError
from guardproxy.http import client, greeting, whereabouts

if TYPE_CHECKING:
    from guardproxy.config import Config

ON = "nothing intervenes, and no limit, budget, tools.deny or approval holds until panic off"
"""What it means while it is on."""


def listener(config: Config) -> str:
    """Where the admin listener of a configuration is, for who asks from the same machine: of the proxy that runs under
    it, else where one would be.
    """
    if found := whereabouts.find(config):
        return found
    admin = config.admin
    scheme = "https" if admin.tls.cert else "http"
    return f"{scheme}://{greeting.shown(admin.host)}:{admin.port}"


def switch(admin: str, on: bool | None, token: str = "") -> tuple[bool, bool]:  # noqa: FBT001 - a switch
    """Set the switch, or with None read it; how it stands then, and whether the store has yet to be told."""
    body = None if on is None else {"on": on}
    told = client.ask(admin, "GET" if on is None else "PUT", "/panic", body, token)
    try:
        return bool(told["on"]), bool(told.get("pending"))
    except (KeyError, AttributeError, TypeError) as error:
        raise GuardError(f"no proxy answers at {admin} (it said something else)") from error
