"""Which id a client declares: the order of places, and what is no id."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api._declared import HEADERS, VENDORS, declare
from guardproxy.api._ids import MAX_ID, clean
from tests.api.cases import FUZZ, ask, objects

USER_ID = json.dumps({"device_id": "d", "account_uuid": "", "session_id": "run-1"})
CASES = [
    ({"x-guardproxy-session-id": "a", "x-session-id": "b"}, {}, ("a", "", "x-guardproxy-session-id")),
    ({"x-guardproxy-path-session": "p", "session-id": "c"}, {}, ("p", "", "x-guardproxy-path-session")),
    (
        {"x-claude-code-session-id": "cc", "x-claude-code-agent-id": "a1", "session_id": "pi"},
        {},
        ("cc", "a1", "x-claude-code-session-id"),
    ),
    ({"session-id": "cx", "thread-id": "t"}, {}, ("cx", "t", "session-id")),
    ({"session_id": "pi"}, {}, ("pi", "", "session_id")),
    ({"x-session-id": "ses_2", "x-parent-session-id": "ses_1"}, {}, ("ses_1", "ses_2", "x-parent-session-id")),
    ({"x-session-id": "ses_1"}, {}, ("ses_1", "ses_1", "x-session-id")),
    (
        {"x-litellm-session-id": "l", "agent-session-id": "z"},
        {"prompt_cache_key": "l"},
        ("l", "", "x-litellm-session-id"),
    ),
    ({"x-litellm-trace-id": "t"}, {}, ("t", "", "x-litellm-trace-id")),
    ({"helicone-session-id": "h"}, {}, ("h", "", "helicone-session-id")),
    ({"x-bf-session-id": "b"}, {}, ("b", "", "x-bf-session-id")),
    ({"x-portkey-trace-id": "p"}, {}, ("p", "", "x-portkey-trace-id")),
    ({"x-loopers-session-id": "p"}, {}, ("p", "", "x-loopers-session-id")),
    # a header that is named as such headers are (LiteLLM takes it), behind all that are known by name
    ({"x-acme-session-id": "run-1234"}, {"litellm_session_id": "l"}, ("run-1234", "", VENDORS)),
    ({"x-acme-session-id": "run-1234", "agent-session-id": "e"}, {}, ("e", "", "agent-session-id")),
    ({"x-acme-session-id": "short"}, {}, ("", "", "derived")),
    ({"x-acme-session-id": "two words"}, {}, ("", "", "derived")),
    ({"x-acme-session-id": "undefined"}, {}, ("", "", "derived")),
    ({"x-amz-session-id": "run-1234"}, {}, ("", "", "derived")),  # of a balancer, not of a run
    ({"x-envoy-peer-session-id": "run-1234"}, {}, ("", "", "derived")),
    ({"x--session-id": "run-1234"}, {}, ("", "", "derived")),
    ({"conversation_id": "c", "user-agent": "codex_cli_rs/0.40"}, {}, ("c", "", "conversation_id")),
    ({"conversation_id": "c", "session_id": "s", "user-agent": "codex/1"}, {}, ("s", "", "session_id")),
    ({"conversation_id": "c"}, {}, ("", "", "derived")),
    ({}, {"litellm_trace_id": "t"}, ("t", "", "litellm_trace_id")),
    ({}, {"litellm_metadata": {"session_id": "m"}}, ("m", "", "litellm_metadata.session_id")),
    ({"agent-session-id": "e"}, {"metadata": {"session_id": "m"}}, ("e", "", "agent-session-id")),
    ({}, {"metadata": {"session_id": "m", "user_id": USER_ID}}, ("m", "", "metadata.session_id")),
    ({}, {"litellm_session_id": "l", "client_metadata": {"session_id": "c"}}, ("l", "", "litellm_session_id")),
    ({}, {"client_metadata": {"session_id": "c", "thread_id": "t"}}, ("c", "t", "client_metadata.session_id")),
    ({}, {"metadata": {"user_id": USER_ID}}, ("run-1", "", "metadata.user_id")),
    ({}, {"metadata": {"user_id": "user_1_account__session_run-2"}}, ("run-2", "", "metadata.user_id")),
    ({}, {"metadata": {"user_id": {"session_id": "run-3"}}}, ("run-3", "", "metadata.user_id")),
    ({}, {"metadata": {"user_id": "user-77"}}, ("", "", "derived")),
    ({}, {"metadata": {"user_id": "{broken"}}, ("", "", "derived")),
    ({}, {"prompt_cache_key": "k"}, ("", "", "derived")),
    ({"user-agent": "OpenAI/Python 3.57.0"}, {"prompt_cache_key": "k"}, ("", "", "derived")),
    ({"user-agent": "codex_exec/0.171.0"}, {"prompt_cache_key": "k"}, ("k", "", "prompt_cache_key")),
    ({"x-title": "OpenHands"}, {"prompt_cache_key": "k"}, ("k", "", "prompt_cache_key")),
    ({"x-client-request-id": "k"}, {"prompt_cache_key": "k"}, ("k", "", "prompt_cache_key")),
    ({"x-client-request-id": "other"}, {"prompt_cache_key": "k"}, ("", "", "derived")),
    ({"baggage": "a=b, session.id=s%201;p=1"}, {}, ("s 1", "", "baggage")),
    ({"baggage": "session.idx=1,=,"}, {}, ("", "", "derived")),
    ({}, {}, ("", "", "derived")),
    # junk gives way to the next place
    (
        {"x-guardproxy-session-id": "  ", "x-session-id": "null", "x-bf-session-id": " ok "},
        {},
        ("ok", "", "x-bf-session-id"),
    ),
    ({"x-guardproxy-session-id": "x" * (MAX_ID + 1)}, {"litellm_session_id": 7}, ("", "", "derived")),
    ({"x-guardproxy-session-id": "a\x00b", "session-id": "Undefined"}, {}, ("", "", "derived")),
    ({"x-guardproxy-session-id": "x" * MAX_ID}, {}, ("x" * MAX_ID, "", "x-guardproxy-session-id")),
]


@pytest.mark.parametrize(("headers", "fields", "expected"), CASES)
def test_first_usable_id(headers: dict[str, str], fields: dict[str, object], expected: tuple[str, str, str]) -> None:
    found = ask(headers, **fields).declared
    assert (found.session, found.thread, found.source) == expected


def test_order_of_headers_is_the_designs() -> None:
    headers = {header: f"id-{header}" for header, _ in HEADERS}
    for header, _ in HEADERS:
        assert declare(headers, {}).source == header
        del headers[header]
    assert declare(headers, {}).source == "derived"


@pytest.mark.parametrize(
    ("headers", "agent"),
    [
        ({"user-agent": "codex_exec/0.171.0 (Debian)"}, "codex"),
        ({"user-agent": "OpenAI/Python 2.54.0", "x-title": "OpenHands"}, "openhands"),
        ({"user-agent": "Kilo-Code/7.7.7", "x-title": "Kilo Code"}, "kilo"),
        ({"user-agent": "opencode/1.18.33"}, "opencode"),
        ({"user-agent": "QwenCode/0.24.4 (linux; x64)"}, "qwen-code"),
        ({"user-agent": "curl/8"}, ""),
        ({"user-agent": "curl/8", "x-guardproxy-agent": " nightly build "}, "nightly build"),
        ({"user-agent": "codex/1", "x-guardproxy-agent": "reviewer"}, "reviewer"),
        ({"user-agent": "codex/1", "x-guardproxy-agent": ""}, "codex"),
        ({"user-agent": "codex/1", "x-guardproxy-agent": "x" * 300}, "codex"),
        ({}, ""),
    ],
)
def test_agent_is_one_of_a_closed_list(headers: dict[str, str], agent: str) -> None:
    assert declare(headers, {}).agent == agent


@settings(max_examples=150 * FUZZ, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([*(h for h, _ in HEADERS), "baggage", "user-agent", "conversation_id", "x-acme-session-id"]),
        st.text(max_size=300),
    ),
    objects,
)
def test_ids_are_bounded_and_printable(headers: dict[str, str], fields: dict[str, object]) -> None:
    found = declare(headers, fields)
    for text in (found.session, found.thread):
        assert len(text) <= MAX_ID
        assert text.isprintable()
        assert text == clean(text)
