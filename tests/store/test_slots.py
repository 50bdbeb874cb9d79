"""Every call keeps to one slot of a Redis Cluster, and to the rights that the documentation gives our user.

The same is watched in all other tests of the store: see `conftest.servers`.
"""

from __future__ import annotations

import re
from hashlib import sha1
from importlib import resources
from typing import Any

import pytest
from redis.crc import key_slot

from guardproxy.core.usage import FIELDS
from guardproxy.core.windows import CONCURRENT, NOW
from guardproxy.errors import StoreError
from guardproxy.store._codec import prefix
from guardproxy.store._scripts import sources
from guardproxy.store.audit import KEY, Entry
from guardproxy.store.embedded import Embedded
from guardproxy.store.erasures import EVERYBODY
from guardproxy.store.policies import Kept
from guardproxy.store.redis import ORGS, PANIC, Store
from guardproxy.store.registry import SLOT, Org, Team
from guardproxy.store.tokens import Token
from tests.store.kit import LINES, ORG, Agent, emptied, token
from tests.store.monitored import Heard, commands, granted, heard, keys_of
from tests.store.test_approvals import asked
from tests.store.test_labels import BOUNDARY as PACKED, PLAIN
from tests.store.test_registry import KEY as VIRTUAL
from tests.store.test_tenants import line

DAY = 86_400_000
DATA = resources.files("guardproxy.store")


