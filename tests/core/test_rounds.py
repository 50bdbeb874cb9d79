"""Rounds of a conversation: pairing, what a message is answered by, and calls that stand in texts."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from guardproxy.core import rounds
from guardproxy.core.model import Ask, Call, Message
from tests.core.talk import Json, ask, called, result, said, system, user

TASK = user("Do it.")
SHELL = system("You interact with a shell. Give exactly one command in a code block; it is executed.")
LS = "I look.\n```bash\nls\n```"


def results(*pairs: tuple[str, str]) -> list[Message]:
    return [Message("tool", text, call_id=call_id) for call_id, text in pairs]


PAIRS: dict[str, tuple[list[str], list[tuple[str, str]], list[str | None]]] = {
    "in order": (["a", "b"], [("a", "1"), ("b", "2")], ["1", "2"]),
    "in the order of finishing": (["a", "b", "c"], [("c", "3"), ("a", "1"), ("b", "2")], ["1", "2", "3"]),
    "one is missing": (["a", "b", "c"], [("c", "3"), ("a", "1")], ["1", None, "3"]),
    "one id for two calls (B49)": (["d", "d"], [("d", "one"), ("d", "two")], ["one", "two"]),
    "empty ids (B51)": (["", ""], [("", "a"), ("", "b")], ["a", "b"]),
    "one id is empty": (["x", ""], [("x", "a"), ("", "b")], ["a", "b"]),
    "ids that the client made new": (["a", "b"], [("n1", "1"), ("n2", "2")], ["1", "2"]),
    "a result twice": (["a", "b"], [("a", "1"), ("a", "again"), ("b", "2")], ["1", "2"]),
    "a result of nobody": (["a"], [("z", "?"), ("a", "1")], ["1"]),
    "more results than calls": (["", ""], [("", "1"), ("", "2"), ("", "3")], ["1", "2"]),
    "no results": (["a", "b"], [], [None, None]),
    "no calls": ([], [("a", "1")], []),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairing(name: str) -> None:
    ids, answers, expected = PAIRS[name]
    paired = rounds.pair([Call("f", "{}", i) for i in ids], results(*answers))

    assert [message and message.text for message in paired] == expected


BATCH = called(("a", "{}", "x"), ("b", "{}", "y"))
IN_PART: dict[str, tuple[list[Json], bool]] = {
    "all results": ([BATCH, result("1", "x"), result("2", "y")], False),
    "all results, and words": ([BATCH, result("1", "x"), result("2", "y"), user("Go on.")], False),
    "one is missing": ([BATCH, result("2", "y")], True),
    "one is missing, and words": ([BATCH, result("1", "x"), user("Go on.")], True),
    "none": ([BATCH], True),
    "none of one": ([called(("a", "{}", "x"))], True),
    "one is missing further back": ([BATCH, result("1", "x"), said("Hm.")], False),
    "words": ([said("Hm."), user("Go on.")], False),
    "nothing was said yet": ([], False),
}


@pytest.mark.parametrize("name", IN_PART)
def test_a_history_that_ends_inside_a_round(name: str) -> None:
    history, expected = IN_PART[name]
    assert rounds.in_part(ask(TASK, *history)) is expected


def test_a_call_in_a_text_is_no_half_of_a_round() -> None:
    assert not rounds.in_part(ask(SHELL, TASK, said(LS)))
    assert not rounds.in_part(ask(SHELL, TASK, said(LS), user("a.py"), said(LS)))


def test_ids_that_repeat_across_turns_pair_inside_their_round() -> None:
    """B48: one constant id for every call."""
    history = [part for n in range(4) for part in (called(("t", f'{{"n":{n}}}', "Z")), result(f"r{n}", "Z"))]
    found = rounds.rounds(ask(TASK, *history))

    assert [(turn.calls[0].arguments, turn.results[0] and turn.results[0].text) for turn in found] == [
        (f'{{"n":{n}}}', f"r{n}") for n in range(4)
    ]


def test_rounds() -> None:
    found = rounds.rounds(
        ask(
            system("S"),
            TASK,
            said("Hello."),
            user("One."),
            user("Two."),
            called(("f", "{}", "a"), ("g", "{}", "b"), text="Both."),
            result("B", "b"),
            system("in between"),
            result("A", "a"),
            called(("h", "{}", "c")),
        )
    )

    assert [(turn.index, turn.text, [c.name for c in turn.calls], turn.reply) for turn in found] == [
        (2, "Hello.", [], "One.\nTwo."),
        (5, "Both.", ["f", "g"], None),
        (9, "", ["h"], None),
    ]
    assert [[message and message.text for message in turn.results] for turn in found] == [[], ["A", "B"], [None]]


def bare(*messages: Json) -> Ask:
    """A request without tools."""
    return replace(ask(*messages), tools=())


def test_calls_in_texts_are_calls() -> None:
    found = rounds.rounds(bare(SHELL, TASK, said(LS), user("a b"), said("Done."), user("Thanks. And b?")))

    first, second = found
    assert [(call.name, json.loads(call.arguments)) for call in first.calls] == [("bash", {"command": "ls"})]
    assert [one and (one.role, one.text) for one in first.results] == [("tool", "a b")]
    assert (first.written, first.reply, first.text) == (True, None, LS)
    assert (second.written, second.calls, second.reply) == (False, (), "Thanks. And b?")


@pytest.mark.parametrize("native", [called(("f", "{}", "a")), result("r", "a")], ids=["a call", "a result"])
def test_a_thread_with_calls_of_its_own_has_none_in_its_texts(native: Json) -> None:
    found = rounds.rounds(bare(SHELL, TASK, said("Hm."), native, said(LS), user("Observation: a b")))

    assert not any(one.written for one in found)
    assert rounds.calls_in(bare(SHELL, TASK, said("Hm."), native), LS) == ()


AIDER = [
    said("a.py\n```\n<<<<<<< SEARCH\nx\n=======\ny\n>>>>>>> REPLACE\n```"),
    user("I updated the files."),
    said("Ok."),
    user("I have *added these files to the chat* so you can go ahead and edit them."),
    said("Ok, any changes I propose will be to those files."),
    user("Now b.py, please."),
]


def test_what_aider_says_in_the_models_place_is_no_round() -> None:
    request = bare(TASK, *AIDER)
    (only,) = rounds.rounds(request)

    assert (only.index, only.written, only.reply) == (1, True, "Now b.py, please.")
    assert rounds.latest(request) == only


def test_a_model_that_says_ok_is_a_round() -> None:
    request = bare(TASK, said("Ok."), user("Really?"), said("Ok."), user("Well?"))

    assert [one.index for one in rounds.rounds(request)] == [1, 3]


@pytest.mark.parametrize(
    ("messages", "index"),
    [([], None), ([said("Hi."), user("Ho.")], 2), ([said("Hi."), user("Ho."), said(LS), user("a")], 4), (AIDER, 2)],
)
def test_the_newest_round_is_the_last_of_all(messages: list[Json], index: int | None) -> None:
    request = bare(SHELL, TASK, *messages)
    newest = rounds.latest(request)

    assert (newest and newest.index) == index
    assert newest == (rounds.rounds(request) or [None])[-1]


@pytest.mark.parametrize(
    ("messages", "text", "expected"),
    [
        ([SHELL, TASK], LS, 1),
        ([TASK], LS, 0),
        ([TASK, said(LS), user("Observation: a")], LS, 1),
        ([TASK, said(LS), user("it says a")], LS, 0),
        ([SHELL, TASK], "Done.", 0),
        ([SHELL, TASK], "", 0),
    ],
)
def test_calls_of_an_answer(messages: list[Json], text: str, expected: int) -> None:
    assert len(rounds.calls_in(bare(*messages), text)) == expected


A, B, C = ([called(("f", "{}", one)), result("r", one)] for one in "abc")
WITHIN: dict[str, tuple[list[Json], int]] = {
    "calls enough": ([*A, *B, *C], 2),
    "a user has spoken before them": ([*A, user("Go on."), *B, *C], 3),
    "words among them": ([*A, *B, said("So."), *C], 3),
    "calls in one message": ([*A, called(("f", "{}", "d"), ("g", "{}", "e")), *C], 2),
}


@pytest.mark.parametrize("name", WITHIN)
def test_the_rounds_that_are_enough(name: str) -> None:
    messages, expected = WITHIN[name]
    found = rounds.rounds(ask(TASK, *messages))

    assert rounds.within(found, 2, 64) == found[-expected:]
    assert rounds.within(found, 1, 64) == found[-1:] or "user" in name
