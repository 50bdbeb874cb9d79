"""Who may ask the admin listener what. With tokens: whoever has one whose role suffices. Without any: whoever sits at
the same machine, as there is no log-in then, and whoever could reach the listener could approve calls, the agent that
asked for one too.

A page in the operator's browser must not be able to either. A token is in no page's hands; without tokens only names
of the loopback are answered, so that a page cannot have a name of its own pointed here, and nothing is changed
for a page of elsewhere.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from aiohttp import web

from guardproxy.errors import GuardError
from guardproxy.http.auditing import Actor
from guardproxy.http.tokens import Keyring
from guardproxy.store.tokens import ROLES, Found

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Address = ipaddress.IPv4Address | ipaddress.IPv6Address

HOPS = 32
"""Addresses of X-Forwarded-For that are looked at: nobody stands behind more proxies."""

UNKNOWN = 401
"""The status of a token that is none, or not live."""

_LOOKS = ("GET", "HEAD")
_FORWARDED = ("X-Forwarded-For", "X-Forwarded-Host", "X-Real-IP", "Forwarded", "Via")
_ABSENT = "this needs {role}'s token, sent as Authorization: Bearer TOKEN"
_MADE = "whoever has the store makes one with guardproxy admin tokens create --name NAME --role {role}"
"""A token is shown once: who has lost it, or never had one, needs another."""


class Gate:
    """One a listener. `trusted`: networks of proxies whose X-Forwarded-For is believed. No keyring: no tokens."""

    def __init__(self, keyring: Keyring | None, trusted: Iterable[str] = ()) -> None:
        self._keyring = keyring
        self._trusted = [ipaddress.ip_network(one, strict=False) for one in trusted]

    async def admit(self, request: web.Request, role: str, *, local: bool = True) -> Actor:
        """Who asks. `GuardError` 401 without a live token, 403 where its role does not suffice.

        `local`: without any token only the same machine is answered; else everybody is.
        """
        sent = _bearer(request.headers.getall("Authorization", []))
        found = await self._keyring.find(sent) if self._keyring else None
        address = self.address(request)
        if found is None or not found.any:
            if local:
                _no_strangers(request)
            return Actor("admin", "local", ROLES[-1], address=address)
        if not sent:
            told = f"{_ABSENT.format(role=_a(role))}; {_MADE.format(role=role)}"
            raise GuardError(told, status=UNKNOWN, code="no_token")
        actor = vouched(found, address)
        suffices(actor, role)
        return actor

    def address(self, request: web.Request) -> str:
        """Where the request comes from: the nearest address that is no trusted proxy's. "" if that is unknown."""
        peer = request.transport.get_extra_info("peername") if request.transport else None
        nearest = parsed(str(peer[0])) if peer else None
        if nearest is None:
            return ""
        hops = ",".join(request.headers.getall("X-Forwarded-For", [])).split(",")
        return str(outermost(nearest, hops, self._trusted))


def vouched(found: Found, address: str = "") -> Actor:
    """Whose token that is. `GuardError` 401 where it is none, or not live."""
    one = found.token
    if one is None or not found.live:
        told = "this token was revoked, or its time is over" if one else "this is no admin token"
        raise GuardError(told, status=UNKNOWN, code="bad_token")
    return Actor(one.name, "token", one.role, one.id, address, one.org)


def suffices(actor: Actor, role: str) -> None:
    """`GuardError` 403 where somebody's role does not."""
    if ROLES.index(actor.role) < ROLES.index(role):
        told = f"token {actor.name} is {_a(actor.role)}'s; this needs {_a(role)}'s: {_MADE.format(role=role)}"
        raise GuardError(told, status=403, code="role")


def _a(role: str) -> str:
    return f"{'an' if role[0] in 'aeiou' else 'a'} {role}"


def outermost(peer: Address, hops: Sequence[str], trusted: Sequence[Network]) -> Address:
    """Who is behind trusted proxies: what they were told by one that is not trusted may be made up."""
    nearest = peer
    for hop in reversed(hops[-HOPS:]):
        told = parsed(hop)
        if told is None or not any(nearest in one for one in trusted):
            break
        nearest = told
    return nearest


def parsed(text: str) -> Address | None:
    """An address as it stands in a header, with a port perhaps; IPv4 inside IPv6 is IPv4."""
    text = text.strip().strip('"')
    if text.startswith("["):
        text = text[1:].partition("]")[0]
    elif text.count(":") == 1:
        text = text.partition(":")[0]
    try:
        found = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped if isinstance(found, ipaddress.IPv6Address) else None) or found


def _bearer(headers: Sequence[str]) -> str:
    """The token, "" where none was sent. Two of them are none."""
    kind, _, token = headers[0].strip().partition(" ") if len(headers) == 1 else ("", "", "")
    return token.strip() if kind.lower() == "bearer" else ""


def _no_strangers(request: web.Request) -> None:
    """Refuse who comes over the network, by whatever way, or by a name that a page had pointed here."""
    own = request.transport.get_extra_info("sockname") if request.transport else None
    if not (own and loopback(str(own[0]))) or any(name in request.headers for name in _FORWARDED):
        told = (
            "without tokens the admin API has no log-in and answers on the loopback only: guardproxy admin init makes"
        )
        raise GuardError(
            f"{told} the first; guardproxy approvals and sessions do the same", status=403, code="not_local"
        )
    host = _name(request.host)
    if not (loopback(host) or host == "localhost"):
        raise GuardError(f"{host} is no name of this machine; ask for 127.0.0.1", status=403, code="wrong_host")
    if request.method not in _LOOKS and _of_a_page(request):
        raise GuardError("no web page of elsewhere may change anything here", status=403, code="forbidden")


def _of_a_page(request: web.Request) -> bool:
    """Whether a browser sends it for a page of another site: that needs no leave where it looks like a form."""
    origin = request.headers.get("Origin")
    foreign = origin is not None and origin.lower() != f"{request.scheme}://{request.host}".lower()
    return foreign or request.headers.get("Sec-Fetch-Site", "none").lower() not in ("none", "same-origin")


def _name(host: str) -> str:
    """The host without its port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.rstrip(".").lower()


def loopback(host: str) -> bool:
    """Whether an address is one of this machine alone; a name is none."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
