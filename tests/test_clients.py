"""Real clients: what was tried is what is shown; and the parts that try them, without any client (`make clients`)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from tests.clients import GATES, Client, Way, clients, fill, table
from tests.clients.provider import scripted
from tests.clients.scenes import SCENES, Played, Wrong, judge, results_in, spell, wanted
from tests.clients.tap import Exchange, Message, said, tap
from tests.live import Said, serve
from tests.surfaces import SURFACES

CLIENTS = {client.name: client for client in clients()}
WAY = Way("chat", {"surface": "chat", "call": {"tool": "read", "arguments": {"path": "{file}"}}})
TOOLS = [{"type": "function", "function": {"name": "read"}}]


def test_the_page_shows_what_was_found() -> None:
    """`python -m tests.clients --table` writes it anew."""
    assert table.shown() == table.table()
    page = table.PAGE.read_text("utf-8")
    assert (page.count(table.BEGIN), page.count(table.END)) == (1, 1)


def test_the_gates_are_there() -> None:
    assert set(GATES) <= CLIENTS.keys()


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())
def test_every_client_was_tried_as_its_file_says(client: Client) -> None:
    found = table.results()[client.name]
    assert found["packages"] == list(client.packages), "another version was tried: make clients"
    assert list(found["ways"]) == sorted(way.name for way in client.ways)
    for way in client.ways:
        assert set(found["ways"][way.name]) == set(wanted(way)), way.name


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())
def test_every_scene_is_green_or_has_its_reason(client: Client) -> None:
    results = [
        (way, scene, one)
        for way, scenes in table.results()[client.name]["ways"].items()
        for scene, one in scenes.items()
    ]
    assert [one for one in results if not one[2].get("ok")] == []


@pytest.mark.parametrize("client", CLIENTS.values(), ids=CLIENTS.keys())
def test_a_client_needs_no_more_than_a_few_lines(client: Client) -> None:
    shown = client.data["setup"]
    lines = [*shown.get("env", {}), *"".join([*shown.get("files", {}).values(), shown.get("code", "")]).split("\n")]
    assert len([line for line in lines if line.strip()]) <= 8
    assert SURFACES.keys() >= {way.get("surface") for way in client.ways}
    for way in client.ways:
        assert way.get("session", "derived").partition(" ")[0] in ("derived", "header", "body", "path")


def test_names_in_braces_are_put_in_and_other_braces_stay() -> None:
    assert fill({"a": ["{base}/v1", "{ }", 3]}, {"base": "http://x"}) == {"a": ["http://x/v1", "{ }", 3]}


async def test_what_goes_through_the_tap_is_unchanged_and_kept() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers.get("upgrade"):
            return web.Response(status=426)
        response = web.StreamResponse(headers={"x-guardproxy-verdict": "observe", "x-guardproxy-rule": "r"})
        await response.prepare(request)
        for part in (await request.read(), b"\n: guardproxy action=cut rule=q\n"):
            await response.write(part)
        return response

    async with serve(answer) as url:
        port = int(url.rpartition(":")[2])
        async with tap("127.0.0.1", port) as (mine, seen), aiohttp.ClientSession() as session:
            base = f"http://127.0.0.1:{mine}"
            async with session.get(f"{base}/ws", headers={"Upgrade": "websocket", "Connection": "Upgrade"}) as got:
                assert got.status == 426
            for number in range(2):  # over one connection
                async with session.post(f"{base}/x?y", json={"n": number}) as got:
                    body = await got.read()
                    assert body.startswith(b'{"n": %d}' % number)
    assert [(one.method, one.path, one.status) for one in seen] == [
        ("GET", "/ws", 426),
        ("POST", "/x?y", 200),
        ("POST", "/x?y", 200),
    ]
    assert [one.request.json for one in seen] == [None, {"n": 0}, {"n": 1}]
    assert seen[-1].answer.body == body
    assert list(said(seen[-1])) == [("observe", "r"), ("cut", "q")]


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES.keys())
async def test_answers_have_ids_of_their_own(surface: Any) -> None:
    """A client may take two answers with one id for one answer: Claude Code does."""
    async with scripted() as (provider, base), aiohttp.ClientSession() as session:
        provider.play(SCENES["deaf"].script(WAY), tools=True)
        asked = surface.request({"model": "m", "messages": [{"role": "user", "content": "q"}], "tools": TOOLS})
        ids, calls = set(), set()
        for _ in range(3):
            async with session.post(base.removesuffix("/v1") + surface.PATH, json=asked) as got:
                body = await got.read()
            ids.add(json.loads(body)["id"])
            calls.add(surface.answer(body, stream=False)[0]["tool_calls"][0]["id"])
        toolless = {**asked, "tools": []}
        async with session.post(base.removesuffix("/v1") + surface.PATH, json=toolless) as got:
            await got.read()
    assert (len(ids), len(calls), len(provider.turns)) == (3, 3, 3)


async def test_a_model_says_nothing_more_once_the_run_was_cut() -> None:
    called = asyncio.Event()

    async def cut() -> None:
        called.set()

    async with scripted() as (provider, base), aiohttp.ClientSession() as session:
        provider.play(SCENES["cut"].script(WAY), tools=True, cut=(0, cut))
        asked = asyncio.ensure_future(session.post(f"{base}/chat/completions", json={"messages": [], "tools": TOOLS}))
        await called.wait()
        assert not asked.done()
        asked.cancel()


def played(*turns: tuple[str, Said], code: int | None = 0, output: str = "The note says hello.") -> Played:
    """A run whose turns went so: what the proxy said, and the model's answer."""
    exchanges, sent = [], []
    for number, (action, answer) in enumerate(turns):
        body = SURFACES["chat"].whole(answer)
        headers = {"x-guardproxy-verdict": action, "x-guardproxy-session-id": "d-1"}
        asked = Message("POST /v1/chat/completions", {}, json.dumps({"tools": TOOLS}).encode())
        exchanges.append(Exchange(asked, Message(str(answer.status), headers, body), number))
        sent.append(type("Turn", (), {"sent": body, "body": {"messages": ["[guardproxy] again"]}}))
    return Played(WAY, exchanges, sent, code, output)


