"""Surfaces as tests speak them. A scenario is written once, in chat's terms; a file here says it on its surface.

Every surface has, all of it in terms of chat's JSON:

- `NAME`, `PATH`; `MESSAGES`, the key of the conversation in a request; `ASKS_USAGE`, whether the proxy asks for stream
  usage; `PART`, the type of a part of text in a request; `FORBID`, an expression for what keeps a model from calls in a
  request, with what follows it; `CASES`, those that cannot be told there for reasons of their own;
- `request(chat)`: the body that a client of the surface sends; `messages(body)`: such a body's messages, chat's way;
- `whole(said)`, `events(said, usage=…)`: a scripted answer of the provider, in one piece and as the chunks of a stream;
- `answer(body, stream=…)`: message, finish reason and usage that a client reads, with what must hold of every answer;
- `neutral(message)`: a message as the proxy sees it; `unsaid(call)`: why a call cannot be said here, or "".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType
from typing import Any

from guardproxy import api
from guardproxy.api import _splice

SURFACES: Mapping[str, ModuleType] = MappingProxyType(
    {module.name: import_module(f"{__name__}.{module.name}") for module in iter_modules(__path__)}
)
"""By name."""

OTHERS = tuple(sorted((SURFACES.keys() & api.SURFACES.keys()) - {"chat"}))
"""Names of those beside chat, as far as the proxy has them."""


def raw_messages(surface: ModuleType, body: bytes) -> list[bytes]:
    """The messages of a request as they are spelled."""
    text = _splice.mask(body)
    start, _ = _splice.members(text, _splice.root(body))[surface.MESSAGES]
    if text[start] != ord("["):
        return [body[slice(*_splice.members(text, _splice.root(body))[surface.MESSAGES])]]
    return [body[first:last] for first, last in _splice.items(text, start)]


def spelled(surface: ModuleType, body: bytes) -> bytes:
    """The messages of a request as they are spelled, without the closing bracket."""
    text = _splice.mask(body)
    start, end = _splice.members(text, _splice.root(body))[surface.MESSAGES]
    return body[start : end - 1]


def unsaid(surface: ModuleType, answers: Iterable[Any]) -> str:
    """Why these scripted answers (of chat's kind) cannot be given on a surface; "" where they can."""
    if surface.NAME == "chat":
        return ""
    for said in answers:
        if said.raw is not None:
            return "the bytes of the answer are the case, and they are chat's"
        move = getattr(said, "move", None)
        if move is not None and (move.deltas or move.legacy):
            return "a form of calls that only chat has"
        for call in said.calls:
            if why := surface.unsaid(call):
                return str(why)
    return ""
