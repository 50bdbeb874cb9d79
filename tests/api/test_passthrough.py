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
