"""The header in which an agent reports its progress: what is read, and what is refused in words."""

from __future__ import annotations

import json

import pytest

from guardproxy.api import chat
from guardproxy.core.bearing import ABSENT
from guardproxy.errors import BadAsk

BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "go"}]}).encode()
NAME = "x-guardproxy-progress"


@pytest.mark.parametrize(
    ("headers", "numbers"),
    [
        ({}, ()),
        ({NAME: ""}, ()),
        ({NAME: " "}, ()),
        ({NAME: '{"completed_steps":2,"unresolved":0}'}, (2, 0, ABSENT, ABSENT, ABSENT)),
        ({NAME: ' {"validation_failures": 7, "more": "x"} '}, (ABSENT, ABSENT, ABSENT, ABSENT, 7)),
    ],
)
def test_what_is_read(headers: dict[str, str], numbers: tuple[int, ...]) -> None:
    ask = chat.read(BODY, {**headers, "x-guardproxy-session-id": "s"})
    assert ask.declared.progress == numbers
    assert ask.declared.session == "s"


@pytest.mark.parametrize(
    "value",
    ["x", "{", "[]", "3", "null", "{}", '{"artifacts":-1}', '{"artifacts":1.5}', '{"artifacts":"1"}', "[" * 10_000],
)
def test_what_is_refused(value: str) -> None:
    with pytest.raises(BadAsk) as caught:
        chat.read(BODY, {NAME: value})
    assert (caught.value.status, caught.value.param, caught.value.code) == (400, NAME, "invalid_value")
    assert caught.value.message.startswith("`x-guardproxy-progress`: ")
