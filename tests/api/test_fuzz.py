"""Streams of all surfaces, spoilt and cut at random: never an exception, what goes out is what came in, and what
is seen does not depend on where it was cut.

2,000 streams of each surface every time, others with another `SEED`; 100,000 in `make verify`, for the watcher alone: a
stream costs it half a millisecond. What is edited, held and joined has fuzzes of its own beside the tests of each
surface (`GUARDPROXY_FUZZ` multiplies those).
"""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from types import ModuleType

import pytest

from guardproxy import api
from guardproxy.api import passthrough
from guardproxy.core.model import Ask

GOLDEN = Path(__file__).parent / "golden"
SEED = int(os.environ.get("GUARDPROXY_FUZZ_SEED", "1"))
OFTEN, ALL = 2_000, 100_000

ASKS = {
    "chat": {"messages": [{"role": "user", "content": "hi"}]},
    "responses": {"input": "hi"},
    "messages": {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 9},
    "completions": {"prompt": "hi"},
}
SURFACES = tuple(ASKS)
LAZY = ("responses",)
"""Where pieces are not read that a whole item follows: where the two differ, it matters when one asks."""

VALUES = [
    b"null",
    b"[]",
    b"{}",
    b'""',
    b"0",
    b"-1",
    b"1e999",
    b"NaN",
    b"true",
    b'"x"',
    b"[[[[",
    b"99999999999999999999",
]
PIECES = [b"\r", b"\n", b"\r\n", b"\n\n", b"\r\r", b":", b": keep-alive\n\n", b"data:", b"data: ", b"event: x\n"]
PIECES += [b"\x00", b"\xff", b"\xe2\x82", b"\\ud83d", b'"', b"\\", b"{", b"}", b"\xef\xbb\xbf", b"id: 1\n"]
PIECES += [b"data: [DONE]\n\n", b"[DONE]", b'data: {"error":{"message":"x"}}\n\n', b'"usage":null,']
PIECES += [b'data: {"choices":[],"usage":{"prompt_tokens":1}}\n\n']


def goldens(name: str) -> list[bytes]:
    """The streams that a surface has files of; of embeddings, the answers."""
    found = sorted((GOLDEN / name).glob("streams/*.sse")) or sorted((GOLDEN / name).glob("answers/*.json"))
    return [path.read_bytes() for path in found if path.name.count(".") == 1]


def spoilt(raw: bytes, others: list[bytes], chance: random.Random) -> bytes:
    """A stream with some of its bytes, values or events lost, doubled, moved, changed, or taken from another one."""
    if chance.random() < 0.15:
        raw = raw.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\n\n")))
    for _ in range(chance.randint(0, 4)):
        at = chance.randrange(len(raw) + 1)
        kind = chance.randrange(6)
        if kind == 0:
            raw = raw[:at] + raw[at + chance.randint(1, 40) :]
        elif kind == 1:
            raw = raw[:at] + chance.choice(PIECES) + raw[at:]
        elif kind == 2:
            raw = raw[:at] + chance.randbytes(chance.randint(1, 4)) + raw[at + 1 :]
        elif kind == 3:
            colon = raw.find(b'":', at)
            end = min((raw.find(sign, colon + 2) for sign in (b",", b"}") if raw.find(sign, colon + 2) > 0), default=-1)
            raw = raw if colon < 0 or end < 0 else raw[: colon + 2] + chance.choice(VALUES) + raw[end:]
        elif kind == 4:
            events = raw.split(b"\n\n")
            one, two = chance.randrange(len(events)), chance.randrange(len(events))
            events[one], events[two] = events[two], events[one]
            raw = b"\n\n".join(events)
        else:
            events = chance.choice(others).split(b"\n\n")
            raw = raw[:at] + chance.choice(events) + b"\n\n" + raw[at:]
    return raw


def cut(raw: bytes, chance: random.Random) -> list[bytes]:
    """The stream in pieces, sometimes very small ones."""
    if chance.random() < 0.1:
        size = chance.randint(1, 9)
        return [raw[at : at + size] for at in range(0, len(raw), size)]
    ends = sorted(chance.randrange(len(raw) + 1) for _ in range(chance.randint(0, 8)))
    return [part for a, b in zip([0, *ends], [*ends, len(raw)], strict=True) if (part := raw[a:b])]


def asked(name: str) -> tuple[ModuleType, Ask]:
    surface = api.SURFACES[name]
    return surface, surface.read(json.dumps({"model": "m", "stream": True, **ASKS[name]}).encode(), {})


def fuzzed(name: str, count: int, seed: int) -> None:
    surface, ask = asked(name)
    streams = goldens(name)
    for number in range(count):
        chance = random.Random(f"{name} {seed} {number}")
        raw = spoilt(chance.choice(streams), streams, chance)
        where = f"{name}, seed {seed}, number {number}"
        seen = []
        for pieces in (cut(raw, chance), [raw]):
            watcher = surface.watch(ask)
            out = b""
            for piece in pieces:
                out += watcher.feed(piece)
                if len(pieces) < 10 and name not in LAZY:
                    watcher.text_chars  # noqa: B018  # what waits to be read is read now
            assert out + watcher.finish() == raw, where
            assert not watcher.touched, where
            seen.append((watcher.seen(), watcher.failed, watcher.ended))
        assert seen[0] == seen[1], where
        found = seen[0][0]
        for text in (
            found.text,
            found.response_id,
            found.response_model,
            *(part for call in found.calls for part in call),
        ):
            text.encode()


@pytest.mark.parametrize("name", SURFACES)
def test_spoilt_streams(name: str) -> None:
    fuzzed(name, OFTEN, SEED)


@pytest.mark.verify
@pytest.mark.parametrize("part", range(10))
@pytest.mark.parametrize("name", SURFACES)
def test_many_spoilt_streams(name: str, part: int) -> None:
    fuzzed(name, ALL // 10, SEED + 1 + part)


@pytest.mark.parametrize("count", [OFTEN, pytest.param(ALL, marks=pytest.mark.verify)])
def test_spoilt_embeddings_and_what_is_passed_on(count: int) -> None:
    """Both are read without being parsed where they are long, so the long ones are among these."""
    surface = api.SURFACES["embeddings"]
    ask = surface.read(b'{"model":"m","input":"x"}', {})
    short = [raw for raw in goldens("embeddings") if len(raw) < 4096]
    streams = [raw for name in SURFACES for raw in goldens(name)]
    for number in range(count):
        chance = random.Random(f"{SEED} {number}")
        raw = spoilt(chance.choice(short), short, chance)
        if chance.random() < 0.05:
            raw = raw[:-1] + b" " * surface.SMALL + raw[-1:]
        watcher = surface.watch(ask)
        assert b"".join([watcher.feed(piece) for piece in cut(raw, chance)]) + watcher.finish() == raw
        watcher.seen().response_model.encode()
        kind, raw = ("application/json", raw) if number % 2 else ("text/event-stream", chance.choice(streams))
        seen = []
        for pieces in (cut(raw, chance), [raw]):
            look = passthrough.Seen(kind)
            for piece in pieces:
                look.feed(piece)
            look.over()
            seen.append((look.usage, look.model))
        assert seen[0] == seen[1], (SEED, number)


def test_there_is_something_to_spoil() -> None:
    assert {name: len(goldens(name)) >= 12 for name in SURFACES} == dict.fromkeys(SURFACES, True)
    assert len(goldens("embeddings")) >= 5
