"""What the other surfaces cost beside chat: the same conversations read, the same answers watched, in this process."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial
from types import ModuleType

from guardproxy import api
from guardproxy.core.model import Ask
from tests.live import Said
from tests.surfaces import OTHERS, SURFACES

from . import bodies
from .micro import micros

WORDS = 400
"""Pieces of text of the answer that is watched."""

NEIGHBOURS, SIZE = ("completions", "embeddings"), 2000
"""Surfaces without a conversation, and the words of a request on them."""


def costs() -> dict[str, float]:
    """By figure: CPU on a surface divided by chat's."""
    out = {}
    chat = _reads("chat"), _chunks("chat")
    for name in OTHERS:
        reads, chunks = _reads(name), _chunks(name)
        for shape in reads:
            out[f"{name} {shape}"] = reads[shape] / chat[0][shape]
        out[f"{name} chunk"] = chunks / chat[1]
    return {**out, **_neighbours(chat[1])}


def _neighbours(chat_chunk: float) -> dict[str, float]:
    """The same of completions and embeddings, which have no conversation: a request of ten kilobytes, read anew."""
    text, most = "word " * SIZE, {"model": "m", "max_tokens": 9}
    asks = {
        "chat": {**most, "messages": [{"role": "user", "content": text}]},
        "completions": {**most, "prompt": text},
        "embeddings": {"model": "m", "input": [text]},
    }
    reads = {name: micros(partial(api.SURFACES[name].read, json.dumps(ask).encode(), {})) for name, ask in asks.items()}
    found = {f"{name} read": reads[name] / reads["chat"] for name in NEIGHBOURS}
    chunk = {"id": "cmpl-1", "object": "text_completion", "created": 1, "model": "mock-1"}
    texts = [{**chunk, "choices": [{"text": f"word{n} ", "index": 0, "finish_reason": None}]} for n in range(WORDS)]
    events = [b"data: " + json.dumps(one).encode() + b"\n\n" for one in texts]
    ask = api.SURFACES["completions"].read(b'{"model":"m","prompt":"hi","stream":true}', {})
    return {
        **found,
        "completions chunk": micros(partial(_watch, api.SURFACES["completions"], ask, events)) / WORDS / chat_chunk,
    }


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
    return micros(partial(_watch, surface, ask, stream)) / len(stream)


def _watch(surface: ModuleType, ask: Ask, stream: Sequence[bytes]) -> None:
    watcher = surface.watch(ask)
    for event in stream:
        watcher.feed(event)
        watcher.ended  # noqa: B018  # asked after each chunk by whoever relays it
    watcher.finish()
