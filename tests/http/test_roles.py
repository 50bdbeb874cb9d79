"""Every route of the admin API with every role, another organisation's objects, and what is written of it. The table is
made of the routes: a route that is added is in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from guardproxy.http import objects
from guardproxy.http.auditing import Actor
from guardproxy.http.objects._route import Route
from guardproxy.store.redis import Store
from guardproxy.store.tokens import ROLES
from tests.http import admin_api
from tests.http.admin_api import IDS, Api
from tests.store.kit import everything

ROUTES = objects.ROUTES
CHANGES = [route for route in ROUTES if route.changes]
STATES = {"resume": "pause", "reset": "cut"}
"""What is done before a verb has something to do."""


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        await made.fill()
        yield made


def name(route: Route) -> str:
    return route.name


async def a_path(api: Api, route: Route, org: str = "") -> str:
    """The route's path for something that is there."""
    kind = route.path.split("/")[1]
    one = IDS.get(kind, "x1")
    if kind == "tokens" and "{" in route.path:
        made, _ = await api.keyring.create("spare", "viewer", Actor("a test"))
        one = made.id
    one = "q1" if route.path.endswith("/answer") else one
    one = "spare" if route.method == "DELETE" and kind in ("orgs", "teams") else one
    return route.path.replace("{id}", one) + (f"?org={org}" if org else "")


async def every_role(api: Api) -> None:
    await api.token("root", "owner")
    for role in ROLES:
        await api.token(role, role)
        await api.token(f"{role} of other", role, org="other")
    for gone in ("revoked", "late"):
        await api.token(gone, "owner", for_ms=1 if gone == "late" else 0)
    await api.keyring.revoke((await api.keyring.find(api.secrets["revoked"])).token.id, Actor("a test"))  # type: ignore[union-attr]
    api.secrets |= {"made up": "gpa-" + "x" * 43, "empty": "", "cut": api.secrets["owner"][:-1]}
    await asyncio.sleep(0.01)


@pytest.mark.parametrize("route", ROUTES, ids=name)
async def test_who_is_refused(route: Route, api: Api) -> None:
    """No token, one that is none or no more, too low a role: refused, nothing done and nothing written."""
    await every_role(api)
    path = await a_path(api, route)
    before = await api.entries()
    for who in ("", "revoked", "late", "made up", "empty", "cut"):
        got = await api.ask(route.method, path, route.example, who)
        assert (got.status, got.code) == (401, "no_token" if who in ("", "empty") else "bad_token"), (who, got.body)
        assert got.headers["WWW-Authenticate"].startswith("Bearer")
    for role in ROLES[: ROLES.index(route.role)]:
        got = await api.ask(route.method, path, route.example, role)
        assert (got.status, got.code) == (403, "role"), (role, got.body)

    assert await api.entries() == before


SUFFICES = [(role, route) for route in ROUTES for role in ROLES[ROLES.index(route.role) :]]


@pytest.mark.parametrize(("role", "route"), SUFFICES, ids=[f"{role} {route.name}" for role, route in SUFFICES])
async def test_who_is_answered(role: str, route: Route, api: Api) -> None:
    """A role that suffices is answered; what it changed is in the audit with its name, once."""
    await every_role(api)
    path = await a_path(api, route)
    verb = STATES.get(path.rpartition("/")[2])
    if verb:
        assert (await api.ask("POST", path.rpartition("/")[0] + f"/{verb}", {}, "root")).status == 200
    before = await api.entries()
    got = await api.ask(route.method, path, route.example, role)
    new = [one for one in await api.entries() if one not in before]

    assert got.status not in (401, 403), got.body
    if route.path.split("/")[1] in (*IDS, "tokens", "panic", "audit"):
        assert got.status in (route.status, *route.also), got.body
    written = [(one.actor, one.kind, one.role, one.address) for one in new]
    assert written == ([(role, "token", role, "127.0.0.1")] if route.changes and got.status < 300 else [])
    assert all(one.diff for one in new)


