"""Budgets of an organisation as people see and change them: in the documents of the org, its teams and its keys, and in
the file. How they stand is read off the store's counters.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from hashlib import blake2b

from guardproxy import _zones
from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.core.tenant_budget import counted_as
from guardproxy.core.usage import Row, day_of, days
from guardproxy.core.windows import DAY_MS, Budget, chosen, key
from guardproxy.errors import BadAsk, GuardError
from guardproxy.store.redis import Store
from guardproxy.store.registry import NONE, Key, Org, Team

MOST = 64
"""Budgets of a document."""

LONGEST_MATCH = 100
"""Characters of a glob."""

FILE = "file"
"""In the place of a document: the configuration."""

IN_FILE = "it stands in the configuration: change it there"

SEEN_DAYS = 35
"""Days in which a user or key must have been seen, to be shown with what it used."""

WITHIN = {
    "org": ("org", "team", "key", "user", "model"),
    "team": ("team", "key", "user", "model"),
    "key": ("key", "user", "model"),
}
"""Scopes of the budgets that a document may have."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How a budget stands for one of those that it is for. `name` "" = there is one."""

    name: str
    used: int
    held: int


@dataclass(frozen=True, slots=True)
class Kept:
    """A budget and where it is: org, team:<name>, key:<id> or file. `etag`: of the document."""

    org: str
    of: str
    budget: Budget
    etag: str = ""

    @property
    def id(self) -> str:
        """The same as long as the same is counted: the limit is not in it."""
        one = self.budget
        said = f"{self.of}\n{one.scope}\n{one.match}\n{one.dimension}\n{one.window}\n{one.timezone}"
        return f"b{blake2b(said.encode('utf-8', 'replace'), digest_size=6).hexdigest()}"

    @property
    def place(self) -> str:
        """Its place in a list: the file's first, then by document."""
        rank = {"file": 0, "org": 1, "team": 2, "key": 3}[self.of.partition(":")[0]]
        return f"{rank} {self.of} {self.budget.scope} {self.budget.dimension} {self.budget.window} {self.id}"

    @property
    def single(self) -> bool:
        """Whether it has one counter, and not one for each name."""
        return self.budget.scope in ("org", "model") or self.budget.scope == self.of.partition(":")[0]


