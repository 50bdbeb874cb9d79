"""What a tenant tries who means no good: with a key of their own, and with an owner's token for their own org."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from guardproxy.api import one_model
from guardproxy.core.windows import Budget
from guardproxy.errors import BadAsk
from guardproxy.http.keyring import Keyring
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from guardproxy.store.registry import Org, Team
from tests.http import admin_api
from tests.http.admin_api import IDS, Api
from tests.live import SECRET, Json, Live, Said, live, unique
from tests.store.kit import amounts

USED = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
LONG = '"messages":[' + ",".join([f'{{"role":"user","content":"{"x" * 999}"}}'] * 99) + "]"  # it is read in parts
SAY = '"messages":[{"role":"user","content":"hi"}]'


@asynccontextmanager
async def company(store: Store, **key: Any) -> AsyncIterator[tuple[Live, dict[str, str]]]:
    """A proxy, and the headers of a key of an org that may spend a dollar."""
    await store.registry.put(Org("acme", budgets=(Budget("org", "cost_microusd", "total", 1_000_000),)))
    made = await Keyring(store.registry, derive(SECRET).key_hash, "a test").make_key("acme", **key)
    prices = {"models": {"*": {"input": 1, "output": 10}}}
    async with live(store, auth="keys", upstream={"api_key": "sk-provider"}, prices=prices) as running:
        running.settled = True
        running.provider.script = lambda _got: Said("ok", usage=USED)
        yield running, {"Authorization": f"Bearer {made.secret}"}


TWO_MODELS = {
    "the last may be used": f'{{"model":"dear","model":"cheap",{SAY}}}',
    "the first may be used": f'{{"model":"cheap",{SAY},"model":"dear"}}',
    "in capital letters": f'{{"model":"cheap","Model":"dear",{SAY}}}',
    "in capital letters, in front": f'{{"MODEL":"dear",{SAY},"model":"cheap"}}',
    "with a letter as its number": f'{{"mod\\u0065l":"dear","model":"cheap",{SAY}}}',
    "with every letter as its number": f'{{"\\u006D\\u006f\\u0064\\u0065\\u006c":"dear","model":"cheap",{SAY}}}',
    "a capital letter as its number": f'{{"\\u004dodel":"dear","model":"cheap",{SAY}}}',
    "with blanks": f'{{ "model" : "dear" , "model"\n:\t"cheap" , {SAY} }}',
    "behind a key that is escaped": f'{{"a\\"b":1,"model":"dear","model":"cheap",{SAY}}}',
}
MORE_MODELS = {
    "OpenRouter's list": f'{{"model":"cheap","models":["dear"],{SAY}}}',
    "LiteLLM's": f'{{"fallbacks":[{{"model":"dear"}}],"model":"cheap",{SAY}}}',
    "in capital letters": f'{{"model":"cheap","Models":["dear"],{SAY}}}',
    "with a letter as its number": f'{{"model":"cheap","mod\\u0065ls":["dear"],{SAY}}}',
    "its last letter, a capital": f'{{"model":"cheap","model\\u0053":["dear"],{SAY}}}',
    "the other, too": f'{{"model":"cheap","f\\u0061llbacks":["dear"],{SAY}}}',
    "another of LiteLLM's": f'{{"model":"cheap","context_window_fallbacks":[{{"cheap":["dear"]}}],{SAY}}}',
    "LiteLLM's of Azure": f'{{"model":"cheap","deployment_id":"dear",{SAY}}}',
    "spread over it": f'{{"model":"cheap","extra_body":{{"model":"dear"}},{SAY}}}',
    "fallbacks spread over it": f'{{"model":"cheap","extra_body":{{"a":1,"fallbacks":["dear"]}},{SAY}}}',
    "a letter that folds to an s": f'{{"model":"cheap","model\u017f":["dear"],{SAY}}}',
    "a sign that folds to a k": f'{{"model":"cheap","fallbac\u212as":["dear"],{SAY}}}',
    "the same as its number": f'{{"model":"cheap","fallbac\\u212as":["dear"],{SAY}}}',
    "in a long body": f'{{"models":["dear"],"model":"cheap",{LONG}}}',
    "behind a long body": f'{{"model":"cheap",{LONG},"extra_body":{{"model":"dear"}}}}',
}
ONE_MODEL = {
    "lists in a tool": f'{{"model":"cheap",{SAY},"tools":[{{"type":"function","function":{{"name":"f","parameters":'
    '{"type":"object","properties":{"models":{"type":"array"},"fallbacks":{"type":"string"}}}}}]}',
    "in a text": '{"model":"cheap","messages":[{"role":"user","content":"\\"model\\": \\"model\\", \\u006dodel"}]}',
    "in a tool": f'{{"model":"cheap",{SAY},"tools":[{{"type":"function","function":{{"name":"f","parameters":'
    '{"type":"object","properties":{"model":{"type":"string"}},"required":["model"]}}}]}',
    "in metadata": f'{{"metadata":{{"model":"dear"}},"model":"cheap",{SAY}}}',
    "more of the body's, no model": f'{{"model":"cheap","extra_body":{{"top_k":1}},{SAY}}}',
    "a tool that draws": f'{{"model":"cheap","tools":[{{"type":"image_generation"}}],{SAY}}}',
    "with its letters as numbers": f'{{"mod\\u0065l":"cheap",{SAY}}}',
}


async def test_a_second_model_is_none(store: Store) -> None:
    """Providers differ in which of two they take; a key for one model would be one for any."""
    async with company(store, models=["cheap*"]) as (running, key):
        for why, body in TWO_MODELS.items():
            answer = await running.post(body.encode(), key)
            assert (answer.status, answer.json["error"]["param"]) in ((400, "model"), (404, "model")), why
        assert running.provider.got == []
        for why, body in MORE_MODELS.items():
            assert (await running.post(body.encode(), key)).status == 400, why
        several = f'{{"model":"cheap,dear",{SAY}}}'
        assert (await running.post(several.encode(), key)).json["error"]["param"] == "model"
        assert running.provider.got == []
        drawn = f'{{"model":"cheap","tools":[{{"type":"image_generation","model":"dear"}}],{SAY}}}'
        assert (await running.post(drawn.encode(), key)).status == 404
        assert running.provider.got == []
        for why, body in ONE_MODEL.items():
            assert (await running.post(body.encode(), key)).status == 200, why


async def test_a_deployment_in_front_of_another_style_names_no_model(store: Store) -> None:
    """What is asked of the provider has no deployment in it: the body's model is the one that is meant."""
    async with company(store, models=["cheap"]) as (running, key):
        for style in ("openai/v1", "v1beta/openai", "openai"):
            path = f"/openai/deployments/cheap/{style}/chat/completions"
            for model, status in (("dear", 404), ("cheap", 200)):
                body = {"model": model, "messages": [{"role": "user", "content": unique("x")}]}
                assert (await running.post(body, key, path)).status == status, path
            assert "deployments" not in running.provider.got[-1].path


