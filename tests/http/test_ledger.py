"""Our texts beside a conversation: sealed, found at their place again, and gone with it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from guardproxy.core.edit import AppendText, ForbidTools
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Call, Message
from guardproxy.http.ledger import At, Ledger

KEY = b"k" * 32
CONVERSATION = [
    Message("system", "S"),
    Message("user", "Do it."),
    Message("assistant", "", (Call("f", "{}", "id1"),)),
    Message("tool", "r1", call_id="id1"),
]
ADVICE = AppendText(3, "\n\n[guardproxy] Note")


def ledger(key: bytes = KEY) -> Ledger:
    return Ledger(key, Fingerprinter(b"p" * 32))


def over(messages: Sequence[Message]) -> At:
    return lambda index: messages[index] if 0 <= index < len(messages) else None


def changed(index: int, **fields: object) -> list[Message]:
    found = list(CONVERSATION)
    found[index] = found[index]._replace(**fields)
    return found


CONVERSATIONS = {
    "the same": (CONVERSATION, True),
    "grown": ([*CONVERSATION, Message("assistant", "x"), Message("user", "y")], True),
    "another id": (changed(3, call_id="id9"), True),
    "another call id": (changed(2, calls=(Call("f", "{}", "id9"),)), True),
    "something changed far before": (changed(0, text="other"), True),
    "the message changed": (changed(3, text="r2"), False),
    "the one before changed": (changed(2, calls=(Call("g", "{}"),)), False),
    "moved": ([Message("system", "more"), *CONVERSATION], False),
    "compacted": ([CONVERSATION[0], Message("user", "Summary")], False),
    "nothing": ([], False),
}


@pytest.mark.parametrize("name", CONVERSATIONS)
def test_put_back(name: str) -> None:
    messages, there = CONVERSATIONS[name]
    entries = ledger().seal(over(CONVERSATION), [ADVICE, ForbidTools()])

    assert len(entries) == 1
    assert ledger().put_back(over(messages), entries) == ((ADVICE,) if there else ())


def test_several_texts_at_one_place_keep_their_order() -> None:
    texts = [AppendText(3, f"\n\n[guardproxy] {n}") for n in range(12)]
    entries: dict[str, bytes] = {}
    for number, text in enumerate(texts):
        entries |= ledger().seal(over(CONVERSATION), [text], texts[:number])
    scrambled = dict(sorted(entries.items()))

    assert len(entries) == 12
    assert ledger().put_back(over(CONVERSATION), scrambled) == tuple(texts)


def test_what_is_stored_is_sealed() -> None:
    one, two = (ledger().seal(over(CONVERSATION), [ADVICE]) for _ in range(2))

    ((anchor, sealed),) = one.items()
    assert b"guardproxy" not in sealed
    assert "Do it" not in anchor
    assert one != two, "the same text twice must not look the same"


def test_another_secret_gives_no_text() -> None:
    entries = ledger().seal(over(CONVERSATION), [ADVICE])

    assert ledger(b"x" * 32).put_back(over(CONVERSATION), entries) == ()


def test_a_text_cannot_be_moved_to_another_place() -> None:
    (sealed,) = ledger().seal(over(CONVERSATION), [ADVICE]).values()
    (anchor,) = ledger().seal(over(CONVERSATION), [AppendText(1, "x")])

    assert ledger().put_back(over(CONVERSATION), {anchor: sealed}) == ()


def test_only_texts_are_kept() -> None:
    assert ledger().seal(over(CONVERSATION), [ForbidTools()]) == {}
