"""How providers say that a conversation is too long, and what is something else."""

from __future__ import annotations

import pytest

from guardproxy.api._too_long import unlike
from guardproxy.api.chat import too_long

OPENAI = (
    b'{"error":{"message":"This model\'s maximum context length is 128000 tokens.","code":"context_length_exceeded"}}'
)


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (400, OPENAI, True),
        (413, OPENAI, True),
        (400, b'{"error":{"type":"exceed_context_size_error","message":"the request exceeds the available"}}', True),
        (400, b'{"type":"error","error":{"message":"prompt is too long: 210000 tokens > 200000 maximum"}}', True),
        (400, b'{"message":"Input is too long for requested model."}', True),
        (400, b'{"error":{"message":"The input token count (1200000) exceeds the maximum"}}', True),
        (200, OPENAI, False),
        (401, OPENAI, False),
        (429, b'{"error":{"message":"Rate limit: too many tokens per minute"}}', False),
        (400, b'{"error":{"message":"`messages` must hold at least one message."}}', False),
        (400, b"", False),
        (400, b" " * 5000 + OPENAI, False),
    ],
)
def test_too_long(status: int, body: bytes, said: bool) -> None:
    assert too_long(status, body) == said


UNLIKE = {
    "maximum context length is 8192 tokens": "maximum-context-length is 8192 tokens",
    "(context_length_exceeded)": "(context-length-exceeded)",
    "Prompt is too long: 3": "Prompt-is-too-long: 3",
    "exceeds the available context size": "exceeds-the-available-context-size",
    "the context of this task": "the context of this task",
    "turns: 200 of 200 used": "turns: 200 of 200 used",
    "": "",
}


@pytest.mark.parametrize("text", UNLIKE)
def test_ours_read_otherwise(text: str) -> None:
    assert unlike(text) == UNLIKE[text]
    assert unlike(UNLIKE[text]) == UNLIKE[text]
    assert not too_long(400, unlike(text).encode())
