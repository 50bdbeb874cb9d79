"""Detectors are timed on the first turns that have steps, then on one in 256; one that raises costs nothing."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from guardproxy.core.detectors import RULES
from guardproxy.core.model import Trail
from guardproxy.core.policy import Policy
from guardproxy.http import timing
from guardproxy.http.timing import EVERY, Timing
from guardproxy.telemetry import Telemetry
from tests.as_written import as_written
from tests.live import Said, ids, live
from tests.telemetry.reports import settings, step, view


@pytest.fixture
def telemetry() -> Telemetry:
    return Telemetry(settings(), b"k" * 32, "test")


def timed(telemetry: Telemetry) -> dict[str, float]:
    rows = telemetry.snapshot().series.get("guardproxy.detector.duration", {})
    return {rule: sum(cell[1:]) for (rule,), cell in rows.items()}


async def test_the_detectors_of_a_run_that_repeats_itself(
    store, telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(timing, "EVERY", 1)
    fresh = ids("t")
    messages = [{"role": "user", "content": "read it"}]
    async with live(store, telemetry, policy={"mode": "observe"}) as running:
        running.settled = True
        running.provider.script = lambda _got: Said(calls=[("read_file", '{"path": "a"}', fresh())])
        for _ in range(5):
            answer = await running.post({"model": "m", "messages": messages, "tools": []})
            message = answer.json["choices"][0]["message"]
            messages += [message, {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "same"}]

    assert timed(telemetry)["repeated_call"] >= 2
    assert set(timed(telemetry)) <= set(RULES)


@as_written
def test_one_turn_in_so_many(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []
    monkeypatch.setattr(Timing, "measure", lambda _self, seen, _policy: measured.append(seen.turn))
    one = Timing(telemetry)
    one.turn(view(1), Policy())  # no steps yet
    one.turn(replace(view(2), admitted=False), Policy())
    for number in range(3, 4 * EVERY):
        one.turn(view(number), Policy())
    gaps = [after - before for before, after in pairwise(measured)]

    assert measured[0] == 3
    assert gaps[:10] == [1, 2, 4, 8, 16, 32, 64, 128, 256, 256]


@as_written
def test_one_that_raises_is_left_out(telemetry: Telemetry, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = type("broken", (), {"detect": staticmethod(lambda *_: 1 / 0)})
    settings_of = Policy().detectors["repeated_call"]
    monkeypatch.setattr(Policy, "asked", lambda *_: (("cycle", None), ("repeated_call", settings_of)))
    monkeypatch.setattr(timing, "RULES", {**RULES, "cycle": broken})
    monkeypatch.setattr(timing.session, "trail", lambda _view: Trail((step(), step())))
    Timing(telemetry).measure(view(3), Policy())

    assert timed(telemetry) == {"repeated_call": 1}
