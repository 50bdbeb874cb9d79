"""No forbidden call reaches an agent on /v1/messages in a spelling that only some read; see `test_spellings`."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.http.test_guarded import TOOLS
from tests.live import Said, live, unique
from tests.surfaces import SURFACES

MESSAGES = SURFACES["messages"]
CALL = '{"type":"tool_use","id":"t1","name":"delete","input":{}}'
CAPITAL = CALL.replace('"name"', '"name":"read","Name"')
DONE = '"stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}'


def ev(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: {json.dumps({'type': kind, **fields})}\n\n".encode()


def block(index: int, name: str, call_id: str = "t1", kind: str = "tool_use") -> bytes:
    """A call, as the events of a stream."""
    begun = {"type": kind, "id": call_id, "name": name, "input": {}}
    piece = {"type": "input_json_delta", "partial_json": '{"path":"x"}'}
    return (
        ev("content_block_start", index=index, content_block=begun)
        + ev("content_block_delta", index=index, delta=piece)
        + ev("content_block_stop", index=index)
    )


def begins(raw: str) -> bytes:
    """A block whose beginning is spelled like this."""
    return f"event: content_block_start\ndata: {raw}\n\n".encode() + ev("content_block_stop", index=0)


HEAD: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []}
START = ev("message_start", message={**HEAD, "stop_reason": None, "usage": {"input_tokens": 1, "output_tokens": 1}})
STOP = ev("message_stop")
END = ev("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 3}) + STOP
STREAMS = {
    "an id again, another name": START + block(0, "read") + block(0, "delete") + END,
    "an id again, of no call": START + block(0, "web_search", kind="server_tool_use") + block(0, "delete") + END,
    "no ids": START + block(0, "read", "") + block(0, "delete", "") + END,
    "a whole answer as an event": f'data: {{"type":"message","content":[{CALL}],{DONE}}}\n\n'.encode() + STOP,
    "a whole answer behind the first": START + block(0, "read")
    + f'data: {{"type":"message","content":[{CALL}],{DONE}}}\n\n'.encode() + STOP,
    "a whole answer without its kind": f'data: {{"content":[{CALL}],{DONE}}}\n\n'.encode() + STOP,
    "in the beginning": START.replace(b'"content": []', b'"content": [' + CALL.encode() + b"]") + END,
    "a capital name": START
    + begins('{"type":"content_block_start","index":0,"content_block":' + CAPITAL + "}")
    + END,
    "the kind in the event alone": START + begins('{"index":0,"content_block":' + CALL + "}") + END,
    "no event's name": START + block(0, "delete").replace(b"event: content_block_start\n", b"") + END,
    "carriage returns": START + block(0, "delete").replace(b"\n", b"\r") + END,
    "no number of JSON": START
    + begins('{"type":"content_block_start","index":0,"x":NaN,"content_block":' + CALL + "}") + END,
    "escapes": START + begins('{"type":"content_block_start","index":0,"content_block":'
    + CALL.replace("_", "\\u005f").replace("delete", "del\\u0065te") + "}") + END,
}  # fmt: skip
ANSWERS = {
    "a capital name": CAPITAL,
    "a call and an error": CALL + '],"error":{"type":"x"},"x":[',
    "twice": CALL + '],"content":[',
    "a capital list": '],"Content":[' + CALL,
}  # fmt: skip


@pytest.mark.parametrize("rule", ["deny", "approval"])
async def test_no_odd_spelling_reaches_the_agent(store: Store, rule: str) -> None:
    whole = {name: f'{{"type":"message","content":[{raw}],{DONE}}}'.encode() for name, raw in ANSWERS.items()}
    cases = [(name, raw, True) for name, raw in STREAMS.items()] + [(name, raw, False) for name, raw in whole.items()]
    given = []
    async with live(store, surface=MESSAGES, policy={"refuse": "enforce"}, tools={rule: ["delete"]}) as running:
        for name, raw, stream in cases:
            answers = [Said(raw=raw), Said("Well.")]
            running.provider.script = lambda _got, left=answers: left.pop(0) if len(left) > 1 else left[0]  # type: ignore[misc]
            body = {"model": "m", "messages": [{"role": "user", "content": "Go."}], "tools": TOOLS, "stream": stream}
            answer = await running.post(MESSAGES.request(body), {"x-guardproxy-session-id": unique("spelled")})
            assert answer.status == 200, name
            said = answer.body.replace(b"`delete`", b"")
            given += [name] if b"delete" in said or b"del\\u0065te" in said else []
            if stream:
                assert answer.body.count(b"event: message_stop\n") == 1, name
    assert given == []
