"""Checkpoints: the newest is kept, for its time; one agent goes on from it, the second learns who does."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.errors import GuardError
from guardproxy.store.redis import Store
from tests.store.kit import ORG

SEALED = b"\xff\x00sealed\xfe" * 1000
DAY = 86_400_000


async def test_the_newest_is_kept_with_its_generation(store: Store) -> None:
    assert await store.checkpoints.get(ORG, "s") is None
    assert [await store.checkpoints.put(ORG, "s", b"%d" % n + SEALED, 60) for n in range(3)] == [1, 2, 3]
    found = await store.checkpoints.get(ORG, "s")
    assert found
    assert (found.generation, found.sealed) == (3, b"2" + SEALED)
    assert found.at_ms > 0
    assert await store.checkpoints.get(ORG, "other") is await store.checkpoints.get("other", "s") is None
    assert await store.checkpoints.put(ORG, "other", b"", 60) == 1


async def test_the_first_who_takes_it_goes_on_and_the_second_learns_who_does(store: Store) -> None:
    await store.checkpoints.put(ORG, "s", SEALED, 60)
    takes = [store.checkpoints.take(ORG, "s", 1, f"agent {number}") for number in range(20)]
    found = await asyncio.gather(*takes, return_exceptions=True)
    assert found.count(None) == 1
    who = found.index(None)
    with pytest.raises(GuardError, match=f"checkpoint 1 of session s was taken up before, by agent {who}") as error:
        await store.checkpoints.take(ORG, "s", 1, f"agent {who}")  # perhaps another of that name
    assert (error.value.status, error.value.code) == (409, "conflict")
    assert await store.checkpoints.put(ORG, "s", SEALED, 60) == 2
    await store.checkpoints.take(ORG, "s", 2, "agent")


@pytest.mark.parametrize("generation", [1, 3])
async def test_one_that_is_not_the_newest_is_a_conflict(store: Store, generation: int) -> None:
    for _ in range(2):
        await store.checkpoints.put(ORG, "s", SEALED, 60)
    with pytest.raises(GuardError, match="is not the newest one, which is 2") as error:
        await store.checkpoints.take(ORG, "s", generation, "agent")
    assert error.value.status == 409


async def test_its_time_is_over_and_its_number_is_not_given_again(store: Store) -> None:
    await store.checkpoints.put(ORG, "s", SEALED, 60)
    for key, longest in (("checkpoint:s", 60_000), ("generation:s", 8 * DAY)):
        left = int(str(await store._client.command("PTTL", f"gp:{{{ORG}}}:{key}")))
        assert longest - 5_000 < left <= longest, key
    await store._client.command("DEL", f"gp:{{{ORG}}}:checkpoint:s")
    with pytest.raises(GuardError, match="session 's' has no checkpoint") as error:
        await store.checkpoints.take(ORG, "s", 1, "agent")
    assert error.value.status == 404
    assert await store.checkpoints.put(ORG, "s", SEALED, 20 * 86_400) == 2
    assert int(str(await store._client.command("PTTL", f"gp:{{{ORG}}}:generation:s"))) > 19 * DAY


async def test_sent_again_it_is_the_same(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose answer was lost with its connection is sent again."""
    monkeypatch.setattr("guardproxy.store.checkpoints.secrets.token_hex", lambda _: "once")
    assert [await store.checkpoints.put(ORG, "s", SEALED, 60) for _ in range(2)] == [1, 1]
    for _ in range(2):
        await store.checkpoints.take(ORG, "s", 1, "agent")
