"""Citations: made-up ones are named, found ones never are, however a result has written them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guardproxy.core.completion import CHECKS, Candidate
from guardproxy.core.model import Call
from tests.core.completion.finals import Did, final, judged, whole
from tests.core.talk import said, step, user

ORDER = r"\bORD-\d{4,}\b"
FOUND: Did = ("search", {"q": "x"}, '{"orders": ["ORD-5521", "ORD-7788"]}')


@pytest.mark.parametrize(
    ("text", "acts", "settings", "expected"),
    [
        ("It is ORD-5521.", [FOUND], {"pattern": ORDER}, ""),
        ("It is ord-5521.", [FOUND], {"pattern": "(?i)" + ORDER}, ""),
        ("Nothing was found.", [FOUND], {"pattern": ORDER}, ""),
        ("Nothing was found.", [], {"pattern": ORDER}, ""),
        # written in another way
        (
            "See https://x.example/a",
            [("f", {}, '{"url": "https:\\/\\/x.example\\/a"}')],
            {"pattern": r"https?://\S+"},
            "",
        ),
        ("The sum is 1,234.50", [("f", {}, '{"sum": 1234.50}')], {"pattern": r"\d[\d,.]+\d"}, ""),
        ("Café-0042", [("f", {}, '{"id": "Caf\\u00e9-0042"}')], {"pattern": r"\w+-\d+"}, ""),
        # an argument of a call that succeeded; one of a call that did not
        ("ORD-1357 was shipped.", [("get", {"id": "ORD-1357"}, '{"status": "shipped"}')], {"pattern": ORDER}, ""),
        ("ORD-1357 was shipped.", [("get", {"id": "ORD-1357"}, "Error: not there")], {"pattern": ORDER}, "ORD-1357"),
        ("ORD-1357 was shipped.", [("get", {"id": "ORD-1357"}, "")], {"pattern": ORDER}, "ORD-1357"),
        ("ORD-1357 does not exist.", [("get", {"id": "ORD-1357"}, "Error: not there")], {"pattern": ORDER}, ""),
        # cannot be told
        ("ORD-1357", [("f", {}, "ORD-5521 …[truncated 900 chars]")], {"pattern": ORDER}, ""),
        ("ORD-1357", [("f", {}, "[Old tool result content cleared]")], {"pattern": ORDER}, ""),
        ("ORD-1357", [("f", {}, "first 40 of many, 900 lines omitted")], {"pattern": ORDER}, ""),
        # only what an id looks like
        ("Which order? It looks like ORD-0000 or ORD-12345.", [FOUND], {"pattern": ORDER}, ""),
        # made up
        ("It is ORD-9913.", [FOUND], {"pattern": ORDER}, "no result of this run holds: ORD-9913."),
        ("It is ORD-5521 or ORD-9913.", [FOUND], {"pattern": ORDER}, "holds: ORD-9913."),
        ("order no. 9913", [FOUND], {"pattern": r"order no\. (\d+)"}, "holds: 9913."),
        ("It is ORD-9913.", [], {"pattern": ORDER}, "ORD-9913"),
        # listed ids
        ("Plan GOLD fits.", [("f", {}, "plans: GOLD, BASIC")], {"ids": ("GOLD", "SILVER")}, ""),
        ("Plan Silver fits.", [("f", {}, "plans: GOLD, BASIC")], {"ids": ("GOLD", "SILVER")}, "holds: SILVER."),
        ("Plan SILVERY fits.", [("f", {}, "x")], {"ids": ("GOLD", "SILVER")}, ""),
        # at least so many
        ("ORD-5521", [FOUND], {"pattern": ORDER, "least": 1}, ""),
        ("It was found.", [FOUND], {"pattern": ORDER, "least": 1}, "cites 0 of the at least 1"),
        ("ORD-5521, ORD-5521", [FOUND], {"pattern": ORDER, "least": 2}, "cites 1 of the at least 2"),
    ],
)
def test_citations(text: str, acts: list[Did], settings: dict[str, Any], expected: str) -> None:
    found = judged("evidence", final(text, *acts), **settings)

    assert expected in found
    assert bool(found) == bool(expected)


def test_what_the_user_or_the_instructions_name_is_no_invention() -> None:
    assert judged("evidence", final("ORD-9913 it is.", head="Look at ORD-9913."), pattern=ORDER) == ""
    told = whole(user("do it"), said("which?"), user("ord-9913"))
    assert judged("evidence", Candidate("ORD-9913", (), told), pattern=ORDER) == ""


def test_what_the_model_said_before_is_no_evidence() -> None:
    told = whole(user("do it"), said("It is ORD-9913."), user("sure?"))

    assert judged("evidence", Candidate("Yes, ORD-9913.", (), told), pattern=ORDER)


def test_a_picture_may_hold_anything() -> None:
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AA"}}]}

    assert judged("evidence", Candidate("ORD-9913", (), whole(picture)), pattern=ORDER) == ""


@pytest.mark.parametrize("change", [{"shortened": True}, {"remembered": (step("f"), step("g"))}])
def test_what_is_not_shown_may_hold_it(change: dict[str, Any]) -> None:
    bare = final("ORD-9913", FOUND)

    assert judged("evidence", Candidate(bare.text, (), bare.ask, **change), pattern=ORDER) == ""
    cut = replace(bare.ask, tail_start=9)
    assert judged("evidence", Candidate(bare.text, (), cut), pattern=ORDER) == ""


def test_a_final_tool_cites_too() -> None:
    candidate = final("", FOUND, calls=[Call("final_answer", '{"order": "ORD-9913"}')])

    assert "ORD-9913" in judged("evidence", candidate, pattern=ORDER)


def test_many_are_counted() -> None:
    text = " ".join(f"ORD-{number}" for number in range(9200, 9230))

    assert "(+25)" in judged("evidence", final(text), pattern=ORDER)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"pattern": "("}, "^pattern: "),
        ({"pattern": "x*"}, "matches nothing at all"),
        ({"ids": ("a", "--")}, "ids: an id needs a letter"),
        ({"least": 1}, "least: needs a pattern"),
    ],
)
def test_settings_that_cannot_be_meant(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        CHECKS["evidence"].Settings(**settings)
