"""The command: each source, another policy, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from guardproxy.cli import OK, WRONG, main
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from tests.replaying.test_judged import Line, plain, written
from tests.store.kit import Agent
from tests.telemetry.reports import turn as report
from tests.test_replay import LOOP, call, recorded


def logged(folder: Path, runs: int = 25, turns: int = 4) -> Path:
    """A log of finished runs of `codex`, and one that went on for long and was left."""
    lines: list[Line] = []
    for number in range(runs):
        last = {"outcome": "finished", "calls": []}
        lines += [
            plain(at, session=f"s{number}", agent="codex", **(last if at == turns - 1 else {})) for at in range(turns)
        ]
    lines += [plain(at, session="left", agent="codex") for at in range(40)]
    return written(folder, *lines)


def other(folder: Path, text: str = "policy: {limits: {span: {turns: 10}}}") -> Path:
    file = folder / "other.yaml"
    file.write_text(text)
    return file


def test_a_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "p.html"
    assert main(["calibrate", str(logged(tmp_path)), "--policy", str(other(tmp_path)), "--html", str(page)]) == OK
    told = capsys.readouterr().out

    assert "agent codex: 26 runs (finished 25, abandoned 1)" in told
    assert "turns: 6" in told
    assert f"{other(tmp_path)}: ended by budget.turns 1\n" in told
    assert "the defaults: ended by nothing" in told
    assert "really ended by guardproxy: 0 of 26 runs" in told
    assert "really ended by guardproxy: 0 of 26 runs" in page.read_text()
    assert page.read_text().startswith("<!doctype html>")


def test_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    args = ["calibrate", str(logged(tmp_path)), "--policy", str(other(tmp_path)), "--json", "--margin", "100"]
    assert main(args) == OK
    found = json.loads(capsys.readouterr().out)
    turns = found["agents"][0]["finished"]["turns"]

    assert (turns["n"], turns["percentiles"]["p95"], turns["proposed"]) == (25, 4, 8)
    assert turns["setting"] == "policy.limits.span.turns"
    ours, theirs = found["policies"]
    assert (ours["cut"], theirs["cut"], theirs["false"], theirs["saved"]) == (0, 1, 0, 310)


def test_recordings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fine = [recorded(call("look", str(n), at=n), name=f"fine-{n}") | {"success": True} for n in range(20)]
    file = tmp_path / "runs.jsonl"
    file.write_text("".join(json.dumps(one) + "\n" for one in [*fine, LOOP]))
    strict = other(tmp_path, "policy: {profile: none, limits: {session: {tool_calls: 1}}}")
    assert main(["calibrate", str(file), "--policy", str(strict), "--json"]) == OK
    ours, theirs = json.loads(capsys.readouterr().out)["policies"]

    assert (ours["runs"], ours["finished"], ours["cut"], ours["false"]) == (21, 20, 1, 0)
    assert ours["saved"] > 0
    assert theirs["cut"] >= 20


def test_the_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import asyncio

    from guardproxy.telemetry.record import record_of

    async def work(path: str) -> None:
        store = await Store.connect(socket_path=path, timeout_ms=5000)
        for number in range(21):
            agent = Agent(store, session=f"s{number}")
            await agent.begin(org="default")
            record = record_of(report(1, agent="codex", outcome="finished"))
            await store.settle(agent.closing("text", record=record, org="default"))
        await store.close()

    running = embedded.start(tmp_path)
    try:
        asyncio.run(work(running.socket_path))
    finally:
        running.stop()
    assert main(["calibrate", "--data-dir", str(tmp_path)]) == OK
    told = capsys.readouterr().out

    assert "agent codex: 21 runs (finished 21)" in told
    assert "from 21 finished runs" in told
    assert "policy " not in told.replace("policy:", "")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["FILE", "--margin", "-1"], "--margin: give percents"),
        (["FILE", "--agent", "nobody"], "has no run of agent 'nobody'; there are codex"),
        (["FILE", "--policy", "/nowhere.yaml"], "nowhere.yaml"),
        (["--policy", "FILE"], "--policy needs a FILE"),
        (["-"], "give a FILE"),
        (["/nowhere.jsonl"], "cannot read /nowhere.jsonl"),
        (["FILE", "--html", "/no/where.html"], "cannot write /no/where.html"),
    ],
)
def test_what_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    file = str(logged(tmp_path))
    assert main(["calibrate", *(file if one == "FILE" else one for one in arguments)]) == WRONG
    assert said in capsys.readouterr().err
