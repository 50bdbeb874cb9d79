"""The model that a JSON body names, and the same body with another name in its place. Pure."""

from __future__ import annotations

from guardproxy.api import _splice
from guardproxy.api._json import dumps, peek


def model_of(body: bytes) -> str:
    """The model that a request names; "" where it names none, or is no JSON object."""
    payload = peek(body)
    model = payload.get("model") if isinstance(payload, dict) else None
    return model.encode("utf-8", "replace").decode() if isinstance(model, str) else ""


def renamed(body: bytes, model: str) -> bytes:
    """The body with `model` as its model, every other byte as it was; for one whose `model_of` is not ""."""
    text = _splice.mask(body)
    found = _splice.members(text, _splice.root(text)).get("model")
    return body if found is None else _splice.apply(body, [(*found, dumps(model))])
