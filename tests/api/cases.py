"""What the api tests share: golden files, requests and asks made in one line, strategies for wild JSON."""

from __future__ import annotations

import functools
import json
import os
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from guardproxy.api import chat
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Ask

GOLDEN = Path(__file__).parent / "golden" / "chat"
CUT = "Here is what is known."
NOTE = '\n\n[note] "same" result, 3 × 同じ'
FUZZ = int(os.environ.get("GUARDPROXY_FUZZ", "1"))
"""Multiplies the number of generated cases."""


def request(**fields: Any) -> dict[str, Any]:
    """A request's body; every field may be replaced."""
    return {"model": "m", "messages": [{"role": "user", "content": "hi"}], **fields}


def body(**fields: Any) -> bytes:
    """The same as bytes."""
    return json.dumps(request(**fields)).encode()


def ask(headers: dict[str, str] | None = None, **fields: Any) -> Ask:
    """The same, read."""
    return chat.read(body(**fields), headers or {})


@functools.cache
def streamed(**fields: Any) -> Ask:
    """That of a stream: it holds no state, and a test that cuts an answer at every byte needs it thousands of times."""
    return ask(stream=True, **fields)


def view(watcher: chat.Watcher) -> dict[str, Any]:
    """A watcher's view in the shape of the golden files."""
    usage = watcher.usage
    return {
        "calls": [list(call) for call in watcher.calls],
        "text": watcher.text,
        "finish": watcher.finish_reason,
        "usage": [usage.input, usage.output, usage.cached] if usage else None,
        "complete": watcher.complete,
        "failed": watcher.failed,
        "model": watcher.response_model,
        "id": watcher.response_id,
    }


def play(chunks: list[bytes], *, drop: bool = False, strip: bool = False, **options: Any) -> tuple[bytes, chat.Watcher]:
    """The bytes that a client gets of an answer, and the watcher."""
    watched = streamed(n=options.pop("n", 1))
    watcher = chat.watch(watched, strip_usage=strip, drop=DropCalls(CUT) if drop else None, **options)
    out = b"".join([watcher.feed(chunk) for chunk in chunks])
    return out + watcher.finish(), watcher


def sse(*payloads: Any) -> bytes:
    """A stream of these payloads, with [DONE]."""
    return b"".join(b"data: " + json.dumps(payload).encode() + b"\n\n" for payload in payloads) + b"data: [DONE]\n\n"


def delta(finish: str | None = None, index: int = 0, **fields: Any) -> dict[str, Any]:
    """One chunk of a stream."""
    return {"id": "r", "model": "p", "choices": [{"index": index, "delta": fields, "finish_reason": finish}]}


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.sampled_from(
        ["user", "tool", "assistant", "system", "function", "text", "stop", "tool_calls", '{"a":1}', "\\", '"', "c1"]
    ),
)
keys = st.one_of(
    st.sampled_from(
        "role content tool_calls function_call id name arguments index function type text delta message choices usage "
        "finish_reason error model tool_call_id refusal metadata prompt_tokens x".split()
    ),
    st.text(max_size=5),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=6,
)
objects = st.dictionaries(keys, values, max_size=5)
