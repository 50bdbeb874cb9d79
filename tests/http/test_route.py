"""Spellings of paths: none goes past a surface unread, and none that a provider may read otherwise is passed on."""

from __future__ import annotations

import pytest

from guardproxy.errors import BadAsk
from guardproxy.http.route import resolve, split

CHAT = "/v1/chat/completions"
SPELLED = [
    CHAT,
    "/chat/completions",
    "//v1//chat///completions//",
    "/v1/chat%2fcompletions",
    "/v1/chat%252Fcompletions",
    "/%76%31/ch%61t/completions",
    "/v1/./chat/x/../completions/.",
    "/../v1/chat/completions",
    "/v1/embeddings/%2e%2e/chat/completions",
    "/v1/files/..;a=b/chat/completions;x=1",
    "/V1/Chat/COMPLETIONS",
    "/v1/chat\\completions",
    "/v1/chat%5ccompletions",
    "/v1/chat/completions%20",
    "/v1/chat/completions%00",
    "/v1/chat/comple\ttions",
    "/v1/chat/completions#x",
    "http://host/v1/chat/completions",
    "HTTPS://user@host:1/v1/chat/completions",
]


@pytest.mark.parametrize("path", SPELLED)
def test_every_spelling_is_the_surface(path: str) -> None:
    target = resolve(path)

    assert target.surface is not None
    assert (target.path, target.route) == (CHAT, CHAT)
    query = "?a=%2F..&b=\\"
    assert resolve(path.partition("#")[0] + query).path == CHAT + query
    assert resolve("/s/run" + path).session == "run" if path[0] == "/" else True


@pytest.mark.parametrize(
    "path",
    [
        "/v1/files/../models",
        "/v1/files/%2e%2E/models",
        "/v1/files/.%252e/models",
        "/v1/./models",
        "/v1/files/..;/models",
        "/v1/models/a%2fb",
        "/v1/models/a%252fb",
        "/v1/models\\a",
        "/v1/models%5Ca",
        "/v1/models/%0d%0aX",
        "/v1/models/%25252525252561",
        "/v1/mod els",
    ],
)
def test_refused(path: str) -> None:
    with pytest.raises(BadAsk) as caught:
        resolve(path)

    assert (caught.value.status, caught.value.code) == (400, "invalid_path")


@pytest.mark.parametrize(
    "path",
    ["/v1/models", "/v1//models/", "/v1/files/f%201?a=../b#", "/v1/models/a:b@c", "/healthz", "/", "*", "/v1/chat"],
)
def test_others_stay_as_they_are(path: str) -> None:
    target = resolve(path)

    assert (target.surface, target.path) == (None, path.partition("#")[0])


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/v1/models", ("", "/v1/models")),
        ("/s/a/v1/models?x=1", ("a", "/v1/models?x=1")),
        ("/s/a%20b/v1", ("a b", "/v1")),
        ("/s/a%2Fb/v1", ("a/b", "/v1")),
        ("/s/%C3%A9/v1", ("\u00e9", "/v1")),
        ("/s/a%0D%0Ab/v1", ("a%0D%0Ab", "/v1")),  # it would stand in a header
        ("/s/a", ("a", "")),
        ("/s/", ("", "")),
        ("/sessions/a", ("", "/sessions/a")),
        ("http://h/s/a/v1", ("a", "/v1")),
        ("http://h", ("", "/")),
    ],
)
def test_split(path: str, expected: tuple[str, str]) -> None:
    assert split(path) == expected
