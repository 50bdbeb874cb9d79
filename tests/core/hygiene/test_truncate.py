"""truncate: what is cut, where, what the mark says; and what must hold of any text."""

from __future__ import annotations

import json
import unicodedata
from dataclasses import replace

import pytest
from hypothesis import example, given, settings, strategies as st

from guardproxy.api import chat
from guardproxy.core import hygiene
from guardproxy.core.edit import ReplaceText
from guardproxy.core.fingerprint import GUARD_MARK, strip_own
from guardproxy.core.hygiene import truncate
from guardproxy.core.hygiene.truncate import Settings
from guardproxy.core.mask import HUGE
from guardproxy.core.model import Ask, Message
from guardproxy.core.tool_rules import ToolRules
from tests.core import talk
from tests.core.hygiene.tidying import answered, clean, everything, one

ON = Settings("enforce", max_tokens=250)
ROOM = 1_000  # bytes of 250 tokens
LOG = "".join(f"line {number} of the log\n" for number in range(1, 501))
FLAG = "\U0001f1eb\U0001f1f7"
FAMILY = "\U0001f468\u200d\U0001f469\u200d\U0001f467"


def cut(text: str, chosen: Settings = ON, language: str = "en", tool: str = "f") -> str | None:
    """The text that goes on in the place of a result; None: it is left alone."""
    edits = clean(answered((tool, "{}", text)), language, truncate=chosen).edits
    assert len(edits) < 2
    return edits[0].text if edits and isinstance(edits[0], ReplaceText) else None


def parts(made: str) -> tuple[str, str, str]:
    """What stands in front of the mark, the mark, and what stands behind it."""
    before, found, rest = made.partition(GUARD_MARK)
    mark, _, behind = rest.partition("\n\n")
    return before, found + mark, behind


@pytest.mark.parametrize(("text", "is_cut"), [("x" * 1000, False), ("x" * 1001, True), ("é" * 500, False),
    ("é" * 501, True), ("字" * 333, False), ("字" * 334, True), ("", False)])  # fmt: skip
def test_four_bytes_are_a_token(text: str, is_cut: bool) -> None:
    assert (cut(text) is not None) is is_cut


def test_the_beginning_and_the_end_are_kept_with_a_mark_between_them() -> None:
    made = cut(LOG)

    assert made is not None
    before, mark, behind = parts(made)
    assert LOG.startswith(before.rstrip("\n"))
    assert LOG.endswith(behind)
    assert len(before) > len(behind) > 100
    first = before.rstrip("\n").count("\n") + 2
    last = 500 - behind.count("\n")
    assert f"lines {first} to {last} of 500" in mark
    assert f"line {last + 1} of" in behind
    assert f"line {first - 1} of" in before
    assert "of 2473 tokens" in mark
    assert "ask for that part" in mark


@pytest.mark.parametrize(("percent", "front", "back"), [(100, True, False), (0, False, True), (50, True, True)])
def test_how_much_stands_in_front_is_a_setting(percent: int, front: bool, back: bool) -> None:
    made = cut(LOG, replace(ON, head_percent=percent))

    assert made is not None
    assert made.startswith("line 1 ") is front
    assert made.endswith("line 500 of the log\n") is back
    assert made.startswith(GUARD_MARK) is not front


def test_a_text_without_lines_is_told_in_characters() -> None:
    text = "abcdefghij" * 300
    made = cut(text)

    assert made is not None
    before, mark, behind = parts(made)
    assert f"characters {len(before) - 2 + 1} to {3000 - len(behind)} of 3000" in mark
    assert "JSON" not in mark


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_mark_can_be_taken_out_of_a_copy(language: str) -> None:
    made = cut(LOG, language=language)

    assert made is not None
    assert made.count(GUARD_MARK) == 1
    assert GUARD_MARK not in strip_own(made)
    before, _, behind = parts(made)
    assert strip_own(made) == f"{before.rstrip()}\n\n{behind}"