class Budgeting:
    """The budgets of `org`. `file`: those of the configuration, which are the default org's."""

    def __init__(self, store: Store, org: str, file: Iterable[Budget] = ()) -> None:
        self._store = store
        self._org = org
        self._file = tuple(file) if org == DEFAULT_ORG else ()

    async def every(self) -> list[Kept]:
        """All of them, in the order of `place`."""
        registry = self._store.registry
        org, teams, keys = await asyncio.gather(
            registry.org(self._org), registry.teams(self._org), registry.keys(self._org)
        )
        found = [Kept(self._org, FILE, one) for one in self._file]
        for of, document in (*([("org", org)] if org else ()), *_named(teams, keys)):
            found += [Kept(self._org, of, one, document.etag) for one in document.budgets]
        return sorted(found, key=lambda one: one.place)

    async def find(self, name: str) -> Kept:
        """One by its id. `GuardError` 404."""
        for one in await self.every():
            if one.id == name:
                return one
        said = f"org {self._org!r} has no budget {name[:80]!r}; guardproxy budgets list --org {self._org} shows them"
        raise GuardError(said, status=404, code="not_found")

    async def set(self, of: str, budget: Budget, expect: str = "") -> tuple[Kept | None, Kept]:
        """Give a document a budget, in the place of the one that counts the same. Answers that one, and the new one."""
        if of == FILE:
            raise GuardError(IN_FILE, status=409, code="in_the_file")
        document = await self._document(of)
        _unchanged(document, expect)
        _sound(of, budget)
        wanted = Kept(self._org, of, budget)
        before = next((one for one in document.budgets if Kept(self._org, of, one).id == wanted.id), None)
        rest = [one for one in document.budgets if one is not before]
        if len(rest) >= MOST:
            raise BadAsk(f"{of} has {MOST} budgets; remove one first", param="of")
        etag = await self._put(replace(document, budgets=(*rest, budget)), document.etag)
        return (Kept(self._org, of, before, document.etag) if before else None), replace(wanted, etag=etag)

    async def remove(self, name: str, expect: str = "") -> Kept:
        """Take a budget out of its document. What was used stays counted."""
        kept = await self.find(name)
        if kept.of == FILE:
            raise GuardError(IN_FILE, status=409, code="in_the_file")
        document = await self._document(kept.of)
        _unchanged(document, expect)
        rest = tuple(one for one in document.budgets if Kept(self._org, kept.of, one).id != name)
        await self._put(replace(document, budgets=rest), document.etag)
        return kept

    async def _document(self, of: str) -> Org | Team | Key:
        registry, (kind, _, name) = self._store.registry, of.partition(":")
        found: Org | Team | Key | None = None
        if kind == "org" and not name:
            found = await registry.org(self._org)
            found = Org(DEFAULT_ORG) if found is None and self._org == DEFAULT_ORG else found
        elif kind == "team":
            found = await registry.team(self._org, name)
        elif kind == "key":
            found = await registry.key(name)
        if found is None or (isinstance(found, Key) and found.org != self._org):
            raise GuardError(f"org {self._org!r} has no {of[:80]!r}", status=404, code="not_found")
        return found

    async def _put(self, document: Org | Team | Key, etag: str) -> str:
        return (await self._store.registry.put(document, etag or NONE)).etag

    # ------------------------------------------------------------------------------------------- how they stand

    async def standing(
        self, kept: Kept, now_ms: int, *, all_names: bool = True, names: Sequence[str] = ()
    ) -> tuple[list[Standing], int]:
        """How it stands, who used most first; and when its window ends (0 = never). `names`: of these alone."""
        budget = _counted(kept)
        if kept.single:
            names = [""]
        elif not names and all_names:
            names = await self._names(kept, now_ms)
        zone = _zones.zone(budget.timezone, now_ms)
        made = [(name, key(budget.window, budget.scope, _who(kept, budget, name), zone, now_ms)[0]) for name in names]
        places = [(chosen(one, now_ms)[0], budget.dimension) for _, one in made]
        amounts = await self._store.meter.standing(self._org, places)
        found = [Standing(name, *both) for (name, _), both in zip(made, amounts, strict=True)]
        ends = chosen(key(budget.window, budget.scope, "", zone, now_ms)[0], now_ms)[1]
        return sorted(found, key=lambda one: (-one.used - one.held, one.name)), ends

    async def _names(self, kept: Kept, now_ms: int) -> list[str]:
        """Those that have a counter of their own: of the registry, and those that were seen."""
        registry, scope = self._store.registry, kept.budget.scope
        kind, _, name = kept.of.partition(":")
        found: set[str] = set()
        if scope == "team":
            found = {one.name for one in await registry.teams(self._org)}
        elif scope == "key":
            found = {one.id for one in await registry.keys(self._org) if kind != "team" or one.team == name}
        at = ("team", "key", "user").index(scope)
        for row in await self._seen(now_ms):
            if row.by[at] and (kind not in ("team", "key") or row.by[("team", "key").index(kind)] == name):
                found.add(row.by[at])
        return sorted(one for one in found if fnmatchcase(one, kept.budget.match))

    async def _seen(self, now_ms: int) -> list[Row]:
        wanted = days(day_of(now_ms - SEEN_DAYS * DAY_MS), day_of(now_ms))
        return [row for day in wanted for row in await self._store.usages.day(self._org, day)]


def _named(teams: Sequence[Team], keys: Sequence[Key]) -> list[tuple[str, Team | Key]]:
    return [*((f"team:{one.name}", one) for one in teams), *((f"key:{one.id}", one) for one in keys)]


def _counted(kept: Kept) -> Budget:
    """The budget as requests count it: see `http.tenancy`."""
    return replace(kept.budget, of=kept.of) if kept.of.partition(":")[0] in ("team", "key") else kept.budget


def _who(kept: Kept, budget: Budget, name: str) -> str:
    """What the counters of one of those are called."""
    if budget.scope == "org":
        return ""
    return counted_as(budget, budget.match if budget.scope == "model" else name or kept.of.partition(":")[2])


def _sound(of: str, budget: Budget) -> None:
    kind = of.partition(":")[0]
    if budget.scope not in WITHIN[kind]:
        raise BadAsk(f"a {kind} has budgets of {', '.join(WITHIN[kind])}", param="scope")
    if budget.scope == kind and budget.match != "*":
        raise BadAsk(f"is for the {kind} itself; leave it out", param="match")
    if len(budget.match) > LONGEST_MATCH or not budget.match.isprintable():
        raise BadAsk(f"must be printable text of at most {LONGEST_MATCH} characters", param="match")


def _unchanged(document: Org | Team | Key, expect: str) -> None:
    if expect not in ("", document.etag):
        raise GuardError("it is not as you saw it: get it again", status=412, code="stale")
