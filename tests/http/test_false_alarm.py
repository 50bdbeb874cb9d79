"""A run was cut, a person says that this was wrong: the command, the run that goes on, the file for replay."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from guardproxy import cli
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.errors import ConfigError, GuardError
from guardproxy.http import false_alarm
from guardproxy.http.false_alarm import Said, label_of, milliseconds
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from guardproxy.telemetry.record import TurnRecord
from tests.live import Json, Live, Said as Answered, live, unique
from tests.running import Running, fetch, provider, until

DAY_MS = 86_400_000
PROMPT = "You watch the nightly build."
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("status", "look")
]

Run = Callable[..., Any]


class Agent:
    """Repeats one call with one result, whatever it is told."""

    def __init__(self, running: Live, session: str, *, tool: str = "status", prompt: str = PROMPT) -> None:
        self.running, self.session, self.tool = running, session, tool
        self.history: list[Json] = [{"role": "system", "content": prompt}, {"role": "user", "content": "watch it"}]

    async def turns(self, number: int) -> list[str]:
        """What was said on so many turns."""
        found = []
        for _ in range(number):
            call_id = f"call_{len(self.history):09d}"
            said = Answered(calls=[(self.tool, '{"job":"nightly"}', call_id)])
            self.running.provider.script = lambda _got, said=said: said
            body = {"model": "mock-1", "messages": self.history, "tools": TOOLS}
            answer = await self.running.post(body, {"x-guardproxy-session-id": self.session})
            found.append(f"{answer.verdict} {answer.rule}".strip())
            self.history.append(said.message())
            self.history.append({"role": "tool", "tool_call_id": call_id, "content": "the same as before"})
        return found


LADDER = [
    "pass",
    "pass",
    "observe repeated_call",
    "nudge repeated_call",
    "firm repeated_call",
    "finalize repeated_call",
]
CUT = [*LADDER, "cut repeated_call"]
HELD = "observe repeated_call"


def _week() -> str:
    """The day in a week, as operators read it."""
    return f"{datetime.now(UTC) + timedelta(days=7):%Y-%m-%d}"


@pytest.fixture
def run(server: Embedded, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command line over the store of the test: exit code, and what was printed."""
    file = tmp_path / "guardproxy.yaml"
    file.write_text(f"store: {{url: 'unix://{server.socket_path}'}}\npolicy: {{profile: none}}")

    async def command(*words: str, config: Path | None = file) -> tuple[int, str, str]:
        given = [*words, *(["--config", str(config)] if config else [])]
        capsys.readouterr()  # what the proxy of the test has logged
        code = await asyncio.to_thread(cli.main, given)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