@pytest.mark.parametrize("language", ["en", "zh"])
def test_json_stays_json(language: str) -> None:
    rows = [{"id": number, "price": "1.50", "n": 12345678901234567890} for number in range(200)]
    text = json.dumps({"query": "x", "results": rows, "total": 200})
    made = cut(text, language=language)

    assert made is not None
    value = json.loads(strip_own(made))
    assert value["query"] == "x"
    assert value["total"] == 200
    kept = [row for row in value["results"] if row != "…"]
    assert len(value["results"]) == len(kept) + 1
    assert kept[0] == rows[0]
    assert kept[-1] == rows[-1]
    assert str(200 - len(kept)) in parts(made)[1]
    assert "results" in parts(made)[1]


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"path": "a", "content": "word " * 1000}, "content"),
        ([{"a": {"b": "x" * 4000}}], "[0].a.b"),
        ({f"key{number}": number for number in range(400)}, "the whole"),
        (["…"] * 600, "the whole"),
        ({"…": 1, **{f"{number}": "ab" * 9 for number in range(100)}}, "the whole"),
        ("plain " * 10, ""),
        ({"text": "\n".join('"quoted" \\ \u00e9 \U0001f600' for _ in range(200))}, "text"),
        ([1, [2, "é" * 2000], 3], "[1][1]"),
    ],
)
@pytest.mark.parametrize("plain", [True, False])
def test_json_of_any_shape_is_cut_at_its_values(value: object, path: str, plain: bool) -> None:
    text = json.dumps(value, ensure_ascii=plain)
    made = cut(text)

    if len(text.encode()) <= ROOM:
        assert made is None
        return
    assert made is not None
    assert type(json.loads(strip_own(made))) is type(value)
    assert f"`{path}`" in parts(made)[1]


@pytest.mark.parametrize("text", ["[" + "1" * 5000 + "]", '{"a" "b"' + " " * 2000 + "}", "[" + " " * 2000 + "]"])
def test_what_cannot_stay_json_says_so(text: str) -> None:
    made = cut(text)

    assert made is not None
    assert "no valid JSON any more" in made


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[" * 700 + "]" * 700, '[[[[[[[[[[[["…"]]]]]]]]]]]]'),
        ("[" + "1" * 3000 + "]", '["…"]'),
        ('{"a": ' + "1" * 3000 + ', "b": 2}', '{"…":"…", "b": 2}'),
        ('[1, 2, "' + "x" * 3000, ""),
    ],
)
def test_what_cannot_be_made_short_is_left_out(text: str, kept: str) -> None:
    made = cut(text)

    assert made is not None
    assert made.startswith(f"{kept}\n\n{GUARD_MARK}" if kept else '[1, 2, "xxx')
    assert ("JSON" in made) is bool(kept)


def test_the_sign_takes_no_member_s_name() -> None:
    made = cut(json.dumps({"…": 1, "……": 2, **{f"{number}": "ab" * 9 for number in range(100)}}))

    assert made is not None
    members = json.loads(strip_own(made), object_pairs_hook=list)
    names = [name for name, _ in members]
    assert names.count("…") == names.count("………") == 1
    assert members[0] == ("…", 1)


def test_numbers_order_and_spelling_of_json_are_kept() -> None:
    text = '{"b": 1.10, "a": 1e400, "b": 12345678901234567890, "t": "' + "y" * 3000 + '"}'
    made = cut(text)

    assert made is not None
    assert made.startswith('{"b": 1.10, "a": 1e400, "b": 12345678901234567890, "t": "yy')