CALL = Said(calls=[("read", '{"path": "note.txt"}', "call_n00000000")])
LAST = Said("The note says hello.")
RUNS: dict[str, tuple[str, Played, str]] = {
    "healthy": ("healthy", played(*[("pass", CALL)] * 4, ("pass", LAST)), ""),
    "a nudge on a healthy run": ("healthy", played(*[("nudge", CALL)] * 4, ("pass", LAST)), "was told nudge"),
    "an answer that never came": ("healthy", played(*[("pass", CALL)] * 4, ("pass", LAST), output=""), "is missing"),
    "a client that does not end": ("healthy", played(("pass", LAST), code=None), "did not end"),
    "a loop": ("deaf", played(*[("pass", CALL)] * 3, ("nudge", CALL), ("finalize", LAST)), ""),
    "no nudge": ("deaf", played(*[("pass", CALL)] * 4, ("finalize", LAST)), "not nudged"),
    "a fifth call": ("deaf", played(*[("nudge", CALL)] * 5, ("finalize", LAST)), "5 equal calls"),
    "a loop without an end": ("deaf", played(*[("nudge", CALL)] * 3), "not ended"),
    "a client that hammers": ("deaf", played(("nudge", CALL), *[("cut", LAST)] * 4), "3 requests, at most 0"),
    "a failure at the end": ("deaf", played(("nudge", CALL), ("cut", LAST), code=1), "exit 1"),
    "a cut": ("cut", played(("pass", CALL), ("pass", CALL), ("cut", LAST)), ""),
    "a cut too early": ("cut", played(("cut", LAST)), "too early"),
    "refused": ("refused", Played(WAY, played(("deny", Said(status=400))).exchanges, [], 0, ""), ""),
    "asked all the same": ("refused", played(("deny", Said(status=400))), "provider was asked"),
}


@pytest.mark.parametrize("name", RUNS)
def test_a_scene_is_judged_by_what_went_over_the_wire(name: str) -> None:
    scene, run, why = RUNS[name]
    if not why:
        judge(SCENES[scene], run)
        return
    with pytest.raises(Wrong, match=why):
        judge(SCENES[scene], run)


def test_a_healthy_run_that_was_changed_on_its_way() -> None:
    run = played(*[("pass", CALL)] * 4, ("pass", LAST))
    run.exchanges[1].answer.body += b" "
    with pytest.raises(Wrong, match="changed on its way"):
        judge(SCENES["healthy"], run)


@pytest.mark.parametrize(
    ("session", "right"),
    [("derived", True), ("header x-id", False), ("body metadata.user.id", False), ("path", False)],
)
def test_the_name_of_a_run_comes_from_where_the_file_says(session: str, right: bool) -> None:
    run = played(*[("pass", CALL)] * 4, ("pass", LAST))
    run.way = Way("chat", {**WAY.data, "session": session})
    if right:
        judge(SCENES["healthy"], run)
        return
    with pytest.raises(Wrong, match="the run is called"):
        judge(SCENES["healthy"], run)
    run.run = "d-1"
    for one in run.exchanges:
        one.request.headers["x-id"] = "d-1"
        one.request.body = json.dumps({"tools": TOOLS, "metadata": {"user": '{"id": "d-1"}'}}).encode()
    judge(SCENES["healthy"], run)


@pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES.keys())
def test_results_are_found_on_every_surface(surface: Any) -> None:
    listed = [{"role": "user", "content": "q"}, CALL.message()]
    listed.append({"role": "tool", "tool_call_id": "call_n00000000", "content": "hello"})
    for messages, found in ((listed[:2], []), (listed, ["call_n00000000"])):
        assert list(results_in(surface.request({"model": "m", "messages": messages}))) == found


def test_actions_in_short() -> None:
    assert spell(["pass", "pass", "nudge"]) == "pass ×2, nudge"
