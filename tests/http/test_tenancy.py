"""Whose a request is, through the front door: keys, tenants, what they may use, and that no key goes anywhere."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from guardproxy import api
from guardproxy.core.tenant import Tenant
from guardproxy.errors import BadAsk, GuardError, StoreError
from guardproxy.http import route, tenancy, virtual_key
from guardproxy.http.keyring import Keyring
from guardproxy.http.tenancy import Tenancy
from guardproxy.secrets import derive
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from guardproxy.store.registry import Found, Key, Org, Secret, Team
from guardproxy.telemetry import Telemetry
from tests.live import SECRET, Answer, Json, Live, Provider, Said, config_of, live, serve, unique
from tests.store.kit import everything
from tests.telemetry.sink import otlp_sink

HASH = derive(SECRET).key_hash
ASK: Json = {"model": "m", "messages": [{"role": "user", "content": "What is the time?"}]}
CALL = [("clock", "{}", "call_000000001")]


def ring(store: Store) -> Keyring:
    return Keyring(store.registry, HASH, "a test")


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


def error(answer: Answer) -> Json:
    """The error of an answer, in OpenAI's shape."""
    found: Json = answer.json["error"]
    assert set(found) >= {"message", "type", "code", "param"}
    assert answer.headers.get("x-should-retry") == "false"
    return found


@asynccontextmanager
async def keyed(store: Store, **sections: Any) -> AsyncIterator[Live]:
    """A proxy that asks for virtual keys; its provider has a key of its own."""
    async with live(store, auth="keys", upstream={"api_key": "sk-provider"}, **sections) as running:
        running.settled = True
        yield running


async def until(what: Callable[[], Any], seconds: float) -> float:
    """How long it took until something was so."""
    begun = time.monotonic()
    while not await what():
        assert time.monotonic() - begun < seconds, "it did not become so in time"
        await asyncio.sleep(0.05)
    return time.monotonic() - begun


@pytest.mark.parametrize(
    "headers",
    [{"Authorization": "Bearer KEY"}, {"authorization": "bearer KEY"}, {"api-key": "KEY"}, {"x-api-key": "KEY"}],
    ids=str,
)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_key_is_taken_where_clients_send_it_and_goes_no_further(
    store: Store, headers: dict[str, str], stream: bool
) -> None:
    made = await ring(store).make_key()
    async with keyed(store) as running:
        sent = {"Authorization": "", **{name: value.replace("KEY", made.secret) for name, value in headers.items()}}
        answer = await running.post({**ASK, "stream": stream}, sent)
        assert answer.status == 200
        assert answer.headers["x-guardproxy-session-id"].startswith(f"{made.key.id}:")
        (got,) = running.provider.got
        kept = {name.lower(): value for name, value in got.headers.items()}
        assert kept["authorization"] == "Bearer sk-provider"
        assert not {"api-key", "x-api-key"} & kept.keys()
        assert made.secret not in str(kept)


async def test_no_provider_key_of_the_clients_goes_on_beside_ours(store: Store) -> None:
    made = await ring(store).make_key()
    async with live(store, auth="keys") as running:
        answer = await running.post(ASK, {"x-api-key": made.secret})  # and Authorization: Bearer k
        assert answer.status == 200
        assert not {"authorization", "api-key", "x-api-key"} & {
            name.lower() for name in running.provider.got[0].headers
        }


FORGED = "gp-" + "A" * 42