@pytest.mark.parametrize(
    "unit",
    [
        FLAG,
        FAMILY,
        "e\u0301\u0323",
        "\U0001f44d\U0001f3fd",
        "\u1112\u1161\u11ab",
        "字",
        "1\ufe0f\u20e3",
        "\r\n",
        "क\u094d\u200dष",
    ],
)
@pytest.mark.parametrize("shift", range(6))
def test_nothing_that_is_one_letter_is_cut(unit: str, shift: int) -> None:
    text = "x" * shift + unit * 600
    made = cut(text)

    assert made is not None
    before, _, behind = parts(made)
    before = before.removesuffix("\n\n")
    if unit != "\r\n":
        assert before == "x" * shift + unit * ((len(before) - shift) // len(unit))
        assert behind == unit * (len(behind) // len(unit))
    assert bytes_of(behind) > 150 or unit == "\r\n"


def test_a_long_sequence_of_accents_is_not_cut_but_left_out() -> None:
    made = cut("a" + "\u0301" * 5000)

    assert made is not None
    assert made.startswith(GUARD_MARK)


def test_a_huge_result_is_told_by_its_real_length() -> None:
    text = "".join(f"row {number}\n" for number in range(200_000))
    asked = chat.ask_of([talk.user("x"), talk.called(("f", "{}", "1")), talk.result(text, "1")])
    assert len(text) > HUGE
    assert len(asked.tail[-1].text) < 40_000
    for most in (250, 10_000, 100_000):
        made = clean(asked, truncate=replace(ON, max_tokens=most)).edits[0]

        assert isinstance(made, ReplaceText)
        before, mark, behind = parts(made.text)
        assert text.startswith(before.rstrip("\n"))
        assert text.endswith(behind)
        assert f"of {len(text)}." in mark
        assert f"to {len(text) - len(behind)} of" in mark
        assert len(made.text) <= 4 * most
    assert clean(asked, truncate=replace(ON, max_tokens=1_000_000)).edits == ()


def test_each_tool_may_have_its_own_number() -> None:
    chosen = Settings("enforce", max_tokens=250, tools={"read_*": 0, "grep": 500})

    assert cut("x" * 5000, chosen, tool="Read_file") is None
    assert cut("x" * 1900, chosen, tool="grep") is None
    assert cut("x" * 2100, chosen, tool="grep") is not None
    assert cut("x" * 1100, chosen, tool="other") is not None
    assert cut("x" * 1100, Settings("enforce", max_tokens=5000, tools={"f": 250})) is not None


def test_all_of_the_conversation_is_cut_but_only_new_results_are_reported() -> None:
    asked = answered(*[("f", "{}", f"{number} {LOG}") for number in range(40)])
    assert 0 < asked.tail_start < 80
    made = clean(asked, whole=everything(asked), truncate=ON)

    assert [edit.index for edit in made.edits if isinstance(edit, ReplaceText)] == [2 + 2 * at for at in range(40)]
    assert [(one.index, one.tool, one.what) for one in made.done] == [(80, "f", "truncated")]


def test_a_later_turn_cuts_the_same_in_the_same_way() -> None:
    steps = [("f", "{}", f"{number} {LOG}") for number in range(5)]
    before = clean(answered(*steps[:3]), truncate=ON).edits

    assert clean(answered(*steps), truncate=ON).edits[:3] == before


def test_parallel_results_know_their_tools() -> None:
    asked = talk.ask(
        talk.user("x"),
        talk.called(("f", "{}", "1"), ("g", "{}", "2")),
        talk.result(LOG, "2"),
        talk.result(LOG, "1"),
    )
    assert [one.tool for one in clean(asked, truncate=ON).done] == ["g", "f"]
    assert len(clean(asked, truncate=replace(ON, tools={"g": 0})).edits) == 1


def test_a_result_without_a_call_is_cut_too() -> None:
    made = clean(talk.ask(talk.user("x"), talk.result(LOG, "1")), truncate=ON)

    assert [(one.tool, one.index) for one in made.done] == [("", 1)]


def test_a_short_body_is_not_looked_into() -> None:
    asked = replace(answered(("f", "{}", "x" * 2000)), body=b"{}")  # a lie: what is not read cannot be seen

    assert clean(asked, truncate=ON).edits == ()


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"max_tokens": 199}, "max_tokens"),
        ({"head_percent": 101}, "head_percent"),
        ({"head_percent": -1}, "head_percent"),
        ({"tools": {"f": 5}}, "tools.f"),
        ({"tools": {"f": -1}}, "tools.f"),
        ({"tools": {" ": 500}}, "tools. "),
    ],
)
def test_settings_refuse_what_would_keep_nothing(more: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Settings(**more)


LETTERS = st.one_of(
    st.characters(),
    st.sampled_from(
        ["\n", "\r\n", " ", '"', "\\", FLAG, FAMILY, "e\u0301", "\u0301", "\u200d", "字", "\U0001f600", "{", "]"]
    ),
)
TEXTS = st.builds(
    lambda unit, times, end: "".join(unit) * times + "".join(end),
    st.lists(LETTERS, min_size=1, max_size=40),
    st.integers(1, 400),
    st.lists(LETTERS, max_size=20),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=60)),
    lambda inner: st.one_of(st.lists(inner, max_size=12), st.dictionaries(st.text(max_size=9), inner, max_size=8)),
    max_leaves=40,
)


def bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


