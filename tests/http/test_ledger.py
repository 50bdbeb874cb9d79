"""Our texts and refused rounds beside a conversation: sealed, found at their place again, and gone with it."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from guardproxy.core.edit import AppendText, ForbidTools, PutBack
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Call, Message
from guardproxy.http.ledger import At, Ledger, with_rounds

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
    assert ledger().put_back(over(messages), entries) == (((ADVICE,), False) if there else ((), True))


def test_several_texts_at_one_place_keep_their_order() -> None:
    texts = [AppendText(3, f"\n\n[guardproxy] {n}") for n in range(12)]
    entries: dict[str, bytes] = {}
    for number, text in enumerate(texts):
        entries |= ledger().seal(over(CONVERSATION), [text], texts[:number])
    scrambled = dict(sorted(entries.items()))

    assert len(entries) == 12
    assert ledger().put_back(over(CONVERSATION), scrambled) == (tuple(texts), False)


def test_what_is_stored_is_sealed() -> None:
    one, two = (ledger().seal(over(CONVERSATION), [ADVICE]) for _ in range(2))

    ((anchor, sealed),) = one.items()
    assert b"guardproxy" not in sealed
    assert "Do it" not in anchor
    assert one != two, "the same text twice must not look the same"


def test_another_secret_gives_no_text() -> None:
    entries = ledger().seal(over(CONVERSATION), [ADVICE])

    assert ledger(b"x" * 32).put_back(over(CONVERSATION), entries) == ((), False)


def test_a_text_cannot_be_moved_to_another_place() -> None:
    (sealed,) = ledger().seal(over(CONVERSATION), [ADVICE]).values()
    (anchor,) = ledger().seal(over(CONVERSATION), [AppendText(1, "x")])

    assert ledger().put_back(over(CONVERSATION), {anchor: sealed}) == ((), False)


def test_only_texts_are_kept() -> None:
    assert ledger().seal(over(CONVERSATION), [ForbidTools()]) == {}


ANSWER = Message("assistant", "I read.", (Call("read", '{"path":"a"}', "r1"),))
BACK = PutBack(4, calls=((1, b'{"id":"d1"}'),), after=(b'{"role":"tool"}',))
OTHER = PutBack(4, before=(b'{"role":"assistant"}', b'{"role":"tool"}'))
REWRITTEN = ANSWER._replace(text="", calls=(Call("read", '{ "path": "a" }', "x9"),))
ELSE = Message("assistant", "", (Call("list", "{}", "l1"),))
WORDS = Message("assistant", "Done.")

ANSWERS = {
    # what was given for one request, one after another, with what has to stand in it; which is kept, what is put back
    "one": ([(ANSWER, BACK)], ANSWER, BACK),
    "one, its ids and spelling changed": ([(ANSWER, BACK)], REWRITTEN, BACK),
    "one, written anew by the client": ([(ANSWER, BACK)], ELSE, BACK),
    "one, but the calls are gone": ([(ANSWER, BACK)], WORDS, None),
    "the second of two": ([(ANSWER, BACK), (ELSE, OTHER)], ELSE, OTHER),
    "the first of two": ([(ANSWER, BACK), (ELSE, OTHER)], ANSWER, BACK),
    "the first of two, changed": ([(ANSWER, BACK), (ELSE, OTHER)], REWRITTEN, BACK),
    "none of two": ([(ANSWER, BACK), (ELSE, OTHER)], WORDS, None),
    "the newest of two equal ones": ([(ANSWER, BACK), (ANSWER, OTHER)], ANSWER, OTHER),
    "one that needs nothing": ([(ANSWER, BACK), (ELSE, None)], ELSE, None),
    "one beside one that needs nothing": ([(ANSWER, BACK), (ELSE, None)], ANSWER, BACK),
    "one that needs nothing, and is alone": ([(ELSE, None)], ELSE, None),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_is_put_back_belongs_to_the_answer_that_the_client_has_kept(name: str) -> None:
    given, kept, expected = ANSWERS[name]
    entries: dict[str, bytes] = {}
    for answer, back in given:
        backs = (back,) if back else ledger().other(over(CONVERSATION), 4, entries)
        for anchor, sealed in ledger().seal(over(CONVERSATION), [], (), backs, answer=answer, known=entries).items():
            entries.setdefault(anchor, sealed)  # as the store does

    found, lost = ledger().put_back(over([*CONVERSATION, kept]), entries)
    assert found == ((expected,) if expected else ())
    assert not lost


def test_what_stands_at_one_place_is_put_back_as_one() -> None:
    more = PutBack(4, before=(b"1", b"2"), said="So:")
    entries = ledger().seal(over(CONVERSATION), [], (), [BACK, more], answer=ANSWER)
    found, _ = ledger().put_back(over([*CONVERSATION, ANSWER]), entries)
    assert found == (PutBack(4, more.before, BACK.calls, BACK.after, "So:"),)
    assert with_rounds(more, [OTHER, ADVICE]).before == (*OTHER.before, *more.before)


# ------------------------------------------------------------------------------- rounds and calls that are put back

READ = Message("assistant", "", (Call("read", "{}", "id2"),))
AFTER = [*CONVERSATION, READ, Message("tool", "r2", call_id="id2"), Message("user", "more")]
CALL, RESULT = (
    b'{"id":"id3","function":{"name":"delete"},"x":1e400,"\\u00e9":"\xc3\xa9"}',
    b'{"role":"tool","content":"no"}',
)
ROUND = (b'{"role":"assistant","content":"I delete."}', RESULT)
ROUNDS = PutBack(4, ROUND, ((0, CALL), (2, CALL)), (RESULT, RESULT), "I delete.")


def sealed(*kept: PutBack, key: bytes = KEY) -> dict[str, bytes]:
    """Sealed when the answer that they belong to was not in the conversation yet."""
    return ledger(key).seal(over(CONVERSATION), [], (), kept)


def read_with(**fields: object) -> list[Message]:
    return [*CONVERSATION, READ._replace(**fields), *AFTER[5:]]


PLACES: dict[str, tuple[PutBack, Sequence[Message], bool]] = {
    "behind its conversation": (ROUNDS, AFTER, True),
    "grown": (ROUNDS, [*AFTER, Message("assistant", "x")], True),
    "other ids": (ROUNDS, [*changed(3, call_id="id9"), *AFTER[4:]], True),
    "the answer is not there yet": (ROUNDS, CONVERSATION, False),
    "something else is there": (ROUNDS, [*CONVERSATION, Message("user", "Well?")], False),
    "the message before has changed": (ROUNDS, [*changed(3, text="r9"), *AFTER[4:]], False),
    "moved": (ROUNDS, [Message("system", "more"), *AFTER], False),
    "compacted": (ROUNDS, [CONVERSATION[0], Message("user", "Summary"), READ], False),
    "nothing": (ROUNDS, [], False),
    "the message has lost its calls": (ROUNDS, read_with(calls=()), False),
    "a round alone needs no calls": (PutBack(4, ROUND), read_with(calls=()), True),
    "other calls are another matter": (ROUNDS, read_with(calls=(Call("g", "{}"),)), True),
    "at the beginning": (PutBack(0, ROUND), [Message("assistant", "Hello")], True),
}


@pytest.mark.parametrize("name", PLACES)
def test_rounds_are_put_back(name: str) -> None:
    back, messages, there = PLACES[name]
    entries = sealed(back)

    assert len(entries) == 1
    assert ledger().put_back(over(messages), entries) == ((back,) if there else (), False)


def test_each_byte_of_them_stays() -> None:
    """What a provider is sent again has to be what it was sent before: no form of JSON is made anew."""
    (found,), _ = ledger().put_back(over(AFTER), sealed(ROUNDS))

    assert found == ROUNDS
    assert ledger().put_back(over(AFTER), sealed(ROUNDS)) == ledger().put_back(over(AFTER), sealed(ROUNDS))


def test_what_was_put_back_is_sealed_too() -> None:
    ((anchor, stored),) = sealed(ROUNDS).items()

    assert b"delete" not in stored
    assert anchor.startswith("r4:")
    assert stored != next(iter(sealed(ROUNDS).values()))


def test_a_round_of_another_secret_is_none() -> None:
    entries = sealed(ROUNDS, key=b"x" * 32)

    assert ledger().put_back(over(AFTER), entries) == ((), False)


def test_a_round_cannot_be_moved() -> None:
    (stored,) = sealed(ROUNDS).values()
    (anchor,) = sealed(PutBack(3, ROUND))
    messages = [*CONVERSATION[:3], Message("assistant", "x"), *CONVERSATION[3:]]

    assert ledger().put_back(over(messages), {anchor: stored}) == ((), False)


def test_a_round_of_another_version_is_left_out() -> None:
    one = ledger()
    (anchor,) = sealed(ROUNDS)
    for form in (b'[2,[],[],[],"","new"]', b"[2]"):
        assert one.put_back(over(AFTER), {anchor: one._seal(anchor, form)}) == ((), False)


def test_texts_come_before_rounds_and_both_in_their_order() -> None:
    later = PutBack(6, ROUND)
    grown = [*AFTER[:6], Message("assistant", "x")]
    entries = ledger().seal(over(grown), [ADVICE], (), [later, ROUNDS])

    assert ledger().put_back(over(grown), entries) == ((ADVICE, ROUNDS, later), False)


def test_lost_is_what_texts_are_not_what_rounds_are() -> None:
    """Advice whose place is gone is given again; a round goes with its message, calls and results together."""
    later = PutBack(6, ROUND)
    grown = [*AFTER[:6], Message("assistant", "x")]
    both = ledger().seal(over(AFTER), [ADVICE], (), [later])

    assert ledger().put_back(over(grown), both) == ((ADVICE, later), False)
    assert ledger().put_back(over([*changed(2, text="x"), *grown[4:]]), both) == ((later,), True)
    assert ledger().put_back(over([]), both) == ((), True)
    assert ledger().put_back(over([]), sealed(ROUNDS)) == ((), False)