@pytest.mark.parametrize(
    ("headers", "path", "code", "status"),
    [
        ({"Authorization": ""}, "", "missing_api_key", 401),
        ({"Authorization": "Bearer"}, "", "missing_api_key", 401),
        ({"Authorization": "Bearer sk-something"}, "", "invalid_api_key", 401),
        ({"Authorization": f"Bearer {FORGED}"}, "", "invalid_api_key", 401),
        ({"Authorization": "Basic KEY"}, "", "invalid_api_key", 401),
        ({"Authorization": "Bearer KEY\u00fc"}, "", "invalid_api_key", 401),
        ({"Authorization": "Bearer KEY", "x-api-key": "OTHER"}, "", "several_api_keys", 401),
        ({"Authorization": "Bearer KEY", "x-note": "it is KEY"}, "", "misplaced_api_key", 400),
        ({"Authorization": "Bearer KEY", "x-guardproxy-session-id": "KEY"}, "", "misplaced_api_key", 400),
        ({"Authorization": "Bearer KEY", "Cookie": "a=KEY"}, "", "misplaced_api_key", 400),
        ({"Authorization": "Bearer KEY"}, "?key=KEY", "misplaced_api_key", 400),
    ],
    ids=str,
)
async def test_who_has_no_key_of_ours_is_told_so_and_reaches_nobody(
    store: Store, headers: dict[str, str], path: str, code: str, status: int
) -> None:
    made, other = await ring(store).make_key(), await ring(store).make_key()

    def fill(text: str) -> str:
        return text.replace("KEY", made.secret).replace("OTHER", other.secret)

    async with keyed(store) as running:
        sent = {name: fill(value) for name, value in headers.items()}
        answer = await running.post(ASK, sent, f"/v1/chat/completions{fill(path)}")
        assert (answer.status, error(answer)["code"]) == (status, code)
        assert error(answer)["type"] == "invalid_request_error"
        assert made.secret not in answer.body.decode()
        assert running.provider.got == []


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "OPTIONS", "HEAD"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/v1/rerank", "/v1/files/f-1", "/x"])
async def test_no_route_that_reaches_the_provider_is_open_without_a_key(store: Store, method: str, path: str) -> None:
    async with keyed(store) as running:
        async with running.client.request(method, running.url + path) as answer:
            assert answer.status == 401
        assert running.provider.got == []


@pytest.mark.parametrize(("method", "path"), [("GET", "/healthz"), ("GET", "/readyz"), ("HEAD", "/"), ("HEAD", "/s/a")])
async def test_health_needs_no_key(store: Store, method: str, path: str) -> None:
    async with keyed(store) as running, running.client.request(method, running.url + path) as answer:
        assert answer.status == 200


async def test_a_large_body_without_a_key_is_not_read(store: Store) -> None:
    async with keyed(store) as running:
        host, _, port = running.url.removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 50000000\r\n\r\n{")
        head = await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 5)
        assert head.startswith(b"HTTP/1.1 401")
        assert b"connection: close" in head.lower()
        writer.close()


@pytest.mark.parametrize(
    ("models", "model", "open_"),
    [
        ((), "anything", True),
        (("gpt-*",), "gpt-5", True),
        (("gpt-*",), "GPT-5", False),
        (("gpt-*", "o3"), "o3", True),
        (("gpt-*", "o3"), "o3-mini", False),
    ],
)
async def test_models(store: Store, models: tuple[str, ...], model: str, open_: bool) -> None:
    made = await ring(store).make_key(models=models)
    async with keyed(store) as running:
        answer = await running.post({**ASK, "model": model}, bearer(made.secret))
        assert (answer.status == 200) is open_
        assert len(running.provider.got) == open_
        if not open_:
            found = error(answer)
            assert (answer.status, found["code"], found["param"]) == (404, "model_not_found", "model")
            assert "gpt" in found["message"]


@pytest.mark.parametrize(
    ("routes", "method", "path", "open_"),
    [
        ((), "GET", "/v1/models", True),
        ((), "GET", "/v1/models/gpt-5", True),
        ((), "DELETE", "/v1/models/gpt-5", False),
        ((), "POST", "/v1/rerank", False),
        ((), "GET", "/v1/files", False),
        ((), "GET", "/v1/chat/completions/chatcmpl-of-another", False),
        (("/v1/rerank",), "POST", "/v1/rerank", True),
        (("/v1/rerank",), "POST", "/v1/rerank?a=b", True),
        (("/v1/rerank",), "POST", "/v1/fine_tuning/jobs", False),
        (("*",), "GET", "/v1/files", True),
    ],
)
async def test_routes_that_are_not_read(
    store: Store, routes: tuple[str, ...], method: str, path: str, open_: bool
) -> None:
    """The provider's key is behind them, and what others left at the provider."""
    made = await ring(store).make_key(routes=routes)
    async with keyed(store) as running:
        async with running.client.request(method, running.url + path, headers=bearer(made.secret)) as answer:
            assert answer.status == (200 if open_ else 403)
        assert [got.headers["Authorization"] for got in running.provider.got] == ["Bearer sk-provider"] * open_
        assert made.secret not in str([dict(got.headers) for got in running.provider.got])


