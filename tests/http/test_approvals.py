"""Approvals as people see and decide them: over a real store, once, by name, with the content in plain sight."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace

import pytest

from guardproxy.errors import BadAsk, GuardError
from guardproxy.http.approvals import NOT_OURS, Desk, as_json, paragraphs, row
from guardproxy.http.sealed import EDITED, Held, Sealer
from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.store.kit import keys

ORG, KEY = "default", b"k" * 32
CALL = Held("delete_file", '{"path":"/data/a.csv"}', b'{"role":"assistant","content":null}')
QUESTION = Held("ask_human", '{"q":"Which?"}', b"{}", question="Which of\nthe two?")
HOUR = 3_600_000


def desk(store: Store, key: bytes = KEY) -> Desk:
    return Desk(store, Sealer(key), ORG)


async def ask(store: Store, name: str, held: Held = CALL, *, for_ms: int = HOUR) -> Approval:
    now = round(time.time() * 1000)
    sealed = Sealer(KEY).seal_held(name, held)
    return await store.approvals.open(ORG, Approval(name, ORG, "run-1", "main", held.tool, now, now + for_ms, sealed))


async def refused(work: object) -> tuple[int, str, str]:
    with pytest.raises(GuardError) as caught:
        await work  # type: ignore[misc]
    return caught.value.status, caught.value.code, caught.value.message


async def test_listed_with_their_content(store: Store) -> None:
    assert await desk(store).listed() == []
    await ask(store, "a1")
    await asyncio.sleep(0.005)
    await ask(store, "a2", QUESTION)
    found = await desk(store).listed()

    assert [(one.approval.id, one.held) for one in found] == [("a2", QUESTION), ("a1", CALL)]
    assert (await desk(store).shown("a1")).held == CALL
    await desk(store).deny("a2", "ann")
    assert [one.approval.id for one in await desk(store).listed()] == ["a1"]
    assert [one.approval.id for one in await desk(store).listed("denied")] == ["a2"]
    assert [one.approval.id for one in await desk(store).listed("")] == ["a2", "a1"]
    with pytest.raises(BadAsk, match="must be one of pending, approved"):
        await desk(store).listed("open")


DECIDED = {
    "approved": (CALL, ("approve", {"why": "it is a copy"}), "approved", "it is a copy", None),
    "approved with other arguments": (CALL, ("approve", {"arguments": '{"path": "b"}'}), "approved", "",
                                      Held("delete_file", '{"path": "b"}')),
    "denied": (CALL, ("deny", {"why": "too dear"}), "denied", "too dear", None),
    "a question denied": (QUESTION, ("deny", {}), "denied", "", None),
    "answered": (QUESTION, ("answer", {"text": "the second\nof them"}), "answered", "",
                 Held("ask_human", answer="the second\nof them")),
}  # fmt: skip


@pytest.mark.parametrize("name", DECIDED)
async def test_decided_once(name: str, store: Store) -> None:
    held, (verdict, more), state, why, edited = DECIDED[name]
    await ask(store, "a1", held)
    shown = await getattr(desk(store), verdict)("a1", "ann", **more)

    assert (shown.approval.state, shown.approval.by, shown.approval.why) == (state, "ann", why)
    assert (shown.held, shown.edited) == (held, edited)
    assert 0 <= time.time() * 1000 - shown.approval.decided_ms < 10_000
    assert (await store.approvals.get(ORG, "a1")) == shown.approval
    assert await store.approvals.claim(ORG, "a1", "t1") is (state == "approved")
    status, code, told = await refused(desk(store).deny("a1", "bob"))
    assert (status, code) == (409, "already_decided")
    assert told.startswith(f"approval a1 was {state} by ann at 20")
    assert told.endswith(f" UTC before ({why})" if why else " UTC before")


async def test_many_at_once_decide_once(store: Store) -> None:
    await ask(store, "a1")
    names = [f"p{number}" for number in range(50)]
    found = await asyncio.gather(*(desk(store).approve("a1", name) for name in names), return_exceptions=True)

    (won,) = [one for one in found if not isinstance(one, BaseException)]
    assert {type(one) for one in found if one is not won} == {GuardError}
    assert {one.code for one in found if isinstance(one, GuardError)} == {"already_decided"}
    assert all(f" by {won.approval.by} at " in str(one) for one in found if isinstance(one, GuardError))


async def test_what_expired(store: Store) -> None:
    await ask(store, "a1", for_ms=5)
    await asyncio.sleep(0.02)

    assert await desk(store).listed() == []
    assert [one.approval.state for one in await desk(store).listed("expired")] == ["expired"]
    for verdict in ("approve", "deny"):
        status, code, told = await refused(getattr(desk(store), verdict)("a1", "ann"))
        assert (status, code) == (409, "expired")
        assert told.startswith("approval a1 expired at 20")
    assert not await store.approvals.claim(ORG, "a1", "t1")


WRONG = [
    (404, "not_found", "there is no approval 'a9'; waiting are q1, a1", ("approve", "a9", "ann")),
    (404, "not_found", "there is no approval '?\\x1b'; ", ("deny", "\udc80\x1b", "ann")),
    (404, "not_found", "there is no approval ''; ", ("deny", "", "ann")),
    (409, "is_a_question", "approval q1 is a question: answer it", ("approve", "q1", "ann")),
    (409, "is_no_question", "approval a1 asks nothing", ("answer", "a1", "ann", "yes")),
    (400, "invalid_request", "must be a JSON object", ("approve", "a1", "ann", "", "[]")),
    (400, "invalid_request", "must be printable", ("approve", "a1", "a\nb")),
    (400, "invalid_request", "must be printable text of at", ("deny", "a1", "ann", "\x1b[2J")),
    (400, "invalid_request", "must say something", ("answer", "q1", "ann", " ")),
]


async def test_what_cannot_be_decided_so(store: Store) -> None:
    await ask(store, "a1")
    await asyncio.sleep(0.005)
    await ask(store, "q1", QUESTION)
    for status, code, words, (verdict, *more) in WRONG:
        found = await refused(getattr(desk(store), verdict)(*more))
        assert found[:2] == (status, code), words
        assert words in found[2]
    assert {one.approval.state for one in await desk(store).listed("")} == {"pending"}


async def test_nobody_lets_through_what_they_cannot_read(store: Store) -> None:
    """The secret was changed, or a command has another: refusing is all that can be done."""
    await ask(store, "a1")
    other = desk(store, b"o" * 32)

    assert (await other.shown("a1")).held is None
    for verdict, *more in (("approve",), ("approve", "", "{}"), ("answer", "x")):
        assert await refused(getattr(other, verdict)("a1", "ann", *more)) == (
            409,
            "cannot_open",
            f"approval a1: {NOT_OURS}",
        )
    assert (await desk(store).listed())[0].approval.state == "pending"
    assert (await other.deny("a1", "ann")).approval.state == "denied"


async def test_what_is_kept_is_sealed(store: Store) -> None:
    await ask(store, "a1")
    await ask(store, "q1", QUESTION)
    await desk(store).approve("a1", "ann", "", '{"path":"secret-place"}')
    await desk(store).answer("q1", "ann", "secret-answer")
    kept = b""
    for key in await keys(store):
        if "approval:" in key:
            kept += b"".join(await store._client.command("HVALS", key))

    for word in (b"a.csv", b"Which", b"secret-place", b"secret-answer", b"assistant"):
        assert word not in kept
    asked = await store.approvals.get(ORG, "a1")
    assert asked is not None
    assert Sealer(KEY).open_held("a1", asked.edited) is None  # an edit is not taken for what the model asked
    assert Sealer(KEY).open_held("a1", asked.edited, EDITED) is not None


LONG = Held("write", '{"text":"' + "x" * 5000 + '"}', b"{}")


async def test_as_json(store: Store) -> None:
    await ask(store, "a1", LONG)
    (listed,) = await desk(store).listed()
    short, whole = as_json(listed, whole=False), as_json(listed, whole=True)

    assert (len(str(short["arguments"])), short["cut"], "message" in short) == (2000, True, False)
    assert (whole["arguments"], whole["cut"], whole["message"]) == (LONG.arguments, False, "{}")
    assert (whole["state"], whole["by"], whole["decided_ms"], whole["released"]) == ("pending", None, None, False)
    assert (whole["question"], whole["answer"], whole["edited_arguments"], whole["readable"]) == (
        None,
        None,
        None,
        True,
    )
    await desk(store).approve("a1", "ann", "", "{}")
    await store.approvals.claim(ORG, "a1", "t1")
    whole = as_json(await desk(store).shown("a1"), whole=True)
    assert (whole["state"], whole["by"], whole["edited_arguments"], whole["released"]) == (
        "approved",
        "ann",
        "{}",
        True,
    )
    unread = as_json(await desk(store, b"o" * 32).shown("a1"), whole=True)
    assert (unread["arguments"], unread["readable"]) == (None, False)


async def test_in_words(store: Store) -> None:
    """What a model wrote steers no terminal, and what is cut says so."""
    await ask(store, "a1", replace(LONG, tool="w\x1b[2J"))
    await ask(store, "q1", QUESTION)
    one = await desk(store).shown("a1")
    cells = row(one, one.approval.asked_ms)

    assert (cells[0], cells[2], cells[3], cells[4]) == ("a1", "run-1", "w\\x1b[2J", "pending, 1 h left")
    assert cells[5].endswith(f"… (+{5011 - 120:,} characters)")
    assert f"arguments  {LONG.arguments}" in paragraphs(one)
    assert row(await desk(store).shown("q1"), 0)[5] == "Which of\\nthe two?"
    said = await desk(store).answer("q1", "ann", "the second")
    assert row(said, 0)[4] == "answered by ann"
    assert {"state      answered", "question   Which of\\nthe two?", "answer     the second"} <= set(paragraphs(said))
    assert any(line.startswith("decided    by ann at 20") for line in paragraphs(said))
    unread = await desk(store, b"o" * 32).shown("a1")
    assert row(unread, 0)[5] == "(sealed under another secret)"
    assert f"arguments  {NOT_OURS}" in paragraphs(unread)
