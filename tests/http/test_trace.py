"""`guardproxy trace` over a store of the test: what the proxy did, and between it what people decided."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from guardproxy.cli import main
from guardproxy.config import Config, build
from guardproxy.http import reach, trace
from guardproxy.http.approvals import Desk
from guardproxy.http.sealed import Sealer
from guardproxy.http.sessions import Runs
from guardproxy.secrets import VARIABLE, derive
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from tests.live import SECRET, Json, Said, live

ORG = "default"
SECTIONS: Json = {
    "tools": {"approval": ["delete_file"], "deny": [{"tool": "drop", "reason": "never"}]},
    "policy": {"limits": {"session": {"turns": 4}}, "refuse": "observe"},
}
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in
         ("delete_file", "drop")]  # fmt: skip


async def _life(store: Store) -> None:
    """A call that is edited and approved, one that is only noted, a pause, a limit, and more of it."""
    people = Desk(store, Sealer(derive(SECRET).ledger), ORG)
    runs = Runs(store, Sealer(derive(SECRET).ledger), ORG)
    history: list[Json] = [{"role": "user", "content": "tidy up"}]

    async def ask(said: Said, result: str = "") -> None:
        running.provider.script = lambda _got: said
        answer = await running.post(
            {"model": "m", "messages": history, "tools": TOOLS}, {"x-guardproxy-session-id": "s"}
        )
        message = answer.json.get("choices", [{}])[0].get("message")
        if message:
            history.append(message)
        calls = (message or {}).get("tool_calls") or ()
        history.extend({"role": "tool", "tool_call_id": call["id"], "content": result} for call in calls)

    async with live(store, **SECTIONS) as running:
        running.settled = True
        await ask(Said(calls=[("delete_file", '{"path": "a"}', "call_1")]))
        (waits,) = await store.approvals.list(ORG)
        await people.approve(waits.id, "ann", "the copy is enough", '{"path": "b"}')
        await ask(Said("never asked"), "gone")
        await ask(Said(calls=[("drop", "{}", "call_2")]), "dropped")
        await runs.act("pause", "s", "bob", "looks odd")
        await runs.act("resume", "s", "bob")
        await ask(Said("The end, nearly."))
        await ask(Said("over the limit"))
        await runs.extend("s", "ann", "nearly there", {"turns": 1})
        await ask(Said("The end."))
        await ask(Said("over the limit"))


@pytest.fixture(scope="module")
def config() -> object:
    with embedded.scratch() as running:
        found = build({"store": {"url": f"unix://{running.socket_path}"}})
        reach.ask(found, _life)
        yield found


WRITTEN: Json = {"tools": {"deny": [{"tool": "drop", "reason": "never"}], "approval": ["send_*"]}}
REACT = "Write Thought, then Action: tool[input]. You are then given the Observation. End with Final Answer:"


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_a_call_in_a_text_is_reported_and_not_held(stream: bool) -> None:
    """A rule for calls cannot hold what stands in the text that the client is given; who looks is told so.

    Only of what a rule speaks of, and of agents, not of people who talk about such a call.
    """
    said = {"drop": "Thought: so.\nAction: drop[all]", "send": "Thought: so.\nAction: send_mail[ann]",
            "look": "Thought: so.\nAction: look[all]"}  # fmt: skip
    with embedded.scratch() as running:
        store = await Store.connect(socket_path=running.socket_path, timeout_ms=5000)
        async with live(store, **WRITTEN) as proxy:
            proxy.settled = True
            for name, text in {**said, "talk": said["drop"]}.items():
                proxy.provider.script = lambda _got, text=text: Said(text)
                system = "You help." if name == "talk" else REACT
                history = [{"role": "system", "content": system}, {"role": "user", "content": "tidy up"}]
                body = {"model": "m", "messages": history, "stream": stream}
                answer = await proxy.post(body, {"x-guardproxy-session-id": name})
                assert answer.status == 200
                assert text.encode()[-6:] in answer.body
        told = {}
        for name in (*said, "talk"):
            (record,) = await trace.read(store, ORG, name)
            told[name] = (record["action"], record["would"], record["rule"])
            if name == "drop":
                assert record["reason"] == (
                    "drop is forbidden by drop: never; it stands in the answer's text, which is not held")  # fmt: skip
        await store.close()
    assert told == {
        "drop": ("observe", "refuse", "tools.deny"),
        "send": ("observe", "pause", "tools.approval"),
        "look": ("pass", "", ""),
        "talk": ("pass", "", ""),
    }


def shown(config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, **env: str) -> list[str]:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.delenv("COLUMNS", raising=False)
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    trace.show(config, ORG, "s", " --config g.yaml")
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_people_stand_between_the_turns(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    lines = shown(config, capsys, monkeypatch, COLUMNS="500", **{VARIABLE: SECRET})
    told = [re.sub(r"^\S+ \S+ UTC: |apr_\w+", "", one) for one in lines[lines.index("") + 1 :]]
    told = [one for one in told if not one.startswith("    ")]  # what the model was told, see below
    below = told[next(at for at, one in enumerate(told) if one.startswith("turn 1: ")) :]

    assert below[:7] == [
        "turn 1: pause tools.approval: delete_file needs approval by delete_file",
        'approval  approved by ann, with the arguments {"path": "b"}: the copy is enough',
        "turn 3: observe (would refuse) tools.deny: drop is forbidden by drop: never",
        "pause by bob: looks odd",
        "resume by bob",
        "turn 4: finalize budget.turns: limit turns (session): 3 of 4 used, this is the last turn that fits",
        "turn 5: deny budget.turns: limit turns (session) of 4: 4 used",
    ]
    assert below[7] == "extend turns +1 by ann: nearly there"
    assert below[-2:] == [
        "state: active, stopped by a limit",
        "to go on: guardproxy sessions extend s --turns N --config g.yaml",
    ]
    assert not any("finished by" in one for one in below)
    assert sum("observe (would refuse) tools.deny" in one for one in lines) == 2  # in the table, and why


def test_a_call_that_a_person_has_allowed_is_in_the_table(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was handed on without asking the model; in the turn before it was held."""
    lines = shown(config, capsys, monkeypatch, COLUMNS="500", **{VARIABLE: SECRET})
    held, given, noted = (next(one.split() for one in lines if one.split()[:1] == [turn]) for turn in "123")
    assert (held[1], given[1], noted[1]) == ("delete_file", "delete_file", "drop")
    assert "held" in held
    assert any("2 tool calls" in one for one in lines)


