"""Every other /v1/ path: passed on as it is, counted, not read. Pure.

Only the usage of a small JSON answer is looked at, so that what it cost is known.
"""

from __future__ import annotations

from guardproxy.api._error import error
from guardproxy.api._json import peek
from guardproxy.api._model import model_of, renamed
from guardproxy.api._usage import usage_of
from guardproxy.core.model import Usage

__all__ = ["PATHS", "PREFIX", "SURFACE", "error", "model_of", "renamed", "usage"]

SURFACE = "passthrough"
PREFIX = "/v1/"
PATHS: tuple[str, ...] = ()

MAX_READ = 1024 * 1024
"""A larger answer (files, audio, lists of embeddings) is not parsed for its usage."""


def usage(body: bytes, content_type: str) -> Usage | None:
    """The usage that a small JSON answer states; None where it states none."""
    if "json" not in content_type.lower() or len(body) > MAX_READ:
        return None
    payload = peek(body)
    return usage_of(payload.get("usage")) if isinstance(payload, dict) else None
