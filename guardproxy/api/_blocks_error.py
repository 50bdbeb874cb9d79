"""Errors in Anthropic's shape: an answer, and the event of a stream."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from guardproxy.api._gate import Joint
from guardproxy.api._json import dumps
from guardproxy.api._too_long import unlike
from guardproxy.errors import GuardError

NOTHING: Mapping[str, object] = MappingProxyType({})

KINDS = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""The kind of an error by its status, as the reference has it; other ones are by their class."""

FINAL, FINAL_KIND = frozenset(("budget_exceeded", "session_cut", "session_paused", "unknown_price")), "billing_error"
"""Refusals with 400 that no change of the request gets round: Claude Code (2.1.332) tries an `invalid_request_error`
five times more, leaving out one beta after another, and this kind not once more."""


def error(err: GuardError, extra: Mapping[str, object] = NOTHING) -> bytes:
    """The body of an error answer; `code`, `param` and what `extra` adds are ours, inside `error`.

    `details.error_code` is where the SDKs look for the cause.
    """
    kind = KINDS.get(err.status, "invalid_request_error" if err.status < 500 else "api_error")
    if err.status == 400 and err.code in FINAL:
        kind = FINAL_KIND
    details = {"error_code": err.code}
    fields = {"type": kind, "message": unlike(err.message), "code": err.code, "param": err.param, "details": details}
    return dumps({"type": "error", "error": {**fields, **extra}})


def failure(err: GuardError, joint: Joint | None = None) -> bytes:  # the event has no number
    """The event that tells of an error inside a stream. `joint`: what was given of it."""
    return b"event: error\ndata: " + error(err) + b"\n\n"
