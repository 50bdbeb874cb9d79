"""Who is let in, and where they come from. Roles and routes are in `test_roles`."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest

from guardproxy.http import gate
from guardproxy.store.redis import Store
from tests.http import admin_api

INSIDE = ("127.0.0.0/8", "10.0.0.0/8", "::1/128", "fd00::/8")
ADDRESSES = {
    "nobody in between": ("198.51.100.7", "", "198.51.100.7"),
    "made up by who is not trusted": ("198.51.100.7", "1.2.3.4", "198.51.100.7"),
    "one proxy": ("127.0.0.1", "198.51.100.7", "198.51.100.7"),
    "two proxies": ("127.0.0.1", "198.51.100.7, 10.1.2.3", "198.51.100.7"),
    "made up before the proxy": ("127.0.0.1", "1.2.3.4, 198.51.100.7", "198.51.100.7"),
    "all trusted": ("127.0.0.1", "10.0.0.1, 10.0.0.2", "10.0.0.1"),
    "with a port": ("127.0.0.1", "198.51.100.7:4711", "198.51.100.7"),
    "IPv6": ("::1", "2001:db8::1", "2001:db8::1"),
    "IPv6 with a port": ("::1", '"[2001:db8::1]:80"', "2001:db8::1"),
    "IPv4 in IPv6": ("::ffff:127.0.0.1", "::ffff:198.51.100.7", "198.51.100.7"),
    "no address": ("127.0.0.1", "198.51.100.7, unknown", "127.0.0.1"),
    "empty": ("127.0.0.1", " , ", "127.0.0.1"),
    "a script": ("127.0.0.1", "<script>", "127.0.0.1"),
}


@pytest.mark.parametrize("which", ADDRESSES)
def test_who_is_behind_proxies(which: str) -> None:
    peer, header, expected = ADDRESSES[which]
    nearest = gate.parsed(peer)
    assert nearest is not None

    found = gate.outermost(nearest, header.split(","), [ip_network(one) for one in INSIDE])

    assert found == ip_address(expected)


def test_a_long_way_is_not_gone_to_its_end() -> None:
    hops = ["198.51.100.7", *["10.0.0.1"] * 10_000]

    assert str(gate.outermost(ip_address("127.0.0.1"), hops, [ip_network(one) for one in INSIDE])) == "10.0.0.1"


@pytest.mark.parametrize("trusted", [(), ("127.0.0.1",)])
async def test_the_address_in_the_audit(trusted: tuple[str, ...], store: Store) -> None:
    async with admin_api.serving(store, trusted) as api:
        await api.fill()
        await api.token("bot", "operator")
        await api.ask("POST", "/sessions/run-1/pause", {}, "bot", X_Forwarded_For="1.1.1.1, 198.51.100.7")
        (entry,) = await api.entries(what="session")

    assert entry.address == ("198.51.100.7" if trusted else "127.0.0.1")


HEADERS = {
    "another scheme": ("Basic {}", "no_token"),
    "no scheme": ("{}", "no_token"),
    "nothing behind it": ("Bearer", "no_token"),
    "blanks": ("  bearer   {}  ", ""),
    "lower case": ("bearer {}", ""),
    "two of them": ("Bearer {0} {0}", "bad_token"),
    "longer": ("Bearer {}x", "bad_token"),
    "other characters": ("Bearer é{}", "bad_token"),
}


@pytest.mark.parametrize("which", HEADERS)
async def test_the_header(which: str, store: Store) -> None:
    form, code = HEADERS[which]
    async with admin_api.serving(store) as api:
        await api.token("bot", "viewer")
        got = await api.ask("GET", "/sessions", Authorization=form.format(api.secrets["bot"]))

    assert (got.status, got.code) == ((401, code) if code else (200, ""))


async def test_who_may_not_is_told_whose_token_it_takes(store: Store) -> None:
    """And how one is come by: a token is shown once."""
    made = "whoever has the store makes one with guardproxy admin tokens create --name NAME --role operator"
    async with admin_api.serving(store) as api:
        await api.token("bot", "viewer")
        nobody, viewer = [await api.ask("POST", "/sessions/run-1/pause", {}, who) for who in ("", "bot")]

    assert nobody.body["detail"] == f"this needs an operator's token, sent as Authorization: Bearer TOKEN; {made}"
    assert viewer.body["detail"] == f"token bot is a viewer's; this needs an operator's: {made}"


async def test_names_of_the_network_are_answered_where_there_are_tokens(store: Store) -> None:
    """The token is in no page's hands, so a page's own name is of no use to it."""
    async with admin_api.serving(store) as api:
        await api.token("bot", "viewer")
        got = await api.ask("GET", "/sessions", None, "bot", Host="guard.example", X_Forwarded_For="198.51.100.7")

    assert got.status == 200


LOOPBACK = {"127.0.0.1": True, "127.9.9.9": True, "::1": True, "10.0.0.1": False, "localhost": False, "": False}


@pytest.mark.parametrize("host", LOOPBACK)
def test_loopback(host: str) -> None:
    assert gate.loopback(host) == LOOPBACK[host]


PAGES = {
    "no page": ({}, True),
    "its own page": ({"Origin": "OWN", "Sec-Fetch-Site": "same-origin"}, True),
    "typed in": ({"Sec-Fetch-Site": "none"}, True),
    "another site": ({"Sec-Fetch-Site": "cross-site"}, False),
    "another port": ({"Origin": "http://127.0.0.1:1", "Sec-Fetch-Site": "same-site"}, False),
    "another origin": ({"Origin": "https://evil.example"}, False),
    "a sandbox": ({"Origin": "null"}, False),
}


async def test_without_tokens_no_page_of_elsewhere_changes_anything(store: Store) -> None:
    async with admin_api.serving(store) as api:
        own = str(api.client._base_url).rstrip("/")
        for which, (headers, admitted) in PAGES.items():
            sent = {name.replace("-", "_"): own if text == "OWN" else text for name, text in headers.items()}
            changing = await api.ask("POST", "/sessions/nowhere/pause", {}, **sent)
            assert (which, changing.code == "forbidden") == (which, not admitted)
            assert (await api.ask("GET", "/sessions", **sent)).status == 200