@pytest.mark.parametrize("body", ONE_MODEL.values(), ids=ONE_MODEL)
def test_one_model(body: str) -> None:
    one_model(body.encode())
    one_model(b"\xef\xbb\xbf" + body.encode())


@pytest.mark.parametrize("body", TWO_MODELS.values(), ids=TWO_MODELS)
def test_two_models(body: str) -> None:
    with pytest.raises(BadAsk, match="given twice"):
        one_model(body.encode())


@pytest.mark.parametrize("body", MORE_MODELS.values(), ids=MORE_MODELS)
def test_more_models(body: str) -> None:
    for front in (b"", b"\xef\xbb\xbf"):
        with pytest.raises(BadAsk, match="further models"):
            one_model(front + body.encode())


@pytest.mark.parametrize("body", [b"", b"{", b'{"model","model"}', b'[]"model""model"', b'{"model":1"model":'])
def test_what_is_no_json_is_for_others_to_refuse(body: bytes) -> None:
    one_model(body)


NUMBERS = [
    -(10**30),
    -1,
    0,
    1,
    2.0,
    10**9,
    2**53 + 1,
    2**63,
    2**64,
    10**30,
    1e30,
    1.7e308,
    1.5,
    True,
    "5",
    [5],
    {},
    None,
]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("name", ["n", "max_tokens", "max_completion_tokens", "max_output_tokens", "best_of"])
async def test_numbers_beyond_all_bounds(name: str, path: str, store: Store) -> None:
    """Each is served or refused in words; nothing stays held, and no hold is below nothing."""
    async with company(store) as (running, key):
        for number in NUMBERS:
            body: Json = {"model": "m", "messages": [{"role": "user", "content": unique("x")}], "max_tokens": 50}
            body |= {"prompt": unique("p")} if path == "/v1/completions" else {}
            body |= {"input": unique("i")} if path == "/v1/responses" else {}
            answer = await running.post(json.dumps(body | {name: number}).encode(), key, path)
            assert answer.status in (200, 400), (number, answer.body)
        standing = await amounts(store, "acme")
        assert {held for _, held in standing.values()} <= {0}
        assert all(used >= 0 for used, _ in standing.values())


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/moderations"])
async def test_who_pays_is_not_the_tenants_to_say(path: str, store: Store) -> None:
    """Of the projects and organisations that the operator's key may charge they name none."""
    async with company(store, routes=["/v1/moderations"]) as (running, key):
        await store.registry.put(Org("acme"))
        said = {"OpenAI-Organization": "org-x", "openai-project": "p", "X-Goog-Api-Key": "own", "api-key": "sk-own"}
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        assert (await running.post(body, {**key, **said, "x-title": "kept"}, path)).status == 200
        sent = {name.lower(): text for name, text in running.provider.got[-1].headers.items()}
    assert sent["authorization"] == "Bearer sk-provider"
    assert sent["x-title"] == "kept"
    assert not {name.lower() for name in said} & set(sent)


