"""Where a request goes: the session in its path, the surface however its path is spelled, paths that are refused.

The operator's key is attached to what is passed on, and providers decode paths each in their own way: what any of them
could take for a surface's path is served as that surface, and what nobody spells in good faith goes nowhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from urllib.parse import unquote

from guardproxy import api
from guardproxy.errors import BadAsk

_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_~:@!$&'()*+,=-][A-Za-z0-9_.~:@!$&'()*+,=-]*)+")  # nothing to decode or resolve

ROUNDS = 4
"""Times that a path is percent-decoded; what changes still after them is refused."""


@dataclass(frozen=True, slots=True)
class Target:
    """`path`: what is asked of the provider, query included. `surface`: None for what is passed on unread."""

    session: str
    path: str
    route: str
    surface: ModuleType | None


def split(target: str) -> tuple[str, str]:
    """The session named in a request target `/s/{session}/…`, decoded, and the rest of the target."""
    if target[:1] != "/":
        target = _ABSOLUTE.sub("", target, count=1) or "/"
    if not target.startswith("/s/"):
        return "", target
    session, slash, rest = target[3:].partition("/")
    decoded = unquote(session)
    return decoded if decoded.isprintable() else session, slash + rest


@lru_cache(maxsize=1024)
def resolve(target: str) -> Target:
    """Where a request target leads. Raises `BadAsk` for a path that is passed on nowhere."""
    session, rest = split(target)
    address, mark, query = rest.partition("#")[0].partition("?")
    path = canonical(address)
    surface = api.PATHS.get(path)
    if surface is not None:
        return Target(session, path + mark + query, path, surface)
    _check(address)
    return Target(session, address + mark + query, address, None)


def canonical(address: str) -> str:
    """The one spelling of a path: decoded, resolved, in lower case, under /v1."""
    if address.startswith("/v1/") and address in api.PATHS:
        return address  # nearly always
    kept: list[str] = []
    for segment in _BLANK.sub("", _decoded(address)).replace("\\", "/").split("/"):
        word = segment.partition(";")[0].lower()
        if word == "..":
            del kept[-1:]
        elif word not in ("", "."):
            kept.append(word)
    return "/" + "/".join(kept if kept[:1] == ["v1"] else ["v1", *kept])


def _decoded(address: str) -> str:
    for _ in range(ROUNDS):
        if "%" not in address:
            break
        address = unquote(address)
    return address


def _check(address: str) -> None:
    """Refuse what a provider could read as another path than we do."""
    if _PLAIN.fullmatch(address):
        return
    decoded = _decoded(address)
    dots = any(segment.partition(";")[0] in (".", "..") for segment in re.split(r"[/\\]", decoded))
    slashes = "\\" in decoded or decoded.count("/") != address.count("/")
    if (
        dots
        or slashes
        or _BLANK.search(address)
        or re.search(r"[\x00-\x1f\x7f]", decoded)
        or unquote(decoded) != decoded
    ):
        message = "a path with dot segments, encoded slashes, backslashes or control characters is not passed on"
        raise BadAsk(message, code="invalid_path")
