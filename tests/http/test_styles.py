"""Azure's paths and Gemini's for OpenAI's clients: the same surfaces, sent on as they came, in all modes of `auth`."""

from __future__ import annotations

from typing import Any

import openai
import pytest

from guardproxy.errors import BadAsk
from guardproxy.http import route as routing
from guardproxy.http.route import resolve
from guardproxy.http.upstream import Upstream
from guardproxy.store.redis import Store
from tests.http.test_failover import several
from tests.http.test_room import budget, counters
from tests.http.test_tenancy import ring
from tests.live import Got, Json, Said, live
from tests.scenes import Heard
from tests.surfaces import SURFACES

CHAT: Json = {"messages": [{"role": "user", "content": "hi"}]}
DATE = "?api-version=2024-10-21"
DEPLOYED = "/openai/deployments/my-gpt.4/"

PATHS: dict[str, tuple[str, str, str]] = {
    # path: route, path sent, model
    f"{DEPLOYED}chat/completions{DATE}": ("/v1/chat/completions", f"{DEPLOYED}chat/completions{DATE}", "my-gpt.4"),
    f"{DEPLOYED}completions": ("/v1/completions", f"{DEPLOYED}completions", "my-gpt.4"),
    f"{DEPLOYED}embeddings": ("/v1/embeddings", f"{DEPLOYED}embeddings", "my-gpt.4"),
    f"{DEPLOYED}images/generations{DATE}": (
        "/v1/images/generations",
        f"{DEPLOYED}images/generations{DATE}",
        "my-gpt.4",
    ),
    "/openai/deployments/My%20one/CHAT//Completions/": (
        "/v1/chat/completions",
        "/openai/deployments/My%20one/chat/completions".replace("%20", ""),
        "Myone",
    ),
    f"/v1{DEPLOYED}chat/completions": ("/v1/chat/completions", f"{DEPLOYED}chat/completions", "my-gpt.4"),
    f"/OpenAI/Deployments/X/%63hat/completions{DATE}": (
        "/v1/chat/completions",
        f"/openai/deployments/X/chat/completions{DATE}",
        "X",
    ),
    "/openai/deployments/a%2525b/chat/completions": (
        "/v1/chat/completions",
        "/openai/deployments/a%25b/chat/completions",
        "a%b",
    ),
    "/openai/v1/chat/completions": ("/v1/chat/completions", "/openai/v1/chat/completions", ""),
    "/openai/v1/responses?api-version=preview": ("/v1/responses", "/openai/v1/responses?api-version=preview", ""),
    f"/openai/responses{DATE}": ("/v1/responses", f"/openai/responses{DATE}", ""),
    "/openai/v1/models": ("/v1/models", "/openai/v1/models", ""),
    f"/openai/files/f-1/content{DATE}": ("/v1/files/f-1/content", f"/openai/files/f-1/content{DATE}", ""),
    "/openai/v1/v1/chat/completions": ("/v1/chat/completions", "/openai/v1/chat/completions", ""),
    "/v1/v1/chat/completions": ("/v1/chat/completions", "/v1/chat/completions", ""),
    "/v1beta/openai/chat/completions": ("/v1/chat/completions", "/v1beta/openai/chat/completions", ""),
    "/v1beta/openai/embeddings?key=k": ("/v1/embeddings", "/v1beta/openai/embeddings?key=k", ""),
    "/v1beta/openai/models/gemini-2.5-flash": (
        "/v1/models/gemini-2.5-flash",
        "/v1beta/openai/models/gemini-2.5-flash",
        "",
    ),
    "/v1beta/models/gemini-2.5-flash:generateContent": (
        "/v1beta/models/gemini-2.5-flash:generateContent",
        "/v1beta/models/gemini-2.5-flash:generateContent",
        "",
    ),
}


@pytest.mark.parametrize("path", PATHS)
def test_paths(path: str) -> None:
    route, sent, model = PATHS[path]
    for prefix in ("", "/s/run-1"):
        target = resolve(prefix + path)
        assert (target.route, target.path, target.model) == (route, sent, model)
        assert (target.session, target.surface) == (prefix[3:], target.surface)
        noted = target.noted({"x-guardproxy-path-model": "made up", "x": "y"})
        assert noted.get("x-guardproxy-path-model", "") == model


