"""Errors in OpenAI's shape, for every surface that speaks it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guardproxy.api._gate import Joint
from guardproxy.api._json import dumps
from guardproxy.api._too_long import unlike
from guardproxy.errors import GuardError

NOTHING: Mapping[str, object] = MappingProxyType({})


def error(err: GuardError, extra: Mapping[str, object] = NOTHING) -> bytes:
    """The body of an error answer; `extra` adds machine fields (limit, used, …) inside `error`."""
    fields = {"message": unlike(err.message), "type": err.kind, "code": err.code, "param": err.param}
    return dumps({"error": {**fields, **extra}})


def failure(err: GuardError, joint: Joint | None = None) -> bytes:  # a chunk has no number
    """The event that tells of an error inside a stream. `joint`: what was given of it."""
    return b"data: " + error(err) + b"\n\n"
