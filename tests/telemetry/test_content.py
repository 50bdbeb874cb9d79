"""Texts on spans: only where asked for, in the conventions' form, without secrets, bounded."""

from __future__ import annotations

import json
import time
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
    ('{"password": "hunter22", "user": "ann"}', '{"password": "[redacted]", "user": "ann"}'),
    ('{"password": "ab,cd;e}f&\\"g h", "user": "ann"}', '{"password": "[redacted]", "user": "ann"}'),
    (r'{"a": "{\"token\": \"ab\\\"c\", \"b\": 1}"}', r'{"a": "{\"token\": \"[redacted]\", \"b\": 1}"}'),
    ("{'secret' => 'ab cd'}", "{'secret' => '[redacted]'}"),
    ("API_KEY=abcd1234 make", "API_KEY=[redacted] make"),
    ('PRIVATE_KEY="-----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY-----" x', 'PRIVATE_KEY="[redacted]" x'),
    ("private_key: -----BEGIN PRIVATE KEY-----\nMII\n-----END PRIVATE KEY----- x", "private_key: [redacted] x"),
    ("token: Bearer abcdefgh12", "token: [redacted]"),
    ("https://a.example/?a=1&key=abcdef0123456789&b=2", "https://a.example/?a=1&key=[redacted]&b=2"),
    ("curl -u ann:hunter22 https://a.example", "curl -u [redacted] https://a.example"),
    ("postgres://ann:s3cret@db/x", "postgres://[redacted]@db/x"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMII\nAAA\n-----END RSA PRIVATE KEY-----\nrest", "[redacted]\nrest"),
    ("-----BEGIN PRIVATE KEY-----\nMII cut off", "[redacted]"),
    ("a token of thanks, secret garden", "a token of thanks, secret garden"),
    ("task-force skill desk-12345", "task-force skill desk-12345"),
]


X = "S3cr3tS3cr3tS3cr3tS3cr3t"
PLANTED = [
    "gp-" + "a1" * 21,
    '{"header": "x: gp-' + "a1" * 21 + '"}',
    "T=gpa-" + "a_-" * 14 + "a",
    "key_sk-proj-" + X,
    f"sk_live_{X}",
    rf'{{"k": "sk\u002d{X}"}}',
    rf'{{"k": "sk\\u002d{X}"}}',
    f"hf_{X}",
    f"pplx-{X}",
    f"tvly-{X}",
    f"GOCSPX-{X}",
    f"xapp-1-{X}",
    f"r8_{X}",
    f"fw_{X}",
    f"shpat_{X}",
    f"lin_api_{X}",
    f"glsa_{X}_{X}",
    f"lsv2_pt_{X}_{X}",
    f"dop_v1_{X}",
    f"hvs.{X}",
    f"ATATT3xFfGF0{X}={X}",
    f"AGE-SECRET-KEY-1{X.upper()}",
    f"123456789:AA{X}{X}",
    f"https://hooks.slack.com/services/T0/B0/{X}",
    f"https://discord.com/api/webhooks/123456789/{X}{X}",
    f"npm_{X}",
    f"ya29.{X}",
    f"SG.{X}.{X}",
    f"ASIA{X.upper()}",
    f"Authorization: Basic {X}",
    f"Proxy-Authorization: basic {X}==",
    f'"aws_secret_access_key": "{X}"',
    f"aws_secret_access_key = {X}",
    f"SECRET_KEY={X}",
    f"DB_PASS={X}",
    f"db_pass: {X}",
    f"pwd={X}",
    f"passphrase={X}",
    f"AccountKey={X}==",
    f"accessToken='{X}'",
    f"token_value={X}",
    f"API key: {X}",
    f"password\uff1a{X}",
    f"Cookie: session={X}; b={X}",
    f"curl -b x --cookie 'a={X}'",
    f"curl --user ann:{X}",
    f"x --password {X}",
    f"https://x.example/?sig={X}%2f{X}",
    f"https://x.example/?a=b&token={X}",
    rf'"https://x.example/?a=b\u0026key={X}"',
    f"https://{X}@github.com/x",
    f"postgres://ann:p@{X}:x@host/db",
    f"redis://:{X}@host/0",
]
PROSE = [
    "The password policy: strict. A secret garden, a token of thanks.",
    "token count: 51234, max_tokens: 40960, total_tokens=12345, tokens: 51234",
    '{"usage": {"prompt_tokens": 12345, "output_cost_per_token": "0.0015"}, "password_length": 12345}',
    "PWD=/srv/ann/project OLDPWD=/srv/ann pwd: /srv/app",
    "PASS: test_login 12 passed; first-pass results",
    "basic authentication is needed; the basic principles",
    "docker run -u 1000:1000 image; sort -u names; git push -u origin main",
    "CONSTRAINT pk_user_accounts_identifier PRIMARY KEY",
    "http://localhost:8080/users/@me and git@github.com:org/repo.git and ssh://git@host/x",
    "https://x.example/?key=name&page=12 cookie: a small text",
    "tokenizer: something; tokenize=True; secret_name: database",
    "task-force skill desk-12345 hf_hub_download npm_config_registry eyJust",
    "fw_configuration_manager rnd_generator_of_numbers ntn_value 12345678:AAPL csk-learn figd_is_a_name",
    "caf\u00e9 \u0022 \u005c",
]


@pytest.mark.parametrize("text", PLANTED)
def test_a_planted_secret_is_not_shown(text: str) -> None:
    shown = PLAIN(f"before {text}")
    assert "[redacted]" in shown
    assert shown.startswith("before ")
    assert not any(part in shown for part in ("S3cr3t", "a1a1", "a_-a", "S3CR3T"))


@pytest.mark.parametrize("text", PROSE)
def test_prose_stays(text: str) -> None:
    assert PLAIN(text) == text


ADVERSE = [
    *("a", "eyJ-", "sk-", "://a:", "://a1", "password", "token_", 'token="', "pwd=\\", "-----BEGIN ", "cookie a"),
    *(
        "bearer ",
        "basic ",
        "-u a:",
        "?key=",
        "\\",
        "SG.-",
        "gp-a",
        "secret: '\\\\",
        "--token ",
        "_\\u0073",
        "basic\t\t",
    ),
]


@pytest.mark.parametrize("part", ADVERSE)
def test_the_work_grows_with_the_text(part: str) -> None:
    """Ten times the text is about ten times the work, and not a hundred times."""

    def spent(size: int) -> float:
        text, least = (part * size)[:size], float("inf")
        for _ in range(2):
            begun = time.process_time()
            PLAIN._secrets.sub("", text)
            least = min(least, time.process_time() - begun)
        return least

    assert spent(40_000) < 35 * max(spent(4_000), 0.0005)


def test_half_of_a_secret_is_not_shown_where_the_text_is_cut() -> None:
    text = " ".join(["eyJ" + "h" * 200] * 80)

    assert set(PLAIN(text).split()) == {"[redacted]"}


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
