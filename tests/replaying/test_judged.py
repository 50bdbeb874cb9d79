"""A log judged again: what the proxy itself decided comes out, another policy decides otherwise, limits hold."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from guardproxy import replay
from guardproxy.core.budget import Limit
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy
from guardproxy.core.presets import preset_settings
from guardproxy.errors import BadAsk, ConfigError
from guardproxy.replaying import judged
from guardproxy.store.redis import Store
from guardproxy.telemetry import log
from tests.live import Got, Live, Said, live

PRINTER = Fingerprinter(replay.KEY)
Line = dict[str, Any]


async def looped(running: Live, *, turns: int = 9) -> list[Line]:
    """The decision lines of a run that reads one file for ever, as they are written to the log."""
    reports: list[Any] = []
    running.proxy.telemetry.report = reports.append  # type: ignore

    def script(got: Got) -> Said:
        return Said(calls=[("read", '{"path": "a.txt"}', f"call_{len(got.json['messages'])}")])

    running.provider.script = script
    messages: list[Line] = [{"role": "user", "content": "What is in a.txt?"}]
    tools = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]
    for _ in range(turns):
        answer = await running.post(
            {"model": "m", "messages": messages, "tools": tools}, {"x-guardproxy-session-id": "s"}
        )
        message = answer.json["choices"][0]["message"]
        messages.append(message)
        if not message.get("tool_calls"):
            break
        messages += [{"role": "tool", "tool_call_id": one["id"], "content": "nothing"} for one in message["tool_calls"]]
    await running.proxy.quiet()
    return [as_logged(log.fields_of(report), number) for number, report in enumerate(reports)]


def as_logged(fields: dict[str, object], number: int) -> Line:
    at = datetime.fromtimestamp(1_800_000_000 + 30 * number, UTC)
    line = {"at": at.isoformat(), "level": "info", "logger": "guardproxy.turn", "message": "turn"} | fields
    return json.loads(json.dumps(line))  # type: ignore[no-any-return]


def written(folder: Path, *lines: Line) -> Path:
    file = folder / "guardproxy.log"
    file.write_text("starting\n" + "".join(json.dumps(line) + "\n" for line in lines))
    return file


def decided(lines: list[Line], policy: Policy) -> list[tuple[int, str, int]]:
    (run,) = judged.grouped(lines)
    told = judged.Judge(run, policy, PRINTER).report().decisions
    return [(one.message, one.act, one.count) for one in told if one.heard]


async def test_the_same_policy_decides_the_same(store: Store) -> None:
    async with live(store) as running:
        lines = await looped(running)
    own = [
        (at, line["action"], line["count"])
        for at, line in enumerate(lines)
        if line["action"] not in ("pass", "observe")
    ]

    assert [action for _, action, _ in own] == ["nudge", "firm", "finalize"]
    assert decided(lines, Policy()) == own


async def test_what_was_only_observed_is_judged_by_another_policy(store: Store) -> None:
    async with live(store, policy={"mode": "observe"}) as running:
        lines = await looped(running, turns=12)

    assert decided(lines, Policy()) == [(3, "nudge", 3), (4, "firm", 4), (5, "finalize", 5), (6, "cut", 6)]
    assert decided(lines, Policy(detectors={})) == []
    patient = decided(lines, Policy(detectors=preset_settings("patient")))
    assert patient
    assert patient[0][0] > 3


@pytest.mark.parametrize(
    ("limit", "at"),
    [
        (Limit("span", "turns", 4), 4),
        (Limit("session", "cost_microusd", 40), 4),
        (Limit("session", "wall_ms", 100_000), 4),
        (Limit("span", "calls_per_tool", 5), 5),
        (Limit("session", "total_tokens", 10**9), None),
    ],
)
def test_limits(limit: Limit, at: int | None) -> None:
    lines = [plain(number) for number in range(10)]
    found = [place for place, act, _ in decided(lines, Policy(detectors={}, limits=(limit,))) if act == "deny"]

    assert found == ([] if at is None else [at])


def plain(number: int, **changes: object) -> Line:
    """A turn of a run without any repetition."""
    from guardproxy.core.fact import pack
    from guardproxy.core.model import Flag, Kind, Step

    prints = [f"{kind}{number}".ljust(16).encode() for kind in "cr"]
    step = Step(Kind.CALL, "read", prints[0], prints[0], prints[0], prints[1], prints[1], flags=Flag.ROUND_START)
    fields = {
        "org": "o",
        "session": "s",
        "thread": "main",
        "turn": number + 1,
        "action": "pass",
        "status": 200,
        "ms": 100,
    }
    used = {"in": 10, "out": 1, "microusd": 10, "calls": [["read", "00"]]}
    return as_logged(fields | used | {"facts": [pack(step).hex()] if number else []} | changes, number)


def test_a_new_request_begins_a_span() -> None:
    lines = [plain(number, span=1 + number // 3) for number in range(9)]

    assert decided(lines, Policy(detectors={}, limits=(Limit("span", "turns", 4),))) == []


@pytest.mark.parametrize(("turns", "heard"), [(2, False), (99, True)])
def test_what_was_done_for_an_earlier_request_is_no_loop(turns: int, heard: bool) -> None:
    again = plain(1)["facts"]
    lines = [plain(number, span=1 + number // turns, facts=again if number % turns else []) for number in range(9)]

    assert bool(decided(lines, Policy())) == heard


def test_replay_takes_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines = [plain(number, session=name) for name in ("a", "b") for number in range(6)]
    file = written(tmp_path, *lines)
    other = replay.Other("tight", Policy(limits=(Limit("span", "turns", 3),)))

    assert replay.run(file, Policy(), other=other) == 0
    told = capsys.readouterr().out
    assert "2 sessions, 12 calls; spoken to 0" in told
    assert "under tight: spoken to 0 -> 2, ended 0 -> 2" in told
    assert replay.run(file, Policy(), as_json=True) == 0
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == ["a", "b"]


@pytest.mark.parametrize(
    ("lines", "error", "said"),
    [
        ([{"logger": "x"}], BadAsk, "has no decision line"),
        ([plain(1, facts=["zz"])], BadAsk, "session 's' cannot be read"),
        ([plain(1, facts=["00ff"])], BadAsk, "cannot be read"),
        ([plain(1) | {"at": "yesterday"}], BadAsk, "cannot be read"),
    ],
)
def test_logs_that_are_none(tmp_path: Path, lines: list[Line], error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        replay.run(written(tmp_path, *lines), Policy())


def test_a_log_has_nothing_to_show(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="--html shows calls"):
        replay.run(written(tmp_path, plain(1)), Policy(), html=tmp_path / "page.html")
