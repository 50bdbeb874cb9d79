"""Texts on spans: only where asked for, in the conventions' form, without secrets, bounded."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from guardproxy.core.model import Call, Message
from guardproxy.telemetry import semconv as s
from guardproxy.telemetry.content import MOST, SHOWN, Redactor, Said, answered, of_chat, of_tool
from tests.telemetry.reports import firm, step, turn, view
from tests.telemetry.sink import attributes
from tests.telemetry.test_spans import named, sent

PLAIN = Redactor()
CALL = Call("read_file", '{"path": "a"}', "c1")
SAID = Said(
    system=("Be brief.",),
    input=(Message("tool", "the text", call_id="c1"), Message("user", "and now?")),
    output=Message("assistant", "I look.", (CALL,)),
    finish="tool_calls",
    tools=("read_file",),
    advice="try something else",
    answered=(("read_file", '{"path": "a"}', "the text"),),
)

SECRETS = [
    ("Authorization: Bearer abcdefgh12345678", "Authorization: [redacted]"),
    ("key sk-proj-abcdef123456789 here", "key [redacted] here"),
    ("ghp_" + "a1" * 18, "[redacted]"),
    ("AKIAIOSFODNN7EXAMPLE", "[redacted]"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abc", "[redacted]"),
    ('{"password": "hunter22", "user": "ann"}', '{"password[redacted]", "user": "ann"}'),
    ("API_KEY=abcd1234 make", "API_KEY[redacted] make"),
    ("postgres://ann:s3cret@db/x", "postgres://[redacted]@db/x"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMII\nAAA\n-----END RSA PRIVATE KEY-----\nrest", "[redacted]\nrest"),
    ("-----BEGIN PRIVATE KEY-----\nMII cut off", "[redacted]"),
    ("a token of thanks, secret garden", "a token of thanks, secret garden"),
    ("task-force skill desk-12345", "task-force skill desk-12345"),
]


@pytest.mark.parametrize(("text", "expected"), SECRETS)
def test_what_looks_like_a_secret(text: str, expected: str) -> None:
    assert PLAIN(text) == expected


def test_the_owners_patterns() -> None:
    assert Redactor([r"\b\d{4}-\d{4}\b", "(?i)acme"])("1234-5678 of ACME") == "[redacted] of [redacted]"


def test_a_text_is_cut_after_it_was_searched() -> None:
    """A key that begins within what is shown is found, though it ends beyond."""
    text = "x" * (SHOWN - 8) + " sk-abcdefgh1234567890"

    assert "sk-" not in PLAIN(text)
    assert len(PLAIN("y" * 10_000)) == SHOWN
    assert PLAIN("a\ud800b") == "a?b"


def test_the_form_of_messages() -> None:
    found = {key: json.loads(text) for key, text in of_chat(SAID, PLAIN).items()}

    assert found[s.GEN_AI_SYSTEM] == [{"type": "text", "content": "Be brief."}]
    assert found[s.GEN_AI_INPUT_MESSAGES] == [
        {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c1", "response": "the text"}]},
        {"role": "user", "parts": [{"type": "text", "content": "and now?"}]},
    ]
    call = {"type": "tool_call", "id": "c1", "name": "read_file", "arguments": '{"path": "a"}'}
    parts = [{"type": "text", "content": "I look."}, call]
    assert found[s.GEN_AI_OUTPUT_MESSAGES] == [{"role": "assistant", "parts": parts, "finish_reason": "tool_calls"}]
    assert found[s.GEN_AI_TOOL_DEFINITIONS] == [{"type": "function", "name": "read_file"}]
    assert of_chat(Said(), PLAIN) == {}


def test_there_are_not_too_many() -> None:
    many = Said(input=tuple(Message("user", str(number)) for number in range(100)), tools=("f",) * 100)
    found = of_chat(many, PLAIN)

    assert len(json.loads(found[s.GEN_AI_INPUT_MESSAGES])) == len(json.loads(found[s.GEN_AI_TOOL_DEFINITIONS])) == MOST
    assert json.loads(found[s.GEN_AI_INPUT_MESSAGES])[-1]["parts"][0]["content"] == "99"


def test_a_name_that_is_no_text() -> None:
    odd = Said(output=Message("assistant", "", (Call("f\ud800", "{}", "c\ud800"),)))

    assert json.loads(of_chat(odd, PLAIN)[s.GEN_AI_OUTPUT_MESSAGES])[0]["parts"][0]["name"] == "f?"


@pytest.mark.parametrize(
    ("index", "tool", "there"), [(0, "read_file", True), (1, "read_file", False), (0, "ls", False)]
)
def test_a_tool_has_the_texts_of_its_own_call(index: int, tool: str, there: bool) -> None:
    assert bool(of_tool(SAID, index, tool, PLAIN)) == there


A, B = Message("tool", "A", call_id="x"), Message("tool", "B", call_id="y")
BOTH = (("a", "1", "A"), ("b", "2", "B"))
TWO = Message("assistant", "", (Call("a", "1", "x"), Call("b", "2", "y")))
SAME = Message("assistant", "", (Call("a", "1", "x"), Call("b", "2", "x")))


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([], ()),
        ([Message("user", "hi")], ()),
        (
            [TWO, Message("tool", "B", call_id="y"), Message("tool", "A", call_id="x")],
            (("a", "1", "A"), ("b", "2", "B")),
        ),
        (
            [SAME, Message("tool", "A", call_id="x"), Message("tool", "B", call_id="x")],
            (("a", "1", "A"), ("b", "2", "B")),
        ),
        ([TWO, Message("tool", "A")], (("a", "1", "A"), ("b", "2", ""))),
    ],
)
def test_results_are_found(messages: list[Message], expected: object) -> None:
    assert answered(messages) == expected


async def test_content_is_on_spans_where_it_is_captured() -> None:
    reports = [replace(turn(1), said=lambda: SAID), turn(2, decision=firm(2), steps=(step(),), said=lambda: SAID)]
    silent = await sent(reports)
    spans = await sent(reports, capture_content="span_only", redact=("look",))
    chat, tool = named(spans, "chat gpt-4o")[1], named(spans, "execute_tool read_file")[0]
    (advice,) = named(spans, "guardproxy.intervene firm")

    assert not [span for span in silent if attributes(span).keys() & s.CONTENT_ATTRIBUTES]
    assert "I [redacted]." in str(attributes(chat)[s.GEN_AI_OUTPUT_MESSAGES])
    assert attributes(tool)[s.GEN_AI_TOOL_RESULT] == "the text"
    assert attributes(advice)[s.ADVICE] == "try something else"
    for span in spans:
        allowed = s.SPAN_ATTRIBUTES | s.CONTENT_ATTRIBUTES
        assert attributes(span).keys() <= allowed
    assert not attributes(named(spans, "POST /v1/chat/completions")[0]).keys() & s.CONTENT_ATTRIBUTES


async def test_what_is_not_sent_is_not_asked_for() -> None:
    def said() -> Said:
        raise AssertionError

    assert not await sent([replace(turn(1), said=said)], capture_content="span_only", sample_ratio=0.0)
    assert await sent([turn(1, view=view(1), said=None)], capture_content="span_only")
