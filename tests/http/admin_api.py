"""An admin API over the store of a test, with tokens; and one of everything that it is about."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
from aiohttp import web

from guardproxy.config import build
from guardproxy.core.windows import Budget
from guardproxy.http import budgeting
from guardproxy.http.admin_v1 import AdminV1
from guardproxy.http.auditing import Actor
from guardproxy.http.gate import Gate
from guardproxy.http.sealed import CHECKPOINT, Held, Sealer
from guardproxy.http.standing import Standing
from guardproxy.http.switch import Switch
from guardproxy.http.tokens import Keyring
from guardproxy.store.approvals import Approval
from guardproxy.store.audit import Entry, Wanted
from guardproxy.store.policies import Kept
from guardproxy.store.redis import Store
from guardproxy.store.registry import Key, Org, Secret, Team
from tests.http import conforming
from tests.store.kit import Agent

ORG, KEY = "acme", b"k" * 32
CALL = Held("delete_file", '{"path":"/data/planted-arguments"}', b'{"content":"planted-message"}')
QUESTION = Held("ask_human", "{}", b"{}", question="planted-question?")
MONTH = Budget("org", "cost_microusd", "month", 500_000_000)
IDS = {
    "approvals": "a1",
    "sessions": "run-1",
    "orgs": "acme",
    "teams": "web",
    "keys": "k00000000000a",
    "budgets": budgeting.Kept(ORG, "org", MONTH).id,
    "usage": "",
    "policies": "careful",
    "erase": "",
}
"""What `fill` makes, by the first part of a path."""


@dataclass
class Got:
    """An answer, which the document was asked about."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def code(self) -> str:
        return str(self.body.get("code", ""))


@dataclass
class Api:
    """A client, and what is behind the listener."""

    store: Store
    client: aiohttp.ClientSession
    keyring: Keyring
    secrets: dict[str, str] = field(default_factory=dict)
    routes: tuple[Any, ...] = ()
    standing: Any = None

    async def ask(self, method: str, path: str, body: Any = None, who: str = "", **headers: str) -> Got:
        """`who`: whose token; `_` in the name of a header stands for `-`."""
        sent = {name.replace("_", "-"): text for name, text in headers.items()}
        sent |= {"Authorization": f"Bearer {self.secrets[who]}"} if who else {}
        sent |= {"Content-Type": "application/json"} if method != "GET" else {}
        data = None if body is None else json.dumps(body)
        async with self.client.request(method, f"/admin/v1{path}", data=data, headers=sent) as answer:
            told = json.loads(await answer.read())
            kind = answer.headers["Content-Type"]
        conforming.check(method, f"/admin/v1{path}", answer.status, kind, told)
        return Got(answer.status, told, answer.headers)

    async def token(self, name: str, role: str, org: str = "", for_ms: int = 0) -> str:
        """Make a token; its id."""
        made, self.secrets[name] = await self.keyring.create(name, role, Actor("a test"), org=org, for_ms=for_ms)
        return made.id

    async def entries(self, **wanted: Any) -> list[Entry]:
        """The audit, the oldest first."""
        found, _ = await self.store.audit.read(1000, wanted=Wanted(**wanted))
        return found[::-1]

    async def fill(self, org: str = ORG) -> None:
        """One of everything."""
        now, sealer = round(time.time() * 1000), Sealer(KEY)
        session = IDS["sessions"]
        await Agent(self.store, session=session).turn()
        await self.store.checkpoints.put(org, session, sealer.seal(CHECKPOINT, session, b'[{"n":"planted-text"}]'), 60)
        for name, held in (("a1", CALL), ("q1", QUESTION)):
            sealed = sealer.seal_held(name, held)
            asked = Approval(name, org, "run-9", "main", held.tool, now, now + 3_600_000, sealed)
            await self.store.approvals.open(org, asked)
        spare = (Org("spare"), Team(org, "spare"))  # nothing belongs to them
        for one in (
            Org(org, budgets=(MONTH,)),
            Team(org, "web"),
            *spare,
            Key(IDS["keys"], org, "web", secrets=(Secret("d" * 64, "gp-…"),)),
        ):
            await self.store.registry.put(one)
        await self.store.policies.put(Kept(IDS["policies"], {"mode": "observe"}))


DOCUMENT = {"policies": {"watched": {"mode": "observe", "models": ["gpt-*"]}}}


async def swapped(_document: object, _before: object) -> str:
    """Workers that take everything."""
    return ""


@asynccontextmanager
async def serving(store: Store, trusted: tuple[str, ...] = (), budgets: tuple[Budget, ...] = ()) -> AsyncIterator[Api]:
    keyring, app = Keyring(store, KEY), web.Application(client_max_size=4096)
    standing = Standing(lambda: (build(DOCUMENT), DOCUMENT), (build(DOCUMENT), DOCUMENT))
    await standing.open(store, swapped)
    v1 = AdminV1(
        store,
        KEY,
        ORG,
        gate=Gate(keyring, trusted),
        keyring=keyring,
        switch=Switch(store),
        hash_key=KEY,
        standing=standing,
        budgets=lambda: budgets,
    )
    app.add_subapp("/admin/v1", v1.application())
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with aiohttp.ClientSession(url) as client:
        yield Api(store, client, keyring, routes=v1.routes, standing=standing)
    await runner.cleanup()
