"""Where a request goes: the session in its path, the surface however its path is spelled, paths that are refused.

The operator's key is attached to what is passed on, and providers decode paths each in their own way: what any of them
could take for a surface's path is served as that surface, and what nobody spells in good faith goes nowhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from urllib.parse import quote, unquote

from guardproxy import api
from guardproxy.api import IN_PATH
from guardproxy.errors import BadAsk

_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_BLANK = re.compile(r"[\x00-\x20\x7f]")
_PLAIN = re.compile(r"(?:/[A-Za-z0-9_~:@!$&'()*+,=-][A-Za-z0-9_.~:@!$&'()*+,=-]*)+")  # nothing to decode or resolve

ROUNDS = 4
"""Times that a path is percent-decoded; what changes still after them is refused."""

OPENAI = "/v1"
AZURE = ("openai",)
STYLES = (("v1",), ("v1beta", "openai"), ("openai", "v1"), AZURE)
"""What stands before a route: OpenAI's way, Gemini's for OpenAI's clients, Azure's newer one, and Azure's with a date
in the query and mostly a deployment.
"""

DEPLOYMENTS = "deployments"
"""Azure's word; the segment behind it names the model, and the provider takes no other."""

_SAFE = "~:@!$&'()*+,="


@dataclass(frozen=True, slots=True)
class Target:
    """`path`: what is asked of the provider, query included. `surface`: None for what is passed on unread.

    `route`: the path, of a surface in its one spelling. `model`: named in the path, as Azure's deployments are.
    """

    session: str
    path: str
    route: str
    surface: ModuleType | None
    model: str = ""

    def noted(self, headers: dict[str, str]) -> dict[str, str]:
        """The headers of the request with what its path says; nobody says that in a header."""
        headers.pop(IN_PATH, None)
        if self.session:
            headers["x-guardproxy-path-session"] = self.session
        if self.model:
            headers[IN_PATH] = self.model
        return headers


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
    route, style, model = _spelled(address)
    surface = api.PATHS.get(route)
    if surface is not None:
        return Target(session, style + route.removeprefix(OPENAI) + mark + query, route, surface, model)
    _check(address)
    return Target(session, address + mark + query, address if style == OPENAI else route, None, model)


def canonical(address: str) -> str:
    """The one spelling of a path: decoded, resolved, in lower case, under /v1, whatever stands in its place."""
    return _spelled(address)[0]


def _spelled(address: str) -> tuple[str, str, str]:
    """(the one spelling of a path, what stands before it in the provider's way, the model that is named there)."""
    if address.startswith("/v1/") and address in api.PATHS:
        return address, OPENAI, ""  # nearly always
    kept: list[str] = []
    for segment in _BLANK.sub("", _decoded(address)).replace("\\", "/").split("/"):
        word = segment.partition(";")[0]
        if word == "..":
            del kept[-1:]
        elif word not in ("", "."):
            kept.append(word)
    words, style, model = [word.lower() for word in kept], OPENAI, ""
    while found := next((one for one in STYLES if tuple(words[: len(one)]) == one), None):
        kept, words = kept[len(found) :], words[len(found) :]
        if found != STYLES[0]:
            style, model = "/" + "/".join(found), ""  # in front of a second style no deployment is asked for
        if found == AZURE and words[:1] == [DEPLOYMENTS] and len(words) > 2:
            model, style = kept[1], f"{style}/{DEPLOYMENTS}/{quote(kept[1], safe=_SAFE)}"
            kept, words = kept[2:], words[2:]
    return "/".join((OPENAI, *words)), style, model


def deployed(path: str, model: str) -> str:
    """A path that names a model, with another name in its place."""
    head, mark, rest = path.partition(f"/{DEPLOYMENTS}/")
    _, slash, route = rest.partition("/")
    return head + mark + quote(model, safe=_SAFE) + slash + route


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
