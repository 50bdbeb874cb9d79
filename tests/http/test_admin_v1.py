"""The admin API over HTTP, with a real store: what is read, what is changed, and who is refused."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import aiohttp
import pytest
from aiohttp import web

from guardproxy.http.admin_v1 import PROBLEM, AdminV1
from guardproxy.http.sealed import CHECKPOINT, Held, Sealer
from guardproxy.store.approvals import Approval
from guardproxy.store.redis import Store
from tests.store.kit import Agent

ORG, KEY = "acme", b"k" * 32
CALL = Held("delete_file", '{"path":"/data/a.csv"}', b'{"role":"assistant"}')
QUESTION = Held("ask_human", "{}", b"{}", question="Which?")
JSON = {"Content-Type": "application/json"}


class Api:
    """A client of the API over the store of the test."""

    def __init__(self, client: aiohttp.ClientSession) -> None:
        self.client = client

    async def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
        """Status and body; `_` in the name of a header stands for `-`."""
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        sent = (JSON if method == "POST" else {}) | {name.replace("_", "-"): text for name, text in headers.items()}
        url = self.client._base_url.join(aiohttp.client.URL(path, encoded=True))  # type: ignore[union-attr]
        async with self.client.request(method, url, data=data, headers=sent) as answer:
            told = json.loads(await answer.read())
            kind = answer.headers["Content-Type"]
        assert kind == ("application/json" if answer.status < 400 else PROBLEM)
        if answer.status >= 400:
            assert (told["type"], told["status"]) == ("about:blank", answer.status)
            assert told["title"]
            assert told["code"]
        return answer.status, told


@asynccontextmanager
async def serving(store: Store, host: str = "127.0.0.1") -> AsyncIterator[int]:
    """The port of an admin listener."""
    app = web.Application(client_max_size=4096)
    app.add_subapp("/admin/v1", AdminV1(store, KEY, ORG).application())
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, host, 0).start()
    yield int(runner.addresses[0][1])
    await runner.cleanup()


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with serving(store) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        yield Api(client)


async def ask(store: Store, name: str, held: Held = CALL, session: str = "run-1", after_ms: int = 0) -> None:
    now = round(time.time() * 1000) + after_ms
    sealed = Sealer(KEY).seal_held(name, held)
    await store.approvals.open(ORG, Approval(name, ORG, session, "main", held.tool, now, now + 3_600_000, sealed))


async def test_from_asked_to_decided(store: Store, api: Api) -> None:
    await ask(store, "a1")
    status, told = await api("GET", "/admin/v1/approvals")

    assert (status, told["next"], len(told["items"])) == (200, None, 1)
    assert told["items"][0].items() >= {"id": "a1", "tool": "delete_file", "arguments": CALL.arguments}.items()
    status, told = await api("POST", "/admin/v1/approvals/a1/approve", {"why": "a copy", "by": "ann"})
    assert (status, told["state"], told["by"], told["why"]) == (200, "approved", "ann", "a copy")
    assert (await api("GET", "/admin/v1/approvals/a1")) == (200, told)
    assert told["message"] == '{"role":"assistant"}'
    status, told = await api("POST", "/admin/v1/approvals/a1/deny", {"why": "no"})
    assert (status, told["code"], told["title"]) == (409, "already_decided", "Conflict")
    assert told["detail"].startswith("approval a1 was approved by ann at 20")
    assert (await api("GET", "/admin/v1/approvals"))[1] == {"items": [], "next": None}


BIG = 2**70
EDITS = {
    "an object": ({"path": "b", "n": BIG, "x": 1.10, "行": "é"}, f'{{"path":"b","n":{BIG},"x":1.1,"行":"é"}}'),
    "a text": ('{"n": 1.10}', '{"n": 1.10}'),
    "no edit": (None, None),
}


@pytest.mark.parametrize("name", EDITS)
async def test_edited_arguments(name: str, store: Store, api: Api) -> None:
    given, kept = EDITS[name]
    await ask(store, "a1")
    status, told = await api("POST", "/admin/v1/approvals/a1/approve", {"arguments": given})

    assert (status, told["state"], told["edited_arguments"], told["by"]) == (200, "approved", kept, "admin")
    assert told["arguments"] == CALL.arguments


async def test_an_answer(store: Store, api: Api) -> None:
    await ask(store, "q1", QUESTION)
    status, told = await api("POST", "/admin/v1/approvals/q1/answer", {"text": "the second\n", "by": "ann"})

    assert (status, told["state"], told["answer"], told["question"]) == (200, "answered", "the second\n", "Which?")


async def test_pages_of_approvals(store: Store, api: Api) -> None:
    for number in range(7):
        await ask(store, f"a{number}", session=f"run-{number % 2}", after_ms=-1000 * number)
    found, cursor = [], "0"
    while cursor:
        _, told = await api("GET", f"/admin/v1/approvals?limit=3&cursor={cursor}")
        found.append([one["id"] for one in told["items"]])
        cursor = told["next"]

    assert found == [["a0", "a1", "a2"], ["a3", "a4", "a5"], ["a6"]]
    _, told = await api("GET", "/admin/v1/approvals?session=run-1")
    assert [one["id"] for one in told["items"]] == ["a1", "a3", "a5"]
    await api("POST", "/admin/v1/approvals/a1/deny")
    for state, ids in {"denied": ["a1"], "approved": [], "any": [f"a{number}" for number in range(7)]}.items():
        _, told = await api("GET", f"/admin/v1/approvals?state={state}")
        assert [one["id"] for one in told["items"]] == ids


async def test_pages_of_sessions(store: Store, api: Api) -> None:
    for number in range(7):
        await Agent(store, session=f"s{number}").turn()
    await api("POST", "/admin/v1/sessions/s3/pause", {"why": "x"})
    found, cursor = [], "0"
    while cursor:
        _, told = await api("GET", f"/admin/v1/sessions?limit=3&cursor={cursor}")
        found += [one["session"] for one in told["items"]]
        cursor = told["next"]

    assert sorted(found) == [f"s{number}" for number in range(7)]
    _, told = await api("GET", "/admin/v1/sessions?state=paused")
    assert [(one["session"], one["by"], one["why"]) for one in told["items"]] == [("s3", "admin", "x")]


async def test_a_run_is_steered(store: Store, api: Api) -> None:
    name = "a b/ü%2F?#é"
    await Agent(store, session=name).turn()
    path = f"/admin/v1/sessions/{quote(name, safe='')}"
    status, told = await api("GET", path)

    assert (status, told["session"], told["state"], told["turns"], told["history"]) == (200, name, "active", 1, [])
    for verb, body, state in (
        ("pause", {"why": "odd", "by": "ann"}, "paused"),
        ("resume", {}, "active"),
        ("cut", {"by": "ann"}, "closed"),
        ("reset", None, "active"),
        ("extend", {"turns": 5, "cost_usd": 0.5, "why": "more"}, "active"),
    ):
        status, told = await api("POST", f"{path}/{verb}", body)
        assert (status, told["state"]) == (200, state), (verb, told)
    assert [(one["what"].split()[0].strip(":"), one["by"], one["why"]) for one in told["history"]] == [
        ("pause", "ann", "odd"),
        ("resume", "admin", ""),
        ("cut", "ann", ""),
        ("reset", "admin", ""),
        ("extend", "admin", "more"),
    ]


async def test_a_checkpoint(store: Store, api: Api) -> None:
    await Agent(store, session="s").turn()
    assert (await api("GET", "/admin/v1/sessions/s/checkpoint"))[1]["code"] == "no_checkpoint"
    generation = await store.checkpoints.put(ORG, "s", Sealer(KEY).seal(CHECKPOINT, "s", b'[{"n":1.10}]'), 60)
    status, told = await api("GET", "/admin/v1/sessions/s/checkpoint")

    assert (status, told["generation"], told["messages"]) == (200, generation, [{"n": 1.1}])
    take = "/admin/v1/sessions/s/checkpoint/take"
    assert (await api("POST", take, {"generation": generation + 1}))[0] == 409
    assert (await api("POST", take, {"generation": generation, "by": "ann"}))[1]["messages"] == [{"n": 1.1}]
    status, told = await api("POST", take, {"generation": generation})
    assert (status, "ann" in told["detail"]) == (409, True)


DEEP = b'{"arguments":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
WRONG = {
    "no such path": ("GET", "/admin/v1/apps", None, 404, "not_found", None),
    "a verb there is none of": ("POST", "/admin/v1/sessions/s/kill", {}, 404, "not_found", None),
    "another method": ("PUT", "/admin/v1/sessions/s/pause", b"{}", 405, "invalid_request", None),
    "no such approval": ("GET", "/admin/v1/approvals/a9", None, 404, "not_found", None),
    "nothing to deny": ("POST", "/admin/v1/approvals/a9/deny", {}, 404, "not_found", None),
    "no such session": ("POST", "/admin/v1/sessions/s9/cut", {}, 404, "not_found", None),
    "no JSON": ("POST", "/admin/v1/sessions/s/cut", b"{", 400, "invalid_request", None),
    "no text": ("POST", "/admin/v1/sessions/s/cut", b"\xff", 400, "invalid_request", None),
    "no object": ("POST", "/admin/v1/sessions/s/cut", [], 400, "invalid_request", None),
    "nested": ("POST", "/admin/v1/approvals/a1/approve", DEEP, 400, "invalid_request", None),
    "NaN": ("POST", "/admin/v1/approvals/a1/approve", b'{"arguments":{"a":NaN}}', 400, "invalid_request", None),
    "much": ("POST", "/admin/v1/sessions/s/cut", b" " * ((1 << 19) + 1), 413, "invalid_request", None),
    "an unknown name": ("POST", "/admin/v1/sessions/s/cut", {"reason": "x"}, 400, "invalid_request", "reason"),
    "a why for an answer": ("POST", "/admin/v1/approvals/a1/answer", {"why": "x"}, 400, "invalid_request", "why"),
    "a number for a name": ("POST", "/admin/v1/sessions/s/cut", {"by": 1}, 400, "invalid_request", "by"),
    "a name over lines": ("POST", "/admin/v1/sessions/s/cut", {"by": "a\nb"}, 400, "invalid_request", "by"),
    "half a character": ("POST", "/admin/v1/sessions/s/cut", b'{"by":"\\ud800"}', 400, "invalid_request", "by"),
    "arguments in a list": ("POST", "/admin/v1/approvals/a1/approve", {"arguments": []}, 400, "invalid_request",
                            "arguments"),
    "a call is answered": ("POST", "/admin/v1/approvals/a1/answer", {"text": "x"}, 409, "is_no_question", None),
    "an answer that says nothing": ("POST", "/admin/v1/approvals/a1/answer", {}, 400, "invalid_request", "text"),
    "more of nothing": ("POST", "/admin/v1/sessions/s/extend", {}, 400, "invalid_request", "amounts"),
    "more of what is not": ("POST", "/admin/v1/sessions/s/extend", {"turn": 1}, 400, "invalid_request", "turn"),
    "less": ("POST", "/admin/v1/sessions/s/extend", {"turns": -1}, 400, "invalid_request", "turns"),
    "true turns": ("POST", "/admin/v1/sessions/s/extend", {"turns": True}, 400, "invalid_request", "turns"),
    "endless": ("POST", "/admin/v1/sessions/s/extend", b'{"turns":1e999}', 400, "invalid_request", "turns"),
    "too many": ("POST", "/admin/v1/sessions/s/extend", {"turns": 10**400}, 400, "invalid_request", "turns"),
    "a generation in words": ("POST", "/admin/v1/sessions/s/checkpoint/take", {"generation": "1"}, 400,
                              "invalid_request", "generation"),
    "no such state": ("GET", "/admin/v1/sessions?state=open", None, 400, "invalid_request", "state"),
    "no such state of approvals": ("GET", "/admin/v1/approvals?state=open", None, 400, "invalid_request", "state"),
    "no limit": ("GET", "/admin/v1/sessions?limit=0", None, 400, "invalid_request", "limit"),
    "a large limit": ("GET", "/admin/v1/approvals?limit=201", None, 400, "invalid_request", "limit"),
    "a limit in words": ("GET", "/admin/v1/sessions?limit=x", None, 400, "invalid_request", "limit"),
    "other digits": ("GET", "/admin/v1/sessions?limit=%C2%B2", None, 400, "invalid_request", "limit"),
    "a cursor of nobody": ("GET", "/admin/v1/sessions?cursor=-1", None, 400, "invalid_request", "cursor"),
    "an unknown filter": ("GET", "/admin/v1/sessions?sate=paused", None, 400, "invalid_request", "sate"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
async def test_what_is_refused(name: str, store: Store, api: Api) -> None:
    method, path, body, status, code, param = WRONG[name]
    await Agent(store, session="s").turn()
    await ask(store, "a1")
    got, told = await api(method, path, body)

    assert (got, told["code"], told.get("param")) == (status, code, param), told
    assert len(told["detail"]) < 300
    assert (await api("GET", "/admin/v1/approvals/a1"))[1]["state"] == "pending"
    assert (await api("GET", "/admin/v1/sessions/s"))[1]["history"] == []


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data"])
async def test_a_page_cannot_change_anything(kind: str, store: Store, api: Api) -> None:
    """What a page may send elsewhere without being asked first."""
    await ask(store, "a1")
    status, told = await api("POST", "/admin/v1/approvals/a1/approve", {}, Content_Type=kind)

    assert (status, told["code"]) == (415, "unsupported_media_type")
    assert (await api("GET", "/admin/v1/approvals/a1"))[1]["state"] == "pending"


def _address() -> str:
    """An address of this machine that is not of the loopback; nothing is sent."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            sock.connect(("192.0.2.1", 9))
        except OSError:
            return ""
        found = str(sock.getsockname()[0])
    return "" if found.startswith("127.") else found


