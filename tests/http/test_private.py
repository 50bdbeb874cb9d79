"""Private addresses are not asked, whichever way they are written, unless their host is allowed by name."""

from __future__ import annotations

import socket
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver
from aiohttp.web import BaseRequest, Response

from guardproxy._hosts import WHY, is_private, refused
from guardproxy.config import build
from guardproxy.errors import ConfigError
from guardproxy.http.private import PrivateError, PublicResolver
from guardproxy.http.signed import Receiver, open_session, post
from tests.live import serve

PRIVATE = """127.0.0.1 127.8.8.8 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 100.64.0.1 0.0.0.0
255.255.255.255 224.0.0.1 240.0.0.1 198.18.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd12::1 ff02::1 ::ffff:127.0.0.1
::ffff:10.0.0.1 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2002:7f00:1:: 2002:a00:1::""".split()
PUBLIC = (
    "1.1.1.1 8.8.8.8 172.15.0.1 172.32.0.1 2606:4700::1111 ::ffff:1.1.1.1 64:ff9b::101:101 2002:101:101:: name".split()
)


@pytest.mark.parametrize("address", PRIVATE)
def test_private(address: str) -> None:
    assert is_private(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_public(address: str) -> None:
    assert not is_private(address)


URLS = {
    "http://127.0.0.1/x": True,
    "http://127.1/x": True,
    "http://2130706433/": True,
    "http://0x7f000001/": True,
    "http://0177.0.0.1/": True,
    "http://[::1]:80/": True,
    "http://[::ffff:127.0.0.1]/": True,
    "http://user:pw@10.0.0.1/": True,
    "http://169.254.169.254/latest/meta-data": True,
    "http://1.1.1.1/": False,
    "http://hooks.example/": False,
    "http://hooks.inside:8080/": False,
    "http://10.9.9.9./": False,
}


@pytest.mark.parametrize("url", URLS)
def test_urls(url: str) -> None:
    assert refused(url, {"hooks.inside", "10.9.9.9"}) == URLS[url]


class Fixed(AbstractResolver):
    """A name server that says one thing."""

    def __init__(self, *addresses: str) -> None:
        self.addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: Any = socket.AF_INET) -> list[Any]:
        return [
            {"hostname": host, "host": one, "port": port, "family": family, "proto": 0, "flags": 0}
            for one in self.addresses
        ]

    async def close(self) -> None:
        pass


NAMES = {
    "public": (("1.1.1.1",), (), ["1.1.1.1"]),
    "private": (("10.0.0.1",), (), None),
    "both": (("10.0.0.1", "1.1.1.1"), (), ["1.1.1.1"]),
    "allowed": (("10.0.0.1", "1.1.1.1"), ("hooks.example",), ["10.0.0.1", "1.1.1.1"]),
    "another is allowed": (("10.0.0.1",), ("example",), None),
}


@pytest.mark.parametrize("which", NAMES)
async def test_names(which: str) -> None:
    addresses, allowed, expected = NAMES[which]
    resolver = PublicResolver(allowed, Fixed(*addresses))
    if expected is None:
        with pytest.raises(PrivateError):
            await resolver.resolve("Hooks.Example.")
    else:
        assert [one["host"] for one in await resolver.resolve("Hooks.Example.")] == expected
    await resolver.close()


@pytest.mark.parametrize(("host", "allowed"), [("127.0.0.1", False), ("localhost", False), ("localhost", True)])
async def test_over_the_wire(host: str, allowed: bool) -> None:
    asked = []

    async def server(request: BaseRequest) -> Response:
        asked.append(request.path)
        return Response(text="{}")

    async with serve(server) as url:
        to = Receiver(url.replace("127.0.0.1", host) + "/hook", "s" * 16, 2, frozenset({host} if allowed else ()))
        async with open_session(to) as session:
            got = await post(session, to, b"{}", request_id="r", now_s=1)

    assert (got.status, got.wrong) == ((200, "") if allowed else (0, WHY))
    assert asked == (["/hook"] if allowed else [])


SECRET = "s" * 16


@pytest.mark.parametrize("section", ["webhook", "verifier"])
def test_the_configuration_says_so(section: str) -> None:
    """An address is refused when the file is read; a name, and an allowed one, are not."""

    def made(url: str, *hosts: str) -> Any:
        server = {"url": url, "secret": SECRET}
        more = {"webhook": server} if section == "webhook" else {"policy": {"verifier": server}}
        return build({**more, "outgoing": {"private_hosts": list(hosts)}})

    made("http://hooks.example/")
    made("http://10.0.0.1/", "10.0.0.1")
    made("http://[::1]:8080/", "::1")
    with pytest.raises(ConfigError, match=r"(?:webhook|policy\.verifier)\.url: is refused: its address is private"):
        made("http://10.0.0.1:8080/", "10.0.0.2")


@pytest.mark.parametrize("host", ["", "http://x", "a b", "x/y", "a@b"])
def test_no_host(host: str) -> None:
    with pytest.raises(ConfigError, match=r"outgoing\.private_hosts\.0"):
        build({"outgoing": {"private_hosts": [host]}})


def test_the_error_is_found_again() -> None:
    """aiohttp wraps what a resolver raises."""
    assert issubclass(aiohttp.ClientConnectorDNSError, aiohttp.ClientConnectorError)