@pytest.mark.parametrize("route", ROUTES, ids=name)
async def test_another_tenants_objects(route: Route, api: Api) -> None:
    """A token for one organisation: another's objects are refused, and not there under its own."""
    await every_role(api)
    before = await api.entries()
    who = f"{route.role} of other"
    if route.about == "whole":
        got = await api.ask(route.method, await a_path(api, route), route.example, who)
        assert (got.status, got.code) == (403, "other_org")
    else:
        got = await api.ask(route.method, await a_path(api, route, "acme"), route.example, who)
        assert (got.status, got.code) in {(403, "other_org"), (400, "invalid_request")}, got.body
        got = await api.ask(route.method, await a_path(api, route), route.example, who)
        assert got.status in (200, 404) or got.code == "other_org", got.body
        assert "acme" not in str(got.body)
        assert {one.get("org", one.get("name")) for one in got.body.get("items", [])} <= {"other"}

    assert [one for one in await api.entries() if one.actor not in ("a test", "root")] == [
        one for one in before if one.actor not in ("a test", "root")
    ]


@pytest.mark.parametrize("route", ROUTES, ids=name)
async def test_without_tokens(route: Route, api: Api) -> None:
    """As before there were any: no log-in, the loopback alone, by its own names, and nobody who was forwarded."""
    path = await a_path(api, route)
    if "tokens" in path:
        await api.store._client.command("DEL", "gp:admin{admin}:tokens")
        path = route.path.replace("{id}", "none")
    for header in ({"Host": "evil.example"}, {"X_Forwarded_For": "1.2.3.4"}, {"Forwarded": "for=1.2.3.4"}):
        got = await api.ask(route.method, path, route.example, **header)
        assert (got.status, got.code) == (403, "wrong_host" if "Host" in header else "not_local")
    got = await api.ask(route.method, path, route.example)

    assert got.status in (200, 201, 404, 409), got.body


@pytest.mark.parametrize("route", [route for route in CHANGES if route.etag], ids=name)
async def test_an_etag_that_is_stale(route: Route, api: Api) -> None:
    """Who saw another state changes nothing; who saw this one does, once."""
    await api.token("root", "owner")
    path = await a_path(api, route)
    verb = STATES.get(path.rpartition("/")[2])
    whole = path.rpartition("/")[0] if route.path.count("/") == 3 else path
    old = (await api.ask("GET", whole, None, "root")).headers["ETag"]
    if verb:
        await api.ask("POST", f"{whole}/{verb}", {}, "root")
    seen = await api.ask("GET", whole, None, "root")
    before = await api.entries()
    for etag in ('"another"', old if verb else '"x-1"'):
        got = await api.ask(route.method, path, route.example, "root", If_Match=etag)
        assert (got.status, got.code) == (412, "stale"), got.body
    assert (await api.ask("GET", whole, None, "root")).body == seen.body
    assert await api.entries() == before
    for etag in ("another", 'W/"another"', '"a", "b"', ""):
        got = await api.ask(route.method, path, route.example, "root", If_Match=etag)
        assert (got.status, got.body["param"]) == (400, "If-Match"), etag
    done = await api.ask(route.method, path, route.example, "root", If_Match=seen.headers["ETag"])

    assert done.status in (route.status, *route.also), done.body
    assert done.headers.get("ETag") != seen.headers["ETag"]
    again = await api.ask(route.method, path, route.example, "root", If_Match=seen.headers["ETag"])
    assert again.status in ((404,) if route.method == "DELETE" else (409, 412)), again.body


async def test_of_ten_who_saw_the_same_one_changes_it(api: Api) -> None:
    """The store compares, in the step that changes: not this process."""
    await api.token("root", "owner")
    etag = (await api.ask("GET", "/sessions/run-1", None, "root")).headers["ETag"]
    asked = [api.ask("POST", "/sessions/run-1/extend", {"turns": 1}, "root", If_Match=etag) for _ in range(10)]
    got = sorted(one.status for one in await asyncio.gather(*asked))

    assert got == [200] + [412] * 9
    assert len(await api.entries(what="session")) == 1


async def test_a_turn_is_no_change_of_state(api: Api) -> None:
    await api.token("root", "owner")
    before = (await api.ask("GET", "/sessions/run-1", None, "root")).headers["ETag"]
    agent = admin_api.Agent(api.store, session="run-1")
    await agent.turn()
    after = await api.ask("GET", "/sessions/run-1", None, "root")

    assert (after.headers["ETag"], after.body["turns"]) == (before, 2)


