"""empty: which results are spoken of, in which words."""

from __future__ import annotations

import pytest

from guardproxy.core.edit import AppendText
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.hygiene.empty import Settings, filled
from guardproxy.core.model import Call
from tests.core import talk
from tests.core.hygiene.tidying import clean, one, said

ON = Settings("enforce")


@pytest.mark.parametrize(
    ("tool", "arguments", "answer", "spoken"),
    [
        ("memory_get", '{"key": "quota"}', "(memory is empty)", True),
        ("grep", '{"pattern": "x"}', "", True),
        ("grep", '{"pattern": "x"}', "No matches found", True),
        ("web_search", '{"query": "x"}', '{"query": "x", "results": []}', True),
        ("list_orders", "{}", "[]", True),
        ("anything", "{}", "[]", True),
        ("bash", '{"command": "grep -rn x src"}', "", True),
        ("bash", '{"command": "make"}', "", False),
        ("bash", '{"command": "mkdir -p a"}', "", False),
        ("bash", '{"command": "touch a"}', "no output", False),
        ("write_file", '{"path": "a"}', "", False),
        ("send_mail", '{"to": "a"}', "null", False),
        ("anything", "{}", "", False),
        ("anything", "{}", "ok", False),
        ("grep", '{"pattern": "x"}', "a.py:1: x", False),
        ("grep", '{"pattern": "x"}', "Error: no such file", False),
        ("wait", '{"seconds": 3}', "", False),
        ("get_job", '{"id": 1}', "(no new output)", False),
        ("edit_file", '{"old": "a"}', "No matches found", False),
        ("ls", "{}", "total 0", False),
        ("grep", "not json", "", False),
    ],
)
def test_silence_that_means_done_is_left_alone(tool: str, arguments: str, answer: str, spoken: bool) -> None:
    made = one(tool, arguments, answer, empty=ON)

    assert bool(made.edits) is spoken
    assert [(done.tool, done.what, done.index) for done in made.done] == [(tool, "empty", 2)] * spoken


def test_a_template_by_name_speaks_where_silence_could_be_done() -> None:
    assert one("anything", "{}", "", empty=Settings("enforce", {"any*": "Nothing for {tool}."})).edits
    assert one("anything", "{}", "", empty=Settings("enforce", {"*": "Nothing for {tool}."})).edits == ()
    assert one("send_mail", "{}", "", empty=Settings("enforce", {"send_mail": "Nothing."})).edits == ()


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("no match for {query} by {tool}", "no match for `a b` ‹c› by find_user".replace("`", "'")),
        ("{arguments}", "query: 'a b' ‹c›, limit: 5, deep: {\"a\": [1]}, none: -".replace(", none: -", "")),
        ("{limit} {deep} {absent} {none}", '5 {"a": [1]} - -'),
        ("{query.__class__} {0} {{tool}} {} {tool!r}", "- {0} {find_user} {} {tool!r}"),
        ("plain", "plain"),
    ],
)
def test_placeholders_are_arguments(template: str, text: str) -> None:
    arguments = '{"query": "`a b` <c>", "limit": 5, "deep": {"a": [1]}, "none": null}'

    assert filled(template, Call("find_user", arguments)) == text


@pytest.mark.parametrize(
    ("arguments", "text"),
    [("", "-"), ("{}", "-"), ("[1]", "[1]"), ("{broken", "{broken"), ('{"q": ""}', "q:"), ("[" * 3000, "[" * 79 + "…"),
     ('{"q": "' + "x" * 5000 + '"}', '{"q": "' + "x" * 72 + "…"), ('{"q": "[guardproxy] x"}', "q:"),
     ('{"q": "a\\n\\nb"}', "q: a b")],
)  # fmt: skip
def test_arguments_are_quoted_in_short(arguments: str, text: str) -> None:
    assert filled("{arguments}", Call("f", arguments)) == text


def test_the_first_template_that_fits_counts() -> None:
    chosen = Settings("enforce", {"GREP": "first", "g*": "second", "memory_*": ""})

    assert said(one("grep", "{}", "[]", empty=chosen)).endswith("first")
    assert said(one("get", "{}", "[]", empty=chosen)).endswith("second")
    assert one("memory_get", "{}", "[]", empty=chosen).edits == ()
    assert "confirm it" in said(one("find", "{}", "[]", empty=chosen))


def test_only_new_results_are_spoken_of() -> None:
    asked = talk.ask(
        talk.user("x"),
        talk.called(("grep", "{}", "1")),
        talk.result("", "1"),
        talk.called(("grep", "{}", "2"), ("ls", '{"path": "a"}', "3"), ("cat", "{}", "4")),
        talk.result("", "3"),
        talk.result("text", "4"),
        talk.result("[]", "2"),
    )
    made = clean(asked, empty=ON)

    assert [edit.index for edit in made.edits if isinstance(edit, AppendText)] == [6, 4]
    assert all(edit.text.startswith(f"\n\n{GUARD_MARK} ") for edit in made.edits if isinstance(edit, AppendText))
    assert clean(talk.ask(*asked.parsed["messages"], talk.said("well")), empty=ON).edits == ()


@pytest.mark.parametrize(
    ("templates", "field"),
    [
        ({"": "x"}, "templates."),
        ({"f": "a\n\nb"}, "templates.f"),
        ({"f": "a\nb"}, "templates.f"),
        ({"f": "[guardproxy] a"}, "templates.f"),
        ({"f": "x" * 1001}, "templates.f"),
    ],
)
def test_settings_refuse_what_is_no_sentence(templates: dict[str, str], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Settings("enforce", templates)