@pytest.mark.skipif(not _address(), reason="this machine has no address but the loopback")
async def test_nobody_on_the_network_is_answered(store: Store) -> None:
    """Not by an address, and not by the name of the loopback either; on the same listener the loopback is."""
    async with serving(store, "0.0.0.0") as port:
        for address, host, status in ((_address(), "", 403), (_address(), "localhost", 403), ("127.0.0.1", "", 200)):
            async with aiohttp.ClientSession(f"http://{address}:{port}") as client:
                got, told = await Api(client)("GET", "/admin/v1/approvals", **({"Host": host} if host else {}))
            assert got == status, (address, host)
            assert status == 200 or told["code"] == "not_local"


async def test_a_store_that_is_away() -> None:
    away = await Store.connect("redis://127.0.0.1:9", timeout_ms=250, required=False)
    async with serving(away) as port, aiohttp.ClientSession(f"http://127.0.0.1:{port}") as client:
        for path in ("approvals", "sessions", "sessions/s"):
            status, told = await Api(client)("GET", f"/admin/v1/{path}")
            assert (status, told["code"], told["title"]) == (503, "store_unavailable", "Service Unavailable")
    await away.close()


HOSTS = {
    "127.0.0.1": 200,
    "127.0.0.1:8788": 200,
    "localhost": 200,
    "LocalHost.:80": 200,
    "[::1]:8788": 200,
    "127.0.0.2": 200,
    "evil.example": 403,
    "evil.example:8788": 403,
    "localhost.evil.example": 403,
    "127.0.0.1.evil.example": 403,
    "10.0.0.1": 403,
    "[": 403,
    ":": 403,
}


@pytest.mark.parametrize("host", HOSTS)
async def test_a_page_cannot_read_by_a_name_of_its_own(host: str, api: Api) -> None:
    """DNS rebinding: the page's name points here, so that the browser takes our answers for the page's."""
    status, told = await api("GET", "/admin/v1/approvals", Host=host)

    assert status == HOSTS[host], told
