"""All kinds of hygiene together: modes, what is never touched, texts in both languages."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import chat
from guardproxy.config import load
from guardproxy.core import hygiene
from guardproxy.core.advice import LANGUAGES, quoted
from guardproxy.core.edit import AppendText, ReplaceText
from guardproxy.core.fingerprint import GUARD_MARK, strip_own
from guardproxy.core.hygiene import KINDS, NOTHING, Cleaned, default_settings
from guardproxy.core.model import Ask, Call, Message
from guardproxy.core.tool_rules import ToolRules
from guardproxy.errors import ConfigError
from tests.core import talk
from tests.core.hygiene.tidying import answered, clean, everything, one, said
from tests.core.test_advice import ERROR_LINE, FORBIDDEN

LONG = "word " * 3000
GONE = "Error: the API key was revoked"
LIMITS = {"*": 1.0}


def enforced(mode: str = "enforce", **more: Any) -> dict[str, Any]:
    """Settings of all kinds in one mode; 250 tokens a result."""
    every: dict[str, Any] = default_settings()
    every = {name: replace(chosen, mode=mode) for name, chosen in every.items()}
    every["truncate"] = replace(every["truncate"], max_tokens=250)
    return {**every, **more}


def test_a_configuration_can_say_all_of_it(tmp_path: Path) -> None:
    file = tmp_path / "guardproxy.yaml"
    file.write_text(
        """
policy:
  hygiene:
    truncate: {mode: off, max_tokens: 20000, head_percent: 0, tools: {"read_*": 0, grep: 2000}}
    empty: {mode: enforce, templates: {grep: "nothing for {pattern}", "ls": ""}}
    errors: {mode: observe, longest_seconds: 3600, on_fatal: pause, fatal_words: [broken]}
    deadlines: {mode: enforce}
