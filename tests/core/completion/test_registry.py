"""The registry of checks: what all have in common, what `verify` does with them, and the texts."""

from __future__ import annotations

import ast
import re
import string
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings as effort, strategies as st

from guardproxy.core import completion
from guardproxy.core.advice import LANGUAGES
from guardproxy.core.completion import CHECKS, Failure, default_settings, feedback, in_use, verify
from guardproxy.core.fingerprint import GUARD_MARK, strip_own
from guardproxy.core.model import Call
from tests.core.completion.finals import edit, final, sh
from tests.core.test_advice import ERROR_LINE, FORBIDDEN

FOLDER = Path(completion.__file__).parent


def test_every_file_is_a_check() -> None:
    files = sorted(file.stem for file in FOLDER.glob("*.py") if not file.name.startswith("_"))

    assert list(CHECKS) == files


@pytest.mark.parametrize("rule", CHECKS)
def test_settings_are_frozen_and_have_a_mode(rule: str) -> None:
    settings = CHECKS[rule].Settings()

    assert is_dataclass(settings)
    assert settings.__dataclass_params__.frozen  # type: ignore[attr-defined]
    assert settings.mode in ("off", "enforce")


@pytest.mark.parametrize("rule", CHECKS)
def test_a_check_knows_no_other_check(rule: str) -> None:
    tree = ast.parse((FOLDER / f"{rule}.py").read_text())
    named = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}

    assert not {f"guardproxy.core.completion.{other}" for other in CHECKS} & named


def test_by_default_nothing_is_checked() -> None:
    assert in_use(default_settings()) == {}
    failing = final("All tests pass. Done.", edit("a.py"), sh("pytest", "1 failed, 2 passed\nexit code: 1"))
    assert verify(failing, default_settings(), "en") == ()


def test_unknown_rules_and_those_that_are_off_say_nothing() -> None:
    module = CHECKS["required_tools"]
    settings = {"required_tools": module.Settings(tools=("f",), mode="off"), "nobody": module.Settings(tools=("f",))}

    assert in_use(settings) == {}
    assert verify(final("done"), settings, "en") == ()


def test_failures_in_the_order_of_the_checks_with_their_modes() -> None:
    settings = {
        "required_tools": CHECKS["required_tools"].Settings(tools=("f",), mode="observe"),
        "artifacts": CHECKS["artifacts"].Settings(least=1),
        "evidence": CHECKS["evidence"].Settings(pattern=r"ORD-\d+"),
        "output_schema": CHECKS["output_schema"].Settings(json_schema={"type": "object"}),
    }
    found = verify(final("ORD-77"), settings, "en")

    assert [(one.rule, one.mode) for one in found] == [
        ("evidence", "enforce"),
        ("output_schema", "enforce"),
        ("required_tools", "observe"),
    ]


def test_a_check_that_raises_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("a bug of ours")

    monkeypatch.setattr(CHECKS["evidence"], "check", fail)
    settings = {
        "evidence": CHECKS["evidence"].Settings(pattern="x"),
        "required_tools": CHECKS["required_tools"].Settings(tools=("f",)),
    }
    raised: list[str] = []

    assert [one.rule for one in verify(final("done"), settings, "en", raised=raised.append)] == ["required_tools"]
    assert raised == ["evidence"]
    assert [one.rule for one in verify(final("done"), settings, "en")] == ["required_tools"]


QUOTE = "<system>x</system> `rm` " + GUARD_MARK + " {tool} " + "y" * 500


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_texts_of_the_languages_are_of_the_same_things(language: str) -> None:
    def fields(template: str) -> set[str]:
        return {field for _, field, _, _ in string.Formatter().parse(template) if field}

    ours, english = LANGUAGES[language].COMPLETION, LANGUAGES["en"].COMPLETION
    assert {what: fields(text) for what, text in ours.items()} == {what: fields(text) for what, text in english.items()}
    source = "".join(file.read_text() for file in FOLDER.glob("*.py"))
    for what in ours:
        assert f'"{what}"' in source or what.endswith("_many"), f"nobody says {what}"


@pytest.mark.parametrize("language", LANGUAGES)
def test_lint(language: str) -> None:
    words = LANGUAGES[language]
    for what, template in words.COMPLETION.items():
        fields = [field for _, field, _, _ in string.Formatter().parse(template) if field]
        said = completion._words.say(language, what, **dict.fromkeys(fields, QUOTE))
        text = feedback([Failure("x", said)], language)
        assert text.startswith(GUARD_MARK)
        assert text.count(GUARD_MARK) == 1
        assert "<" not in text
        assert "\n" not in text
        assert not FORBIDDEN.search(text)
        assert not ERROR_LINE.search(text)
        assert len(text) < 1200
        assert strip_own(f"ok\n\n{text}") == "ok", "a copy of it that a client keeps can be taken out again"
    for said in (words.VERIFIER_REFUSED, words.VERIFIER_SILENT):
        assert not FORBIDDEN.search(said)


def test_feedback_of_several_failures_is_one_paragraph_with_two_ways_on() -> None:
    text = feedback([Failure("a", "first thing."), Failure("b", "second thing.")], "en")

    assert re.search(r"first thing\. second thing\. Two ways on", text)


JUNK = st.sampled_from(
    ["", "{", "[1]", '"x"', "null", '{"path": 3}', '{"command": ["a", 1]}', '{"command": {}}', "1e999"]
)
TOOLS = st.sampled_from(["", "f", "bash", "edit_file", "move_file", "apply_patch", "shell", "run_tests", "search"])
TEXTS = st.sampled_from(["", "x", "\ud800", "Error: no", "All tests pass. Done.", "{", "*** Update File: a"])


@effort(max_examples=100, deadline=None)
@given(st.lists(st.tuples(TOOLS, JUNK | TEXTS, st.none() | TEXTS), max_size=6), TEXTS | JUNK, st.booleans())
def test_a_conversation_of_junk_is_no_exception(acts: list[Any], text: str, handed: bool) -> None:
    junk = final(text, *acts, calls=[Call("finish", text)] if handed else [])
    settings = {
        "artifacts": CHECKS["artifacts"].Settings(least=1),
        "output_schema": CHECKS["output_schema"].Settings(json_schema={"type": "object"}),
        "required_tools": CHECKS["required_tools"].Settings(tools=("zz",)),
        "unresolved_failure": CHECKS["unresolved_failure"].Settings(tools=("*",), mode="enforce"),
        "files": CHECKS["files"].Settings(allowed=("a",), tests=True),
        "evidence": CHECKS["evidence"].Settings(pattern="x"),
        "open_calls": CHECKS["open_calls"].Settings(mode="enforce"),
    }
    raised: list[str] = []
    verify(junk, settings, "en", raised=raised.append)

    assert raised == []
