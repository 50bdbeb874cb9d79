"""Asks a running proxy's admin listener, for commands. The token comes from GUARDPROXY_ADMIN_TOKEN."""

from __future__ import annotations

import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import orjson

from guardproxy.errors import ConfigError, GuardError

VARIABLE = "GUARDPROXY_ADMIN_TOKEN"
"""The environment variable with an admin token; on a command line it would stand in the list of processes."""

SECONDS = 10.0
"""How long a command waits for an answer."""


def ask(admin: str, method: str, path: str, body: Any = None, token: str = "") -> Any:
    """The answer's JSON. ConfigError for what is no URL; GuardError for an error, in the words of who answered."""
    if urlsplit(admin).scheme not in ("http", "https"):
        raise ConfigError(f"--admin {admin}: must be a URL such as http://127.0.0.1:8788")
    if not (token.isascii() and token.isprintable()):
        raise ConfigError(f"{VARIABLE} is no token: it has characters that none has")
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    headers |= {} if body is None else {"Content-Type": "application/json"}
    data = None if body is None else orjson.dumps(body)
    request = urllib.request.Request(  # noqa: S310 - http only, see above
        f"{admin.rstrip('/')}{path}", data=data, headers=headers, method=method
    )
    try:
        with urllib.request.urlopen(request, timeout=SECONDS) as answer:  # noqa: S310  # the address is the operator's own
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        said = error.read(2000).decode(errors="replace").strip()
        hint = f" (set {VARIABLE})" if error.code == 401 and not token else ""
        raise GuardError(f"{admin} answered {error.code}: {_detail(said)}{hint}") from error
    except (OSError, ValueError) as error:
        raise GuardError(f"no proxy answers at {admin} ({error})") from error


def _detail(said: str) -> str:
    """What a problem or an error of ours says in words; anything else as it is."""
    try:
        told = orjson.loads(said)
        return str(told["detail"] if "detail" in told else told["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return said[:500]