"""
    )
    found = load(file, {})[0].policy_value().hygiene

    assert {name: chosen.mode for name, chosen in found.items()} == {
        "truncate": "off", "empty": "enforce", "errors": "observe", "deadlines": "enforce"
    }  # fmt: skip
    assert found["truncate"].max_tokens == 20_000
    assert found["errors"].on_fatal == "pause"


@pytest.mark.parametrize(
    ("part", "wrong"),
    [
        ("truncate: {mode: on}", "policy.hygiene.truncate.mode"),
        ("truncate: {max_tokens: 5}", "policy.hygiene.truncate.max_tokens"),
        ("truncate: {tools: {f: 5}}", "policy.hygiene.truncate.tools.f"),
        ('empty: {templates: {f: "a\\nb"}}', "policy.hygiene.empty.templates.f"),
        ("errors: {on_fatal: explode}", "policy.hygiene.errors.on_fatal"),
        ("errors: {retries: 0}", "policy.hygiene.errors.retries"),
        ("deadlines: {f: 3}", "policy.hygiene.deadlines.f"),
    ],
)
def test_a_configuration_is_told_what_is_wrong(tmp_path: Path, part: str, wrong: str) -> None:
    file = tmp_path / "guardproxy.yaml"
    file.write_text(f"policy:\n  hygiene:\n    {part}\n")

    with pytest.raises(ConfigError, match=f"  {re.escape(wrong)}: "):
        load(file, {})


def test_a_file_is_a_kind() -> None:
    assert set(KINDS) == {"deadlines", "empty", "errors", "truncate"}
    for name, chosen in default_settings().items():
        first = fields(chosen)[0]  # type: ignore[arg-type]
        assert (first.name, first.default) == ("mode", "off")
        assert isinstance(KINDS[name].__doc__, str)
        assert KINDS[name].__doc__.startswith(f"{name}: ")


def test_all_off_is_nothing() -> None:
    asked = answered(("f", "{}", LONG), ("f", "{}", GONE), ("f", "{}", "[]"))
    for chosen in (default_settings(), {}):
        made = hygiene.clean(
            asked,
            chosen,
            ToolRules(deadlines=LIMITS),
            "en",
            whole=lambda: pytest.fail("asked"),
            since_ms=9_000,
            printer=talk.PRINTER,
        )
        assert made is NOTHING


@pytest.mark.parametrize(
    ("answer", "name", "what"),
    [(LONG, "truncate", "truncated"), ("[]", "empty", "empty"), (GONE, "errors", "fatal"), ("x", "deadlines", "late")],
)
def test_observing_says_what_would_be_done_and_does_nothing(answer: str, name: str, what: str) -> None:
    asked = answered(("f", "{}", answer), ("f", "{}", answer))
    seen = clean(asked, limits=LIMITS, since_ms=9_000, **enforced("observe"))
    made = clean(asked, limits=LIMITS, since_ms=9_000, **enforced())

    assert (seen.edits, seen.fatal) == ((), None)
    assert (name, what) in [(done.name, done.what) for done in seen.done]
    assert seen.done == tuple(replace(done, mode="observe") for done in made.done)
    assert {done.mode for done in made.done} == {"enforce"}
    assert made.edits


def test_each_kind_has_its_own_mode() -> None:
    asked = answered(("f", "{}", "[]"))
    chosen = enforced("observe", empty=replace(enforced()["empty"], mode="enforce"))
    made = clean(asked, limits=LIMITS, since_ms=9_000, **chosen)

    assert {(done.name, done.mode) for done in made.done} == {("empty", "enforce"), ("deadlines", "observe")}
    assert len(made.edits) == 1


def test_a_kind_that_raises_costs_only_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> Cleaned:
        raise KeyError("x")

    monkeypatch.setattr(KINDS["empty"], "tidy", broken)
    made = one("f", "{}", "[]", **enforced())

    assert made.errors == ("empty: KeyError: 'x'",)
    assert one("f", "{}", GONE, **enforced()).done[0].what == "fatal"


def test_a_kind_without_settings_is_off() -> None:
    asked = answered(("f", "{}", GONE))
    alone = {"errors": enforced()["errors"]}
    made = hygiene.clean(
        asked, alone, ToolRules(deadlines=LIMITS), "en", whole=lambda: asked, since_ms=9_000, printer=talk.PRINTER
    )

    assert {done.name for done in made.done} == {"errors"}


def every_text() -> list[tuple[str, str]]:
    """Each text of ours as a request gets it."""
    scenes: list[tuple[str, Callable[[str], Cleaned]]] = [
        ("empty", lambda language: clean(answered(("find", '{"q": "<b>`x`"}', "[]")), language, **enforced())),
        ("lines", lambda language: clean(answered(("f", "{}", "a line\n" * 900)), language, **enforced())),
        ("characters", lambda language: clean(answered(("f", "{}", "x" * 2000)), language, **enforced())),
        ("json", lambda language: clean(answered(("f", "{}", json.dumps(["ab" * 99] * 99))), language, **enforced())),
        ("no json", lambda language: clean(answered(("f", "{}", "[" + "1" * 5000 + "]")), language, **enforced())),
        (
            "late",
            lambda language: clean(answered(("f", "{}", "x")), language, limits=LIMITS, since_ms=9999, **enforced()),
        ),
        ("spent", lambda language: clean(answered(*[("f", "{}", "Error: 503")] * 9), language, **enforced())),
    ]
    failures = {
        "arguments": "Error: invalid arguments", "permissions": "Error: 403", "not_found": "Error: 404",
        "no_tool": "Unknown tool: q", "transient": "Error: 503", "fatal": GONE,
    }  # fmt: skip
    for kind, answer in failures.items():
        scenes.append(
            (kind, lambda language, answer=answer: clean(answered(("q", "{}", answer)), language, **enforced()))
        )  # type: ignore[misc]
    slow = answered(("bash", '{"command": "x"}', "Error: command timed out"))
    scenes.append(("too_slow", lambda language: clean(slow, language, **enforced())))
    return [(f"{language} {name}", said(make(language))) for language in LANGUAGES for name, make in scenes]


TEXTS = every_text()


@pytest.mark.parametrize(("name", "text"), TEXTS, ids=[name for name, _ in TEXTS])
def test_lint(name: str, text: str) -> None:
    assert text.count(GUARD_MARK) == 1
    ours = text[text.index(GUARD_MARK) :].partition("\n\n")[0]
    assert not FORBIDDEN.search(ours)
    assert not ERROR_LINE.search(ours)
    assert "<" not in ours
    assert "{" not in ours
    assert "\n" not in ours
    assert 40 < len(ours) < 600
    assert GUARD_MARK not in strip_own(text)
    assert ("监看" in ours) is name.startswith("zh")


NAMES = [
    name
    for name in vars(LANGUAGES["en"])
    if name.startswith(("LEFT_OUT", "EMPTY", "ERRORS", "LATE", "NO_LONGER", "ASK_FOR", "TOP_"))
]


def placeholders(found: object) -> object:
    if isinstance(found, str):
        return {field for _, field, _, _ in string.Formatter().parse(found) if field is not None}
    return {key: placeholders(text) for key, text in found.items()}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_both_languages_say_the_same(name: str) -> None:
    assert placeholders(getattr(LANGUAGES["en"], name)) == placeholders(getattr(LANGUAGES["zh"], name))


@pytest.mark.parametrize(("name", "text"), TEXTS, ids=[name for name, _ in TEXTS])
@pytest.mark.parametrize("end", ["", "\n", "\n\n\n", "\r\n"])
def test_a_copy_that_a_client_kept_is_no_evidence(name: str, text: str, end: str) -> None:
    if not text.startswith("\n\n"):
        return  # a shortened text is another one; its mark is looked at above
    for answer in ("ok", "", "Error: it failed"):
        plain = talk.PRINTER.step(Call("todo", "{}"), Message("tool", answer + end), first=True, at_ms=0)
        kept = talk.PRINTER.step(Call("todo", "{}"), Message("tool", answer + end + text), first=True, at_ms=0)
        assert plain == kept


@pytest.mark.parametrize(
    ("text", "short"),
    [("a\n b", "a b"), ("<x> `y`", "‹x› 'y'"), ("x" * 81, "x" * 79 + "…"), (f"a {GUARD_MARK} b", "a"), ("", "")],
)
def test_quotes_are_harmless_and_short(text: str, short: str) -> None:
    assert quoted(text) == short


TOOLS = st.sampled_from(["f", "grep", "bash", "write_file", "q", ""])
ANSWERS = st.one_of(
    st.sampled_from(["", "[]", "ok", GONE, "Error: 503", "Error: 404", "Unknown tool: f", LONG, "字" * 900, "\n"]),
    st.text(max_size=40),
)
ROUNDS = st.lists(
    st.lists(st.tuples(TOOLS, st.sampled_from(["{}", '{"q": 1}', "{", ""]), ANSWERS), max_size=3), max_size=6
)


def conversation(rounds: list[list[tuple[str, str, str]]], *, dropped: bool, after: str) -> Ask:
    """Rounds of parallel calls; `dropped`: the last result is missing."""
    messages = [talk.system(LONG), talk.user(LONG)]
    for number, calls in enumerate(rounds):
        named = [(tool, arguments, f"{number}.{at}") for at, (tool, arguments, _) in enumerate(calls)]
        messages.append(talk.called(*named, text=LONG) if named else talk.said(LONG))
        messages += [talk.result(answer, named[at][2]) for at, (_, _, answer) in enumerate(calls)]
    if dropped:
        messages.pop()
    if after:
        messages.append(talk.user(after))
    return talk.ask(*messages)


@settings(max_examples=150, deadline=None)
@given(ROUNDS, st.booleans(), st.sampled_from(["", "go on", LONG]), st.integers(0, 5000), st.sampled_from(["en", "zh"]))
def test_nothing_but_results_is_touched_and_only_new_ones_get_words(
    rounds: list[list[tuple[str, str, str]]], dropped: bool, after: str, since_ms: int, language: str
) -> None:
    asked = conversation(rounds, dropped=dropped, after=after)
    made = clean(asked, language, limits=LIMITS, since_ms=since_ms, **enforced())
    messages = everything(asked).tail
    newest = max((at for at, message in enumerate(messages) if message.role == "assistant"), default=-1)

    assert made.errors == ()
    for edit in made.edits:
        assert isinstance(edit, AppendText | ReplaceText)
        assert messages[edit.index].role == "tool"
        if isinstance(edit, AppendText):
            assert edit.index > newest
            assert re.match(rf"\n\n{re.escape(GUARD_MARK)} [^\n]+\Z", edit.text)
    assert all(done.index >= newest for done in made.done)
    assert clean(asked, language, limits=LIMITS, since_ms=since_ms, **enforced()) == made
    for mode in ("off", "observe"):
        quiet = clean(asked, language, limits=LIMITS, since_ms=since_ms, **enforced(mode))
        assert (quiet.edits, quiet.fatal, quiet.errors) == ((), None, ())


def test_the_newest_rounds_are_enough_for_new_results() -> None:
    steps = [("grep", f'{{"q": {n}}}', "a hit") for n in range(30)]
    asked = answered(*steps, ("grep", "{}", "[]"))
    short = chat.ask_of(asked.parsed["messages"], short=True)  # type: ignore[arg-type]
    assert len(short.tail) < 8

    assert clean(short, whole=everything(asked), **enforced()).edits == clean(asked, **enforced()).edits