@pytest.mark.parametrize(
    "path", ["/openai/deployments/a%2fb/images/generations", "/openai/../files", "/v1beta/openai/a%5cb"]
)
def test_paths_that_go_nowhere(path: str) -> None:
    with pytest.raises(BadAsk):
        resolve(path)


def test_another_deployment_in_its_place() -> None:
    path = f"{DEPLOYED}chat/completions{DATE}"
    assert routing.deployed(path, "b/c d") == f"/openai/deployments/b%2Fc%20d/chat/completions{DATE}"


ADDRESSES = [
    # the provider's address, path, what is asked
    (
        "https://r.openai.azure.com",
        f"{DEPLOYED}embeddings{DATE}",
        f"https://r.openai.azure.com{DEPLOYED}embeddings{DATE}",
    ),
    ("https://r.azure.com/openai", "/openai/v1/responses", "https://r.azure.com/openai/v1/responses"),
    ("https://r.azure.com/openai/v1/", "/openai/v1/responses", "https://r.azure.com/openai/v1/responses"),
    ("https://r.azure.com/openai/v1", f"{DEPLOYED}completions", f"https://r.azure.com{DEPLOYED}completions"),
    ("https://r.azure.com/openai/deployments/d", "/v1/chat/completions", None),
    ("https://r.azure.com/openai/deployments/d", f"{DEPLOYED}completions", f"https://r.azure.com{DEPLOYED}completions"),
    ("https://g.com/v1beta/openai", "/v1beta/openai/embeddings?x", "https://g.com/v1beta/openai/embeddings?x"),
    ("https://g.com/v1beta/openai/", "/v1/embeddings", "https://g.com/v1beta/openai/embeddings"),
    ("https://g.com", "/v1beta/openai/embeddings", "https://g.com/v1beta/openai/embeddings"),
    ("https://gw/team/v1", "/v1beta/openai/embeddings", "https://gw/team/v1beta/openai/embeddings"),
    ("https://api.groq.com/openai/v1", "/v1/embeddings", "https://api.groq.com/openai/v1/embeddings"),
    ("https://api.groq.com/openai/v1", "/openai/v1/embeddings", "https://api.groq.com/openai/v1/embeddings"),
]


@pytest.mark.parametrize(("base", "path", "url"), ADDRESSES)
def test_addresses(base: str, path: str, url: str | None) -> None:
    assert str(Upstream(base)._url(path)) == (url or f"{base}/chat/completions")


NUMBERS = b'{"object":"embedding","index":0,"embedding":"AACAPw=="}'


def scripted(surface: Any) -> Any:
    def script(got: Got) -> Said:
        if "embeddings" in got.path:
            return Said(raw=b'{"data":[%b],"model":"real-1","usage":{"prompt_tokens":3,"total_tokens":3}}' % NUMBERS)
        if "/completions" in got.path and "chat" not in got.path:
            return Said(raw=b'{"choices":[{"text":"ok","finish_reason":"stop"}]}')
        return Said("ok")

    return script


async def keys_of(mode: str, store: Store) -> str:
    """The key that a client sends in that mode of `auth`."""
    return (await ring(store).make_key(models=["my-gpt*"])).secret if mode == "keys" else "sk-client"


MODES = ["none", "keys", "passthrough"]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_azure(store: Store, heard: Heard, mode: str, stream: bool) -> None:
    upstream = {} if mode == "passthrough" else {"api_key": "azure-key"}
    async with live(store, heard, auth={"mode": mode}, upstream=upstream) as running:
        running.provider.script = scripted(running)
        key = await keys_of(mode, store)
        for prefix in ("", "/s/run-1"):
            for route, body in (
                ("chat/completions", {**CHAT, "stream": stream}),
                ("completions", {"prompt": "x"}),
                ("embeddings", {"input": "x"}),
            ):
                path = f"{DEPLOYED}{route}{DATE}"
                answer = await running.post(body, {"api-key": key, "Authorization": ""}, path=prefix + path)
                assert (answer.status, answer.verdict) == (200, "pass"), answer.body
                got = running.provider.got[-1]
                assert got.path == path
                assert got.headers["api-key"] == ("sk-client" if mode == "passthrough" else "azure-key")
                assert not got.headers.get("Authorization")
                assert "model" not in got.json
                report = await heard.reports.get()
                assert (report.model, report.route) == ("my-gpt.4", f"/v1/{route}")
                assert not prefix or answer.headers["x-guardproxy-session-id"].endswith("run-1")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("path", ["/v1beta/openai/", "/openai/v1/"])