@settings(max_examples=150, deadline=None)
@given(TEXTS, st.integers(0, 100), st.sampled_from(["en", "zh"]))
@example("\n" * 3000, 60, "en")
@example("a\n\n\n" * 700, 60, "en")
@example("\U0001f600" * 300, 60, "zh")
def test_any_text_gets_shorter_stays_valid_and_is_cut_once(text: str, percent: int, language: str) -> None:
    chosen = replace(ON, head_percent=percent)
    made = cut(text, chosen, language)

    assert (made is not None) is (bytes_of(text) > ROOM)
    if made is None:
        return
    assert bytes_of(made) <= ROOM < bytes_of(text)
    assert cut(made, chosen, language) is None
    assert cut(text, chosen, language) == made
    assert made.count(GUARD_MARK) == 1 + text.count(GUARD_MARK)
    before, _, behind = parts(made)
    head = before.removesuffix("\n\n")
    assert text.startswith(head)
    assert text.endswith(behind)
    assert len(head) + len(behind) < len(text)
    for cut_at in (len(head), len(text) - len(behind)):
        apart = unicodedata.normalize("NFC", text[:cut_at]) + unicodedata.normalize("NFC", text[cut_at:])
        assert apart == unicodedata.normalize("NFC", text)


@settings(max_examples=200, deadline=None)
@given(
    st.one_of(st.lists(VALUES, min_size=1), st.dictionaries(st.text(max_size=9), VALUES, min_size=1)),
    st.integers(1, 60),
    st.sampled_from([None, 1]),
    st.booleans(),
    st.integers(250, 700),
)
def test_any_json_stays_json_or_says_that_it_is_none(
    value: object, times: int, indent: int | None, plain: bool, most: int
) -> None:
    text = json.dumps([value] * times, indent=indent, ensure_ascii=plain)
    made = cut(text, replace(ON, max_tokens=most))

    assert (made is not None) is (bytes_of(text) > 4 * most)
    if made is None:
        return
    assert bytes_of(made) <= 4 * most
    if "no valid JSON any more" in made:
        return
    left = made.rpartition(f"\n\n{GUARD_MARK}")[0]
    assert isinstance(json.loads(left), list)
    made.encode()  # no half pairs


def test_results_alone_are_touched() -> None:
    asked = talk.ask(
        talk.system(LOG), talk.user(LOG), talk.called(("f", json.dumps({"x": LOG}), "1"), text=LOG),
        talk.result(LOG, "1"), talk.said(LOG), talk.user(LOG),
    )  # fmt: skip
    made = clean(asked, truncate=ON)

    assert [edit.index for edit in made.edits if isinstance(edit, ReplaceText)] == [3]
    assert made.done == ()  # it was answered before


def test_it_is_kept_in_mind_by_the_text_and_all_settings() -> None:
    texts = {
        cut(LOG, replace(ON, max_tokens=most, head_percent=percent), language)
        for most in (250, 300)
        for percent in (40, 60)
        for language in ("en", "zh")
    }

    assert len(texts) == 8
    assert one("f", "{}", LOG + "!", truncate=ON).edits != one("f", "{}", LOG, truncate=ON).edits


def test_only_lengths_are_looked_at_where_nothing_is_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(truncate, "shortened", None)
    asked: Ask = answered(*[("f", "{}", "x" * 240) for _ in range(150)])

    assert clean(asked, truncate=ON).errors == ()
    assert clean(answered(("f", "{}", "x" * 251)), truncate=ON).errors == ()  # the body is short


@pytest.mark.parametrize("tools", [{}, {"g": 0}, {"f": 0}])
def test_what_a_surface_knows_to_be_long_is_enough(tools: dict[str, int]) -> None:
    answers = [LOG if number % 3 else "short" for number in range(60)]
    asked = answered(*[("f" if number % 2 else "g", "{}", answer) for number, answer in enumerate(answers)])
    chosen = replace(ON, tools=tools)
    sought: list[int] = []

    def long(size: int) -> list[tuple[int, Message]]:
        sought.append(size)
        return chat.long_results(asked, size)

    made = hygiene.clean(
        asked, {"truncate": chosen}, ToolRules(), "en", whole=lambda: everything(asked), since_ms=0,
        printer=talk.PRINTER, long=long,
    )  # fmt: skip

    assert asked.tail_start > 0
    assert made == clean(asked, truncate=chosen)
    assert len(made.edits) == {"{}": 40, "{'g': 0}": 20, "{'f': 0}": 20}[str(tools)]
    assert sought == [ROOM] * (not tools)
