"""Usage as files: whole or not at all, the same lines each time, and nothing is forgotten that is not on the disk."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from guardproxy._settings import UsageSection
from guardproxy.core.usage import FIELDS, day_of, payer
from guardproxy.http.exporting import GRACE_MS, Exporter
from guardproxy.store.redis import Store
from tests.store.kit import Agent
from tests.store.test_tenants import DAY

ANN = payer(("web", "k1", "ann", "gpt-5", "codex"))
NOBODY = payer(("", "", "", "m", ""))


class Clock:
    """The store's clock, moved by whole days and what a day is waited for, for those who ask for it."""

    def __init__(self, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
        self.days = 0
        now_ms = store.usages.now_ms

        async def moved() -> int:
            return await now_ms() + self.days * DAY + (2 * GRACE_MS if self.days else 0)

        monkeypatch.setattr(store.usages, "now_ms", moved)


@pytest.fixture
async def clock(store: Store, monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(store, monkeypatch)


def exporter(store: Store, folder: Path | str, keep_days: int = 400) -> Exporter:
    return Exporter(store, lambda: UsageSection(folder=str(folder), keep_days=keep_days))


def read(file: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def names(folder: Path) -> list[str]:
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file())


async def test_the_running_day_is_written_anew_and_then_for_good(store: Store, clock: Clock, tmp_path: Path) -> None:
    today = day_of(await store.usages.now_ms())
    one = exporter(store, tmp_path)
    await store.usages.add("acme", {ANN: (1, 10), NOBODY: (2,)})
    await one.round()
    assert names(tmp_path) == [f"acme/{today}.part.jsonl"]
    first = read(tmp_path / f"acme/{today}.part.jsonl")
    assert [(row["org"], row["day"], row["team"], row["user"], row["agent"]) for row in first] == [
        ("acme", today, "", "", ""), ("acme", today, "web", "ann", "codex"),
    ]  # fmt: skip
    assert {name: first[1][name] for name in FIELDS} == dict.fromkeys(FIELDS, 0) | {"requests": 1, "input_tokens": 10}

    await store.usages.add("acme", {ANN: (1, 10)})
    await one.round()
    second = read(tmp_path / f"acme/{today}.part.jsonl")
    assert [row["requests"] for row in second] == [2, 2]
    assert [row["id"] for row in second] == [row["id"] for row in first]
    assert len({row["id"] for row in first}) == 2

    clock.days = 1
    await one.round()
    assert names(tmp_path) == [f"acme/{today}.jsonl"]
    assert read(tmp_path / f"acme/{today}.jsonl") == second
    (tmp_path / f"acme/{today}.jsonl").write_text("kept\n")
    await one.round()
    await exporter(store, tmp_path).round()  # another proxy, or this one after a restart
    assert (tmp_path / f"acme/{today}.jsonl").read_text() == "kept\n"


async def test_a_day_that_was_put_right_later_is_written_again(store: Store, clock: Clock, tmp_path: Path) -> None:
    """An answer made in the background that is fetched the next day; also by a proxy that was away then."""
    today, folders = day_of(await store.usages.now_ms()), [tmp_path / "a", tmp_path / "b"]
    agent = Agent(store, session="s")
    await agent.begin(payer=ANN, need=(1, 1, 1))
    await agent.settle(charge=(1, 10, 0, 0, 9000), later=("name", ""))
    clock.days = 1
    one, other = (exporter(store, folder) for folder in folders)
    for each in (one, other):
        await each.round()
    await store.background.settle("acme", "name", {}, (1, 10, 0, 0, 300), DAY + 2 * GRACE_MS)
    await one.round()
    for each in (other, exporter(store, folders[0])):
        clock.days += 1
        await each.round()
    for folder in folders:
        assert [row["output_tokens"] for row in read(folder / f"acme/{today}.jsonl")] == [300]
    await store.usages.forget("acme", today)
    await exporter(store, folders[0]).round()
    assert read(folders[0] / f"acme/{today}.jsonl"), "what is no longer in the store is on the disk still"


async def test_a_proxy_that_was_away_for_days_misses_none(store: Store, clock: Clock, tmp_path: Path) -> None:
    for day in (40, 39, 3):
        await store.usages.add("acme", {ANN: (day,)}, -day * DAY)
    await exporter(store, tmp_path).round()
    found = {name[5:15]: read(tmp_path / name)[0]["requests"] for name in names(tmp_path)}
    now_ms = await store.usages.now_ms()
    assert found == {day_of(now_ms - day * DAY): day for day in (40, 39, 3)}


async def test_old_days_leave_the_store_once_they_are_on_the_disk(
    store: Store, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_ms = await store.usages.now_ms()
    days = {back: day_of(now_ms - back * DAY) for back in (0, 6, 7, 8, 300)}
    for back in days:
        await store.usages.add("acme", {ANN: (1,)}, -back * DAY)
    blocked = tmp_path / "file"
    blocked.write_text("no folder")
    one = exporter(store, blocked, keep_days=7)
    with caplog.at_level(logging.ERROR):
        await one.round()
        await one.round()
    assert [record.message.split(":")[0] for record in caplog.records] == [f"usage cannot be written to {blocked}"]
    assert [bool(await store.usages.day("acme", day)) for day in days.values()] == [True] * 5
    blocked.unlink()
    await one.round()
    assert [bool(await store.usages.day("acme", day)) for day in days.values()] == [True, True, True, False, False]
    assert len(names(blocked)) == 5


async def test_without_a_folder_old_days_are_forgotten_all_the_same(store: Store, clock: Clock) -> None:
    for back in (0, 2):
        await store.usages.add("acme", {ANN: (1,)}, -back * DAY)
    await exporter(store, "", keep_days=1).round()
    now_ms = await store.usages.now_ms()
    assert [bool(await store.usages.day("acme", day_of(now_ms - back * DAY))) for back in (0, 2)] == [True, False]


async def test_it_looks_once_in_a_while(store: Store, clock: Clock, tmp_path: Path) -> None:
    one = exporter(store, tmp_path)
    await store.usages.add("acme", {ANN: (1,)})
    await one.step()
    (file,) = [tmp_path / name for name in names(tmp_path)]
    file.unlink()
    await one.step()
    assert names(tmp_path) == []


async def test_names_of_orgs_lead_nowhere_else(store: Store, clock: Clock, tmp_path: Path) -> None:
    await store.usages.add("../up", {ANN: (1,)})
    await exporter(store, tmp_path / "in").round()
    assert [name.partition("/")[0] for name in names(tmp_path)] == ["in"]
    assert [name.split("/")[1] for name in names(tmp_path)] == ["..%2Fup"]
