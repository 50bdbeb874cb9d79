"""What the parts of the store speak to: one server (`_server`) or those of a cluster (`_cluster`)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Protocol

from guardproxy.errors import ConfigError
from guardproxy.store._address import Address
from guardproxy.store._cluster import Cluster
from guardproxy.store._server import OnChange, Server


class Client(Protocol):
    """Scripts and commands. Each call is about the keys of one slot, which its first key names."""

    @property
    def up(self) -> bool:
        """Whether calls are let through, whatever key they are about."""

    @property
    def generation(self) -> int:
        """Another number with every new connection: what was told to the last one may be gone."""

    async def start(self, *, required: bool = True) -> None:
        """Connect. If that fails: `StoreError` when `required`, else it goes on trying."""

    async def run(self, script: str, key: bytes, arguments: tuple[bytes, ...]) -> object:
        """Run a script by its name. `key`: what all its keys begin with."""

    def run_soon(self, script: str, key: bytes, arguments: tuple[bytes, ...]) -> asyncio.Future[object] | None:
        """Run a script now; its answer is looked at with `ran`. None: it cannot be sent."""

    @property
    def ran(self) -> Callable[[asyncio.Future[object]], bool]:
        """Whether a script did what it should."""

    async def command(self, *words: str | bytes | int) -> object:
        """Send one command; its second word is its one key, if it has any."""

    async def each(self, *words: str | bytes | int) -> list[object]:
        """Send a command without a key to every server that has a part of the keys."""

    def command_soon(self, *words: str | bytes | int) -> bool:
        """Send one command now, and ask for no answer: it is one that may be lost. False: it cannot be sent."""

    async def close(self) -> None:
        """End all connections."""


def client(
    to: Address,
    scripts: Mapping[str, str],
    *,
    timeout_s: float,
    probe_s: float,
    on_change: OnChange | None,
    replicas: int,
) -> Client:
    """The client for what a URL leads to. Not connected yet."""
    made = Cluster if to.seeds and not to.service else Server
    return made(to, scripts, timeout_s=timeout_s, probe_s=probe_s, on_change=on_change, replicas=replicas)


async def refuse_eviction(of: Client) -> None:
    """`ConfigError` for a server that would forget keys when memory is full."""
    found = await of.each("INFO", "memory")
    lines = [line for info in found if isinstance(info, bytes) for line in info.decode().splitlines()]
    policies = {line.partition(":")[2].strip() for line in lines if line.startswith("maxmemory_policy:")}
    for policy in policies - {"noeviction", ""}:
        raise ConfigError(
            f"the store's maxmemory-policy is {policy}: under memory pressure it would forget budgets and holds. "
            "Set it to noeviction",
            param="store.url",
        )
