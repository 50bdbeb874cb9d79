"""Costs taken inside this process: parsing a body, fingerprinting a new step, all detectors on a full trail."""

from __future__ import annotations

import gc
import itertools
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import orjson

from . import bodies


def micros(call: Callable[[], object], seconds: float = 0.2) -> float:
    """CPU microseconds a call: median of seven rounds."""
    began = time.perf_counter()
    call()
    loops = max(1, int(seconds / 7 / max(1e-7, time.perf_counter() - began)))
    rounds = []
    for _ in range(7):
        start = time.process_time_ns()
        for _ in range(loops):
            call()
        rounds.append((time.process_time_ns() - start) / loops / 1e3)
    return statistics.median(rounds)


def parse_us(shape: str) -> float:
    """CPU of parsing an average request of a shape."""
    requests = bodies.requests(bodies.SHAPES[shape], 10_000_000_000)
    return statistics.mean(micros(lambda body=body: orjson.loads(body), 0.05) for body in requests)  # type: ignore[misc]


def steps_of(requests: list[bytes]) -> list[tuple[dict[str, Any], str]]:
    """Calls and results of the longest request."""
    messages = json.loads(requests[-1])["messages"]
    return [(m["tool_calls"][0], after["content"]) for m, after in itertools.pairwise(messages) if m.get("tool_calls")]


def step_us() -> float:
    """CPU of fingerprinting one step that is not in the memo: M's calls, results of 2.1 KB on average."""
    from guardproxy.core.fingerprint import Fingerprinter
    from guardproxy.core.model import Call, Message

    printer = Fingerprinter(bytes(32))
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # as a worker sets it
    fresh = []
    for token in range(10_000_000_000, 10_000_000_120):  # the seed may not begin with a zero
        for call, result in steps_of(bodies.requests(bodies.SHAPES["M"], token, token % 8)):
            function = call["function"]
            message = Message("tool", result, call_id=call["id"])
            fresh.append((Call(function["name"], function["arguments"], call["id"]), message))
    costs = []
    for first in range(0, len(fresh) - 99, 100):
        start = time.process_time_ns()
        for one, message in fresh[first : first + 100]:
            printer.step(one, message, first=True, at_ms=0)
        costs.append((time.process_time_ns() - start) / 100 / 1e3)
    return statistics.median(costs)


def detectors_us() -> float:
    """CPU of all detectors on a trail of 64 healthy steps (a full ring)."""
    from guardproxy.core.detectors import default_settings, detect_all
    from guardproxy.core.fingerprint import Fingerprinter
    from guardproxy.core.model import Call, Message, Trail

    printer = Fingerprinter(bytes(32))
    steps = []
    for call, result in steps_of(bodies.requests(bodies.SHAPES["GG"], 10_000_000_000))[:64]:
        function = call["function"]
        message = Message("tool", result, call_id=call["id"])
        steps.append(printer.step(Call(function["name"], function["arguments"]), message, first=True, at_ms=0))
    ring, settings = tuple(steps), default_settings()
    return micros(lambda: detect_all(Trail(ring), settings), 0.5)  # a new trail each: what is read of one is kept
