"""Whether a provider's error says that the conversation is too long for its model, and how no error of ours does."""

from __future__ import annotations

import re

STATUSES = frozenset((400, 413, 422, 500))
"""Statuses with which providers say so (llama.cpp and some gateways: 500)."""

EDGE = 4_096
"""Bytes of an error's body that are searched."""

SIGNS = (
    b"context_length",  # OpenAI, vLLM, OpenRouter: context_length_exceeded
    b"maximum context length",
    b"exceed_context_size",  # llama.cpp
    b"exceeds the context",
    b"context window",
    b"prompt is too long",  # Anthropic
    b"input is too long",  # Bedrock
    b"input token count",  # Gemini
    b"too many tokens",
    b"model_max_prompt_tokens_exceeded",  # Copilot
)
"""What such errors hold, in lower case."""


def too_long(status: int, body: bytes) -> bool:
    """Whether an answer with this status and (decoded) body refuses the request for its length."""
    if status not in STATUSES:
        return False
    low = body[:EDGE].lower()
    return any(sign in low for sign in SIGNS)


_LIKE = re.compile(
    r"(?:(?:maximum|exceeds?|the|available|model)[ _])*context[ _](?:length|size|window|limit)(?:[ _]exceeded)?|"
    r"(?:maximum|exceeds?)[ _](?:(?:the|available|model)[ _])*(?:context|prompt|input)|"
    r"(?:prompt|input|request|conversation)[ _](?:is )?too (?:long|large)|(?:input )?token count|too many tokens|"
    r"exceeded model token limit|exceeds the (?:limit|maximum)|reduce the length|model_max_prompt_tokens_exceeded",
    re.IGNORECASE,
)
_GAP = re.compile(r"[\s_]+")


def unlike(text: str) -> str:
    """The message of an error of ours, which may quote anything: no words by which clients know a refused length.

    opencode would then shorten the conversation and ask again without end, others a few times (`clients`, surprise 4).
    """
    return _LIKE.sub(lambda found: _GAP.sub("-", found[0]), text)
