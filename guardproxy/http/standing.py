"""The configuration that stands: the file's, with the policies that the admin API keeps, until another takes its place.

What is bad is refused, and what stood before stays: a file that cannot be read, a policy that does not fit the file's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import orjson

from guardproxy import config as configs
from guardproxy._policies import DEFAULT, NAME, NAMED, InForce
from guardproxy.config import Config
from guardproxy.errors import BadAsk, ConfigError, GuardError, StoreError
from guardproxy.store.policies import Kept
from guardproxy.store.redis import Store

FIXED = ("listen", "admin", "store", "telemetry")
"""Sections that a running proxy cannot change: sockets, connections and exporters outlive a configuration."""

LARGEST = 1 << 16
"""Bytes of a policy as JSON. Real ones have some hundred."""

Loaded = tuple[Config, Mapping[str, Any]]
Swap = Callable[[Mapping[str, Any], Mapping[str, Any]], Awaitable[str]]
"""Puts a document in force in every worker, or in none (then the second one is again); what was wrong, or nothing."""

_log = logging.getLogger(__name__)


class Standing:
    """One a parent. `first` is what the file said; `load` reads it again. `config` and `document` are with the
    policies of the store.
    """

    def __init__(self, load: Callable[[], Loaded], first: Loaded) -> None:
        self._load = load
        self.config, self.document = first
        self.config.refuse_itself()
        self.refused = False  # whether the file was read again, and not taken
        self._file = self.document
        self._kept: Mapping[str, Kept] = {}
        self._seen = "?"
        self._store: Store | None = None
        self._swap: Swap | None = None
        self._one = asyncio.Lock()

    async def open(self, store: Store, swap: Swap) -> None:
        """Begin with what the store keeps. `swap` is asked from then on, once there are workers."""
        self._store = store
        seen, kept = await store.policies.every()
        self._take(self._file, self._usable(self._file, kept), seen)
        self._swap = swap

    async def reload(self) -> list[str] | None:
        """Read the file again; the sections that have changed, None where the old one stays. Said in the log."""
        async with self._one:
            try:
                config, document = self._load()
                config.refuse_itself()
                fixed = [name for name in FIXED if getattr(config, name) != getattr(self.config, name)]
                if fixed:
                    raise ConfigError(f"{', '.join(fixed)}: cannot change while running; restart instead")
                seen, kept = await self._keeps(document)
                said = "the configuration, with the policies of the API,"
                whole = configs.build(_with(document, kept), said)
                await self._put_in_force(_with(document, kept))
            except GuardError as error:
                self.refused = True
                _log.error("the configuration was not reloaded, the old one stays: %s", error.message)
                return None
            self.refused = False
            before, self._file = self.config, document
            self._take(document, kept, seen)
            _log.info("the configuration was reloaded")
            return [name for name in Config.model_fields if getattr(whole, name) != getattr(before, name)]

    async def look(self) -> None:
        """Put in force what was changed through the API, of this machine or another one."""
        if self._store is None:
            return
        try:
            if await self._store.policies.now() == self._seen:
                return
            async with self._one:
                seen, kept = await self._store.policies.every()
                if seen == self._seen:
                    return
                self._seen = seen  # what cannot be put in force is not tried again until it changes
                usable = self._usable(self._file, kept)
                await self._put_in_force(_with(self._file, usable))
                self._take(self._file, usable, seen)
                _log.info("the policies of the API were put in force: %s", ", ".join(usable) or "none")
        except StoreError:
            return
        except GuardError as error:
            _log.error("the policies of the API were not put in force, the old ones stay: %s", error.message)

    def in_force(self) -> dict[str, InForce]:
        """All policies by name, the default one first."""
        return self.config.in_force

    def kept(self, name: str) -> Kept | None:
        """The policy of the API that is in force under a name."""
        return None if self.of_the_file(name) else self._kept.get(name)

    def of_the_file(self, name: str) -> bool:
        """Whether a policy is the file's: the API cannot change it."""
        return name == DEFAULT or name in (self._file.get("policies") or {})

    def check(self, name: str, written: Mapping[str, Any]) -> InForce:
        """What a policy would come to. `BadAsk` names what is wrong in it, `GuardError` 409: it is the file's."""
        if self.of_the_file(name):
            said = f"the policy {name!r} stands in the configuration file; change it there"
            raise GuardError(said, status=409, code="in_file")
        if not NAME.fullmatch(name):
            raise BadAsk(f"a policy's name {NAMED}", param="id")
        if "verifier" in written:
            raise BadAsk("is the configuration file's alone: it has a secret and an address", param="document.verifier")
        if len(orjson.dumps(written)) > LARGEST:
            raise BadAsk(f"must have at most {LARGEST:,} bytes", param="document")
        try:
            tried = configs.build(_with(self._file, {**self._kept, name: Kept(name, written)}), name)
        except ConfigError as error:
            place = f"policies.{name}."
            _, *lines = error.message.split("\n")
            said = "; ".join(line.strip().removeprefix(place) for line in lines)
            param = (error.param or "").removeprefix(place)
            raise BadAsk(f"cannot be used: {said}", param=f"document.{param}") from error
        return tried.in_force[name]

    async def _put_in_force(self, document: Mapping[str, Any]) -> None:
        """ConfigError where a worker cannot: then none does."""
        wrong = await self._swap(document, self.document) if self._swap else ""
        if wrong:
            raise ConfigError(wrong)

    def _take(self, file: Mapping[str, Any], kept: Mapping[str, Kept], seen: str) -> None:
        self.document = _with(file, kept)
        self.config = configs.build(self.document)
        self._kept, self._seen = kept, seen

    async def _keeps(self, file: Mapping[str, Any]) -> tuple[str, Mapping[str, Kept]]:
        """The policies of the store; those that stood before while it is away."""
        if self._store is None:
            return self._seen, self._kept
        try:
            seen, kept = await self._store.policies.every()
        except StoreError:
            return self._seen, self._kept
        return seen, self._usable(file, kept)

    def _usable(self, file: Mapping[str, Any], kept: Mapping[str, Kept]) -> dict[str, Kept]:
        """Those that can be used here; in the place of one that cannot (another version wrote it) what stood before."""
        found = {}
        for name, one in kept.items():
            try:
                if one.wrong:
                    raise ConfigError(one.wrong)
                configs.build(_with(file, {name: one}))
            except ConfigError as error:
                _log.error(
                    "the policy %s of the API cannot be used here, what stood before stays: %s", name, error.message
                )
                if name in self._kept:
                    found[name] = self._kept[name]
            else:
                found[name] = one
        return found


def _with(file: Mapping[str, Any], kept: Mapping[str, Kept]) -> Mapping[str, Any]:
    """The document with the policies of the API behind its own; a name that the file has is the file's."""
    if not kept:
        return file
    own = file.get("policies") or {}
    return {**file, "policies": own | {name: one.written for name, one in kept.items() if name not in own}}