@pytest.mark.parametrize("path", [*api.PATHS, "/v1/soon"])
async def test_what_is_read_is_open_to_a_key_by_itself(
    store: Store, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A surface needs no `--route`; a key for certain models may use it, too. That nobody does without a key stays."""
    monkeypatch.setattr(api, "PATHS", {**api.PATHS, "/v1/soon": api.SURFACES["chat"]})
    route.resolve.cache_clear()
    free, bound = await ring(store).make_key(), await ring(store).make_key(models=["m"])
    async with keyed(store) as running:
        for key in (free, bound):
            answer = await running.post(ASK, bearer(key.secret), path)
            assert answer.status not in (401, 403, 404), answer.json
        assert (await running.post(ASK, {}, path)).status == 401
    route.resolve.cache_clear()


@pytest.mark.parametrize(
    ("upstreams", "statuses"),
    [((), [200, 200]), (("default",), [200, 404]), (("other",), [404, 200]), (("elsewhere",), [404, 404])],
    ids=str,
)
async def test_upstreams(store: Store, upstreams: tuple[str, ...], statuses: list[int]) -> None:
    """Of several, those that the key is for; the keys of the providers go each to its own, ours to none."""
    made = await ring(store).make_key(upstreams=upstreams, routes=["/v1/rerank"])
    other = Provider()
    async with serve(other.handle) as url:
        named = {"name": "other", "url": f"{url}/v1", "api_key": "sk-other", "models": ["o-*"]}
        async with keyed(store, upstreams=[named]) as running:
            for path in ("/v1/chat/completions", "/v1/rerank"):
                asked = [{**ASK, "model": model} for model in ("m", "o-1")]
                answers = [await running.post(ask, bearer(made.secret), path) for ask in asked]
                assert [answer.status for answer in answers] == statuses
            for provider, key in ((running.provider, "sk-provider"), (other, "sk-other")):
                assert {got.headers["Authorization"] for got in provider.got} <= {f"Bearer {key}"}
                assert made.secret not in repr([dict(got.headers) for got in provider.got])


@pytest.mark.parametrize(("upstreams", "status"), [((), 200), (("default", "b"), 200), (("b",), 403)], ids=str)
async def test_the_only_upstream(store: Store, upstreams: tuple[str, ...], status: int) -> None:
    made = await ring(store).make_key(upstreams=upstreams, routes=["/v1/rerank"])
    async with keyed(store) as running:
        for path in ("/v1/chat/completions", "/v1/rerank"):
            assert (await running.post(ASK, bearer(made.secret), path)).status == status
        assert len(running.provider.got) == 2 * (status == 200)


async def _expire(store: Store, key: Key) -> None:
    await store.registry.put(replace(key, expires_ms=await store.registry.now_ms() + 100))


REVOKING: dict[str, tuple[Callable[[Store, Key], Any], str]] = {
    "disabled": (lambda store, key: ring(store).change(key.id, {"enabled": False}), "key_disabled"),
    "deleted": (lambda store, key: ring(store).delete_key(key.id), "invalid_api_key"),
    "expired": (_expire, "key_expired"),
    "rotated": (lambda store, key: ring(store).rotate(key.id, 0), "invalid_api_key"),
    "rotated with an overlap": (lambda store, key: ring(store).rotate(key.id, 300), "key_replaced"),
    "its org is off": (lambda store, key: ring(store).switch_org(key.org, on=False), "key_disabled"),
    "its team is off": (lambda store, key: ring(store).switch_team(key.org, key.team, on=False), "key_disabled"),
}


@pytest.mark.parametrize("how", REVOKING)
async def test_a_revocation_holds_within_two_seconds_in_every_worker(store: Store, server: Embedded, how: str) -> None:
    org = unique("org")
    await ring(store).make_org(org)
    await ring(store).make_team(org, "web")
    made = await ring(store).make_key(org, "web")
    beside = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    async with keyed(store) as one, keyed(beside) as other:
        workers = (one, other)
        assert [(await worker.post(ASK, bearer(made.secret))).status for worker in workers] == [200, 200]
        revoke, code = REVOKING[how]
        await revoke(store, made.key)
        told = time.monotonic()
        answers = {}
        while len(answers) < 2:
            assert time.monotonic() - told < 2.4, "not revoked in time"  # 0.4: `expired` lets it run on, a slow machine
            for number, worker in enumerate(workers):
                if (answer := await worker.post(ASK, bearer(made.secret))).status != 200:
                    answers.setdefault(number, answer)
            await asyncio.sleep(0.02)
        for answer in answers.values():
            assert (answer.status, error(answer)["code"]) == (401, code)
            assert made.key.id not in answer.body.decode()
    await beside.close()


async def test_a_new_key_and_one_that_is_switched_on_again_are_good_within_two_seconds(store: Store) -> None:
    made = await ring(store).make_key(enabled=False)
    async with keyed(store) as running:
        assert (await running.post(ASK, bearer(made.secret))).status == 401
        await ring(store).change(made.key.id, {"enabled": True})

        async def good() -> bool:
            return (await running.post(ASK, bearer(made.secret))).status == 200

        assert await until(good, 2.2) < 2
        new = await ring(store).make_key()
        assert (await running.post(ASK, bearer(new.secret))).status == 200


async def test_both_secrets_hold_while_a_rotation_overlaps(store: Store) -> None:
    made = await ring(store).make_key()
    async with keyed(store) as running:
        session = (await running.post(ASK, bearer(made.secret))).headers["x-guardproxy-session-id"]
        _, new = await ring(store).rotate(made.key.id, 60_000)
        assert new.secret != made.secret
        for secret in (made.secret, new.secret):
            named = {**bearer(secret), "x-guardproxy-session-id": session}
            answer = await running.post(ASK, named)
            assert answer.status == 200
            assert answer.headers["x-guardproxy-session-id"] == session  # the key is the same, and so are its runs


async def test_a_key_that_is_asked_for_all_the_time_is_read_once_in_a_while(store: Store) -> None:
    made = await ring(store).make_key()
    async with keyed(store) as running:
        asked = []
        assert running.proxy.tenancy
        find = store.registry.find

        async def counted(digest: str) -> Found:
            asked.append(digest)
            return await find(digest)

        store.registry.find = counted  # type: ignore[method-assign]
        answers = await asyncio.gather(*(running.post(ASK, bearer(made.secret)) for _ in range(20)))
        assert {answer.status for answer in answers} == {200}
        assert len(asked) == 1
        for _ in range(3):
            await running.post(ASK, bearer("gp-" + "z" * 42))  # what is no key of ours costs the store nothing
        assert len(asked) == 1


# Tenants and runs


async def play(running: Live, secret: str, headers: dict[str, str] | None = None, ask: Json = ASK) -> str:
    """A turn that ends in a call; the session it was in."""
    answer = await running.post(ask, {**bearer(secret), **(headers or {})})
    assert answer.status == 200, answer.body
    return answer.headers["x-guardproxy-session-id"]


def turns(found: list[Any]) -> list[str]:
    return sorted(one.session for one in found)


@pytest.mark.parametrize("orgs", [("acme", "acme"), ("acme", "globex")], ids=["one org", "two orgs"])
async def test_a_named_session_is_its_keys_alone(store: Store, orgs: tuple[str, str]) -> None:
    for org in set(orgs):
        await ring(store).make_org(org)
    one, two = [await ring(store).make_key(org) for org in orgs]
    async with keyed(store, policy={"limits": {"session": {"turns": 2}}}) as running:
        named = {"x-guardproxy-session-id": "nightly"}
        first = await play(running, one.secret, named)
        assert first == f"{one.key.id}:nightly"
        assert await play(running, two.secret, named) == f"{two.key.id}:nightly"
        assert await play(running, two.secret, {"x-guardproxy-session-id": first}) == f"{two.key.id}:{first}"
        assert await play(running, one.secret, {"x-guardproxy-session-id": first}) == first  # its own id, sent back
        for path in ("/s/nightly/v1/chat/completions", f"/s/{first}/v1/chat/completions"):
            answer = await running.post(ASK, bearer(one.secret), path)
            assert (answer.status, error(answer)["code"]) == (400, "budget_exceeded")  # two turns are all it has
        assert (await running.post(ASK, {**bearer(two.secret), **named})).status == 200
    for made, others in ((one, two), (two, one)):
        kept = turns(await store.list_sessions(made.key.org, 50))
        assert any(session.startswith(f"{made.key.id}:") for session in kept)
        assert any(session.startswith(f"{others.key.id}:") for session in kept) is (orgs[0] == orgs[1])


@pytest.mark.parametrize("orgs", [("acme", "acme"), ("acme", "globex")], ids=["one org", "two orgs"])
@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
async def test_a_derived_run_is_its_keys_alone(store: Store, orgs: tuple[str, str], fails: bool) -> None:
    """Equal requests, retries after a failure, and a history that another key was given lead nobody into its run."""
    for org in set(orgs):
        await ring(store).make_org(org)
    one, two = [await ring(store).make_key(org) for org in orgs]
    async with keyed(store) as running:
        running.provider.script = lambda got: (
            Said("no", status=500) if fails and len(running.provider.got) == 1 else Said(None, CALL)
        )
        answer = await running.post(ASK, bearer(one.secret))
        first = answer.headers["x-guardproxy-session-id"]
        if fails:  # the retry is the same run, of the same key only
            assert await play(running, two.secret) != first
            assert await play(running, one.secret) == first
        else:
            assert await play(running, two.secret) != first
        assert first.startswith(f"{one.key.id}:d-")
        result = {"role": "tool", "tool_call_id": CALL[0][2], "content": "12:00"}
        grown = {**ASK, "messages": [*ASK["messages"], Said(None, CALL).message(), result]}
        other = await play(running, two.secret, ask=grown)
        assert other.startswith(f"{two.key.id}:d-")
        answer = await running.post(grown, bearer(one.secret))
        assert answer.headers["x-guardproxy-session-id"] == first
        assert answer.headers["x-guardproxy-turn"] == "2"
        compacted = {**grown, "messages": [{"role": "user", "content": "Another head."}, *grown["messages"][1:]]}
        assert (await play(running, two.secret, ask=compacted)).startswith(two.key.id)
        assert await play(running, one.secret, ask=compacted) == first  # known by the id of the call alone
        named = {"x-guardproxy-session-id": first}
        assert await play(running, one.secret, named) == first  # the id of a derived run, sent back


async def test_a_run_that_a_person_holds_is_held_for_its_key_only(store: Store) -> None:
    one, two = await ring(store).make_key(), await ring(store).make_key()
    async with keyed(store) as running:
        named = {"x-guardproxy-session-id": "job"}
        session = await play(running, one.secret, named)
        await store.runs.pause("default", session, "anna", "wait")
        answer = await running.post(ASK, {**bearer(one.secret), **named})
        assert answer.verdict == "pause"
        assert (await running.post(ASK, {**bearer(two.secret), **named})).verdict == "pass"


async def test_a_cut_ends_the_calls_of_a_run_in_any_org(store: Store) -> None:
    await ring(store).make_org("acme")
    made = await ring(store).make_key("acme")
    async with keyed(store) as running:
        held = asyncio.Event()
        running.provider.script = lambda _got: Said("a long answer", stall=(2, held.wait()))
        named = {**bearer(made.secret), "x-guardproxy-session-id": "job"}
        asking = asyncio.get_running_loop().create_task(running.post({**ASK, "stream": True}, named))
        await until(lambda: store.session_state("acme", f"{made.key.id}:job"), 5)
        await asyncio.sleep(0.1)
        await store.runs.cut("acme", f"{made.key.id}:job", "anna", "enough")
        answer = await asyncio.wait_for(asking, 3)
        held.set()
        assert answer.body.rstrip().endswith(b"data: [DONE]")


@pytest.mark.parametrize(
    ("header", "sent", "status", "user"),
    [
        ("", {"x-guardproxy-user": "mia"}, 200, ""),
        ("x-guardproxy-user", {}, 200, ""),
        ("x-guardproxy-user", {"X-Guardproxy-User": " mia "}, 200, "mia"),
        ("x-user-id", {"x-user-id": "u-1", "x-guardproxy-user": "mia"}, 200, "u-1"),
        ("x-user-id", {"x-user-id": "u" * 129}, 400, ""),
    ],
)
async def test_an_end_user_comes_from_the_header_that_the_key_names(
    store: Store, header: str, sent: dict[str, str], status: int, user: str
) -> None:
    made = await ring(store).make_key(user_header=header)
    async with keyed(store) as running:
        assert running.proxy.tenancy
        found: list[Tenant] = []
        find = running.proxy.tenancy.of

        async def of(headers: CIMultiDictProxy[str], address: str) -> Tenant:
            found.append(await find(headers, address))
            return found[-1]

        running.proxy.tenancy.of = of  # type: ignore[method-assign]
        answer = await running.post(ASK, {**bearer(made.secret), **sent})
        assert answer.status == status
        if status == 200:
            assert [(one.key, one.user) for one in found] == [(made.key.id, user)]
        else:
            assert error(answer)["param"] == header


# Passthrough


async def test_passthrough_sends_the_clients_key_on_and_tells_tenants_apart(store: Store) -> None:
    async with live(store, auth="passthrough") as running:
        running.settled = True
        named = {"x-guardproxy-session-id": "nightly"}
        sessions = [await play(running, key, named) for key in ("sk-one", "sk-two", "sk-one")]
        assert sessions[0] == sessions[2] != sessions[1]
        assert all(session.endswith(":nightly") for session in sessions)
        assert [got.headers["Authorization"] for got in running.provider.got] == [
            "Bearer sk-one",
            "Bearer sk-two",
            "Bearer sk-one",
        ]
        kept = await everything(store)
        assert b"sk-one" not in kept
        assert sessions[0].encode() in kept


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ({"Authorization": ""}, "missing_api_key"),
        ({"Authorization": "Bearer a", "x-api-key": "b"}, "several_api_keys"),
        ({"Authorization": f"Bearer {FORGED}"}, "invalid_api_key"),
    ],
    ids=str,
)
async def test_passthrough_needs_one_key_of_the_provider(store: Store, headers: dict[str, str], code: str) -> None:
    async with live(store, auth="passthrough") as running:
        answer = await running.post(ASK, headers)
        assert (answer.status, error(answer)["code"]) == (401, code)
        assert running.provider.got == []
        same = {"Authorization": "Bearer a", "x-api-key": "a"}
        assert (await running.post(ASK, same)).status == 200


async def test_without_keys_nothing_is_asked_and_names_stay_as_they_are(store: Store) -> None:
    async with live(store) as running:
        answer = await running.post(ASK, {"Authorization": "", "x-guardproxy-session-id": "nightly"})
        assert (answer.status, answer.headers["x-guardproxy-session-id"]) == (200, "nightly")
        answer = await running.post({**ASK, "messages": [{"role": "user", "content": unique("x")}]})
        assert answer.headers["x-guardproxy-session-id"].startswith("d-")
        assert running.proxy.tenancy is None


# The store is away


class Away:
    """A registry that is there, or not."""

    def __init__(self, found: Found) -> None:
        self.found = found
        self.away = False

    async def find(self, digest: str) -> Found:
        if self.away:
            raise StoreError("the store is away")
        return self.found


def request(secret: str) -> CIMultiDictProxy[str]:
    return CIMultiDictProxy(CIMultiDict({"Authorization": f"Bearer {secret}"}))


@pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])
async def test_a_known_key_is_good_while_the_store_is_away_if_the_policy_is_open(
    monkeypatch: pytest.MonkeyPatch, closed: bool
) -> None:
    secret = virtual_key.mint(HASH)
    registry = Away(Found(1000, Key("k1", secrets=(Secret(virtual_key.digest(HASH, secret), ""),))))
    found = Tenancy("keys", HASH, lambda: registry, closed=closed)  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(tenancy, "CACHE_S", 0.0)
    assert (await found.of(request(secret), "/")).key == "k1"
    registry.away = True
    if closed:
        with pytest.raises(StoreError):
            await found.of(request(secret), "/")
    else:
        assert (await found.of(request(secret), "/")).key == "k1"
        monkeypatch.setattr(tenancy, "STALE_S", -1.0)  # a long time later
        with pytest.raises(StoreError):
            await found.of(request(secret), "/")
    with pytest.raises(StoreError):  # never seen
        await found.of(request(virtual_key.mint(HASH)), "/")


async def test_a_key_that_was_off_stays_so_while_the_store_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    secret = virtual_key.mint(HASH)
    registry = Away(Found(1000, Key("k1", enabled=False, secrets=(Secret(virtual_key.digest(HASH, secret), ""),))))
    found = Tenancy("keys", HASH, lambda: registry)  # type: ignore[arg-type,return-value]
    monkeypatch.setattr(tenancy, "CACHE_S", 0.0)
    with pytest.raises(BadAsk):
        await found.of(request(secret), "/")
    registry.away = True
    with pytest.raises(GuardError):
        await found.of(request(secret), "/")


async def test_an_unknown_key_is_503_while_the_store_is_away(server: Embedded) -> None:
    gone = await Store.connect(socket_path="/nonexistent/guardproxy.sock", timeout_ms=100, required=False)
    async with keyed(gone) as running:
        answer = await running.post(ASK, bearer(virtual_key.mint(HASH)))
        assert (answer.status, answer.json["error"]["code"]) == (503, "store_unavailable")
        assert answer.headers["Retry-After"] == "1"
        assert running.provider.got == []
    await gone.close()


@pytest.mark.parametrize("fails", [False, True], ids=["answered", "failed"])
async def test_runs_are_their_keys_alone_while_the_store_is_away(fails: bool) -> None:
    """A worker's own memory keeps tenants apart as the store does."""
    with embedded.scratch() as server:
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=200)
        await ring(store).make_org("acme")
        made = [await ring(store).make_key(), await ring(store).make_key(), await ring(store).make_key("acme")]
        async with keyed(store) as running:
            for one in made:
                await play(running, one.secret, ask={**ASK, "messages": [{"role": "user", "content": unique("x")}]})
            server.stop()
            running.provider.script = lambda _got: Said("no", status=500) if fails else Said(None, CALL)
            result = {"role": "tool", "tool_call_id": CALL[0][2], "content": "12:00"}
            grown = {**ASK, "messages": [*ASK["messages"], Said(None, CALL).message(), result]}
            named = {"x-guardproxy-session-id": "nightly"}
            for ask, headers in ((ASK, {}), (grown, {}), (ASK, named)):
                answers = [await running.post(ask, {**bearer(one.secret), **headers}) for one in made]
                assert [answer.status for answer in answers] == [500 if fails else 200] * 3
                sessions = [answer.headers["x-guardproxy-session-id"] for answer in answers]
                assert [session.partition(":")[0] for session in sessions] == [one.key.id for one in made]
        await store.close()


