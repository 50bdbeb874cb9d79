"""Asks a running proxy's admin listener, for commands. The token comes from GUARDPROXY_ADMIN_TOKEN."""

from __future__ import annotations

import ipaddress
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import orjson

from guardproxy.errors import BadAsk, ConfigError, GuardError

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
        with opened(request, SECONDS) as answer:
            return orjson.loads(answer.read())
    except urllib.error.HTTPError as error:
        said = error.read(2000).decode(errors="replace").strip()
        raise _refusal(admin, error.code, said, sent=bool(token)) from error
    except (OSError, ValueError) as error:
        inner = getattr(error, "reason", None) or error  # what urllib wraps
        raise GuardError(f"no proxy answers at {admin} ({getattr(inner, 'strerror', None) or inner})") from error


class _Stay(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: whoever it leads to would get the token."""

    def redirect_request(self, *_: object) -> None:
        """None."""


def opened(request: urllib.request.Request | str, seconds: float) -> Any:
    """The answer to a request. A machine that asks itself does so without a proxy in between, whatever is set."""
    address = request if isinstance(request, str) else request.full_url
    host = urlsplit(address).hostname or ""
    own = [urllib.request.ProxyHandler({})] if host == "localhost" or _loopback(host) else []
    return urllib.request.build_opener(_Stay, *own).open(request, timeout=seconds)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _refusal(admin: str, status: int, said: str, *, sent: bool) -> GuardError:
    """The error as its own: what is wrong in a request is named (`BadAsk`), as if it had been found here."""
    hint = f" (commands take it from {VARIABLE})" if status == 401 and not sent else ""
    message = f"{admin} answered {status}: {_detail(said)}{hint}"
    try:
        problem = orjson.loads(said)
        code, param = str(problem["code"]), problem.get("param")
    except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
        return GuardError(message)
    if status == 400 and isinstance(param, str):
        return BadAsk(_detail(said), code=code, param=param)
    return GuardError(message, status=status, code=code)


def _detail(said: str) -> str:
    """What a problem or an error of ours says in words; anything else as it is."""
    try:
        told = orjson.loads(said)
        return str(told["detail"] if "detail" in told else told["error"]["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return said[:500]
