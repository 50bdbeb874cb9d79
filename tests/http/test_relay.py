"""An answer on its way: untouched ones byte for byte, encoded or not, in whatever pieces; edited ones well-formed."""

from __future__ import annotations

import asyncio
import gzip
import json
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import aiohttp
import pytest
from aiohttp import web

from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import Answer, Json, Live, Said, live, serve, unique
from tests.scenes import Heard

CHAT = "/v1/chat/completions"
TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
ASK: Json = {"model": "mock-1", "messages": [{"role": "user", "content": "Hello"}], "tools": TOOLS}
ASKED = {"stream_options": {"include_usage": True}}
CALL = ("f", '{"a": 1}', "call_000000001")
ODD = (
    b'{ "id":"x","big":12345678901234567890, "f":1.10,\n"choices" : [{"index":0,"finish_reason":"stop","message":'
    b'{"role":"assistant","content":"\\u00e9\xc3\xa9","x":[ ]}}],"usage":{"prompt_tokens":10,"completion_tokens":5}}\n'
)


@dataclass
class Raw:
    """A provider that answers these bytes, in these pieces, with these headers."""

    parts: Sequence[bytes] = ()
    kind: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    status: int = 200
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.got.append((dict(request.headers), b"".join([part async for part in request.content.iter_any()])))
        headers = {"Content-Type": self.kind, **self.headers}
        if self.kind != "text/event-stream":
            return web.Response(status=self.status, body=b"".join(self.parts), headers=headers)
        response = web.StreamResponse(headers=headers)
        await response.prepare(request)
        for part in self.parts:
            await response.write(part)
        await response.write_eof()
        return response


@asynccontextmanager
async def over(raw: Raw, store: Store, heard: Heard, **sections: object) -> AsyncIterator[Live]:
    server = web.Server(raw.handle, access_log=None, auto_decompress=False)
    async with serve(server) as url, live(store, heard, upstream={"url": f"{url}/v1"}, **sections) as running:
        yield running


def cut_up(body: bytes, size: int) -> list[bytes]:
    return [body[at : at + size] for at in range(0, len(body), size)]


STREAM = Said("Hellö wörld", calls=[CALL]).chunks(usage=True)


def without_usage(body: bytes) -> bytes:
    return b"".join(event + b"\n\n" for event in body.split(b"\n\n") if event and b'"usage"' not in event)


async def test_a_whole_answer(store: Store, heard: Heard) -> None:
    raw = Raw([ODD], headers={"X-Request-Id": "r", "OpenAI-Processing-Ms": "7", "Set-Cookie": "a=1"})
    async with over(raw, store, heard) as running:
        answer = await running.post(ASK)
        assert answer.body == ODD
        assert answer.headers["Content-Length"] == str(len(ODD))
        assert "Transfer-Encoding" not in answer.headers
        received = {name.lower(): value for name, value in answer.headers.items()}
        assert [received[name.lower()] for name in raw.headers] == ["r", "7", "a=1"]
        assert (await heard.next()).usage.input == 10


@pytest.mark.parametrize("size", [1, 3, 64, 10_000])
@pytest.mark.parametrize("more", [ASKED, {}], ids=["untouched", "spliced"])
async def test_a_stream_in_any_pieces(size: int, more: Json, store: Store, heard: Heard) -> None:
    body = b"".join(STREAM)
    async with over(Raw(cut_up(body, size), "text/event-stream"), store, heard) as running:
        answer = await running.post({**ASK, "stream": True, **more})
        assert answer.body == (body if more else without_usage(body))
        assert "Content-Length" not in answer.headers
        report = await heard.next()
        assert (report.usage.input, report.usage.output, report.usage.estimated) == (10, 5, False)
        assert [(tool, call_id) for tool, call_id, _ in report.attempts[0].calls] == [("f", CALL[2])]


ENCODERS = {"gzip": gzip.compress, "deflate": zlib.compress, "br": lambda data: b"\x1b" + data[::-1]}


