"""Calls in odd spellings, end to end: what is forbidden, or waits for a person, reaches no agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.api.lenient import names
from tests.http.test_guarded import TOOLS, then
from tests.live import Said, live, unique

BASE = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
DONE = b"data: [DONE]\n\n"


def ev(said: Any, finish: str | None = None, key: str = "delta", end: bytes = b"\n\n", **choice: Any) -> bytes:
    """An event of one choice."""
    return data({"choices": [{"index": 0, key: said, "finish_reason": finish, **choice}]}, end)


def data(payload: Any, end: bytes = b"\n\n") -> bytes:
    return b"data: " + json.dumps(BASE | payload).encode() + end


def tc(name: str | None = "delete", arguments: str = "{}", index: int = 0, **more: Any) -> dict[str, Any]:
    """A delta with one call."""
    inner = {"arguments": arguments, **({"name": name} if name is not None else {})}
    return {"tool_calls": [{"index": index, "function": inner, **more}]}


def one(value: dict[str, Any]) -> dict[str, Any]:
    """The same with an object in the place of the list."""
    return {"tool_calls": value["tool_calls"][0]}


LEGACY = {"function_call": {"name": "delete", "arguments": "{}"}}
STOP = ev({}, "tool_calls")
READ = tc("read", '{"path":"a"}', id="r1")
SHORT = json.dumps(BASE | {"choices": [{"index": 0, "delta": tc()}]})
STREAMS: dict[str, list[bytes]] = {
    "a second choice": [ev({"content": "so"}), ev(tc(), index=1), STOP],
    "a second choice beside the first": [data({"choices": [{"index": 0, "delta": {}}, {"index": 1, "delta": tc()}]})],
    "choices of one number": [
        data({"choices": [{"index": 0, "delta": {"content": "x"}}, {"index": 0, "delta": tc()}]})
    ],
    "choices without a number": [data({"choices": [{"delta": {"content": "x"}}, {"delta": tc()}]}), STOP],
    "choices as an object": [data({"choices": {"index": 0, "delta": tc()}}), STOP],
    "choices by number": [data({"choices": {"0": {"delta": tc()}}}), STOP],
    "a call as an object": [ev(one(tc())), STOP],
    "a call as an object in a message": [ev(one(tc()), key="message"), STOP],
    "a message beside a delta": [ev({}, "tool_calls", message=tc())],
    "a message after text": [ev({"content": "so"}), ev(tc(), "tool_calls", key="message")],
    "a name in pieces": [ev(tc("del", "")), ev(tc("ete", "")), ev(tc(None)), STOP],
    "a name in pieces, after the end": [ev(tc("del", "")), STOP, ev(tc("ete", "")), STOP],
    "a name in pieces over choices": [ev(tc("del", "")), ev(tc("ete", ""), index=1), STOP],
    "another name afterwards": [ev(tc("read", '{"path":', id="a")), ev(tc("delete", '"b"}', id="a")), STOP],
    "a mark of byte order": [b"\xef\xbb\xbf" + ev(tc()), STOP],
    "a mark of byte order in the data": [ev(tc()).replace(b"data: ", b"data: \xef\xbb\xbf"), STOP],
    "bytes that are no text": [ev({"content": "CC", **tc()}).replace(b"CC", b"\xe9"), STOP],
    "such bytes in the name": [ev(tc()).replace(b"delete", b"del\xffete"), STOP],
    "a number without end": [ev(tc(), logprobs="X").replace(b'"X"', b"1" * 5000), STOP],
    "no number": [ev(tc(), logprobs="X").replace(b'"X"', b"-Infinity"), STOP],
    "a key twice": [data({"choices": []}).replace(b"}", b', "choices": [{"delta": %s}]}' % json.dumps(tc()).encode())],
    "a key twice, the first counts": [
        data({"choices": [{"delta": tc()}]}).replace(b"}\n", b', "choices": []}\n'),
        STOP,
    ],
    "capital letters": [ev(tc()).replace(b"tool_calls", b"Tool_Calls"), STOP],
    "an escaped key": [ev(tc()).replace(b"tool_calls", b"tool\\u005fcalls"), STOP],
    "more than JSON": [ev(tc())[:-2] + b" x\n\n", STOP],
    "the older kind beside another": [ev({**READ, **LEGACY}), STOP],
    "the older kind first": [ev(LEGACY), ev(READ), STOP],
    "the older kind in another choice": [ev({"content": "so"}), ev(LEGACY, index=1), STOP],
    "two holders": [ev({"tool_calls": [{**tc("read")["tool_calls"][0], "custom": {"name": "delete"}}]}), STOP],
    "an own tool": [ev({"tool_calls": [{"index": 0, "custom": {"name": "delete", "input": "x"}}]}), STOP],
    "no holder": [ev({"tool_calls": [{"name": "delete", "arguments": "{}"}]}), STOP],
    "lines that end alone": [ev({"content": "so"}, end=b"\n"), ev(tc(), end=b"\n"), ev({}, "tool_calls", end=b"\n")],
    "a line in the place of an event": [SHORT.encode() + b"\n\n", STOP],
    "two lines of data": [SHORT.replace(', "choices"', ',\ndata: "choices"').join(["data: ", "\n\n"]).encode(), STOP],
    "carriage returns": [ev(tc(), end=b"\r\r"), ev({}, "tool_calls", end=b"\r\r")],
    "an event with a name": [b"event: x\n" + ev(tc()), STOP],
    "with the end": [ev(tc(), "tool_calls")],
    "after the end": [ev({"content": "so"}), ev({}, "stop"), ev(tc()), STOP],
    "indices far apart": [ev(tc(index=10**9)), ev(tc("read", index=0)), STOP],
    "an error beside": [data({"choices": [{"delta": {**tc()}}], "error": {"message": "half"}})],
}
TEXT = {"index": 0, "message": {"role": "assistant", "content": "so"}, "finish_reason": "stop"}
CALL = {"index": 0, "message": {"role": "assistant", "content": None, **tc()}, "finish_reason": "tool_calls"}
BODIES: dict[str, bytes] = {
    name: json.dumps({**BASE, "choices": choices, "logprobs": "X"}).encode()
    for name, choices in {
        "a second choice": [TEXT, {**CALL, "index": 1}],
        "choices of one number": [TEXT, CALL],
        "choices as an object": CALL,
        "a delta": [{"index": 0, "delta": tc()}],
        "a call as an object": [{"message": one(tc())}],
        "calls by number": [{"message": {"tool_calls": {"0": tc()["tool_calls"][0]}}}],
        "the older kind beside another": [{"message": {**READ, **LEGACY}}],
        "the older kind in another choice": [TEXT, {"index": 1, "message": LEGACY}],
        "two holders": [{"message": {"tool_calls": [{"function": {"name": "read"}, "custom": {"name": "delete"}}]}}],
    }.items()
}
PLAIN = json.dumps({**BASE, "choices": [CALL], "logprobs": "X"}).encode()
BODIES |= {
    "a mark of byte order": b"\xef\xbb\xbf" + PLAIN,
    "a number without end": PLAIN.replace(b'"X"', b"1" * 5000),
    "bytes that are no text": PLAIN.replace(b'"X"', b'"\xe9"'),
    "a key twice": PLAIN[:-1] + b', "choices": []}',
    "more than JSON": PLAIN + b" x",
    "a list": b"[" + PLAIN + b"]",
    "an error beside": PLAIN[:-1] + b', "error": {"message": "half"}}',
}


@pytest.mark.parametrize("rule", ["deny", "approval"])
async def test_no_odd_spelling_reaches_the_agent(store: Store, rule: str) -> None:
    cases = [(name, b"".join([*parts, DONE]), True) for name, parts in STREAMS.items()]
    cases += [(name, raw, False) for name, raw in BODIES.items()]
    assert [name for name, raw, stream in cases if not names(raw, stream=stream)] == []
    async with live(store, policy={"refuse": "enforce"}, tools={rule: ["delete"]}) as running:
        for name, raw, stream in cases:
            running.provider.script = then(Said(raw=raw), Said("fine"))
            body = {"model": "m", "messages": [{"role": "user", "content": name}], "tools": TOOLS, "stream": stream}
            got = await running.post(body, {"x-guardproxy-session-id": unique("odd")})
            assert got.status in (200, 502), name
            assert "delete" not in names(got.body, stream=stream), (name, stream, got.body)


async def test_odd_spellings_that_nobody_forbids_stay_as_they_are(store: Store) -> None:
    changed = {"such bytes in the name", "bytes that are no text", "a key twice", "a key twice, the first counts"}
    changed |= {"capital letters", "more than JSON", "a line in the place of an event"}
    async with live(store, policy={"refuse": "enforce"}, tools={"deny": ["drop"]}) as running:
        for name, parts in STREAMS.items():
            raw = b"".join([*parts, DONE])
            running.provider.script = then(Said(raw=raw))
            body = {"model": "m", "messages": [{"role": "user", "content": name}], "tools": TOOLS, "stream": True}
            got = await running.post(body, {"x-guardproxy-session-id": unique("odd")})
            assert (got.body == raw) == (name not in changed), (name, got.body)
