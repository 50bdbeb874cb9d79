"""The model that a JSON body names, and the same body with another name in its place. Pure."""

from __future__ import annotations

import re

from guardproxy.api import _splice
from guardproxy.api._json import dumps, peek
from guardproxy.api._splice import Span

_KEY = b'"model"'
_COLON = re.compile(rb"[ \t\n\r]*:[ \t\n\r]*")


def model_of(body: bytes) -> str:
    """The model that a request names; "" where it names none, or is no JSON object."""
    payload = peek(body)
    model = payload.get("model") if isinstance(payload, dict) else None
    return model.encode("utf-8", "replace").decode() if isinstance(model, str) else ""


def renamed(body: bytes, model: str, name: str) -> bytes:
    """The body with `name` in place of `model`, every other byte as it was; for one whose `model_of` is `model`."""
    span = _only(body, dumps(model)) or _found(body)
    return body if span is None else _splice.apply(body, [(*span, dumps(name))])


def _only(body: bytes, value: bytes) -> Span | None:
    """Where the value stands if it stands behind such a key only once: then no look through the whole is needed.

    In a string both quotes of a key are escaped, so that none of it is taken for one.
    """
    spans: list[Span] = []
    at = body.find(_KEY)
    while at >= 0:
        end = at + len(_KEY)
        colon = _COLON.match(body, end)
        if colon and body.startswith(value, colon.end()) and body[at - 1 : at] != b"\\":
            spans.append((colon.end(), colon.end() + len(value)))
        at = body.find(_KEY, end)
    return spans[0] if len(spans) == 1 else None


def _found(body: bytes) -> Span | None:
    text = _splice.mask(body)
    return _splice.members(text, _splice.root(text)).get("model")
