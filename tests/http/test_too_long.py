"""A refused length is known of the thread, packed or not; a report that cannot be read is told so."""

from __future__ import annotations

import gzip
from typing import Any

import pytest
from aiohttp import web

from guardproxy.core.fact import unpack_all
from guardproxy.core.model import Kind
from guardproxy.store.redis import Store
from tests.live import live, serve
from tests.scenes import Heard

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "go"}]}
REFUSAL = b'{"error":{"message":"maximum context length is 9","code":"context_length_exceeded"}}'
OTHER = b'{"error":{"message":"no such model","code":"model_not_found"}}'


@pytest.mark.parametrize(
    ("body", "encoding", "status", "known"),
    [
        (REFUSAL, "", 400, 1),
        (gzip.compress(REFUSAL), "gzip", 400, 1),
        (REFUSAL, "", 500, 1),
        (OTHER, "", 400, 0),
        (gzip.compress(REFUSAL)[:20], "gzip", 400, 0),
        (REFUSAL, "br", 400, 0),  # an encoding that is not read here
    ],
    ids=range(6),
)
async def test_a_refused_length_is_a_fact_of_the_thread(
    store: Store, heard: Heard, body: bytes, encoding: str, status: int, known: int
) -> None:
    async def refuse(_: web.BaseRequest) -> web.StreamResponse:
        headers = {"Content-Type": "application/json", **({"Content-Encoding": encoding} if encoding else {})}
        return web.Response(status=status, body=body, headers=headers)

    async with serve(refuse) as url, live(store, heard, upstream={"url": f"{url}/v1"}) as running:
        for _ in range(2):
            answer = await running.post(BODY, {"x-guardproxy-session-id": "long"})
            assert answer.status == status
        await heard.next()
        report = await heard.next()
    steps = unpack_all(report.view.ring)
    assert [step.kind for step in steps] == [Kind.TOO_LONG] * known


async def test_a_report_that_cannot_be_read_is_told_so_and_costs_nothing(store: Store, heard: Heard) -> None:
    async with live(store, heard) as running:
        refused = await running.post(BODY, {"x-guardproxy-progress": '{"artifacts":-1}'})
        taken = await running.post(BODY, {"x-guardproxy-progress": '{"artifacts":1}'})
        reached = running.provider.got
    assert refused.status == 400
    assert refused.json["error"]["param"] == "x-guardproxy-progress"
    assert "integer from 0" in refused.json["error"]["message"]
    assert taken.status == 200
    assert len(reached) == 1
    assert "x-guardproxy-progress" not in {name.lower() for name in reached[0].headers}