async def test_gemini_and_azures_newer_way(store: Store, mode: str, path: str) -> None:
    upstream = {} if mode == "passthrough" else {"api_key": "their-key"}
    async with live(store, auth={"mode": mode}, upstream=upstream) as running:
        running.provider.script = scripted(running)
        key = await keys_of(mode, store)
        for route, body in (("chat/completions", CHAT), ("embeddings", {"input": "x"}), ("responses", {"input": "x"})):
            if route != "responses":
                answer = await running.post(
                    {"model": "my-gpt", **body}, {"Authorization": f"Bearer {key}"}, path + route
                )
                assert (answer.status, answer.verdict) == (200, "pass"), answer.body
                got = running.provider.got[-1]
                assert (got.path, got.method) == (path + route, "POST")
                sent = "sk-client" if mode == "passthrough" else "their-key"
                assert got.headers["Authorization"] == f"Bearer {sent}"
        async with running.client.get(
            running.url + path + "models", headers={"Authorization": f"Bearer {key}"}
        ) as listed:
            assert listed.status == 200
            assert running.provider.got[-1].path == path + "models"


async def test_the_surface_is_spoken_on_every_path(store: Store) -> None:
    """Responses on both of Azure's ways: whole and as a stream, with its errors in its shape."""
    responses = SURFACES["responses"]
    async with live(store, surface=responses) as running:
        for path in ("/openai/v1/responses", f"/openai/responses{DATE}", f"{DEPLOYED}responses"):
            for stream in (False, True):
                body = {"model": "m", "input": "hi", "stream": stream}
                answer = await running.post(body, path=path)
                assert responses.answer(answer.body, stream=stream)[0]["content"] == "ok"
        assert (await running.post({"input": "hi"}, path=f"{DEPLOYED}responses")).status == 200
        assert (await running.post({"input": "hi"}, path="/openai/v1/responses")).json["error"]["param"] == "model"


async def test_the_deployment_is_the_model_that_counts(store: Store) -> None:
    """Whatever the body says: the provider takes the path's. So does the key's list, and the budget of a model."""
    made = await ring(store).make_key(models=["cheap*"])
    budgets = [budget("model", "requests", 1, match="cheap-1")]
    async with live(store, auth={"mode": "keys"}, upstream={"api_key": "k"}, budgets=budgets) as running:
        running.provider.script = scripted(running)
        key = {"api-key": made.secret, "Authorization": ""}
        for route in ("chat/completions", "completions", "embeddings"):
            body = {"model": "cheap-1", "input": "x", "prompt": "x", **CHAT}
            refused = await running.post(body, key, path=f"/openai/deployments/dear/{route}")
            assert (refused.status, refused.json["error"]["code"]) == (404, "model_not_found"), route
        assert not running.provider.got
        path = "/openai/deployments/cheap-1/embeddings"
        assert [(await running.post({"input": "x"}, key, path=path)).status for _ in range(2)] == [200, 400]
        await running.proxy.quiet()
        assert [used for used, _ in (await counters(store)).values()] == [1]


async def test_routes_of_a_key_are_those_of_any_path(store: Store) -> None:
    made = await ring(store).make_key(routes=["/v1/audio/*"])
    async with live(store, auth={"mode": "keys"}, upstream={"api_key": "k"}) as running:
        key = {"api-key": made.secret, "Authorization": ""}
        for path, status in (
            (f"{DEPLOYED}audio/transcriptions", 200),
            ("/openai/v1/audio/speech", 200),
            ("/v1beta/openai/audio/speech", 200),
            ("/openai/files", 403),
            ("/v1beta/openai/files", 403),
            ("/v1beta/models/x:generateContent", 404),
        ):
            assert (await running.post({}, key, path=path)).status == status, path