def test_what_the_model_was_told_stands_below_its_turn(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """For who has the secret; without it, and for viewers, nothing is said."""
    lines = shown(config, capsys, monkeypatch, COLUMNS="500", **{VARIABLE: SECRET})
    (place,) = [at for at, one in enumerate(lines) if one.startswith("turn 4: finalize budget.turns: ")]
    assert lines[place + 1].startswith("    [guardproxy] Note from the proxy that watches this run: the limit of this")
    assert sum(one.startswith("    ") for one in lines[place:]) == 1
    raw = reach.ask(config, lambda store: store.records(ORG, "s"))
    assert sum(b'"ad"' in one for one in raw) == 1
    assert not any(b"Note from the proxy" in one for one in raw)

    for env in ({}, {VARIABLE: "another secret, long enough for it"}):
        assert not any("Note from the proxy" in one for one in shown(config, capsys, monkeypatch, **env))
    monkeypatch.setattr(trace.entitled, "typist", lambda *_: SimpleNamespace(role="viewer"))
    assert not any("Note from" in one for one in shown(config, capsys, monkeypatch, **{VARIABLE: SECRET}))


def test_what_was_edited_is_sealed(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for env in ({}, {VARIABLE: "another secret, long enough for it"}):
        lines = shown(config, capsys, monkeypatch, **env)
        assert any(
            "approved by ann, with words of their own (sealed under another secret): the" in one for one in lines
        )


@pytest.mark.parametrize(("width", "heads"), [(120, 7), (80, 5), (60, 4)])
def test_a_narrow_terminal(
    config: Config, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, heads: int
) -> None:
    """What is done keeps its room; a command is never broken."""
    lines = shown(config, capsys, monkeypatch, COLUMNS=str(width))

    (head,) = [line.split() for line in lines if line.split()[:2] == ["loop", "tool"]]
    assert (len(head), head[-1]) == (heads, "action")
    assert any(line.endswith("deny budget.turns") for line in lines)
    assert "to go on: guardproxy sessions extend s --turns N --config g.yaml" in lines
    assert max(map(len, lines)) <= max(width, 64)


def test_a_run_out_of_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """No store is asked, and no configuration is needed."""
    line = {"logger": "guardproxy.turn", "at": "2026-11-30T10:00:00Z", "turn": 1, "thread": "main", "ms": 1500}
    line |= {"session": "s", "org": "o", "action": "cut", "rule": "cycle", "count": 6, "status": 200, "reason": "why"}
    file = tmp_path / "log"
    file.write_text(json.dumps(line) + "\n")

    assert main(["trace", "s", "--from", str(file)]) == 0
    assert "cut cycle x6" in capsys.readouterr().out
    assert main(["trace", "x", "--from", str(file)]) == 1
    assert "there are s" in capsys.readouterr().err