async def turns(store: Store) -> None:
    lines = (*LINES, line(NOW, CONCURRENT, 1, 9, 0), line("total", "cost_microusd", 100, 10**9, 0))
    agent = Agent(store, session="s", lines=lines)
    for _ in range(3):
        await agent.turn()
    await agent.begin()
    assert agent.last
    assert await store.extend(ORG, agent.last.token, lines)
    await store.renew(ORG, agent.last.token, DAY)
    await agent.settle()
    await agent.begin(payer="a")
    store.background.early_soon(ORG, "name", agent.last.token, "")
    await agent.settle(charge=(1,), later=("name", "{}"))
    await store.background.look(ORG, "name")
    assert await store.background.settle(ORG, "name", {"cost_microusd": 1}, (1, 1), offset_ms=2 * DAY)
    await store.usages.corrected(ORG, 0)
    lost = Agent(store, session="lost", lease_ms=1)
    await lost.begin()
    assert lost.last
    await store.orphans.expire(ORG, lost.last.token)
    await store.sweep(offset_ms=1000)
    await store.records(ORG, "s")
    await store.list_sessions(ORG)
    await store.idle_sessions(1, offset_ms=DAY // 2)
    assert await store.claim(ORG, "once", 1000)
    assert not await store.claim(ORG, "once", 1000)


async def people(store: Store) -> None:
    runs, labels = store.runs, store.labels
    await asked(store)
    await store.approvals.list(ORG)
    await store.approvals.due(ORG, offset_ms=DAY)
    await asked(store, Agent(store, session="t"), id="a2")
    await store.approvals.decide(ORG, "a2", "approve", "ann")
    assert await store.approvals.claim(ORG, "a2", "token")
    await store.approvals.unclaim(ORG, "a2", "token")
    await runs.pause(ORG, "lost", "ann")
    await runs.resume(ORG, "lost", "ann")
    await runs.extend(ORG, "lost", {"turns": 5}, "ann")
    await runs.cut(ORG, "lost", "ann")
    await runs.stopped(ORG)
    await runs.reset(ORG, "lost", "ann")
    await runs.refused(ORG, "lost", b"record", "once")
    await runs.tally(ORG)
    await runs.history(ORG, "lost")
    await runs.seal(ORG, "lost", 1, 0)
    await runs.tally(ORG)
    await runs.note(ORG, "lost", "", {"a": b"b"})
    said = (await labels.add(ORG, PLAIN, DAY, DAY, PACKED)).label
    await labels.every(ORG)
    await labels.standing(ORG)
    await labels.hit(ORG, said.id, 1)
    await labels.revoke(ORG, said.id, "ann", DAY)
    await store.checkpoints.put(ORG, "s", b"sealed", 60)
    await store.checkpoints.get(ORG, "s")
    await store.checkpoints.take(ORG, "s", 1, "ann")


async def owners(store: Store) -> None:
    registry, entry = store.registry, Entry("ann", "token.create")
    for one in (Org(ORG), Team(ORG, "web"), VIRTUAL):
        await registry.put(one)
    await registry.find(VIRTUAL.secrets[0].digest)
    await registry.orgs()
    await registry.keys(ORG)
    await registry.delete(VIRTUAL)
    await store.policies.put(Kept("a", {"mode": "observe"}, by="ann", version="0"))
    await store.policies.every()
    await store.policies.revisions("a")
    await store.policies.delete("a")
    await store.tokens.create("hash", Token("one", "one", "owner", ""), 1000, entry)
    await store.tokens.create("other", Token("two", "two", "owner", ""), 1000, entry)
    await store.tokens.find("hash")
    await store.tokens.every()
    await store.tokens.revoke("one", "ann", entry)
    await store.audit.note(entry)
    await store.audit.read(5)
    await store.meter.hold(ORG, token(), (line("total", "requests", 1, 9, 0),), 1000)
    await store.meter.standing(ORG, [("t:org:", "requests")])
    await store.usages.add(ORG, {"acme": [1] * len(FIELDS)})
    await store.usages.day(ORG, "2026-11-30")
    await store.usages.forget(ORG, "2026-11-30")
    await store.usages.now_ms()
    await store.stays.keep(ORG, "s", "a,b", "b")
    await store.stays.get(ORG, "s", "a,b")
    await store.chains.keep(ORG, "name", b"sealed", 60)
    await store.chains.get(ORG, "name")
    await store.check_schema()
    for sessions in (["s"], EVERYBODY):
        await store.erasures.end(ORG, sessions if isinstance(sessions, list) else [])
        await store.erasures.held(ORG, sessions)
        await store.erasures.wipe(ORG, sessions)
    await store.erasures.find(ORG, "ann")
    await store.erasures.unname(ORG, "ann")
    await store.panic(on=True)
    await store.panic(on=False)
    await store.ping()
    await store.check_policy()


async def everything(store: Store) -> None:
    """Each script and each command at least once."""
    await turns(store)
    await people(store)
    await owners(store)


async def test_the_keys_of_a_call_lie_in_one_slot(own_server: Embedded) -> None:
    with heard(own_server.socket_path) as found:
        async with emptied(own_server) as store:
            await everything(store)
    assert found.wrong == []
    names = {sha1(text.encode(), usedforsecurity=False).hexdigest(): name for name, text in sources().items()}
    assert {names[one] for one in found.scripts} == set(names.values())


def test_what_is_nobodys_own_has_slots_of_its_own() -> None:
    """No name of an org (a letter or a digit comes first) can lead there."""
    apart = [ORGS, PANIC, prefix(SLOT), KEY.decode()]
    slots = {key_slot(key.encode()) for key in apart}
    assert len(slots) == len(apart)
    assert key_slot(prefix("acme").encode()) == key_slot(f"{prefix('acme')}w:t:org:".encode())


@pytest.mark.parametrize(
    "script",
    ["redis.call('GET', 'gp:{a}:x') redis.call('GET', KEYS[1])", "redis.call('MGET', KEYS[1], 'gp:{a}:x')"],
)
def test_a_call_over_two_slots_is_found(script: str) -> None:
    found = Heard()
    inner = re.findall(r"call\((.*?)\)", script)
    found.line(b'1.0 [0 unix:x] "EVALSHA" "0" "1" "gp:{b}:"')
    for one in inner:
        words = [f'"{word.strip().strip(chr(39))}"' for word in one.replace("KEYS[1]", "'gp:{b}:'").split(",")]
        found.line(b"1.0 [0 lua] " + " ".join(words).encode())
    found.done()
    assert len(found.wrong) == 1
    with pytest.raises(AssertionError, match="is not among the rights"):
        keys_of([b"flushall"])


def _in_sources() -> set[str]:
    """Upper-case words between quotes: the commands that scripts and modules of the store name, among others."""
    texts = [one.read_text("utf-8") for one in DATA.iterdir() if one.name.endswith((".lua", ".py"))]
    return {word.lower() for text in texts for word in re.findall(r"['\"]([A-Z]{3,})['\"]", text)}


def test_the_rights_are_no_more_than_what_is_used() -> None:
    ours = {one.partition("|")[0] for one in commands()}
    assert ours - _in_sources() == set()
    assert {word.lower() for one in DATA.iterdir() if one.name.endswith(".lua") for word in _calls(one)} <= ours


def _calls(one: Any) -> list[str]:
    return re.findall(r"call\(['\"]([A-Z]+)['\"]", one.read_text("utf-8"))


async def test_a_user_with_these_rights_can_do_everything(own_server: Embedded) -> None:
    async with emptied(own_server) as admin:
        rights = granted().split()
        await admin._client.command("ACL", "SETUSER", "guardproxy", "on", ">word", *rights)
        store = await Store.connect(f"unix://guardproxy:word@{own_server.socket_path}", timeout_ms=5000, replicas=0)
        try:
            await everything(store)
            for words in (("FLUSHALL",), ("KEYS", "*"), ("GET", "other"), ("CONFIG", "GET", "*"), ("ACL", "LIST")):
                with pytest.raises(StoreError, match="NOPERM"):
                    await store._client.command(*words)
        finally:
            await store.close()