# What is good for what

GOOD = Secret("d1", "gp-aaaa…zzzz")
HERE, ACME, WEB = 1_000_000, Org("acme"), Team("acme", "web")
KEY = Key("k1", "acme", "web", secrets=(GOOD, Secret("d2", "", HERE + 500)))
JUDGED: dict[str, tuple[Found, str, str, float]] = {
    "good": (Found(HERE, KEY, ACME, WEB), "d1", "", tenancy.CACHE_S),
    "until the secret ends": (Found(HERE, KEY, ACME, WEB), "d2", "", 0.5),
    "the secret ended": (Found(HERE + 500, KEY, ACME, WEB), "d2", "key_replaced", tenancy.CACHE_S),
    "until the key ends": (Found(HERE, replace(KEY, expires_ms=HERE + 900), ACME, WEB), "d1", "", 0.9),
    "the key ended": (Found(HERE, replace(KEY, expires_ms=HERE), ACME, WEB), "d1", "key_expired", tenancy.CACHE_S),
    "off": (Found(HERE, replace(KEY, enabled=False), ACME, WEB), "d1", "key_disabled", tenancy.CACHE_S),
    "org off": (Found(HERE, KEY, replace(ACME, enabled=False), WEB), "d1", "key_disabled", tenancy.CACHE_S),
    "team off": (Found(HERE, KEY, ACME, replace(WEB, enabled=False)), "d1", "key_disabled", tenancy.CACHE_S),
    "no org": (Found(HERE, KEY, None, WEB), "d1", "invalid_api_key", tenancy.CACHE_S),
    "no team": (Found(HERE, KEY, ACME, None), "d1", "invalid_api_key", tenancy.CACHE_S),
    "no key": (Found(HERE), "d1", "invalid_api_key", tenancy.CACHE_S),
    "not its secret": (Found(HERE, KEY, ACME, WEB), "d3", "invalid_api_key", tenancy.CACHE_S),
    "the default org needs no document": (
        Found(HERE, replace(KEY, org="default", team="")),
        "d1",
        "",
        tenancy.CACHE_S,
    ),
}