@pytest.mark.parametrize("if_match", ["*", None])
async def test_any_state_will_do(if_match: str | None, api: Api) -> None:
    await api.token("root", "owner")
    more = {"If_Match": if_match} if if_match else {}

    assert (await api.ask("POST", "/sessions/run-1/pause", {}, "root", **more)).status == 200


async def test_nothing_is_compared_where_there_is_no_state(api: Api) -> None:
    got = await api.ask("GET", "/sessions", If_Match='"x"')

    assert (got.status, got.body["param"]) == (400, "If-Match")


PLANTED = ("planted-arguments", "planted-message", "planted-question", "planted-text", "planted-edit", "planted-answer")


async def test_no_content_and_no_secret_is_left_anywhere(api: Api, caplog: pytest.LogCaptureFixture) -> None:
    """Everything is done once; then the whole store and the log are searched."""
    caplog.set_level("DEBUG")
    await api.token("root", "owner")
    made = await api.ask("POST", "/tokens", {"name": "x", "role": "viewer"}, "root")
    await api.ask("POST", "/approvals/a1/approve", {"arguments": {"path": "planted-edit"}}, "root")
    await api.ask("POST", "/approvals/q1/answer", {"text": "planted-answer"}, "root")
    await api.ask("GET", "/sessions/run-1/checkpoint", None, "root")
    await api.ask("POST", "/sessions/run-1/checkpoint/take", {"generation": 1}, "root")
    await api.ask("GET", "/tokens", None, "root")
    secrets = [api.secrets["root"], made.body["secret"]]
    kept = await everything(api.store)

    assert kept.count(b"token.create") == 2
    for planted in (*PLANTED, *secrets):
        assert planted.encode() not in kept
        assert planted not in caplog.text
    listed = str((await api.ask("GET", "/tokens", None, "root")).body)
    assert not [secret for secret in secrets if secret in listed]


async def test_a_viewer_sees_no_content(api: Api) -> None:
    for role in ROLES:
        await api.token(role, role)
    for path in ("/approvals?state=any", "/approvals/a1", "/approvals/q1"):
        seen = {role: str((await api.ask("GET", path, None, role)).body) for role in ROLES}
        assert [any(word in seen[role] for word in PLANTED) for role in ROLES] == [False, True, True]
        assert "'withheld': True" in seen["viewer"]
    assert (await api.ask("GET", "/sessions/run-1/checkpoint", None, "viewer")).code == "role"


async def test_whose_name_is_kept(api: Api) -> None:
    """A request may name somebody; the token's name is there all the same."""
    await api.token("bot", "operator")
    named = await api.ask("POST", "/sessions/run-1/pause", {"by": "the boss", "why": "odd"}, "bot")
    plain = await api.ask("POST", "/sessions/run-1/resume", {}, "bot")

    assert [one["by"] for one in plain.body["history"]] == ["the boss (token bot)", "bot"]
    assert named.body["by"] == "the boss (token bot)"
    entries = await api.entries(what="session")
    assert [(one.what, one.actor, one.subject, one.org, one.why) for one in entries] == [
        ("session.pause", "bot", "run-1", "acme", "odd"),
        ("session.resume", "bot", "run-1", "acme", ""),
    ]
    assert entries[0].diff["state"] == ("active", "paused")


def test_names_are_the_documents_own() -> None:
    """Two models of one name, or two routes, would be one in the document."""
    models: dict[str, set[type[Any]]] = {}
    for route in ROUTES:
        for model in (route.out, route.body, route.query):
            if model is not None:
                models.setdefault(model.__name__, set()).add(model)

    assert [name for name, some in models.items() if len(some) > 1] == []
    assert len({route.name for route in ROUTES}) == len({(r.method, r.path) for r in ROUTES}) == len(ROUTES)


@pytest.mark.parametrize("route", ROUTES, ids=name)
def test_what_a_route_owes(route: Route) -> None:
    assert route.role in ROLES
    assert route.about in ("org", "whole", "either")
    assert (route.work.__doc__ or "").strip()
    assert not route.changes or route.body is not None
    assert not route.changes or route.role != "viewer"
    assert route.body is None or route.example is not None
    if route.body is not None:
        route.body.model_validate(route.example)