async def test_from_the_cut_to_the_replay(
    store: Store, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with live(store) as running:
        running.settled = True
        session = unique("watch")
        agent, other = Agent(running, session), Agent(running, unique("other"))
        assert await agent.turns(8) == [*CUT, "cut repeated_call"]
        assert await other.turns(7) == CUT
        reached = len(running.provider.got)

        code, out, err = await run("false-alarm", session, "--note", "it has to wait", "--by", "ann")
        assert (code, err) == (0, "")
        label = re.match(r"label ([0-9a-f]{8}): ann says that repeated_call \(cut, turn 7\) was a false alarm\n", out)
        assert label
        assert "repeated_call is only observed in this session\n" in out
        assert out.endswith("the run may go on: its ladder begins anew, its limits stay\n")

        # The run goes on, and the same loop is only observed: who looks, sees why.
        capsys.readouterr()
        assert await agent.turns(12) == [HELD] * 12
        logged = [json.loads(line) for line in capsys.readouterr().err.splitlines() if session in line][-1]
        assert (logged["action"], logged["rule"], "would" in logged) == ("observe", "repeated_call", False)
        assert f"exempted by a person until {_week()} " in logged["reason"]
        assert f"(label {label[1]})" in logged["reason"]
        assert "false_alarm" in json.dumps(logged["spared"])
        assert len(running.provider.got) == reached + 12
        assert GUARD_MARK.encode() in running.provider.got[5].body
        assert GUARD_MARK.encode() not in running.provider.got[-1].body  # wrong advice is not put back
        # Others are cut as before.
        assert await other.turns(1) == ["cut repeated_call"]
        assert (await Agent(running, unique("another")).turns(7)) == CUT

        _, table, _ = await run("trace", session)
        rows, _, why = table.partition("\nturn ")
        why = " ".join(why.split())
        assert (rows.count("(exempted)"), why.count("(exempted): ")) == (11, 1)
        assert f"exempted by a person until {_week()} " in why
        await running.proxy.books.pay()
        _, listed, _ = await run("false-alarms")
        row = next(line for line in listed.splitlines() if line.startswith(label[1]))
        assert re.search(rf"ann +{session} +repeated_call \(cut, turn 7\) +session +.* UTC +11 +it has to wait", row)

        # A week later the ladder is back.
        running.offset_ms = 8 * DAY_MS
        assert (await agent.turns(1)) == ["cut repeated_call"]
        assert await Agent(running, unique("later")).turns(7) == CUT
        running.offset_ms = 0

    # The developer plays the run again, without the label and with it.
    labels, runs = tmp_path / "labels.jsonl", tmp_path / "runs.jsonl"
    code, out, _ = await run("false-alarms", "--export", str(labels))
    assert (code, out) == (0, f"1 sessions written to {labels}\n")
    runs.write_text("".join(json.dumps({"id": one.session, "messages": one.history}) + "\n" for one in (agent, other)))
    code, out, err = await run("replay", str(runs), "--labels", str(labels))
    assert (code, err) == (0, "")
    assert f"under the labels of {labels}: spoken to 2 -> 1, ended 2 -> 1" in out
    assert "1 of 1 labelled false alarms are in this file; spoken to 1, with the exemptions 0" in out
    code, out, _ = await run("replay", str(runs), "--labels", str(labels), "--json")
    rows = {row["id"]: row for row in map(json.loads, out.splitlines())}
    assert rows[session]["decisions"][-1]["action"] == "cut"
    assert {one["action"] for one in rows[session]["other"]} == {"observe"}
    assert rows[other.session]["other"] == rows[other.session]["decisions"]


async def test_taken_back(store: Store, run: Run) -> None:
    async with live(store) as running:
        running.settled = True
        session = unique("watch")
        agent = Agent(running, session)
        await agent.turns(7)
        label = (await run("false-alarm", session))[1].split()[1].strip(":")
        assert (await agent.turns(6))[2:] == [HELD] * 4

        code, out, _ = await run("false-alarms", "--revoke", label, "--by", "bob")
        assert (code, out) == (0, f"label {label} is taken back: repeated_call acts again in what it exempted\n")
        assert await agent.turns(1) == ["cut repeated_call"]
        code, _, err = await run("false-alarms", "--revoke", label)
        assert (code, err) == (1, f"guardproxy: label {label} was taken back before, by bob\n")
        assert "taken back by bob" in (await run("false-alarms"))[1]
        assert (await run("false-alarms", "--export", "/dev/null"))[1].startswith("0 sessions written")
        entries, _ = await store.audit.read(9)
        assert [(one.what, one.subject, one.kind) for one in entries] == [
            ("label.revoke", label, "command"),
            ("label.add", session, "command"),
        ]
        assert entries[1].diff["rule"] == (None, "repeated_call")


async def test_the_whole_agent_on_every_worker(store: Store, server: Embedded, run: Run) -> None:
    """Other runs of the agent, beside another agent, on a worker that has not seen it."""
    session = unique("watch")
    async with live(store) as running:
        running.settled = True
        await Agent(running, session).turns(7)
    code, out, _ = await run("false-alarm", session, "--scope", "agent", "--for", "12h")
    assert (code, "in every run of this agent" in out) == (0, True)
    second = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    try:
        async with live(second) as running:
            assert await Agent(running, unique("tomorrow")).turns(9) == ["pass", "pass", *[HELD] * 7]
            assert await Agent(running, unique("else"), prompt="You cook.").turns(7) == CUT
    finally:
        await second.close()


@pytest.mark.skipif(sys.platform != "linux", reason="as the other tests of processes")
def test_beside_a_running_proxy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A real `serve` with two workers and its own store, which the command finds by the data directory."""
    with provider() as url, Running(tmp_path, "--upstream", url, "--workers", "2") as proxy:
        history: list[Json] = [{"role": "user", "content": "go"}]

        def turn() -> bytes:
            body = {"model": "0", "messages": history, "tools": TOOLS}
            answer = fetch(f"{proxy.base.removesuffix('/v1')}/s/watch/v1/chat/completions", body)
            call: Json = {"id": f"call_{len(history):09d}", "type": "function"}
            call["function"] = {"name": "status", "arguments": "{}"}
            history.append({"role": "assistant", "content": None, "tool_calls": [call]})
            history.append({"role": "tool", "tool_call_id": call["id"], "content": "the same"})
            return answer

        assert GUARD_MARK.encode() in [turn() for _ in range(8)][-1]
        assert cli.main(["false-alarm", "watch", "--data-dir", str(proxy.data)]) == 0
        assert "the run may go on" in capsys.readouterr().out
        assert not any(GUARD_MARK.encode() in turn() for _ in range(8))

        def hits() -> int:
            assert cli.main(["false-alarms", "--data-dir", str(proxy.data)]) == 0
            row = re.search(r"UTC +(\d+)", capsys.readouterr().out.splitlines()[-1].split("session", 1)[1])
            return int(row[1]) if row else 0

        until(lambda: hits() == 7)  # of both workers, told within two seconds
        assert proxy.stop() == 0


async def test_a_tool_in_every_run(store: Store, run: Run) -> None:
    async with live(store) as running:
        running.settled = True
        session = unique("watch")
        await Agent(running, session).turns(7)
        assert (await run("false-alarm", session, "--scope", "tool", "--tool", "status"))[0] == 0
        assert await Agent(running, unique("a"), prompt="You cook.").turns(8) == ["pass", "pass", *[HELD] * 6]
        assert await Agent(running, unique("b"), tool="look").turns(7) == CUT


async def test_a_run_that_a_limit_stopped_stays_stopped(store: Store, run: Run) -> None:
    async with live(store, policy={"limits": {"session": {"turns": 5}}}) as running:
        running.settled = True
        session = unique("watch")
        agent = Agent(running, session)
        assert (await agent.turns(7))[-2:] == ["deny budget.turns"] * 2
        code, _, err = await run("false-alarm", session)
        assert code == 1
        assert f"session {session} was stopped by budget.turns, a limit: that is raised, not exempted" in err
        assert "--rule repeated_call" in err
        assert (await run("false-alarm", session, "--rule", "repeated_call"))[0] == 0
        assert await agent.turns(1) == ["deny budget.turns"]


async def test_what_cannot_be_said_of_a_run(store: Store, run: Run, tmp_path: Path) -> None:
    """One line, exit code 1, and nothing is kept."""
    async with live(store) as running:
        running.settled = True
        calm, nudged = unique("calm"), unique("nudged")
        await Agent(running, calm).turns(2)
        await Agent(running, nudged).turns(4)
    away = tmp_path / "away.yaml"
    away.write_text("store: {url: 'redis://127.0.0.1:9'}")
    cases = {
        ("false-alarm", "nobody"): "the store has no session 'nobody'; the newest are ",
        ("false-alarm", calm): f"nothing was said or done to session {calm}: there is no alarm",
        ("false-alarm", "a\x1fb\udcff"): "the store has no session 'a\\x1fb?'; the newest are ",
        ("trace", "\udcff"): "the store has no session '?'; the newest are ",
        ("false-alarm", nudged, "--rule", "cycle"): f"cycle found nothing in session {nudged}; what did: repeated_call",
        ("false-alarms", "--revoke", "l9"): "the store has no label 'l9'; guardproxy false-alarms lists them",
    }
    for words, told in cases.items():
        code, out, err = await run(*words)
        assert (code, out, err.count("\n")) == (1, "", 1), words
        assert told in err
    for words in (("false-alarm", nudged), ("false-alarms",), ("false-alarms", "--revoke", "l1")):
        code, out, err = await run(*words, config=away)
        assert (code, out) == (1, "")
        assert err.startswith("guardproxy: the store redis://127.0.0.1:9/0 cannot be reached")
    assert (await run("false-alarms"))[1].startswith("no label is kept in the store at unix:")


RULES = "cycle, error_signature"
WRONG = {
    "no such rule": (("--rule", "cycles"), "--rule cycles: no rule of that name; there are "),
    "a limit": (("--rule", "budget.turns"), "--rule budget.turns: a limit is no alarm; raise it"),
    "no such scope": (("--scope", "world"), "--scope world: must be one of session, agent, tool"),
    "a tool without its name": (("--scope", "tool"), "--scope tool: say which, with --tool NAME"),
    "a negative time": (("--for=-3d",), "--for -3d: must be a number above 0 with a unit: 90m, 12h, 7d or 2w"),
    "no time": (("--for", "0d"), "--for 0d: must be a number above 0"),
    "no unit": (("--for", "7"), "--for 7: must be a number above 0 with a unit"),
    "another unit": (("--for", "7y"), "--for 7y: "),
    "longer than labels are kept": (("--for", "200d"), "--for 200d: labels are kept 180 days (store.labels_days)"),
    "a note over lines": (("--note", "a\nb"), "--note: must be printable text of at most 500 characters"),
    "a long name": (("--by", "x" * 501), "--by: must be printable text"),
    "an escape in a tool": (("--tool", "\x1b[2J"), "--tool: must be printable text"),
}


async def test_labels_that_are_no_text(run: Run) -> None:
    for words in (("\udcff",), ("l1", "--by", "\n")):
        code, _, err = await run("false-alarms", "--revoke", *words)
        assert (code, "must be printable text" in err) == (2, True)


@pytest.mark.parametrize("name", WRONG)
async def test_what_no_label_can_say(name: str, run: Run) -> None:
    words, told = WRONG[name]
    code, out, err = await run("false-alarm", "s", *words)

    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err


@pytest.mark.parametrize(("span", "ms"), [("1s", 1000), ("90m", 5_400_000), ("7d", 7 * DAY_MS), (" 2w ", 14 * DAY_MS)])
def test_spans(span: str, ms: int) -> None:
    assert milliseconds(span) == ms


def record(turn: int, action: str, rule: str = "", *, calls: int = 1, would: str = "", prompt: str = "p") -> TurnRecord:
    return TurnRecord(
        turn=turn, at_ms=0, thread="main", calls=[{"tool": "f"}] * calls, results=[], latency_ms=0, input_tokens=0,
        output_tokens=0, cost_microusd=0, action=action, would=would, rule=rule, count=turn, status=200, outcome="",
        prompt=prompt,
    )  # fmt: skip


CUT_RUN = [
    record(1, "pass"),
    record(2, "observe", "cycle"),
    record(3, "nudge", "cycle"),
    record(4, "nudge", "monologue"),
    record(5, "cut", "cycle", calls=0),
    record(6, "cut", "cycle", calls=0),
]
ABOUT = {
    "the first of those at the end": (CUT_RUN, {}, ("cycle", "cut", 5, 3)),
    "what it did after a resume, though a lower rung": (
        [*CUT_RUN, record(7, "nudge", "cycle"), record(8, "finalize", "cycle"), record(9, "observe", "cycle")],
        {},
        ("cycle", "finalize", 8, 4),
    ),
    "a refusal after a nudge": ([*CUT_RUN[:3], record(4, "refuse", "cycle")], {}, ("cycle", "refuse", 4, 2)),
    "a pause in place of a cut": (
        [*CUT_RUN[:3], record(4, "finalize", "cycle"), record(5, "pause", "cycle", calls=0)],
        {},
        ("cycle", "pause", 5, 3),
    ),
    "the last end": (
        [
            *CUT_RUN,
            record(7, "pass"),
            record(8, "nudge", "cycle"),
            record(9, "cut", "cycle"),
            record(10, "cut", "cycle"),
        ],
        {},
        ("cycle", "cut", 9, 5),
    ),
    "a rule that is named": (CUT_RUN, {"rule": "monologue"}, ("monologue", "nudge", 4, 2)),
    "the one that acted last": (CUT_RUN[:4], {}, ("monologue", "nudge", 4, 2)),
    "what would have been done": (
        [record(1, "pass"), record(2, "observe", "cycle", would="cut")],
        {},
        ("cycle", "cut", 2, 0),
    ),
    "one that was only observed, named": (CUT_RUN[:2], {"rule": "cycle"}, ("cycle", "observe", 2, 0)),
}


@pytest.mark.parametrize("name", ABOUT)
def test_which_alarm_it_is_about(name: str) -> None:
    records, more, expected = ABOUT[name]
    label = label_of(Said("s", "ann", **more), records)

    assert (label.rule, label.action, label.turn, label.call) == expected
    assert (label.session, label.by, label.count, len(label.id)) == ("s", "ann", label.turn, 8)


def test_a_tool_that_the_run_never_called() -> None:
    """A name with a slip of the finger would promise an exemption that holds nothing."""
    with pytest.raises(GuardError, match="no call of g in session s; its tools are f"):
        label_of(Said("s", "ann", tool="g"), CUT_RUN)
    assert label_of(Said("s", "ann", tool="f"), CUT_RUN).tool == "f"


def test_an_agent_that_was_not_recorded() -> None:
    with pytest.raises(GuardError, match="was not recorded; use --scope session or tool"):
        label_of(Said("s", "ann", scope="agent"), [record(1, "cut", "cycle", prompt="")])
    assert label_of(Said("s", "ann", scope="agent"), CUT_RUN).subject == "p"


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot write .*: Is a directory"):
        false_alarm.export([], tmp_path)