@pytest.mark.parametrize("case", JUDGED)
def test_judged(case: str) -> None:
    found, digest, code, seconds = JUDGED[case]
    known = tenancy.judged(found, digest, 50.0)
    assert (known.code, known.tenant is None, known.until_s) == (code, code != "", pytest.approx(50.0 + seconds))


# No key in the clear, anywhere


@pytest.fixture
def enter() -> Iterator[Callable[[Any], Any]]:
    with ExitStack() as stack:
        yield stack.enter_context


async def test_no_key_is_found_in_the_store_logs_spans_metrics_errors_or_at_the_provider(
    store: Store, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str], enter: Callable[[Any], Any]
) -> None:
    """Planted keys: one that is good, one that is over, one that was never any, one that is off; every way they go."""
    caplog.set_level(logging.DEBUG)
    good, off = await ring(store).make_key(routes=["*"]), await ring(store).make_key(enabled=False)
    old, client = good.secret, "sk-of-the-client-0123456789"
    _, new = await ring(store).rotate(good.key.id, 60_000)
    planted = [new.secret, old, off.secret, "gp-" + "Q" * 42, client, virtual_key.mint(HASH)]
    sink, seen = enter(otlp_sink()), b""
    told = Telemetry(config_of(telemetry={"otlp_endpoint": sink.url}).telemetry, derive(SECRET).trace, "test")
    async with live(store, told, auth="keys", upstream={"api_key": "sk-provider"}) as running:
        running.settled = True
        got = running.provider.got
        running.provider.script = lambda _got: Said(None, CALL) if len(got) % 3 else Said("broken", status=500)
        for secret, name, path in product(planted, ("Authorization", "api-key", "x-api-key"), PATHS):
            for more in ({}, {"x-guardproxy-session-id": "job"}, {"x-also": secret}, {"Cookie": secret}):
                headers = {"Authorization": client, name: secret, **more}
                ask = {**ASK, "stream": "x-guardproxy-session-id" in more}
                answer = await running.post(ask, headers, path.replace("KEY", secret))
                seen += repr(answer.headers).encode() + answer.body
        named = {**ASK, "metadata": {"session_id": f"run-{old}", "note": f"by {old}"}, "user": off.secret}
        answer = await running.post(named, bearer(new.secret))
        assert answer.headers["x-guardproxy-session-id"] == f"{new.key.id}:run-gp-"
        assert got.pop().json == named  # what it says to the model is its own
        seen += repr(answer.headers).encode() + answer.body
        seen += repr([(one.path, dict(one.headers), one.body) for one in got]).encode()
        assert {one.path for one in got} == {"/v1/chat/completions", "/v1/models"}
    async with live(store, told, auth="passthrough") as running:
        running.settled = True
        answer = await running.post(ASK, bearer(client))
        assert running.provider.got[0].headers["Authorization"] == f"Bearer {client}"
        seen += repr(answer.headers).encode() + answer.body
    seen += json.dumps(json.loads(told.snapshot().to_json())).encode()
    await told.shutdown()
    assert sink.spans
    assert sink.metrics
    seen += repr((sink.traces, sink.metrics)).encode()
    seen += await everything(store)
    out, err = capfd.readouterr()
    seen += (caplog.text + out + err).encode()
    assert new.key.id.encode() in seen  # what should be seen is
    for secret in planted:
        for form in (secret, secret[3:], secret[3:20]):
            assert form.encode() not in seen, form


PATHS = ("/v1/chat/completions", "/s/KEY/v1/chat/completions", "/v1/models")
