"""What user messages right after results bring: pictures and words are news, reminders and harness forms are none."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.core import session
from guardproxy.core.brought import last_answered
from guardproxy.core.fingerprint import unpack
from guardproxy.core.model import Flag, Message, Step
from tests.core.talk import PRINTER, Json, ask, called, result, user

TASK = user("Do it.")
LONG = "The page goes on with the {0} of the whale, which is told at length and in many words. " * 2


def shot(name: str, text: str = "") -> Json:
    parts: list[Any] = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{name}"}}]
    return {"role": "user", "content": [*([{"type": "text", "text": text}] if text else []), *parts]}


def made(*after: Json, answer: str = "Scrolled down one page") -> Step:
    """The step of a call that is answered and then followed by these messages."""
    messages = (TASK, called(("scroll", "{}", "a")), result(answer, "a"), *after)
    return unpack(session.observe(ask(*messages), PRINTER, 5).rounds[-1].facts[-1])


PAIRS: dict[str, tuple[tuple[Json, ...], tuple[Json, ...], bool]] = {
    # what follows the result once, and another time; whether the results are the same then
    "other pictures": ((shot("AA"),), (shot("AB"),), False),
    "the same picture": ((shot("AA"),), (shot("AA"),), True),
    "other pictures with the same words": ((shot("AA", "Now:"),), (shot("AB", "Now:"),), False),
    "pictures beside a harness form": (
        (user("<system-reminder>x</system-reminder>"), shot("AA")),
        (user("<system-reminder>x</system-reminder>"), shot("AB")),
        False,
    ),
    "other words": ((user("Chapter one"),), (user("Chapter two"),), False),
    "long texts": ((user(LONG.format("hunt")),), (user(LONG.format("boiling")),), False),
    "the same words": ((user("Go on."),), (user("go  on."),), True),
    "words and none": ((user("Go on."),), (), False),
    "blank": ((user(" "),), (), True),
    "harness forms": ((user("Observation: one"),), (user("Observation: two"),), True),
    "words beside a harness form": (
        (user("<system-reminder>x</system-reminder>"), user("Chapter one")),
        (user("<system-reminder>x</system-reminder>"), user("Chapter two")),
        False,
    ),
    "a countdown": ((user("You have 17 steps left."),), (user("You have 16 steps left."),), True),
    "numbers of the page": ((user("Balance: 17"),), (user("Balance: 16"),), False),
}


@pytest.mark.parametrize("name", PAIRS)
def test_what_makes_results_differ(name: str) -> None:
    one, other, same = PAIRS[name]
    first, second = made(*one), made(*other)
    assert (first.result == second.result, first.masked_result == second.masked_result) == (same, same)


def test_the_result_itself_still_counts() -> None:
    assert made(shot("AA"), answer="At the top").result != made(shot("AA"), answer="At the end").result


@pytest.mark.parametrize(
    ("after", "answer", "present", "absent"),
    [
        ((), "", Flag.VOID, Flag.MEDIA),
        ((shot("AA"),), "", Flag.MEDIA, Flag.VOID | Flag.SILENT),
        ((shot("AA"),), "ok", Flag.MEDIA, Flag.SILENT),
        ((shot("AA"),), "Error: no page", Flag.MEDIA | Flag.FAILED, Flag.VOID),
        ((user("Go on."),), "", Flag.VOID, Flag.MEDIA),
    ],
)
def test_flags(after: tuple[Json, ...], answer: str, present: Flag, absent: Flag) -> None:
    flags = made(*after, answer=answer).flags
    assert flags & present == present
    assert not flags & absent


def test_an_error_keeps_its_signature() -> None:
    one, other = made(shot("AA"), answer="Error: no page"), made(shot("AB"), answer="Error: no page")
    assert one.signature == other.signature == made(answer="Error: no page").signature


def test_volatile_tokens_beside_other_words_teach_nothing() -> None:
    one, other = (f"the page was opened under the token {token} now" for token in ("a8f3c91b", "b7e2d40c"))
    assert made(user("Go on."), answer=one).signature == made(user("Go on."), answer=other).signature
    assert made(user("Chapter one"), answer=one).signature != made(user("Chapter two"), answer=one).signature


def test_only_the_last_call_brings_it() -> None:
    calls = called(("f", "{}", "a"), ("g", "{}", "b"))
    first, second = (
        [unpack(fact) for fact in session.observe(ask(*messages), PRINTER, 5).rounds[-1].facts]
        for picture in ("AA", "AB")
        for messages in [(TASK, calls, result("1", "a"), result("2", "b"), shot(picture))]
    )
    assert first[0] == second[0]
    assert first[1].result != second[1].result


def test_pictures_beside_a_result_in_a_text() -> None:
    task = user("You will see the output of each action.\nAction: the tool to use, one of [scroll]\nAction Input: JSON")
    wrote = {"role": "assistant", "content": "Thought: on.\nAction: scroll\nAction Input: {}"}
    one, other = (
        unpack(session.observe(ask(task, wrote, shot(name, "Observation: scrolled")), PRINTER, 5).rounds[-1].facts[0])
        for name in ("AA", "AB")
    )
    assert one.tool == "scroll"
    assert one.result != other.result


@pytest.mark.parametrize(("answered", "place"), [("", -1), ("n", -1), ("yn", 0), ("yy", 1), ("ny", 1)])
def test_last_answered(answered: str, place: int) -> None:
    assert last_answered(tuple(Message("tool", "x") if one == "y" else None for one in answered)) == place
