"""What the tests of /v1/messages share: golden files, requests and events in one line, strategies for wild ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from guardproxy.api import messages
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Ask
from tests.api.cases import CUT, values

GOLDEN = Path(__file__).parent / "golden" / "messages"
Json = dict[str, Any]


def body(**fields: Any) -> bytes:
    """A request's body; every field may be replaced."""
    return json.dumps({"model": "m", "max_tokens": 9, "messages": [user("hi")], **fields}).encode()


def ask(headers: dict[str, str] | None = None, **fields: Any) -> Ask:
    """The same, read."""
    return messages.read(body(**fields), headers or {})


def user(*content: Any) -> Json:
    """A message of the user: a text, or blocks."""
    return {"role": "user", "content": content[0] if content and isinstance(content[0], str) else list(content)}


def model(*content: Any) -> Json:
    """A message of the model."""
    return {**user(*content), "role": "assistant"}


def text(words: str, **more: Any) -> Json:
    """A block of text."""
    return {"type": "text", "text": words, **more}


def use(call_id: str, name: str = "read", **given: Any) -> Json:
    """A call."""
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def result(call_id: str, content: Any, **more: Any) -> Json:
    """The result of a call."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


def event(kind: str, **fields: Any) -> bytes:
    """One event of a stream."""
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def begun(**usage: int) -> bytes:
    """The first event."""
    message = {"id": "msg_1", "type": "message", "role": "assistant", "model": "p", "content": []}
    return event("message_start", message={**message, "usage": {"input_tokens": 10, "output_tokens": 1, **usage}})


def said(index: int, *pieces: str) -> bytes:
    """A block of text, in pieces."""
    made = [event("content_block_delta", index=index, delta={"type": "text_delta", "text": one}) for one in pieces]
    return b"".join((event("content_block_start", index=index, content_block=text("")), *made, stopped(index)))


def thought(index: int, words: str) -> bytes:
    """A block of thoughts."""
    empty = {"type": "thinking", "thinking": "", "signature": ""}
    made = event("content_block_delta", index=index, delta={"type": "thinking_delta", "thinking": words})
    made += event("content_block_delta", index=index, delta={"type": "signature_delta", "signature": "sig"})
    return event("content_block_start", index=index, content_block=empty) + made + stopped(index)


def called(index: int, call_id: str, name: str = "read", *pieces: str) -> bytes:
    """A call, in pieces."""
    empty = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
    made = [
        event("content_block_delta", index=index, delta={"type": "input_json_delta", "partial_json": one})
        for one in pieces or ('{"path":', '"a"}')
    ]
    return b"".join((event("content_block_start", index=index, content_block=empty), *made, stopped(index)))


def stopped(index: int) -> bytes:
    """The end of a block."""
    return event("content_block_stop", index=index)


def ended(reason: str = "end_turn", tokens: int = 5) -> bytes:
    """The last two events."""
    delta = event(
        "message_delta", delta={"stop_reason": reason, "stop_sequence": None}, usage={"output_tokens": tokens}
    )
    return delta + event("message_stop")


ASKED = (ask(), ask(stream=True))


def view(watcher: messages.Watcher) -> Json:
    """A watcher's view in the shape of the golden files."""
    usage = watcher.usage
    return {
        "calls": [list(call) for call in watcher.calls],
        "text": watcher.text,
        "finish": watcher.finish_reason,
        "usage": [usage.input, usage.output, usage.cached, usage.cache_write, usage.cache_write_1h] if usage else None,
        "complete": watcher.complete,
        "failed": watcher.failed,
        "model": watcher.response_model,
        "id": watcher.response_id,
    }


def play(chunks: list[bytes], *, drop: bool = False, stream: bool = True, **options: Any) -> tuple[bytes, Any]:
    """The bytes that a client gets of an answer, and the watcher."""
    kind = "text/event-stream" if stream else "application/json"
    more = {"drop": DropCalls(CUT)} if drop else {}
    watcher = messages.watch(ASKED[stream], content_type=kind, **more, **options)
    out = b"".join([watcher.feed(chunk) for chunk in chunks])
    return out + watcher.finish(), watcher


def events_of(raw: bytes) -> list[Json]:
    """The JSON of the events of a stream."""
    return [
        json.loads(line[6:]) for one in raw.split(b"\n\n") for line in one.split(b"\n") if line.startswith(b"data: ")
    ]


kinds = st.sampled_from(
    "message_start content_block_start content_block_delta content_block_stop message_delta message_stop ping error "
    "message something".split()
)
block_kinds = st.sampled_from("text tool_use thinking server_tool_use text_delta input_json_delta x".split())
numbers = st.one_of(st.integers(-1, 3), st.none(), st.text(max_size=2), st.lists(st.integers(), max_size=1))
blocks = st.one_of(
    values,
    st.fixed_dictionaries(
        {"type": block_kinds},
        optional={
            "text": st.one_of(values, st.just("word. ")),
            "id": st.one_of(values, st.sampled_from(["a", "b", ""])),
            "name": st.one_of(values, st.sampled_from(["read", "x"])),
            "input": values,
            "partial_json": st.one_of(values, st.sampled_from(['{"a"', ":1}", ""])),
            "thinking": values,
            "stop_reason": st.one_of(values, st.sampled_from(["tool_use", "end_turn"])),
            "content": values,
        },
    ),
)
wild = st.one_of(
    values,
    st.fixed_dictionaries(
        {"type": kinds},
        optional={
            "index": numbers,
            "content_block": blocks,
            "delta": blocks,
            "message": st.one_of(values, st.dictionaries(st.sampled_from(["id", "content", "usage", "model"]), values)),
            "usage": values,
            "content": st.lists(blocks, max_size=3),
            "error": values,
        },
    ),
)
"""Events that resemble the real ones."""
