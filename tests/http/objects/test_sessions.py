"""Sessions in the admin API beside `tests/http/test_admin_v1.py`: what the audit says, and other organisations."""

from __future__ import annotations

import json

from guardproxy.http.sealed import Sealer
from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.store.kit import Agent


async def test_what_the_audit_says(store: Store) -> None:
    async with admin_api.serving(store) as api:
        await api.fill()
        for verb in ("pause", "resume", "cut", "reset"):
            assert (await api.ask("POST", f"/sessions/run-1/{verb}", {"by": "ann"})).status == 200
        await api.ask("POST", "/sessions/run-1/extend", {"turns": 5, "cost_usd": 0.5, "why": "more"})
        await api.ask("POST", "/sessions/run-1/checkpoint/take", {"generation": 1})
        assert (await api.ask("POST", "/sessions/run-1/checkpoint/take", {"generation": 1})).status == 409
        assert (await api.ask("POST", "/sessions/none/cut", {})).status == 404
        entries = await api.entries()

    changed = {"by": ("", "ann"), "state": ("active", "paused")}
    assert entries[0].diff == changed
    assert entries[2].diff == {"by": ("", "ann"), "state": ("active", "closed"), "rule": ("", "operator")}
    assert entries[3].diff["span"] == (1, 2)
    assert entries[4].diff == {"turns": (None, 5), "cost_usd": (None, 0.5)}
    assert [(one.what, one.subject, one.org, one.actor, one.kind) for one in entries] == [
        (f"session.{what}", "run-1", "acme", who, "local")
        for who, some in (("ann", ("pause", "resume", "cut", "reset")), ("admin", ("extend", "checkpoint")))
        for what in some
    ]


async def test_turns_and_who_sees_what_was_said(store: Store) -> None:
    record = {"v": 1, "n": 1, "at": 5, "th": "main", "ms": 2, "i": 10, "o": 5, "usd": 7, "a": "nudge", "s": 200}
    record |= {"c": [["search", "0a0b"]], "ad": Sealer(admin_api.KEY).seal_told("run-1", "planted-advice")}
    async with admin_api.serving(store) as api:
        for role in ("viewer", "operator", "owner"):
            await api.token(role, role)
        agent = Agent(store, session="run-1")
        await agent.begin()
        await agent.settle(record=json.dumps(record).encode())
        seen = {role: (await api.ask("GET", "/sessions/run-1/turns", None, role)).body for role in api.secrets}
        assert (await api.ask("GET", "/sessions/none/turns", None, "owner")).status == 404
        assert (await api.ask("GET", "/sessions/run-1/turns?org=other", None, "owner")).status == 404
    assert {role: "planted-advice" in str(told) for role, told in seen.items()} == {
        "viewer": False,
        "operator": True,
        "owner": True,
    }
    (turn,) = seen["viewer"]["turns"]
    assert (turn["turn"], turn["action"], turn["cost_microusd"], turn["calls"][0]["tool"]) == (1, "nudge", 7, "search")


async def test_organisations_are_apart(store: Store) -> None:
    async with admin_api.serving(store) as api:
        await api.fill()
        assert (await api.ask("GET", "/sessions/run-1?org=other")).status == 404
        assert (await api.ask("GET", "/sessions?org=other")).body["items"] == []
        assert (await api.ask("POST", "/sessions/run-1/cut?org=other", {})).status == 404
        assert (await api.ask("GET", "/sessions/run-1?org=acme")).body["state"] == "active"
        for org in ("", "%20", "a%0Ab", "%20a", "a%7Bb", "x" * 201):
            got = await api.ask("GET", f"/sessions?org={org}")
            assert (got.status, got.body["param"]) == (400, "org")
