"""The audit stream: added to, read backwards in pages, found by filters, never trimmed."""

from __future__ import annotations

import pytest

from guardproxy.errors import BadAsk, StoreError
from guardproxy.store import audit
from guardproxy.store.audit import Entry, Wanted
from guardproxy.store.redis import Store

ONE = Entry(
    "ann", "session.pause", "run-1", "token", "operator", "t1", "10.0.0.1", "acme", "odd", {"state": ("a", "b")}
)


async def test_as_it_was_written(store: Store) -> None:
    """All of it, with the values' kinds; what is no text any more is written as it can be."""
    diff = {
        "n": (None, 2.5),
        "list": ([1, {"a": "é"}], True),
        "行": ("\ud800".encode("utf-8", "replace").decode(), None),
    }
    name = await store.audit.note(Entry("ann\ud800", "x", diff=diff))
    await store.audit.note(ONE)
    (newer, older), rest = await store.audit.read(10)

    assert rest == ""
    assert (older.id, older.actor, older.diff) == (name, "ann?", diff)
    assert older.at_ms == int(name.partition("-")[0])
    assert {field: getattr(newer, field) for field in audit._TEXTS} == {f: getattr(ONE, f) for f in audit._TEXTS}
    assert newer.diff == ONE.diff
    assert await store._client.command("TTL", "gp:admin{admin}:audit") == -1


async def test_pages(store: Store) -> None:
    names = [await store.audit.note(Entry("ann", f"w.{n % 3}")) for n in range(10)]
    seen, before = [], ""
    for _ in range(4):
        found, before = await store.audit.read(3, before)
        seen += [one.id for one in found]
        if not before:
            break
    assert seen == names[::-1]
    for limit in (9, 10, 11):
        found, rest = await store.audit.read(limit)
        assert (len(found), bool(rest)) == (min(limit, 10), limit < 10)


FILTERS = {
    "an actor": (Wanted(actor="bob"), [1]),
    "a kind": (Wanted(what="session"), [0, 1]),
    "one thing": (Wanted(what="session.cut"), [1]),
    "no part of a word": (Wanted(what="sess"), []),
    "a subject": (Wanted(subject="run-1"), [0, 2]),
    "an organisation": (Wanted(org="acme"), [0]),
    "both": (Wanted(actor="ann", subject="run-1"), [0, 2]),
    "since": (Wanted(since_ms=10**14), []),
    "until": (Wanted(until_ms=1), []),
    "all of it": (Wanted(since_ms=1, until_ms=10**14), [0, 1, 2]),
}


@pytest.mark.parametrize("which", FILTERS)
async def test_filters(which: str, store: Store) -> None:
    entries = [ONE, Entry("bob", "session.cut", "run-2"), Entry("ann", "sessions.odd", "run-1")]
    names = [await store.audit.note(one) for one in entries]
    wanted, expected = FILTERS[which]
    found, _ = await store.audit.read(10, wanted=wanted)

    assert sorted(names.index(one.id) for one in found) == expected


async def test_a_filter_that_finds_little(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """A look ends somewhere; it says where to go on, so that nothing is missed."""
    monkeypatch.setattr(audit, "BLOCK", 5)
    monkeypatch.setattr(audit, "FAR", 20)
    for n in range(51):
        await store.audit.note(Entry("ann" if n % 25 == 0 else "bob", "x", str(n)))
    seen, before, looks = [], "", 0
    while before or not looks:
        found, before = await store.audit.read(10, before, Wanted(actor="ann"))
        seen += [one.subject for one in found]
        looks += 1

    assert seen == ["50", "25", "0"]
    assert looks == 3


@pytest.mark.parametrize("cursor", ["x", "1", "1-", "-1", "1-1-1", "9" * 20 + "-1", "+"])
async def test_no_cursor_of_ours(cursor: str, store: Store) -> None:
    with pytest.raises(BadAsk):
        await store.audit.read(1, cursor)


async def test_what_another_version_wrote(store: Store) -> None:
    key = "gp:admin{admin}:audit"
    await store._client.command("XADD", key, "*", "actor", "ann", "what", "x", "mood", "fine")
    assert (await store.audit.read(1))[0][0].actor == "ann"
    await store._client.command("XADD", key, "*", "actor", "ann", "what", "x", "diff", "[")
    with pytest.raises(StoreError, match="cannot be read"):
        await store.audit.read(1)
