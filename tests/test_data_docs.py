"""`docs/data.md` lists every kind of key: what a filled store has is in it, lives no longer than said, goes as said."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import NamedTuple

import pytest

from guardproxy import store as package
from guardproxy.http import erasing
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from tests.http import admin_api
from tests.http.test_guarded import Agent, then
from tests.live import Said, live
from tests.store import filling
from tests.store.filling import FAR_MS, fill, told
from tests.store.kit import ORG, emptied

PAGE = Path(__file__).parent.parent / "docs" / "data.md"
UNITS = {"min": 60_000, "h": 3_600_000, "d": 86_400_000}
NAMES = {
    "<session>": ".+",
    "<window>": ".+",
    "<link>": ".+",
    "<conversation>": ".+",
    "<why>": ".+",
    "<token>": ".+",
    "<span>": r"\d+",
}


class Kind(NamedTuple):
    """A row of the table."""

    key: str
    kept: str
    erased: str

    @property
    def pattern(self) -> re.Pattern[str]:
        key = self.key if self.key.startswith("gp:") else "gp:{ORG}:" + self.key
        parts = re.split(r"(<\w+>)", key.replace("␟", "\x1f"))
        whole = "".join(NAMES.get(one, "[^:]+") if one.startswith("<") else re.escape(one) for one in parts)
        return re.compile(whole.replace(re.escape("{ORG}"), r"\{[^_}][^}]*\}"))

    @property
    def most_ms(self) -> int:
        """-1: no end."""
        if self.kept.startswith("∞"):
            return -1
        times = [int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+) (min|h|d)\b", self.kept)]
        return max(times) + (FAR_MS if "its own time" in self.kept else 0)


def kinds() -> list[Kind]:
    rows = [line.split("|") for line in PAGE.read_text("utf-8").splitlines() if line.startswith("| `")]
    return [Kind(row[1].strip(" `"), row[4].strip(), row[5].strip()) for row in rows]


KINDS = kinds()


def kind_of(key: str) -> Kind:
    found = next((one for one in KINDS if one.pattern.fullmatch(key)), None)
    assert found is not None, f"{key!r} is not in {PAGE.name}"
    return found


async def walk(store: Store) -> dict[str, Kind]:
    """Every key with its row, and whether it lives as long as that says."""
    found = {}
    for one in await told(store):
        key = filling._raw(one["key"]).decode()
        kind = found[key] = kind_of(key)
        if kind.most_ms < 0:
            assert one["left"] == -1, f"{key!r} ends, and {PAGE.name} says it does not"
        else:
            assert 0 <= one["left"] <= kind.most_ms, f"{key!r} lives for {one['left']} ms: {kind.kept} was said"
    return found


@pytest.fixture
async def store() -> AsyncIterator[Store]:
    with embedded.scratch() as server:
        async with emptied(server) as made:
            yield made


def test_the_table_is_read() -> None:
    assert len(KINDS) > 50
    assert len({one.key for one in KINDS}) == len(KINDS)
    assert {word for one in KINDS for word in re.split(", ", one.erased)} == {
        "run", "org", "by itself", "stays", "without the names of users",
    }  # fmt: skip


@pytest.mark.parametrize(
    "key", ["gp:{acme}:new:x", "gp:{acme}:", "gp:new", "gp:{_registry}:s:x", "other", "gp:{a}:t:x"]
)
def test_what_is_not_in_it_is_named(key: str) -> None:
    with pytest.raises(AssertionError, match=r"is not in data\.md"):
        kind_of(key)


def test_every_key_that_a_script_makes_is_in_it() -> None:
    """Also those that no test makes: read out of the scripts and the modules."""
    folder, made = Path(package.__file__).parent, set()
    for file in sorted(folder.iterdir()):
        text = file.read_text("utf-8") if file.suffix in (".lua", ".py") else ""
        if file.suffix == ".lua" and file.name not in ("admin.lua", "registry.lua", "policy.lua"):
            made |= set(re.findall(r"\bP \.\. '([a-z]+)", text))
        made |= set(re.findall(r"\{(?:_codec\.)?prefix\(org\)\}([a-z]+)", text))
    assert len(made) > 30
    assert sorted(made - {re.split("[:<]", one.key)[0] for one in KINDS}) == []


async def test_a_filled_store(store: Store) -> None:
    await fill(store)
    await store.check_schema()
    await store.panic(True)
    found = await walk(store)
    rare = {"gp:probe", "gp:{_registry}:policies:<name>"}  # the second is one of its own, too
    assert {one.key for one in KINDS} - {one.key for one in found.values()} - rare == set()


async def test_a_run_leaves_what_is_said_after_it_was_erased(store: Store) -> None:
    await fill(store)
    await erasing.session(store, ORG, "run-1")
    for key, kind in (await walk(store)).items():
        if "run" in kind.erased:
            assert not re.search(r"run-1\b|later:(owed|settled)", key)


async def test_an_org_leaves_what_is_said_after_it_was_erased(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasing, "GRACE_S", 0)
    monkeypatch.setattr(erasing, "WAIT_S", 0)
    await fill(store)
    await erasing.organisation(store, ORG)
    left = {kind.key for kind in (await walk(store)).values()}
    assert left & {one.key for one in KINDS if "org" in one.erased} == set()
    assert {"w:t:<window>", "w:<window>", "usage:<day>", "gp:admin{admin}:audit", "k:<token>"} <= left


async def test_whole_runs_through_a_proxy(store: Store) -> None:
    """Loops that are told of and cut, a call that waits for a person, checkpoints, budgets, usage, the admin API."""
    policy = {"checkpoints": {"enabled": True}, "limits": {"session": {"turns": 20}}}
    budgets = [
        {"scope": scope, "dimension": "total_tokens", "window": window, "limit": 100_000, "soft": soft}
        for scope, window, soft in (("org", "total", [1]), ("org", "day", [1]), ("model", "minute", []))
    ]
    delete = ("delete", '{"path":"b"}', "call_del000001")
    async with live(store, policy=policy, budgets=budgets, tools={"approval": ["delete"]}) as running:
        for said in (
            [Said(calls=[("read", '{"path":"a"}', f"call_{n:08d}")]) for n in range(14)],
            [Said(calls=[delete])],
        ):
            running.provider.script = then(*said, Said("done"))
            agent = Agent(running, stream=False)
            for _ in said:
                await agent.turn()
            await running.proxy.quiet()
    async with admin_api.serving(store) as api:
        await api.fill("default")
        await api.ask("POST", "/sessions/run-1/pause?org=acme", {"why": "a look"})
    found = {kind.key for kind in (await walk(store)).values()}
    wanted = {"e:<session>␟<thread>", "g:<session>␟<thread>", "approval:<id>", "checkpoint:<session>", "usage:<day>"}
    assert wanted | {"w:t:<window>", "w:<window>", "x:<session>", "gp:admin{admin}:audit", "history:<session>"} <= found


async def test_times_of_ones_own() -> None:
    from guardproxy.store._scripts import Retention

    with embedded.scratch() as server:
        times = Retention(runs_hours=3, people_days=1)
        kept = await Store.connect(socket_path=server.socket_path, kept=times)
        await fill(kept)
        most = {"25 h": 4 * UNITS["h"], "25 h, 8 d": UNITS["d"], "8 d": UNITS["d"]}
        seen = set()
        for one in await told(kept):
            said = kind_of(filling._raw(one["key"]).decode())
            if said.kept in most:
                seen.add(said.kept)
                assert 0 < one["left"] <= most[said.kept], (said.key, one["left"])
        assert seen == set(most)
        await kept.close()