async def test_what_one_key_sends_makes_no_hold_of_anothers_larger(store: Store) -> None:
    """Pictures by their address are many more tokens than bytes, for whoever sends them; the same model reads code."""
    async with company(store) as (running, key):
        tight = (Budget("key", "input_tokens", "total", 4000),)
        made = await Keyring(store.registry, derive(SECRET).key_hash, "a test").make_key("acme", name="other")
        other = {"Authorization": f"Bearer {made.secret}"}
        await store.registry.put(replace(made.key, budgets=tight))
        running.provider.script = lambda _got: Said("ok", usage={"prompt_tokens": 9000, "completion_tokens": 1})
        for _ in range(20):
            body = {"model": "m", "messages": [{"role": "user", "content": unique("see")}]}
            assert (await running.post(body, key)).status == 200
        running.provider.script = lambda _got: Said("ok", usage={"prompt_tokens": 1000, "completion_tokens": 1})
        code = {"model": "m", "messages": [{"role": "user", "content": "x = 1\n" * 600}]}
        assert (await running.post(code, other)).status == 200


async def test_a_key_in_the_place_of_the_model_is_kept_nowhere(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever mixes up two variables finds it neither in the log nor in the ledger of usage."""
    async with company(store) as (running, key):
        secret = key["Authorization"].removeprefix("Bearer ")
        body = {"model": secret, "messages": [{"role": "user", "content": "hi"}]}
        answer = await running.post(body, key)
        assert (answer.status, answer.json["error"]["code"]) == (400, "misplaced_api_key")
        assert running.provider.got == []
        await running.proxy.books.pay()
        today = datetime.now(UTC).date().isoformat()
        assert secret not in repr(await store.usages.day("acme", today))
    assert secret not in "".join(capsys.readouterr())


GATEWAYS = {
    "Helicone-Target-URL": "https://evil.example",
    "helicone-openai-api-base": "https://evil.example",
    "Helicone-Fallbacks": '[{"target-url":"https://evil.example"}]',
    "x-portkey-custom-host": "https://evil.example",
    "X-Portkey-Config": '{"custom_host":"https://evil.example","override_params":{"model":"dear"}}',
    "x-portkey-azure-resource-name": "evil",
    "X-Original-URL": "/v1/files",
    "x-http-method-override": "DELETE",
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/moderations"])
async def test_where_a_request_goes_is_not_the_tenants_to_say(path: str, store: Store) -> None:
    """A gateway in front of the provider would send the operator's key there. What names a run goes on."""
    async with company(store, routes=["/v1/moderations"]) as (running, key):
        await store.registry.put(Org("acme"))
        body = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        said = {**GATEWAYS, "x-portkey-trace-id": "t-1", "Helicone-Session-Id": "s-1"}
        assert (await running.post(body, {**key, **said}, path)).status == 200
        sent = {name.lower(): text for name, text in running.provider.got[-1].headers.items()}
    assert sent["authorization"] == "Bearer sk-provider"
    assert (sent["x-portkey-trace-id"], sent["helicone-session-id"]) == ("t-1", "s-1")
    assert not {name.lower() for name in GATEWAYS} & set(sent)


@pytest.fixture
async def api(store: Store) -> AsyncIterator[Api]:
    async with admin_api.serving(store) as made:
        await made.fill()
        await made.token("root", "owner")
        await made.token("theirs", "owner", org=admin_api.ORG)
        yield made


ORG = f"?org={admin_api.ORG}"
MONTH = {"scope": "org", "dimension": "cost_usd", "window": "month"}


async def test_the_owner_of_an_org_does_not_raise_what_it_may_spend(api: Api) -> None:
    """What their teams and keys may is theirs to say, within that."""
    before = (await api.ask("GET", f"/budgets/{IDS['budgets']}{ORG}", None, "theirs")).body["limit"]
    tries: list[tuple[str, str, Json | None]] = [
        ("PUT", f"/budgets{ORG}", {"of": "org", "limit": 10**9, **MONTH}),
        ("PUT", f"/budgets{ORG}", {"limit": 10**9, **MONTH}),
        ("PATCH", f"/budgets/{IDS['budgets']}{ORG}", {"limit": 10**9}),
        ("DELETE", f"/budgets/{IDS['budgets']}{ORG}", {}),
        ("PATCH", f"/orgs/{admin_api.ORG}", {"enabled": True}),
    ]
    for method, path, body in tries:
        got = await api.ask(method, path, body, "theirs")
        assert (got.status, got.code) == (403, "other_org"), (method, path)
    assert (await api.ask("GET", f"/budgets/{IDS['budgets']}{ORG}", None, "root")).body["limit"] == before
    mine = {**MONTH, "of": "team:web", "scope": "team", "limit": 5}
    assert (await api.ask("PUT", f"/budgets{ORG}", mine, "theirs")).status == 200
    assert (await api.ask("PUT", f"/budgets{ORG}", {"of": "org", "limit": 7, **MONTH}, "root")).status == 200


async def test_the_owner_of_an_org_opens_no_routes(api: Api) -> None:
    """Behind them is what others left at the provider. What a key has it may keep, and lose."""
    key = IDS["keys"]
    for routes in (["*"], ["/v1/files"], ["/v1/files*", "/v1/embeddings"]):
        got = await api.ask("POST", f"/keys{ORG}", {"routes": routes}, "theirs")
        assert (got.status, got.body["param"]) == (403, "routes")
        assert (await api.ask("PATCH", f"/keys/{key}", {"routes": routes}, "theirs")).status == 403
    assert (await api.ask("PATCH", f"/keys/{key}", {"routes": ["/v1/embeddings", "/v1/files"]}, "root")).status == 200
    for routes, status in (
        (["/v1/files"], 200),
        (["/v1/files", "/v1/batches"], 403),
        ([""], 200),
        (["/v1/files"], 403),
    ):
        assert (await api.ask("PATCH", f"/keys/{key}", {"routes": routes}, "theirs")).status == status, routes
    assert (await api.ask("POST", f"/keys{ORG}", {"name": "plain"}, "theirs")).status == 201


LIMITS = [10**9, 9_007_199_254, 9_007_199_255, 10**12, 10**13, 10**15, 1e-9, 0.0000001]


@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("dimension", ["cost_usd", "requests"])
async def test_a_limit_beyond_all_bounds(dimension: str, limit: float, api: Api, store: Store) -> None:
    """It is set and can be counted against, or refused in words; never kept as what nobody can count."""
    await store.registry.put(Team(admin_api.ORG, "huge"))
    body = {"of": "team:huge", "scope": "team", "dimension": dimension, "window": "total", "limit": limit}
    got = await api.ask("PUT", f"/budgets{ORG}", body, "root")
    assert got.status in (200, 400), got.body
    if got.status == 400:
        assert got.body["param"] == "limit"
        return
    made = await Keyring(store.registry, derive(SECRET).key_hash, "a test").make_key(admin_api.ORG, "huge")
    async with live(store, auth="keys", upstream={"api_key": "sk-provider"}) as running:
        running.provider.script = lambda _got: Said("ok", usage=USED)
        ask = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
        answer = await running.post(ask, {"Authorization": f"Bearer {made.secret}"})
    assert answer.status in (200, 400), answer.body
    assert (answer.status == 400) == (limit < 1)
