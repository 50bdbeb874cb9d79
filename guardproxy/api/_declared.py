"""What a client says of itself: session, thread, which agent it is, for whom it works. Shared by all surfaces.

The order is the contract: the first place that holds a usable id wins. Headers are lower-case. An id that is too long,
not printable or a placeholder is no id; it never becomes a bucket that strangers share.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import lru_cache
from urllib.parse import unquote

from guardproxy.api._claims import claims, says
from guardproxy.api._ids import clean
from guardproxy.api._json import peek
from guardproxy.core.model import Declared

HEADERS: tuple[tuple[str, str], ...] = (
    ("x-guardproxy-session-id", ""),
    ("x-guardproxy-path-session", ""),  # set by `http` from /s/{session}/…
    ("x-claude-code-session-id", "x-claude-code-agent-id"),
    ("session-id", "thread-id"),  # Codex
    ("session_id", ""),  # pi, older builds of Codex
    ("x-parent-session-id", "x-session-id"),  # opencode, Kilo: a sub-agent
    ("x-session-id", "x-session-id"),  # the same clients' main agent
    ("x-litellm-session-id", ""),
    ("x-litellm-trace-id", ""),
    ("helicone-session-id", ""),
    ("x-bf-session-id", ""),
    ("x-portkey-trace-id", ""),
    ("agent-session-id", ""),
    ("x-loopers-session-id", ""),
)
"""Session header and its thread header ("" = none), in order of preference."""

BODY: tuple[tuple[str, str], ...] = (
    ("metadata", "session_id"),
    ("", "litellm_session_id"),
    ("", "litellm_trace_id"),
    ("litellm_metadata", "session_id"),
    ("client_metadata", "session_id"),
)
"""Body fields that name a session: object ("" = the body itself) and key, in order."""

AGENTS: tuple[tuple[str, str], ...] = (
    ("codex", "codex"),
    ("claude-cli", "claude-code"),
    ("opencode", "opencode"),
    ("kilo-code", "kilo"),
    ("qwencode", "qwen-code"),
    ("pydantic-ai", "pydantic-ai"),
    ("agents/python", "openai-agents"),
    ("ai-sdk-agent", "vercel-ai"),
    ("openhands", "openhands"),
)
"""Start of the user agent (or `x-title`) and the agent's name."""

AGENT = "x-guardproxy-agent"
"""In which a client says which agent it is, whatever program it runs on."""

KEYED = frozenset(("codex", "openhands"))
"""Agents that name a run by `prompt_cache_key`."""

_STARTS = tuple(start for start, _ in AGENTS)

VENDORS = "x-*-session-id"
"""The source of an id from a header that is named as all of them are, of somebody we do not know (LiteLLM's rule)."""

_VENDOR = re.compile(r"x-(?!(?:amz|amzn|goog|ms|envoy|forwarded|original|guardproxy)\b).+-session-id")
_PLAUSIBLE = re.compile(r"[A-Za-z0-9_-]{8,}")

_SAID = frozenset((*(header for header, _ in HEADERS), "baggage", "conversation_id"))
_WRITTEN = frozenset((*(outer or key for outer, key in BODY), "metadata", "prompt_cache_key"))

Found = tuple[str, str, str]  # session, thread, source


def declare(headers: Mapping[str, str], body: Mapping[str, object]) -> Declared:
    """The ids of the first place that has one; else empty ids with the source "derived"."""
    program = _agent(headers)
    agent = clean(headers[AGENT]) or program if AGENT in headers else program
    vendors, named = _sorted(tuple(headers))
    user, labels = claims(headers, body, named)
    if vendors or not (_SAID.isdisjoint(headers) and _WRITTEN.isdisjoint(body)):  # most say nothing
        for session, thread, source in _places(headers, body, program, vendors):
            if session:
                return Declared(session, thread, source, agent, user=user, labels=labels)
    return Declared(agent=agent, user=user, labels=labels)


@lru_cache(maxsize=1024)
def _sorted(names: tuple[str, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Headers named as a session's are, of somebody we do not know, and those of `_claims`. The same come again."""
    vendors = tuple(name for name in names if name not in _SAID and _VENDOR.fullmatch(name))
    return vendors, tuple(filter(says, names))


def _places(
    headers: Mapping[str, str], body: Mapping[str, object], program: str, vendors: tuple[str, ...]
) -> Iterator[Found]:
    for header, thread in HEADERS:
        if header in headers:
            yield clean(headers[header]), clean(headers.get(thread)), header
    if program == "codex" and "conversation_id" in headers:
        yield clean(headers["conversation_id"]), "", "conversation_id"
    for header in vendors:
        if _PLAUSIBLE.fullmatch(headers[header]):
            yield clean(headers[header]), "", VENDORS
    yield from _from_body(body)
    if "metadata" in body:
        yield from _from_user_id(body["metadata"])
    # Others set this to spread load or to share a cache between runs: only clients known to name the run with it.
    key = clean(body.get("prompt_cache_key"))
    if key and (program in KEYED or headers.get("x-client-request-id") == key):  # the latter: pi
        yield key, "", "prompt_cache_key"
    if "baggage" in headers:
        yield from _from_baggage(headers["baggage"])


def _agent(headers: Mapping[str, str]) -> str:
    for header in ("x-title", "originator", "user-agent"):
        name = headers.get(header, "").lower()
        if name.startswith(_STARTS):
            return next(agent for start, agent in AGENTS if name.startswith(start))
    return ""


def _from_body(body: Mapping[str, object]) -> Iterator[Found]:
    for outer, key in BODY:
        holder = body.get(outer) if outer else body
        if isinstance(holder, dict) and key in holder:
            yield clean(holder[key]), clean(holder.get("thread_id")), f"{outer}.{key}" if outer else key


def _from_user_id(metadata: object) -> Iterator[Found]:
    value = metadata.get("user_id") if isinstance(metadata, dict) else None
    inner = peek(value) if isinstance(value, str) and value.lstrip().startswith("{") else value
    if isinstance(inner, dict):
        yield clean(inner.get("session_id")), "", "metadata.user_id"
    elif isinstance(inner, str) and "_session_" in inner:
        yield clean(inner.rpartition("_session_")[2]), "", "metadata.user_id"


def _from_baggage(header: str) -> Iterator[Found]:
    for entry in header.split(","):
        key, _, value = entry.partition(";")[0].partition("=")
        if key.strip() == "session.id":
            yield clean(unquote(value)), "", "baggage"
