"""Entries for the audit: what differs, who it was; and what the store missed."""

from __future__ import annotations

import pytest

from guardproxy.http import auditing
from guardproxy.http.auditing import Actor, Notes, changed
from guardproxy.store import embedded
from guardproxy.store.audit import Entry
from guardproxy.store.redis import Store

DIFFS = {
    "nothing": ({"a": 1}, {"a": 1}, {}),
    "a value": ({"a": 1, "b": 2}, {"a": 1, "b": 3}, {"b": (2, 3)}),
    "new": ({}, {"a": 1}, {"a": (None, 1)}),
    "gone": ({"a": 1}, {}, {"a": (1, None)}),
    "never there": ({"a": None}, {}, {}),
}


@pytest.mark.parametrize("which", DIFFS)
def test_what_differs(which: str) -> None:
    before, after, diff = DIFFS[which]

    assert changed(before, after) == diff


async def test_what_the_store_missed() -> None:
    """Kept in order and written when it is back; a change that comes meanwhile waits its turn."""
    with embedded.scratch() as server:
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=300, probe_ms=50)
        notes, note = Notes(store), store.audit.note
        away = True

        async def sometimes(entry: Entry) -> str:
            if away:
                await Store.connect("redis://127.0.0.1:9", timeout_ms=50)  # StoreError
            return await note(entry)

        store.audit.note = sometimes  # type: ignore[method-assign]
        await notes.note(Actor("ann").did("a"))
        await notes.note(Actor("ann").did("b", why="so"))
        assert notes.lost() == 2
        await notes.catch_up()
        away = False
        await notes.note(Actor("ann").did("c"))
        assert notes.lost() == 3
        await notes.catch_up()
        await notes.note(Actor("ann").did("d"))
        found, _ = await store.audit.read(10)
        await store.close()

    assert notes.lost() == 0
    late = "written late: the store was away"
    assert [(one.what, one.why) for one in found] == [("d", ""), ("c", late), ("b", "so"), ("a", late)]


async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(auditing, "WAITING", 3)
    store = await Store.connect("redis://127.0.0.1:9", timeout_ms=50, required=False)
    notes = Notes(store)
    for n in range(5):
        await notes.note(Actor("ann").did("a", str(n)))
    await store.close()

    assert notes.lost() == 3
    assert "a of 3 by ann is lost" in caplog.text


def test_rows() -> None:
    one = Entry("ann", "session.pause", "s\x1b", "token", "owner", "t", "", "acme", "odd", {"state": ("", "paused")})
    (row,) = auditing.rows([one])

    assert row[1:] == ("ann (token, owner)", "–", "session.pause", "s\\x1b in acme", "state: – → paused", "odd")
    assert len(row) == len(auditing.HEADS)
    assert auditing.at_terminal("bob").name == "bob"
