"""A store with one of everything in it, as a company's runs leave it: for tests of what is kept, for how long, and of
what a later version reads. `python -m tests.store.filling FILE` writes such a store down.

Every run is of user `ann` (`planted` where a test looks for traces), has a loop behind it, waits for a person, has a
checkpoint and an answer that was not accepted; one more runs beside it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from guardproxy.core.model import Line
from guardproxy.core.usage import payer
from guardproxy.store import embedded
from guardproxy.store.approvals import Approval
from guardproxy.store.audit import Entry
from guardproxy.store.labels import Label
from guardproxy.store.policies import Kept
from guardproxy.store.redis import Store
from guardproxy.store.registry import Key, Org, Secret, Team
from guardproxy.store.tokens import Token
from tests.store.kit import BOUNDARY, LINES, ORG, Agent, emptied

FAR_MS = 4_000_000_000_000
"""A moment in 2096."""

PAYER = payer(("web", "k1", "ann", "gpt", "coder"))
OWN = tuple(
    Line(scope, "cost_microusd", 100, 1_000_000, key)
    for scope, key in (
        ("org", "t:org"),
        ("user", "t:user:ann"),
        ("user", "M:user:ann:2026-11"),
        ("team", "m:team:web\x1e60000"),
    )
)


async def a_run(store: Store, session: str = "run-1", who: str = PAYER, head: str = "a" * 32) -> Agent:
    """A run of three turns: with a loop told of, texts of ours, and a record of each."""
    agent = Agent(store, session=session, head=head, lines=(*LINES, *OWN), ids=session)
    for number in range(3):
        await agent.begin(payer=who)
        await agent.settle(
            facts=(b"fact",),
            record=b'{"v":1,"n":%d}' % (number + 1),
            episodes=(b"episode",),
            ledger={f"anchor{number}": b"sealed"},
            charge=(1, 10, 0, 0, 5, 0, 70),
        )
        agent.took(counts={"calls": 1}, user=f"word {number}")
    return agent


async def waits(store: Store, session: str = "run-1", approval: str = "a1") -> None:
    """What people are asked about a run, and what they said of it."""
    known = await store.session_state(ORG, session)
    assert known
    await store.approvals.open(ORG, Approval(approval, ORG, session, known.main, "pay", 1, FAR_MS, b"sealed"))
    await store.checkpoints.put(ORG, session, b"sealed", 86_400)
    await store.checkpoints.put(ORG, f"{session}\x1fanswer", b"sealed", 691_200)
    await store.stays.keep(ORG, session, "a,b", "a")
    await store.chains.keep(ORG, f"0f{approval}", b"sealed", 3_600, session)
    label = Label(f"l-{session}", session, "cycle", "session", session, "bob", note="it was right")
    await store.labels.add(ORG, label, 86_400_000, 15_552_000_000, BOUNDARY)
    await store.runs.refused(ORG, session, b"{}", f"{known.main}:3:budget.turns:1")
    await store.runs.extend(ORG, session, {"turns": 5}, "bob", "more")
    await store.claim(ORG, "soft:M:user:ann", 1000_000)


async def failed(store: Store, session: str = "", head: str = "b" * 32) -> Agent:
    """A derived run whose attempt failed, and two that were given the same round."""
    agent = Agent(store, session=session, head=head, lines=LINES)
    await agent.begin(payer=PAYER)
    await agent.settle("", "failed")
    for name in ("twin-1", "twin-2"):
        twin = Agent(store, session=name, head="c" * 32, lines=LINES)
        await twin.begin(payer=PAYER)
        await twin.settle("text", did="same")
    return agent


async def company(store: Store) -> None:
    """Who may use it, and what was changed."""
    await store.registry.put(Org("acme", made_ms=1, made_by="root"))
    await store.registry.put(Team("acme", "web", made_ms=1))
    await store.registry.put(Key("k1", "acme", "web", "bot", secrets=(Secret("d" * 64, "gp-…1234"),), made_ms=1))
    await store.policies.put(Kept("careful", {"mode": "enforce"}, by="root", version="v"))
    entry = Entry("root", "token.create", "t1")
    await store.tokens.create("e" * 64, Token("t1", "root", "owner"), 0, entry, first=True)
    await store.audit.note(Entry("ann", "session.pause", "run-1", org=ORG, why="a look"))
    await store.usages.add(ORG, {PAYER: (1, 2)})


async def later(store: Store, session: str = "run-1") -> None:
    """Answers made in the background: one that is owed, one on its way, and one that put an old day right."""
    for name in ("owed", "settled"):
        agent = Agent(store, session=session, head="f" * 32, lines=(*LINES, *OWN), ids=name)
        await agent.begin(payer=PAYER)
        await agent.settle("empty", charge=(1, 10, 0, 0, 5, 0, 70), later=(name, "{}"))
    await store.background.settle(ORG, "settled", {}, (1, 10, 0, 0, 5, 0, 70), 86_400_000)
    store.background.early_soon(ORG, "on its way", "a token", "{}")


async def fill(store: Store) -> Agent:
    """All of it. The run that is answered is under way: its hold stands."""
    await company(store)
    await a_run(store)
    await later(store)
    await waits(store)
    await failed(store)
    cut = await a_run(store, "run-cut", head="d" * 32)
    await store.runs.cut(ORG, "run-cut", "bob", "enough")
    await cut.begin(payer=PAYER)
    await store.panic(True)
    running = Agent(store, session="run-2", head="e" * 32, lines=(*LINES, *OWN))
    view = await running.begin(payer=PAYER)
    assert view.admitted
    assert running.last
    await store.extend(ORG, running.last.token, [replace_hold(LINES[1])])
    await store.panic(False)
    await store.labels.hit(ORG, "l-run-1", 1)
    return running


def replace_hold(line: Line) -> Line:
    """The line with a hold of nothing."""
    return line._replace(hold=0)


async def told(store: Store) -> list[dict[str, Any]]:
    """Every key of a store as JSON: name, kind, milliseconds left (-1 = without end), content as the server has it."""
    found = []
    names: Any = await store._client.each("KEYS", "*")
    raw = [one for part in names for one in part]
    for key in sorted(raw):
        kind: Any = await store._client.command("TYPE", key)
        left = await store._client.command("PTTL", key)
        read = {
            b"string": ("GET", key),
            b"list": ("LRANGE", key, 0, -1),
            b"hash": ("HGETALL", key),
            b"set": ("SMEMBERS", key),
            b"zset": ("ZRANGE", key, 0, -1, "WITHSCORES"),
            b"stream": ("XRANGE", key, "-", "+"),
        }[kind]
        content: Any = await store._client.command(*read)
        if kind == b"stream":
            content = [[one[0], *one[1]] for one in content]
        found.append({"key": _text(key), "kind": kind.decode(), "left": left, "content": _texts(content)})
    return found


def _texts(content: Any) -> Any:
    return [_texts(one) for one in content] if isinstance(content, list) else _text(content)


def _text(raw: bytes) -> str:
    """Readable where it is plain."""
    plain = raw.isascii() and raw.decode().isprintable() and not raw.startswith(b"base64:")
    return raw.decode() if plain else "base64:" + base64.b64encode(raw).decode()


def _raw(text: str) -> bytes:
    return base64.b64decode(text[7:]) if text.startswith("base64:") else text.encode()


async def restore(store: Store, kept: list[dict[str, Any]]) -> None:
    """Put back what `told` wrote down. Times to live begin anew."""
    for one in kept:
        key, content = _raw(one["key"]), one["content"]
        if one["kind"] == "stream":
            for name, *words in content:
                await store._client.command("XADD", key, name, *map(_raw, words))
        else:
            words = [_raw(content)] if isinstance(content, str) else [_raw(text) for text in content]
            if one["kind"] == "zset":
                words = [part for at in range(0, len(words), 2) for part in (words[at + 1], words[at])]
            verb = {"string": "SET", "list": "RPUSH", "hash": "HSET", "set": "SADD", "zset": "ZADD"}[one["kind"]]
            await store._client.command(verb, key, *words)
        if one["left"] >= 0:
            await store._client.command("PEXPIRE", key, max(one["left"], 60_000))


async def _write(path: Path) -> None:
    with embedded.scratch() as server:
        async with emptied(server) as store:
            await fill(store)
            kept = await told(store)
    path.write_text("[\n" + ",\n".join(json.dumps(one) for one in kept) + "\n]\n", "utf-8")


__all__ = ["Agent", "a_run", "company", "failed", "fill", "replace", "restore", "told", "waits"]

if __name__ == "__main__":
    asyncio.run(_write(Path(sys.argv[1])))
