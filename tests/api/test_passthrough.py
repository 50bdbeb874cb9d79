"""The pass-through reads nothing but the usage of small JSON answers."""

from __future__ import annotations

import pytest

from guardproxy import api
from guardproxy.api import passthrough
from guardproxy.core.model import Usage

SMALL = b'{"object":"list","usage":{"prompt_tokens":3,"total_tokens":3}}'
LARGE = b'{"x":"' + b"y" * passthrough.MAX_READ + b'","usage":{"prompt_tokens":3}}'


@pytest.mark.parametrize(
    ("body", "kind", "usage"),
    [
        (SMALL, "application/json", Usage(3)),
        (SMALL, "Application/JSON; charset=utf-8", Usage(3)),
        (SMALL, "text/plain", None),
        (LARGE, "application/json", None),
        (b"{", "application/json", None),
        (b"[]", "application/json", None),
        (b"", "", None),
    ],
)
def test_usage(body: bytes, kind: str, usage: Usage | None) -> None:
    assert passthrough.usage(body, kind) == usage


def test_it_has_a_prefix_and_no_path() -> None:
    assert api.SURFACES["passthrough"] is passthrough
    assert passthrough.PREFIX == "/v1/"
    assert passthrough not in api.PATHS.values()


MODELS = {
    b'{"model":"m"}': "m",
    b'{"model":"\\u00e9\\ud800"}': "é?",
    b'{"a":{"model":"x"},"model":"m"}': "m",
    b'{"model":"x","model":"m"}': "m",
    b'{"model":7}': "",
    b'{"a":1}': "",
    b'["model"]': "",
    b"": "",
    b"\xff": "",
    b"[" * 100_000: "",
}


@pytest.mark.parametrize("body", MODELS, ids=lambda body: repr(body[:20]))
def test_model(body: bytes) -> None:
    assert passthrough.model_of(body) == MODELS[body]


RENAMED = {
    b'{"model":"m"}': b'{"model":"n\\"w"}',
    b' { "x" : "\\"model\\":\\"m\\"", "model" : "\\u006d" , "n":1.10 }\n': (
        b' { "x" : "\\"model\\":\\"m\\"", "model" : "n\\"w" , "n":1.10 }\n'
    ),
    b'{"m":{"model":"m"},"model":"m"}': b'{"m":{"model":"m"},"model":"n\\"w"}',
    b'\xef\xbb\xbf{"model":"m"}': b'\xef\xbb\xbf{"model":"n\\"w"}',
    b'{"model":"m","x":{"model":"m"}}': b'{"model":"n\\"w","x":{"model":"m"}}',
    b'{"x":{"model":"l","model":{}},"model":"m"}': b'{"x":{"model":"l","model":{}},"model":"n\\"w"}',
    b'{"x\\"model":"m","model":"m"}': b'{"x\\"model":"m","model":"n\\"w"}',
    b'{"model":"m","model":"m"}': b'{"model":"m","model":"n\\"w"}',
    b'{"a":1}': b'{"a":1}',
}


@pytest.mark.parametrize("body", RENAMED)
def test_renamed(body: bytes) -> None:
    assert passthrough.renamed(body, "m", 'n"w') == RENAMED[body]
