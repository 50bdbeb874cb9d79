"""Addresses that a server of the user's should not have: those of this machine, of the network it stands in, of a
cloud's metadata. A webhook or verifier there is refused unless its host is allowed by name (`outgoing.private_hosts`).

Here is what an address says; names are looked at when they are resolved (`http.private`).
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Collection, Mapping

from yarl import URL

WHY = "is refused: its address is private, and its host is not in outgoing.private_hosts"
"""What is said of a URL that may not be asked."""

_NAT64 = ipaddress.ip_network("64:ff9b::/96")  # RFC 6052: an IPv4 address in its last 32 bits
_6TO4 = ipaddress.ip_network("2002::/16")  # RFC 3056: in bits 16 to 48


def is_private(text: str) -> bool:
    """Whether an address is no public one. False for what is no address: a name says nothing by itself."""
    try:
        address = ipaddress.ip_address(text.strip("[]").partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is None and address in _6TO4:
            inner = address.sixtofour
        address = inner or address
    return not address.is_global or address.is_multicast


def refused(url: str, allowed: Collection[str]) -> bool:
    """Whether a URL may not be asked, as far as it can be told without resolving its name. ValueError: it is none.

    Read as the client reads it: two readers may see two hosts in one URL.
    """
    host = plain(URL(url).host or "")
    return host not in allowed and (is_private(host) or is_private(_as_resolved(host)))


def check(urls: Mapping[str, str | None], allowed: Collection[str]) -> None:
    """ValueError for a URL that may not be asked, by its path in the configuration."""
    for path, url in urls.items():
        if url and refused(url, allowed):
            raise ValueError(f"{path}: {WHY}")


def plain(host: str) -> str:
    """A host as it is compared."""
    return host.rstrip(".").lower()


def _as_resolved(host: str) -> str:
    """What resolvers take for an IPv4 address, written out: 127.1, 0x7f000001, 2130706433."""
    try:
        return socket.inet_ntoa(socket.inet_aton(host))
    except OSError:
        return host