async def test_several_upstreams_are_chosen_by_the_deployment(store: Store) -> None:
    entries = {"b": {"models": ["my-*"], "rename": {"my-gpt.4": "their gpt"}}}
    async with several(store, names="ab", entries=entries) as run:
        for route, body in (
            ("chat/completions", {"model": "anything", **CHAT}),
            ("chat/completions", CHAT),
            ("images/generations", {"prompt": "x"}),
        ):
            answer = await run.running.post(body, path=f"{DEPLOYED}{route}{DATE}")
            assert (answer.status, answer.headers["x-guardproxy-upstream"]) == (200, "b")
            got = run.providers["b"].got[-1]
            assert got.path == f"/openai/deployments/their%20gpt/{route}{DATE}"
            assert got.headers["api-key"]
            assert got.json == {**body, **({"model": "their gpt"} if "model" in body else {})}


UPLOAD = b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n' + bytes(range(256)) * 900


async def test_uploads_are_untouched(store: Store) -> None:
    async with live(store) as running:
        kind = {"Content-Type": "multipart/form-data; boundary=x"}
        for path in (f"{DEPLOYED}audio/transcriptions{DATE}", "/openai/files", "/v1beta/openai/files"):
            assert (await running.post(UPLOAD, kind, path=path)).status == 200
            got = running.provider.got[-1]
            assert (got.path, got.body) == (path, UPLOAD)


@pytest.mark.parametrize("mode", MODES)
async def test_openais_own_client_in_azures_way(store: Store, mode: str) -> None:
    """Unmodified but for the address: it names the deployment in the path and sends its key in `api-key`."""
    upstream = {} if mode == "passthrough" else {"api_key": "azure-key"}
    async with live(store, auth={"mode": mode}, upstream=upstream) as running:
        running.provider.script = scripted(running)
        key = await keys_of(mode, store)
        async with openai.AsyncAzureOpenAI(
            azure_endpoint=f"{running.url}/s/run-1", api_key=key, api_version="2024-10-21", max_retries=0
        ) as client:
            asked = client.chat.completions.create
            whole = await asked(model="my-gpt.4", messages=[{"role": "user", "content": "hi"}])
            assert whole.choices[0].message.content == "ok"
            stream = await asked(model="my-gpt.4", messages=[{"role": "user", "content": "hi"}], stream=True)
            said = [chunk.choices[0].delta.content async for chunk in stream if chunk.choices]
            assert "".join(text or "" for text in said) == "ok"
            assert (await client.completions.create(model="my-gpt.4", prompt="x")).choices[0].text == "ok"
            assert (await client.embeddings.create(model="my-gpt.4", input="x")).usage.prompt_tokens == 3
            if mode == "keys":
                with pytest.raises(openai.NotFoundError, match="does not exist for this key"):
                    await client.embeddings.create(model="other", input="x")
        for got in running.provider.got:
            assert got.path.startswith(DEPLOYED)
            assert got.path.endswith(DATE)
            assert got.headers["api-key"] == ("sk-client" if mode == "passthrough" else "azure-key")


async def test_openais_own_client_at_geminis_address(store: Store) -> None:
    async with live(store) as running:
        running.provider.script = scripted(running)
        base = f"{running.url}/v1beta/openai/"
        async with openai.AsyncOpenAI(base_url=base, api_key="k", max_retries=0) as client:
            messages: Any = [{"role": "user", "content": "hi"}]
            whole = await client.chat.completions.create(model="gemini-2.5-flash", messages=messages)
            assert whole.choices[0].message.content == "ok"
            assert (await client.embeddings.create(model="m", input="x")).usage.prompt_tokens == 3
        paths = ["/v1beta/openai/chat/completions", "/v1beta/openai/embeddings"]
        assert [got.path for got in running.provider.got] == paths