@pytest.mark.parametrize("encoding", ENCODERS)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_encoded_answer(encoding: str, stream: bool, store: Store, heard: Heard) -> None:
    """Its bytes pass; our look at a copy finds the usage, where we can read the encoding at all."""
    body = ENCODERS[encoding](b"".join(STREAM) if stream else ODD)
    kind = "text/event-stream" if stream else "application/json"
    raw = Raw(cut_up(body, 7), kind, {"Content-Encoding": encoding})
    async with over(raw, store, heard) as running:
        running.client.headers["Accept-Encoding"] = "gzip, br"
        answer = await running.post({**ASK, "stream": stream, **(ASKED if stream else {})})
        assert answer.headers["Content-Encoding"] == encoding
        assert answer.body == body
        assert raw.got[0][0]["Accept-Encoding"] == "gzip", "what we cannot read is not offered"
        report = await heard.next()
        assert (report.error_type, report.usage.estimated) == ("", encoding == "br")
        assert (report.usage.input == 10) == (encoding != "br")
        assert report.usage.input > 0
        assert await held(store) == {}


@pytest.mark.parametrize("encoding", ["gzip", "br"])
async def test_an_encoded_stream_that_breaks_off(encoding: str, store: Store, heard: Heard) -> None:
    """No word of ours may stand in it: the client sees that the connection broke."""
    body = ENCODERS[encoding](b"".join(STREAM))

    class Broken(Raw):
        async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
            response = web.StreamResponse(headers={"Content-Type": self.kind, **self.headers})
            await response.prepare(request)
            await response.write(body[: len(body) // 2])
            await asyncio.sleep(0.05)
            assert request.transport
            request.transport.abort()
            return response

    async with over(Broken((), "text/event-stream", {"Content-Encoding": encoding}), store, heard) as running:
        sending = running.client.post(running.url + CHAT, json={**ASK, "stream": True, **ASKED})
        async with sending as answer:
            with pytest.raises(aiohttp.ClientError):
                await asyncio.wait_for(answer.read(), 5)
        assert (await heard.next()).error_type == "upstream_broken"
        assert await held(store) == {}


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_an_encoded_request_that_is_not_edited_passes_as_it_is(encoding: str, store: Store, heard: Heard) -> None:
    body = ENCODERS[encoding](json.dumps(ASK).encode())
    raw = Raw([ODD])
    async with over(raw, store, heard) as running:
        await running.post(body, {"Content-Encoding": encoding})
        headers, got = raw.got[0]
        assert got == body
        assert (headers["Content-Encoding"], headers["Content-Length"]) == (encoding, str(len(body)))
        await running.post(
            ENCODERS[encoding](json.dumps({**ASK, "stream": True}).encode()), {"Content-Encoding": encoding}
        )
        headers, got = raw.got[1]
        assert json.loads(got)["stream_options"] == {"include_usage": True}
        assert "Content-Encoding" not in headers
        assert headers["Content-Length"] == str(len(got))


async def test_an_answer_that_we_edit_is_asked_for_plain(store: Store, heard: Heard) -> None:
    raw = Raw(STREAM, "text/event-stream")
    async with over(raw, store, heard) as running:
        await running.post({**ASK, "stream": True}, {"Accept-Encoding": "gzip"})
        assert raw.got[0][0]["Accept-Encoding"] == "identity"


MISMATCH = {
    "asked for a stream, got JSON": ({"stream": True}, Raw([ODD])),
    "asked for JSON, got a stream": ({"stream": False}, Raw([b"".join(STREAM)], "text/event-stream")),
    "a charset": ({}, Raw([ODD], "application/json; charset=utf-8")),
    "no type at all": ({}, Raw([ODD], "")),
    "asked for a stream, got JSON without a type": ({"stream": True}, Raw([ODD], "")),
    "asked for a stream, got JSON as text": ({"stream": True}, Raw([b"\n" + ODD], "text/plain")),
    "asked for a stream, got a stream as text": ({"stream": True, **ASKED}, Raw([b"".join(STREAM)], "text/plain")),
}


@pytest.mark.parametrize("name", MISMATCH)
async def test_another_kind_than_asked_for(name: str, store: Store, heard: Heard) -> None:
    more, raw = MISMATCH[name]
    raw.got.clear()
    async with over(raw, store, heard) as running:
        answer = await running.post({**ASK, **more})
        assert (answer.status, answer.body) == (200, raw.parts[0])
        assert (await heard.next()).usage.input == 10
        assert await held(store) == {}


ENDINGS = {
    # what the provider answers on finalize: the text and the finish reason that the client gets
    "a text": (Said("It is done."), r"It is done."),
    "text and calls": (Said("I look again.", calls=[CALL]), r"I look again."),
    "calls alone": (Said(calls=[CALL]), None),
    "three calls": (Said(calls=[CALL, ("f", "{}", "call_2"), ("g", "{}", "call_3")]), None),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", ENDINGS)
async def test_finalize(name: str, stream: bool, store: Store, heard: Heard) -> None:
    said, text = ENDINGS[name]
    async with live(store, heard, policy={"limits": {"session": {"turns": 1}}}) as running:
        running.provider.script = lambda _got: said
        answer = await running.post({**ASK, "stream": stream}, {"x-guardproxy-session-id": unique("end")})
        assert answer.verdict == "finalize"
        content, calls, finish = message_of(answer, stream=stream)
        assert content == text if text else "[guardproxy]" in content
        assert (calls, finish) == ([], "stop")
        got = running.provider.got[0].json
        assert got["tool_choice"] == "none"
        assert got["tools"] == TOOLS
        report = await heard.next()
        assert len(report.attempts[0].calls) == len(said.calls), "what the model did is told"
        assert await held(store) == {}


def message_of(answer: Answer, *, stream: bool) -> tuple[str, list[Json], str]:
    if not stream:
        choice = answer.json["choices"][0]
        return choice["message"]["content"], choice["message"].get("tool_calls") or [], choice["finish_reason"]
    assert answer.body.endswith(b"data: [DONE]\n\n")
    choices = [json.loads(event[6:])["choices"] for event in answer.body.split(b"\n\n") if event.startswith(b"data: {")]
    deltas = [choice for some in choices for choice in some]
    text = "".join(choice["delta"].get("content") or "" for choice in deltas)
    calls = [call for choice in deltas for call in choice["delta"].get("tool_calls") or []]
    return text, calls, next(choice["finish_reason"] for choice in reversed(deltas) if choice.get("finish_reason"))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_error_on_finalize_passes_as_it_is(stream: bool, store: Store, heard: Heard) -> None:
    body = b'{"error":{"message":"busy","type":"server_error","code":null,"param":null}}'
    async with live(store, heard, policy={"limits": {"session": {"turns": 1}}}) as running:
        running.provider.script = lambda _got: Said(status=503, raw=body)
        answer = await running.post({**ASK, "stream": stream}, {"x-guardproxy-session-id": unique("end")})
        assert (answer.status, answer.body, answer.verdict) == (503, body, "finalize")
        assert (await heard.next()).outcome == ""
        again = await running.post({**ASK, "stream": stream}, {"x-guardproxy-session-id": unique("end")})
        assert again.status == 503
        assert await held(store) == {}


async def test_a_last_answer_that_nobody_can_read(store: Store, heard: Heard) -> None:
    """It is edited, so nothing of what is not in its encoding is handed on: the client must not take it for one."""
    raw = Raw(STREAM, "text/event-stream", {"Content-Encoding": "gzip"})
    async with over(raw, store, heard, policy={"limits": {"session": {"turns": 1}}}) as running:
        answer = await running.post({**ASK, "stream": True}, {"x-guardproxy-session-id": unique("end")})
        assert (answer.status, answer.verdict, "Content-Encoding" in answer.headers) == (200, "finalize", False)
        assert answer.body.startswith(b'data: {"error":')
        assert (await heard.next()).error_type == "upstream_broken"
        assert await held(store) == {}


async def test_a_large_answer(store: Store, heard: Heard) -> None:
    body = Said("x" * 5_000_000).body()
    async with over(Raw([body]), store, heard) as running:
        answer = await running.post(ASK)
        assert answer.body == body
        assert (await heard.next()).usage.output == 5
