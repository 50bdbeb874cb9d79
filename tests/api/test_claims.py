"""The end user and the labels of a request, as other gateways' clients spell them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api._claims import LONGEST, MOST, NONE, OBJECTS, TEXTS, USERS, Claims, claims, says
from guardproxy.api._ids import MAX_ID
from tests.api.cases import FUZZ, ask, objects


def claimed(headers: dict[str, str], fields: dict[str, Any]) -> Claims:
    return claims(headers, fields, tuple(filter(says, headers)))


PORTKEY = json.dumps({"_user": "ann", "_environment": "prod", "team": "search"})
SPEND = json.dumps({"project": "p-1", "user_id": "x", "deep": {"a": 1}})
CLAUDE = json.dumps({"device_id": "dev-1", "account_uuid": "", "session_id": "run-1"})

USER: dict[str, tuple[dict[str, str], dict[str, Any], str]] = {
    "ours first": ({"x-guardproxy-user-id": "ann", "helicone-user-id": "bob"}, {"user": "eve"}, "ann"),
    "litellm's customer": ({"x-litellm-customer-id": "ann", "x-litellm-end-user-id": "bob"}, {"user": "eve"}, "ann"),
    "litellm's end user": ({"x-litellm-end-user-id": "bob"}, {"user": "eve"}, "bob"),
    "helicone": ({"helicone-user-id": "ann"}, {"user": "eve"}, "ann"),
    "portkey": ({"x-portkey-metadata": PORTKEY}, {"user": "eve"}, "ann"),
    "openai": ({}, {"user": "eve", "safety_identifier": "h"}, "eve"),
    "openai, newer": ({}, {"safety_identifier": "h"}, "h"),
    "litellm's body": ({}, {"litellm_metadata": {"user": "ann"}, "metadata": {"user_id": "bob"}}, "ann"),
    "anthropic": ({}, {"metadata": {"user_id": "bob"}}, "bob"),
    "claude code: the run is not the user": (
        {},
        {"metadata": {"user_id": "user_ab12_account__session_run-2"}},
        "user_ab12",
    ),
    "claude code, newer": ({}, {"metadata": {"user_id": CLAUDE}}, "dev-1"),
    "claude code, an account": ({}, {"metadata": {"user_id": {"account_uuid": "acc", "device_id": "d"}}}, "acc"),
    "junk gives way": ({"helicone-user-id": "null", "x-litellm-customer-id": " "}, {"user": "eve"}, "eve"),
    "junk": ({"x-portkey-metadata": "{"}, {"user": 7, "metadata": [], "safety_identifier": "x" * 999}, ""),
    "nobody": ({}, {}, ""),
}


@pytest.mark.parametrize("name", USER)
def test_user(name: str) -> None:
    headers, fields, expected = USER[name]
    assert ask(headers, **fields).declared.user == expected


LABELS: dict[str, tuple[dict[str, str], dict[str, Any], dict[str, str]]] = {
    "helicone": (
        {
            "helicone-property-app": "mobile",
            "helicone-property-env": " prod ",
            "helicone-session-name": "Trip",
            "helicone-session-path": "/plan/hotels",
            "helicone-auth": "Bearer sk-helicone-secret",
        },
        {},
        {"app": "mobile", "env": "prod", "session_name": "Trip", "session_path": "/plan/hotels"},
    ),
    "portkey": (
        {"x-portkey-metadata": PORTKEY, "x-portkey-api-key": "pk-secret", "x-portkey-config": "{}"},
        {},
        {"_environment": "prod", "team": "search"},
    ),
    "litellm": (
        {"x-litellm-spend-logs-metadata": SPEND, "x-litellm-tags": "a, b", "x-litellm-agent-id": "agent-7"},
        {},
        {"project": "p-1", "tags": "a, b", "agent_id": "agent-7"},
    ),
    "openai's metadata": (
        {},
        {"metadata": {"task": "x", "session_id": "s", "user_id": "u", "n": 3, "live": True}},
        {"task": "x", "n": "3", "live": "true"},
    ),
    "litellm's metadata": (
        {},
        {"metadata": {"tags": ["a", 7, None, {"b": 1}]}, "litellm_metadata": {"tags": ["c"], "job": "j"}},
        {"tags": "a,7", "job": "j"},
    ),
    "of a repeated one the first": (
        {"helicone-property-env": "prod"},
        {"metadata": {"env": "test"}},
        {"env": "prod"},
    ),
    "long": ({"helicone-property-" + "n" * 999: "v" * 999}, {}, {"n" * (LONGEST // 2): "v" * LONGEST}),
    "control characters": ({"x-portkey-metadata": json.dumps({"a\n": "b\x00c\u2028"})}, {}, {"a": "bc"}),
    "empty": ({"helicone-property-": "x", "helicone-property-a": " "}, {}, {}),
    "no object": ({"x-portkey-metadata": "[1]"}, {"metadata": "text"}, {}),
    "no numbers": ({}, {"metadata": {"a": float("nan"), "b": 10**400, "c": None, "d": {}}}, {}),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels(name: str) -> None:
    headers, fields, expected = LABELS[name]
    assert dict(claimed(headers, fields)[1]) == expected


def test_labels_are_bounded() -> None:
    found = claimed({"x-portkey-metadata": json.dumps({f"k{n}": n for n in range(99)})}, {})[1]
    assert found == tuple((f"k{n}", str(n)) for n in range(MOST))


def test_most_say_nothing() -> None:
    assert claimed({"user-agent": "x", "authorization": "y"}, {"model": "m", "messages": []}) == NONE


texts = st.text(max_size=300)
names = st.sampled_from([*USERS, *TEXTS, *OBJECTS, "helicone-property-a"]) | texts.map("helicone-property-".__add__)


@settings(max_examples=150 * FUZZ, deadline=None)
@given(st.dictionaries(names, texts | objects.map(json.dumps)), objects)
def test_claims_are_bounded_and_printable(headers: dict[str, str], fields: dict[str, object]) -> None:
    user, labels = claimed(headers, fields)
    assert len(user) <= MAX_ID
    assert user.isprintable()
    assert len(labels) <= MOST
    for name, value in labels:
        assert 0 < len(name) <= LONGEST // 2
        assert 0 < len(value) <= LONGEST
        assert (name + value).isprintable()
