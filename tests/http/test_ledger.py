"""Our texts and refused rounds beside a conversation: sealed, found at their place again, and gone with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType

import pytest

from guardproxy.api import chat, messages, responses
from guardproxy.core.edit import AppendText, ForbidTools, PutBack
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
    assert ledger().put_back(over(messages), entries, chat) == (((ADVICE,), False) if there else ((), True))


def test_several_texts_at_one_place_keep_their_order() -> None:
    texts = [AppendText(3, f"\n\n[guardproxy] {n}") for n in range(12)]
    entries: dict[str, bytes] = {}
    for number, text in enumerate(texts):
        entries |= ledger().seal(over(CONVERSATION), [text], texts[:number])
    scrambled = dict(sorted(entries.items()))

    assert len(entries) == 12
    assert ledger().put_back(over(CONVERSATION), scrambled, chat) == (tuple(texts), False)


def test_what_is_stored_is_sealed() -> None:
    one, two = (ledger().seal(over(CONVERSATION), [ADVICE]) for _ in range(2))

    ((anchor, sealed),) = one.items()
    assert b"guardproxy" not in sealed
    assert "Do it" not in anchor
    assert one != two, "the same text twice must not look the same"


def test_another_secret_gives_no_text() -> None:
    entries = ledger().seal(over(CONVERSATION), [ADVICE])

    assert ledger(b"x" * 32).put_back(over(CONVERSATION), entries, chat) == ((), False)


def test_a_text_cannot_be_moved_to_another_place() -> None:
    (sealed,) = ledger().seal(over(CONVERSATION), [ADVICE]).values()
    (anchor,) = ledger().seal(over(CONVERSATION), [AppendText(1, "x")])

    assert ledger().put_back(over(CONVERSATION), {anchor: sealed}, chat) == ((), False)


def test_only_texts_are_kept() -> None:
    assert ledger().seal(over(CONVERSATION), [ForbidTools()]) == {}


ANSWER = Message("assistant", "I read.", (Call("read", '{"path":"a"}', "r1"),))
BACK = PutBack(4, calls=((1, b'{"id":"d1"}'),), after=(b'{"role":"tool"}',))
OTHER = PutBack(4, before=(b'{"role":"assistant"}', b'{"role":"tool"}'))
REWRITTEN = ANSWER._replace(text="", calls=(Call("read", '{ "path": "a" }', "x9"),))
ELSE = Message("assistant", "", (Call("list", "{}", "l1"),))
WORDS = Message("assistant", "Done.")
NUMBERED = ANSWER._replace(calls=(Call("read", '{"path":"a"}', "d1"),))
BOTH = PutBack(4, (b'{"role":"assistant"}',), BACK.calls, BACK.after, "So.")
TWICE = PutBack(4, calls=((1, b'{"id":"d1"}'), (2, b'{"id":"d1"}')), after=(b"1", b"2"))
NO_IDS = PutBack(4, calls=((1, b'{"id":""}'), (2, b"{}")), after=(b"1", b"2"))

ANSWERS = {
    # what was given for one request, one after another, with what has to stand in it; which is kept, what is put back
    "one": ([(ANSWER, BACK)], ANSWER, BACK),
    "one, its ids and spelling changed": ([(ANSWER, BACK)], REWRITTEN, BACK),
    "a fork: other calls, with none of the other branch": ([(ANSWER, BACK)], ELSE, None),
    "one, numbered anew with an id of a refused call": ([(ANSWER, BACK)], NUMBERED, None),
    "and what stood before it stays": ([(ANSWER, BOTH)], NUMBERED, PutBack(4, BOTH.before, said="So.")),
    "an id twice among the refused": ([(ANSWER, TWICE)], ANSWER, None),
    "without ids": ([(ANSWER, NO_IDS)], ANSWER, NO_IDS),
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

    found, lost = ledger().put_back(over([*CONVERSATION, kept]), entries, chat)
    assert found == ((expected,) if expected else ())
    assert not lost


ASKED = PutBack(4, before=(b"1", b"2"))


@pytest.mark.parametrize("answer", [None, ANSWER, WORDS, ELSE, Message("user", "Go on.")])
def test_what_a_person_decided_stands_there_whatever_is_answered(answer: Message | None) -> None:
    entries = ledger().seal(over(CONVERSATION), [], (), [BACK], decided=[ASKED], answer=ANSWER)
    entries |= ledger().seal(
        over(CONVERSATION), [], (), ledger().other(over(CONVERSATION), 4, entries), answer=ELSE, known=entries
    )
    found, lost = ledger().put_back(over([*CONVERSATION, *([answer] if answer else [])]), entries, chat)
    assert found == ((ASKED, BACK) if answer is ANSWER else (ASKED,))
    assert not lost


def test_what_was_put_there_first_stands_first() -> None:
    entries = ledger().seal(over(CONVERSATION), [], (), [OTHER], answer=WORDS)
    talk = [*CONVERSATION, WORDS, Message("user", "Go on.")]
    entries |= ledger().seal(
        over(talk), [], ledger().put_back(over(talk), entries, chat)[0], decided=[ASKED], known=entries
    )
    assert ledger().put_back(over(talk), entries, chat)[0] == (OTHER, ASKED)


NOTICE = Message("assistant", "[guardproxy] The call of `rm` needs a person's approval.")
HERE = "[guardproxy] Note: here the run waited."
NOTICES = {
    # what the client has of our notice, and whether it is known to be ours
    "as it was given": (NOTICE.text, True),
    "trimmed and folded": (f"  {NOTICE.text}".replace(" of ", "\n of "), True),
    "the model's words": ("I have an answer.", False),
    "words that look like ours": (NOTICE.text.replace("rm", "ls"), False),
    "more behind it": (f"{NOTICE.text} And more.", False),
}


@pytest.mark.parametrize("name", NOTICES)
def test_our_notice_is_known_by_its_place_and_all_its_words(name: str) -> None:
    text, ours = NOTICES[name]
    entries = ledger().seal(over(CONVERSATION), (), (), [PutBack(4, instead=HERE)], answer=NOTICE)
    later = [*CONVERSATION, Message("assistant", text), Message("user", "And?")]
    assert ledger().put_back(over(later), entries, chat) == (((PutBack(4, instead=HERE),) if ours else ()), False)
    moved = [*CONVERSATION, Message("user", "x"), Message("assistant", text)]
    assert ledger().put_back(over(moved), entries, chat)[0] == ()


RM: dict[str, object] = {"name": "rm", "arguments": '{"path": 1}'}
USE = {"type": "tool_use", "id": "c1", "name": "rm", "input": {"path": 1}}
ONCE: dict[str, tuple[ModuleType, object]] = {
    "chat": (chat, {"role": "assistant", "tool_calls": [{"id": "c1", "function": RM}]}),
    "messages": (messages, {"role": "assistant", "content": [{"type": "text", "text": "So."}, USE]}),
    "responses": (responses, [{"type": "reasoning"}, {"type": "function_call", "id": "fc", "call_id": "c1", **RM}]),
}
"""A surface, and a message of it with one call."""


@pytest.mark.parametrize("name", ONCE)
def test_a_call_that_came_after_all_does_not_stand_there_twice(name: str) -> None:
    form, made = ONCE[name]
    message = json.dumps(made).encode()
    back = PutBack(4, before=(message, b'{"role":"tool"}'))
    entries = ledger().seal(over(CONVERSATION), (), (), (), decided=(back,))
    for arguments, call_id, there in (('{"path":1}', "c1", False), ('{"path":1}', "c2", True), ("{}", "c1", True)):
        later = [*CONVERSATION, Message("assistant", "", (Call("rm", arguments, call_id),))]
        assert ledger().put_back(over(later), entries, form) == (((back,) if there else ()), False)


@pytest.mark.parametrize("name", ONCE)
def test_an_id_that_is_there_is_not_put_back_a_second_time(name: str) -> None:
    """Clients number calls anew: the refused call and its result stay away, what was said with it comes back."""
    form, made = ONCE[name]
    message = json.dumps(made).encode()
    (call,) = form.calls_in_message(message)
    back = PutBack(4, calls=((0, call),), after=(b"{}",), said="So.")
    answer = Message("assistant", "", (Call("f", "{}", "c1"),))
    for given, kept in ((answer, PutBack(4, said="So.")), (answer._replace(calls=(Call("f", "{}", "c2"),)), back)):
        entries = ledger().seal(over(CONVERSATION), (), (), [back], answer=given)
        assert ledger().put_back(over([*CONVERSATION, given]), entries, form) == ((kept,), False)
