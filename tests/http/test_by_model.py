"""Routes that are passed on, where there are several upstreams: by the model in their body, with failover."""

from __future__ import annotations

import asyncio
import gzip
import io
import json

import aiohttp
import pytest

from guardproxy.store.redis import Store
from tests.http.test_failover import KEYS, Several, several, until
from tests.live import Said

MINE = {"b": {"models": ["embed-*"], "rename": {"embed-1": "b/embed"}}, "c": {"models": ["embed-*"]}}
BODY = b'{"model": "embed-1", "input": "x"}'

ROUTES = {
    # method, path, content type, body: who gets it
    "embeddings": ("POST", "/v1/rerank", "application/json", BODY, "b"),
    "with a charset": ("POST", "/v1/rerank", "application/json; charset=utf-8", BODY, "b"),
    "another JSON": ("POST", "/v1/x", "application/vnd.x+json", BODY, "b"),
    "another method": ("PUT", "/v1/x", "application/json", BODY, "b"),
    "another model": ("POST", "/v1/rerank", "application/json", b'{"model":"gpt-4o"}', "a"),
    "nobody's model": ("POST", "/v1/rerank", "application/json", b'{"model":"other"}', "default"),
    "no model": ("POST", "/v1/rerank", "application/json", b"{}", "default"),
    "a model that is none": ("POST", "/v1/rerank", "application/json", b'{"model":["embed-1"]}', "default"),
    "no object": ("POST", "/v1/rerank", "application/json", b"[1]", "default"),
    "no JSON": ("POST", "/v1/rerank", "application/json", b"\xff{", "default"),
    "an upload": ("POST", "/v1/audio/transcriptions", "multipart/form-data; boundary=x", b"--x--", "default"),
    "bytes": ("POST", "/v1/rerank", "application/octet-stream", BODY, "default"),
    "no body": ("GET", "/v1/models", "", b"", "default"),
}


async def ask(run: Several, method: str, path: str, kind: str, body: bytes, **more: str) -> aiohttp.ClientResponse:
    headers = {"Authorization": "Bearer k", **({"Content-Type": kind} if kind else {}), **more}
    async with run.running.client.request(method, run.running.url + path, data=body or None, headers=headers) as found:
        await found.read()
        return found


@pytest.mark.parametrize("name", ROUTES)
async def test_who_gets_it(store: Store, name: str) -> None:
    method, path, kind, body, upstream = ROUTES[name]
    async with several(store, names="abc", entries=MINE) as run:
        answer = await ask(run, method, path, kind, body)
        assert (answer.status, answer.headers["x-guardproxy-upstream"]) == (200, upstream)
        assert run.asked == [upstream]
        got = run.providers[upstream].got[0]
        assert (got.method, got.path) == (method, path)
        assert got.body == (body.replace(b"embed-1", b"b/embed") if upstream == "b" else body)
        assert got.headers["Authorization"] == f"Bearer {KEYS.get(upstream, 'k')}"
        assert got.headers.get("Content-Length", "0") == str(len(got.body))


@pytest.mark.parametrize(("status", "asked"), [(200, "b"), (400, "b"), (429, "bc"), (503, "bc")])
async def test_the_next_one_is_asked(store: Store, status: int, asked: str) -> None:
    async with several(store, names="abc", entries=MINE) as run:
        run.say(b=Said(status=status), c=Said("c"))
        answer = await ask(run, "POST", "/v1/rerank", "application/json", BODY)
        assert "".join(run.asked) == asked
        assert answer.status == (status if asked == "b" else 200)
        if asked == "bc":
            assert run.providers["c"].got[0].body == BODY, "the name is changed for b only"
            run.say(c=Said(status=502, raw=b'{"the":"last"}'))
            last = await run.running.post(BODY, path="/v1/rerank")
            assert (last.status, last.body) == (502, b'{"the":"last"}')


async def test_an_encoded_body_is_looked_into_and_stays_so_unless_it_is_renamed(store: Store) -> None:
    async with several(store, names="abc", entries=MINE) as run:
        packed = gzip.compress(BODY)
        for said in (Said(status=503), Said("b")):
            run.say(b=said)
            await ask(run, "POST", "/v1/rerank", "application/json", packed, **{"Content-Encoding": "gzip"})
        b, c = run.providers["b"].got[0], run.providers["c"].got[0]
        assert "Content-Encoding" not in b.headers
        assert json.loads(b.body)["model"] == "b/embed"
        assert c.headers["Content-Encoding"] == "gzip"
        assert c.body == BODY  # the server has decoded it


async def test_bad_bodies_and_counts(store: Store) -> None:
    async with several(store, overload={"max_body_mb": 1}) as run:
        large = b'{"model":"gpt-4o","input":"' + b"x" * (1 << 20) + b'"}'
        url, kind = f"{run.running.url}/v1/embeddings", {"Content-Type": "application/json"}
        async with run.running.client.post(url, data=io.BytesIO(large), headers=kind) as answer:
            assert (answer.status, (await answer.json())["error"]["code"]) == (400, "body_too_large")
        almost = large[: 1 << 20][:-2] + b'"}'
        async with run.running.client.post(url, data=io.BytesIO(almost), headers=kind) as answer:
            assert answer.status == 200
        assert run.providers["a"].got[0].body == almost
        run.say(a=Said("a"))
        bad = await run.running.post(b"{}", {"Content-Encoding": "zstd"}, path="/v1/rerank")
        assert (bad.status, bad.json["error"]["code"]) == (400, "unsupported_encoding")
        assert run.asked == []
        gate = asyncio.Event()
        run.say(a=Said("a", wait=gate.wait()))
        waiting = asyncio.get_running_loop().create_task(run.running.post(b'{"model":"gpt-4o"}', path="/v1/rerank"))
        await until(lambda: run.providers["a"].got)
        assert (run.running.proxy.in_flight, run.running.proxy.arriving) == (1, 0)
        gate.set()
        await waiting
        assert (run.running.proxy.in_flight, run.running.proxy.arriving) == (0, 0)


async def test_a_model_that_nobody_serves(store: Store) -> None:
    async with several(store, upstream=None) as run:
        answer = await run.running.post(b'{"model":"llama"}', path="/v1/rerank")
        assert (answer.status, answer.json["error"]["code"]) == (404, "model_not_found")
