"""The configuration that stands: a bad one is refused, policies of the API beside the file's, and who wins."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from guardproxy.config import build
from guardproxy.errors import ConfigError
from guardproxy.http.standing import Standing
from guardproxy.store.policies import Kept
from guardproxy.store.redis import Store


class Parent:
    """What `Standing` asks: a file, and workers, which keep what they were told."""

    def __init__(self) -> None:
        self.file: dict[str, Any] = {}
        self.told: list[Mapping[str, Any]] = []
        self.wrong = ""

    def load(self) -> tuple[Any, Mapping[str, Any]]:
        return build(self.file), dict(self.file)

    async def swap(self, document: Mapping[str, Any], _before: Mapping[str, Any]) -> str:
        self.told.append(document)
        return self.wrong


async def standing(store: Store, parent: Parent) -> Standing:
    made = Standing(parent.load, parent.load())
    await made.open(store, parent.swap)
    return made


def names(made: Standing) -> list[str]:
    return list(made.in_force())


async def test_what_the_store_has_is_put_in_force(store: Store) -> None:
    parent = Parent()
    await store.policies.put(Kept("early", {"mode": "observe"}))
    made = await standing(store, parent)
    assert names(made) == ["default", "early"]  # from the start: workers are told with it
    assert made.document["policies"] == {"early": {"mode": "observe"}}
    assert parent.told == []
    await made.look()
    assert parent.told == []  # nothing has changed
    await store.policies.put(Kept("late", {"models": ["m"]}))
    await made.look()
    assert [list(one["policies"]) for one in parent.told] == [["early", "late"]]
    await store.policies.delete("early")
    await store.policies.delete("late")
    await made.look()
    assert names(made) == ["default"]


async def test_the_file_wins(store: Store) -> None:
    parent = Parent()
    parent.file = {"policies": {"one": {"mode": "observe"}}}
    await store.policies.put(Kept("one", {"mode": "enforce"}))
    made = await standing(store, parent)
    assert made.in_force()["one"].policy.mode == "observe"
    assert made.of_the_file("one")
    parent.file = {}
    assert await made.reload() == ["policies"]
    assert made.in_force()["one"].policy.mode == "enforce"


async def test_a_file_that_policies_do_not_fit_is_refused(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """A named policy has what it does not say from the default one: what stood before stays, all of it."""
    parent = Parent()
    await store.policies.put(Kept("one", {"budget": 1}))
    await store.policies.put(Kept("two", {"default_output_hold": 10}))
    made = await standing(store, parent)
    assert "the policy one of the API cannot be used here" in caplog.text
    assert names(made) == ["default", "two"]
    parent.file = {"policy": {"mode": "sometimes"}}
    assert await made.reload() is None
    assert "policy.mode" in caplog.text
    assert names(made) == ["default", "two"]
    assert parent.told == []


async def test_what_cannot_be_used_leaves_what_stood_before(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    parent = Parent()
    await store.policies.put(Kept("one", {"mode": "observe"}))
    made = await standing(store, parent)
    await store.policies.put(Kept("one", {"of_another_version": 1}))
    await store.policies.put(Kept("two", {}))
    await made.look()
    assert made.in_force()["one"].policy.mode == "observe"
    assert names(made) == ["default", "one", "two"]
    assert "of_another_version" in caplog.text


async def test_a_worker_that_cannot(store: Store, caplog: pytest.LogCaptureFixture) -> None:
    """Then none does, and it is not tried twice a second."""
    parent = Parent()
    made = await standing(store, parent)
    parent.wrong = "no memory"
    await store.policies.put(Kept("one", {}))
    for _ in range(3):
        await made.look()
    assert names(made) == ["default"]
    assert (len(parent.told), caplog.text.count("no memory")) == (1, 1)
    assert await made.reload() is None
    parent.wrong = ""
    parent.file = {"policy": {"language": "zh"}}
    caplog.set_level(logging.INFO)
    assert await made.reload() == ["policy", "policies"]
    assert names(made) == ["default", "one"]


async def test_a_store_that_is_away_changes_nothing(store: Store) -> None:
    parent = Parent()
    made = Standing(parent.load, parent.load())
    await made.look()  # not open yet
    await made.open(store, parent.swap)
    await store.close()
    await made.look()
    assert names(made) == ["default"]


def test_what_cannot_change_while_it_runs() -> None:
    parent = Parent()
    parent.file = {"policies": {"x": {"mode": "never"}}}
    with pytest.raises(ConfigError, match=r"policies\.x\.mode"):
        Standing(parent.load, parent.load())
