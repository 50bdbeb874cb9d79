"""Where the store is: one server, a Redis Cluster, or the primary that Sentinels name.

    redis://[user:password@]host[:6379][/db]           rediss://…   the same over TLS          unix:///path
    redis+cluster://[user:password@]host[:6379],host…  rediss+cluster://…
    redis+sentinel://[user:password@]host[:26379],host…/service[/db]  rediss+sentinel://…

One of the hosts that answers is enough. redis-py reads each of them, so its options (`?ssl_ca_certs=…`) hold too;
`sentinel_username` and `sentinel_password` are for the Sentinels themselves.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field, replace
from typing import Any, Protocol
from urllib.parse import parse_qsl, urlencode, urlsplit

from redis.asyncio.connection import Connection, SSLConnection, UnixDomainSocketConnection, parse_url
from redis.exceptions import RedisError

from guardproxy.errors import ConfigError

CLUSTER, SENTINEL = "cluster", "sentinel"
"""What a scheme may end in, after a `+`."""

SENTINEL_PORT = 26379
"""Of a Sentinel, where none is said."""

Place = tuple[str, int]
"""Host and port."""


class Files(Protocol):
    """PEM files for TLS: who is trusted (None = whom the system trusts), and what we show of ourselves."""

    @property
    def ca(self) -> str | None:
        """Authorities."""

    @property
    def cert(self) -> str | None:
        """Our certificate, where the server wants one."""

    @property
    def key(self) -> str | None:
        """Its key."""


@dataclass(frozen=True, slots=True)
class Address:
    """Where the store is. `shown` is safe to log: no password.

    `seeds`: of a cluster, nodes that know the others; with a `service`, the Sentinels that know its primary, and
    `greeting` is what those want to hear first.
    """

    shown: str
    path: str = ""
    host: str = "localhost"
    port: int = 6379
    tls: ssl.SSLContext | None = None
    hello: tuple[tuple[str, ...], ...] = field(default=(), repr=False)
    seeds: tuple[Place, ...] = ()
    service: str = ""
    greeting: tuple[tuple[str, ...], ...] = field(default=(), repr=False)

    def at(self, place: Place) -> Address:
        """One server of those that belong together."""
        host, port = place
        shown = f"{'rediss' if self.tls else 'redis'}://{host}:{port}"
        return replace(self, shown=shown, host=host, port=port, seeds=(), service="", greeting=())


def address(url: str | None, socket_path: str | None = None, files: Files | None = None) -> Address:
    """Read a URL, or take a socket path. `ConfigError` if it cannot be read, or a file of its TLS cannot."""
    if socket_path:
        return Address(f"unix://{socket_path}", path=socket_path)
    if not url:
        message = "the store has neither a URL nor a socket"
        raise ConfigError(message, param="store.url")
    named = {name: path for name in ("ca", "cert", "key") if files and (path := getattr(files, name))}
    try:
        if named and not url.startswith("rediss"):
            raise ValueError("store.tls is for URLs that begin with rediss")
        scheme, _, kind = urlsplit(url).scheme.partition("+")
        return _several(url, scheme, kind, named) if kind else _one(url, named)
    except (ValueError, TypeError, RedisError, OSError, ssl.SSLError) as error:
        # Not the text of the URL: it may hold a password.
        message = f"store.url cannot be used: {error}"
        raise ConfigError(message, param="store.url") from None


def _one(url: str, named: dict[str, str]) -> Address:
    options: dict[str, Any] = dict(parse_url(url))
    made = options.pop("connection_class", Connection)
    if named:
        options |= {_OPTIONS[name]: path for name, path in named.items()}
    made = made(**options)
    hello: list[tuple[str, ...]] = []
    if made.password:
        hello.append(("AUTH", made.username, made.password) if made.username else ("AUTH", made.password))
    if made.db:
        hello.append(("SELECT", str(made.db)))
    if isinstance(made, UnixDomainSocketConnection):
        return Address(f"unix://{made.path}", path=made.path, hello=tuple(hello))
    tls = made.ssl_context.get() if isinstance(made, SSLConnection) else None
    shown = f"{'rediss' if tls else 'redis'}://{made.host}:{made.port}/{made.db}"
    return Address(shown, host=made.host, port=int(made.port), tls=tls, hello=tuple(hello))


_OPTIONS = {"ca": "ssl_ca_certs", "cert": "ssl_certfile", "key": "ssl_keyfile"}


def _several(url: str, scheme: str, kind: str, named: dict[str, str]) -> Address:
    parts = urlsplit(url)
    if scheme not in ("redis", "rediss") or kind not in (CLUSTER, SENTINEL):
        raise ValueError("its scheme is none of those that guardproxy knows")
    user, at, hosts = parts.netloc.rpartition("@")
    options = dict(parse_qsl(parts.query))
    greeting = _greeting(options.pop("sentinel_username", ""), options.pop("sentinel_password", ""))
    service, _, database = parts.path.strip("/").partition("/")
    if kind == CLUSTER:
        service, database = "", service
        if database.strip("0"):
            raise ValueError("a Redis Cluster has one database only, 0")
    elif database and not database.isdecimal():
        raise ValueError("the database behind the service must be a number")
    elif not service:
        raise ValueError("the name of the service is missing, as in redis+sentinel://host:26379/mymaster")
    read = [
        _one(f"{scheme}://{user}{at}{_with_port(host, kind)}/{database}?{urlencode(options)}", named)
        for host in hosts.split(",")
    ]
    seeds = tuple((one.host, one.port) for one in read)
    shown = f"{scheme}+{kind}://{','.join(f'{host}:{port}' for host, port in seeds)}"
    return replace(
        read[0], shown=f"{shown}/{service}" if service else shown, seeds=seeds, service=service, greeting=greeting
    )


def _greeting(user: str, password: str) -> tuple[tuple[str, ...], ...]:
    if not password:
        return ()
    return (("AUTH", user, password) if user else ("AUTH", password),)


def _with_port(host: str, kind: str) -> str:
    parts = urlsplit(f"//{host}")
    if not parts.hostname:
        raise ValueError("a host is missing")
    return f"{host.rstrip(':')}:{SENTINEL_PORT}" if parts.port is None and kind == SENTINEL else host
