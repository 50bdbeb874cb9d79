"""Policies in the store: written in one step, revisions that are never used twice, a number to watch."""

from __future__ import annotations

import asyncio

import pytest

from guardproxy.errors import GuardError
from guardproxy.store.policies import MOST, Kept
from guardproxy.store.redis import Store


def kept(name: str, mode: str = "observe") -> Kept:
    return Kept(name, {"mode": mode, "é": [1.5, None]}, by="anna", version="0123abcd")


async def test_a_life(store: Store) -> None:
    policies = store.policies
    assert await policies.every() == ("", {})
    await policies.put(kept("b"))
    await policies.put(kept("a"))
    now, found = await policies.every()
    assert (await policies.now(), list(found)) == (now, ["a", "b"])
    assert (found["a"].written, found["a"].revision, found["a"].by, found["a"].version) == (
        {"mode": "observe", "é": [1.5, None]},
        1,
        "anna",
        "0123abcd",
    )
    assert found["a"].at_ms > 0
    await policies.put(kept("a", "enforce"), "1")
    await policies.delete("a", "2")
    then = await policies.now()
    assert then != now
    await policies.put(kept("a"))
    assert (await policies.every())[1]["a"].revision == 3
    assert [(one.revision, one.written["mode"]) for one in await policies.revisions("a")] == [
        (3, "observe"),
        (2, "enforce"),
        (1, "observe"),
    ]


async def test_of_ten_one_writes(store: Store) -> None:
    await store.policies.put(kept("a"))
    done = await asyncio.gather(
        *(store.policies.put(kept("a", "enforce"), "1") for _ in range(10)), return_exceptions=True
    )
    assert sorted(one.status if isinstance(one, GuardError) else 200 for one in done) == [200] + [412] * 9


@pytest.mark.parametrize(("name", "expected", "status"), [("a", "9", 412), ("b", "1", 412), ("b", "*", 404)])
async def test_what_is_not_there(store: Store, name: str, expected: str, status: int) -> None:
    await store.policies.put(kept("a"))
    with pytest.raises(GuardError) as told:
        await store.policies.delete(name, expected)
    assert told.value.status == status
    assert list((await store.policies.every())[1]) == ["a"]


async def test_there_are_not_too_many(store: Store) -> None:
    for number in range(MOST):
        await store.policies.put(kept(f"p{number}"))
    with pytest.raises(GuardError) as told:
        await store.policies.put(kept("one-more"))
    assert told.value.code == "full"
    await store.policies.put(kept("p0"))  # one that is there may change


async def test_one_that_another_version_wrote_hides_no_other(store: Store) -> None:
    await store.policies.put(kept("a"))
    for name, raw in (("b", b"?"), ("c", b"\x93\x01\x02\xa2{}"), ("d", b"\x93\x01\x02\xa1{")):
        await store._client.command("HSET", "gp:{_registry}:policies", name, raw)
    _, found = await store.policies.every()
    assert {name: bool(one.wrong) for name, one in found.items()} == {"a": False, "b": True, "c": True, "d": True}
