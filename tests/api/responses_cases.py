"""What the tests of the Responses surface share: golden files, requests in one line, streams cut in pieces."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from guardproxy.api import responses
from guardproxy.core.edit import DropCalls
from guardproxy.core.model import Ask
from tests.api.cases import CUT, scalars

GOLDEN = Path(__file__).parent / "golden" / "responses"
STREAMS = sorted(path for path in (GOLDEN / "streams").glob("*.sse") if path.name.count(".") == 1)
TOOLS = [{"type": "function", "name": "f", "parameters": {"type": "object", "properties": {"x": {"type": "integer"}}}}]


def body(**fields: Any) -> bytes:
    """A request's body; every field may be replaced."""
    return json.dumps({"model": "m", "input": "hi", **fields}).encode()


def ask(headers: dict[str, str] | None = None, **fields: Any) -> Ask:
    """The same, read."""
    return responses.read(body(**fields), headers or {})


STREAMED = ask(stream=True)


def play(chunks: list[bytes], *, drop: bool = False, **options: Any) -> tuple[bytes, responses.Watcher]:
    """The bytes that a client gets of an answer, and the watcher."""
    watcher = responses.watch(STREAMED, drop=DropCalls(CUT) if drop else None, **options)
    out = b"".join([watcher.feed(chunk) for chunk in chunks])
    return out + watcher.finish(), watcher


def view(watcher: responses.Watcher) -> dict[str, Any]:
    """A watcher's view in the shape of the golden files."""
    usage = watcher.usage
    return {
        "calls": [list(call) for call in watcher.calls],
        "text": watcher.text,
        "finish": watcher.finish_reason,
        "usage": [usage.input, usage.output, usage.cached, usage.reasoning] if usage else None,
        "complete": watcher.complete,
        "failed": watcher.failed,
        "model": watcher.response_model,
        "id": watcher.response_id,
        "produced": watcher.produced_chars,
    }


def payloads(raw: bytes) -> list[dict[str, Any]]:
    """The events of a stream, parsed."""
    lines = raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
    found = [line.partition(b":")[2].strip() for line in lines if line.startswith(b"data:")]
    return [json.loads(one) for one in found if one != b"[DONE]"]


def cut(raw: bytes, size: int) -> list[bytes]:
    """In pieces of that many bytes."""
    return [raw[at : at + size] for at in range(0, len(raw), size)]


keys = st.one_of(
    st.sampled_from(
        "type role content id call_id name arguments input output output_index item item_id delta text part response "
        "status usage error model sequence_number content_index object incomplete_details summary action x".split()
    ),
    st.text(max_size=5),
)
kinds = st.sampled_from(
    "response.created response.in_progress response.output_item.added response.output_item.done response.completed "
    "response.incomplete response.failed response.output_text.delta response.function_call_arguments.delta error "
    "response.refusal.delta message function_call custom_tool_call reasoning web_search_call function_call_output "
    "item_reference local_shell_call_output assistant user completed resp_guardproxy_1".split()
)
values = st.recursive(
    scalars | kinds,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(keys, inner, max_size=4)),
    max_leaves=6,
)
objects = st.dictionaries(keys, values, max_size=5)
items = st.fixed_dictionaries(
    {"type": kinds},
    optional={"id": st.sampled_from(["a", "b", ""]), "call_id": values, "name": values, "arguments": values}
    | {"content": values, "role": st.just("assistant"), "input": values, "output": values},
)
