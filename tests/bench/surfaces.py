"""What the other surfaces cost beside chat: the same conversations read, the same answers watched, in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from types import ModuleType

from guardproxy import api
from tests.live import Said
from tests.surfaces import OTHERS, SURFACES

from . import bodies
from .micro import micros

WORDS = 400
"""Pieces of text of the answer that is watched."""


def costs() -> dict[str, float]:
    """By figure: CPU on a surface divided by chat's."""
    out = {}
    chat = _reads("chat"), _chunks("chat")
    for name in OTHERS:
        reads, chunks = _reads(name), _chunks(name)
        for shape in reads:
            out[f"{name} {shape}"] = reads[shape] / chat[0][shape]
        out[f"{name} chunk"] = chunks / chat[1]
    return out


def _reads(name: str) -> dict[str, float]:
    """CPU of reading the requests of a run, whose beginnings are known, as a worker knows them."""
    surface, spoken = api.SURFACES[name], SURFACES[name]
    found = {}
    for shape in ("M", "L"):
        listed = bodies.requests(bodies.SHAPES[shape], 10_000_000_000)
        said = [json.dumps(spoken.request(json.loads(body))).encode() for body in listed]
        found[shape] = micros(lambda said=said: _read(surface, said))  # type: ignore[misc]
    return found


def _read(surface: ModuleType, said: Sequence[bytes]) -> None:
    prefixes = api.Prefixes(7)
    for body in said:
        surface.read(body, {}, short=True, prefixes=prefixes)


def _chunks(name: str) -> float:
    """CPU of an event of an answer that passes."""
    surface, spoken = api.SURFACES[name], SURFACES[name]
    chat = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": True}
    ask = surface.read(json.dumps(spoken.request(chat)).encode(), {})
    events = spoken.events(Said("word " * 2), usage=True)
    at = next(number for number, event in enumerate(events) if b"word" in event)
    stream = [*events[:at], *[events[at].replace(b"word", b"word%d" % n) for n in range(WORDS)], *events[at + 1 :]]

    def watch() -> None:
        watcher = surface.watch(ask)
        for event in stream:
            watcher.feed(event)
            watcher.ended  # noqa: B018  # asked after each chunk by whoever relays it
        watcher.finish()

    return micros(watch) / len(stream)
