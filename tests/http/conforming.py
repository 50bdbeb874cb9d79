"""Whether an answer of the admin API is one that its own OpenAPI document speaks of."""

from __future__ import annotations

import json
import re
from functools import cache
from typing import Any

import jsonschema_rs

from guardproxy.http import objects
from guardproxy.http.objects._openapi import PREFIX, document


@cache
def told() -> dict[str, Any]:
    return document(objects.ROUTES)


def operation(method: str, path: str) -> dict[str, Any] | None:
    """What the document says of a request."""
    plain = path.partition("?")[0]
    for template, methods in told()["paths"].items():
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template)), plain):
            return methods.get(method.lower())  # type: ignore[no-any-return]
    return None


@cache
def _validator(kind: str, text: str) -> Any:
    """The schemas are closed: what they do not speak of is wrong."""
    schema = json.loads(text)
    return jsonschema_rs.Draft202012Validator(schema | {"components": told()["components"]})


def check(method: str, path: str, status: int, kind: str, body: Any) -> None:
    """AssertionError for a status, a content type or a body that the document does not have."""
    said = operation(method, path)
    if said is None:
        assert status in (401, 403, 404, 405), (method, path, status)
        return
    assert str(status) in said["responses"], (method, path, status, body)
    content = said["responses"][str(status)]["content"]
    assert kind in content, (kind, content)
    wrong = list(_validator(kind, json.dumps(content[kind]["schema"])).iter_errors(body))
    assert not wrong, (method, path, [one.message for one in wrong])


__all__ = ["PREFIX", "check", "operation", "told"]
