"""Whether bytes went through unchanged: what may differ is only what the answer's headers own up to."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

import orjson

from tests.surfaces import chat

MARK = "\n\n[guardproxy]"
USAGE = re.compile(rb'"stream_options": ?\{"include_usage": ?true\}(?:, ?)?')
"""Our question for usage; inside a text of the conversation its quotes would be escaped."""

SPEAKS = ("finalize", "cut", "deny")
"""Verdicts after which the answer may differ from what the provider sent."""


def edits_of(headers: Mapping[str, str]) -> set[str]:
    """What the proxy says it changed."""
    return {name for name in headers.get("x-guardproxy-edit", "").split(",") if name}


def request_fault(sent: bytes, arrived: bytes, headers: Mapping[str, str], surface: ModuleType = chat) -> str:
    """What is wrong with a request that arrived at the provider; "" = nothing."""
    edits = edits_of(headers)
    if not edits:
        return "" if arrived == sent else "changed although no edit is named"
    rest = arrived
    if "usage" in edits:
        rest, asked = USAGE.subn(b"", rest, count=1)
        if not asked:
            return "the edit `usage` is named, but nothing was asked for"
    if "tools" in edits:
        return _meaning_fault(sent, arrived, surface)
    if "advice" in edits:
        fault, rest = _without_advice(sent, rest, surface)
        if fault:
            return fault
    return "" if rest == sent else f"more was changed than {sorted(edits)}"


def answer_fault(sent: bytes, received: bytes, headers: Mapping[str, str]) -> str:
    """What is wrong with an answer that reached the client. `sent`: by the provider, its usage chunk included."""
    streamed = sent.startswith(b"data: ")
    expected = without_usage_chunk(sent) if streamed and "usage" in edits_of(headers) else sent
    if received == expected:
        return ""
    verdict = headers.get("x-guardproxy-verdict", "")
    return "" if verdict in SPEAKS else f"the answer was changed under the verdict {verdict!r}"


def without_usage_chunk(stream: bytes) -> bytes:
    """The stream without the chunk that only brings usage."""
    events = stream.split(b"\n\n")
    kept = [event for event in events if not (b'"choices": []' in event and b'"usage"' in event)]
    assert len(kept) == len(events) - 1, "the provider was asked for usage and sent none"
    return b"\n\n".join(kept)


def _without_advice(sent: bytes, arrived: bytes, surface: ModuleType) -> tuple[str, bytes]:
    """The body with the texts taken out that were appended to messages, each at the end of its message."""
    before, after = surface.messages(json.loads(sent)), surface.messages(json.loads(arrived))
    added = 0
    for old, new in zip(before, after, strict=True):
        if old == new:
            continue
        text, form = _appended(old.get("content"), new.get("content"))
        if not text.startswith(MARK) or {**old, "content": 0} != {**new, "content": 0}:
            return f"a message was changed otherwise than by advice at its end: {new}", arrived
        spliced = form.search(arrived) if form else None
        if not spliced:
            return "the advice is not spliced into the bytes", arrived
        arrived = arrived[: spliced.start()] + arrived[spliced.end() :]
        added += 1
    return ("" if added else "the edit `advice` is named, but there is none"), arrived


def _appended(old: Any, new: Any) -> tuple[str, re.Pattern[bytes] | None]:
    """The text that was appended to a content, and the bytes that did it."""
    if isinstance(old, str) and isinstance(new, str) and new.startswith(old):
        text = new[len(old) :]
        return text, re.compile(re.escape(orjson.dumps(text)[1:-1]))
    if isinstance(old, list) and isinstance(new, list) and new[:-1] == old and new[-1]["type"] == "text":
        text = new[-1]["text"]
        return text, re.compile(rb', ?\{"type":"text","text":' + re.escape(orjson.dumps(text)) + rb"\}")
    return "", None


def _meaning_fault(sent: bytes, arrived: bytes, surface: ModuleType) -> str:
    """For a finalize: all but the tool choice and the appended texts means the same."""
    before, after = json.loads(sent), json.loads(arrived)
    if after.get("tools") and not re.search(surface.FORBID, arrived):
        return "the edit `tools` is named, but calls are not forbidden"
    for old, new in zip(surface.messages(before), surface.messages(after), strict=True):
        if old != new and not _appended(old.get("content"), new.get("content"))[0].startswith(MARK):
            return "a message was changed otherwise than by advice at its end"
    for key in ("tool_choice", "stream_options", surface.MESSAGES):
        before.pop(key, None)
        after.pop(key, None)
    return "" if before == after else "more was changed than the tool choice"
