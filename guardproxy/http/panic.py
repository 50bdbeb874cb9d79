"""`guardproxy panic`: asks a running proxy's admin listener to switch every intervention off or on again."""

from __future__ import annotations

import urllib.error
import urllib.request
from urllib.parse import urlsplit

import orjson

from guardproxy.errors import ConfigError, GuardError


def switch(admin: str, on: bool | None) -> tuple[bool, bool]:  # noqa: FBT001 - a switch
    """Set the switch, or with None read it; how it stands then, and whether the store has yet to be told."""
    if urlsplit(admin).scheme not in ("http", "https"):
        raise ConfigError(f"--admin {admin}: must be a URL such as http://127.0.0.1:8788")
    body = None if on is None else orjson.dumps({"on": on})
    request = urllib.request.Request(  # noqa: S310 - http only, see above
        f"{admin.rstrip('/')}/panic", data=body, method="GET" if body is None else "PUT"
    )
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:  # noqa: S310  # the address is the operator's own
            told = orjson.loads(answer.read())
            return bool(told["on"]), bool(told.get("pending"))
    except urllib.error.HTTPError as error:
        raise GuardError(f"{admin} answered {error.code}: {error.read(500).decode(errors='replace')}") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise GuardError(f"no proxy answers at {admin} ({error})") from error
