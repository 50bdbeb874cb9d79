"""Cases 33 to 43 of `field/gateways.md` section 3: what went wrong with sessions and loops in other gateways.

35 and 38 are not in that list.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest

from guardproxy.core.detectors import default_settings
from guardproxy.core.model import Triple
from guardproxy.store.redis import Store
from tests.http.test_scenes import SCENES as LOG_SCENES, played, tagged
from tests.live import Json, Live, Said, live
from tests.scene_gateways import gateways
from tests.scene_loops import LIST, same
from tests.scenes import Heard, Move, Player, Scene, Turn, act, say, user
from tests.thresholds import Thresholds

LIST_OF_CASES = Path(__file__).resolve().parents[2].parent / "shared" / "field" / "gateways.md"
CASES = frozenset({"33", "34", "36", "37", "39", "40", "41", "42", "43"})
T = Thresholds()
REPEAT = T("repeated_call")
SCENES = gateways(T)
STREAM = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
OTHER_TASK = (user("Another task, of somebody else."),)


@STREAM
@pytest.mark.parametrize("scene", tagged(SCENES))
async def test_scene(scene: Scene, stream: bool, store: Store, heard: Heard) -> None:
    await played(scene, store, heard, stream=stream)


async def by_turns(players: list[Player], moves: list[Move]) -> list[list[Turn]]:
    """Each player makes the first move, then each the second, and so on."""
    return [[await player.step(move) for player in players] for move in moves]


def session_of(turn: Turn) -> str:
    return turn.answer.headers["x-guardproxy-session-id"]


RUNS = {
    # what the second run has in common with the first, and its opening
    "33 nothing": ("", OTHER_TASK),
    "34 the system prompt": ("shared", OTHER_TASK),
    "34 the system prompt and the task": ("shared", ()),
}


@STREAM
@pytest.mark.parametrize("name", RUNS)
async def test_runs_without_a_name_share_nothing(name: str, stream: bool, store: Store, heard: Heard) -> None:
    """Not one bucket for all: neither the loop of another run counts, nor what it has spent."""
    tag, opening = RUNS[name]
    policy = {"limits": {"session": {"turns": 50}}}
    async with live(store, heard, policy=policy) as running:
        scene = Scene(name, [LIST])
        other = Scene(name, [LIST], opening=opening) if opening else scene
        first, second = (Player(running, heard, one, stream=stream, tag=tag) for one in (scene, other))
        rounds = await by_turns([first, second], same(REPEAT.nudge, act("process", {"action": "list"}, "[]")))
        last = await by_turns([first, second], [say("Done.")])

    assert len({session_of(turn) for turns in rounds for turn in turns}) == 2
    assert all(turn.answer.verdict in ("pass", "observe") for turns in rounds for turn in turns)
    assert [turn.answer.verdict for turn in last[0]] == ["nudge", "nudge"]
    for turns in (first.turns, second.turns):
        assert len({session_of(turn) for turn in turns}) == 1
        assert [turns_left(turn) for turn in turns] == [49 - n for n in range(len(turns))]


def turns_left(turn: Turn) -> int:
    """What is left of the session's limit of turns."""
    return int(json.loads(turn.answer.headers["x-guardproxy-budget-remaining"])["turns"])


AGENTS: Mapping[str, tuple[Json, Json, Json]] = {
    "by nothing but their task": ({}, {}, {}),
    "claude code": ({}, {"x-claude-code-agent-id": "one"}, {"x-claude-code-agent-id": "two"}),
    "codex": ({"thread-id": "main"}, {"thread-id": "one"}, {"thread-id": "two"}),
}
NAMES = {"claude code": "x-claude-code-session-id", "codex": "session-id"}


def crew(running: Live, heard: Heard, how: str, *, stream: bool) -> list[Player]:
    """An agent and two sub-agents under one session id."""
    name = NAMES.get(how, "x-guardproxy-session-id")
    tasks = ((user("The whole task."),), (user("Its first part."),), (user("Its second part."),))
    return [
        Player(
            running,
            heard,
            Scene(how, [LIST], opening=task, headers={name: "s-36", **headers}),
            stream=stream,
            tag=f"agent {number}",
        )
        for number, (task, headers) in enumerate(zip(tasks, AGENTS[how], strict=True))
    ]


@STREAM
@pytest.mark.parametrize("how", AGENTS)
async def test_36_sub_agents_count_apart_and_pay_together(how: str, stream: bool, store: Store, heard: Heard) -> None:
    most = 3 * REPEAT.nudge + 3
    async with live(store, heard, policy={"limits": {"session": {"turns": most}}}) as running:
        players = crew(running, heard, how, stream=stream)
        rounds = await by_turns(players, same(REPEAT.nudge, LIST))
        told = await by_turns(players, [say("Done.")])
        over = [await player.step(say("More.")) for player in players]

    turns = [turn for each in (*rounds, *told) for turn in each]
    assert len({session_of(turn) for turn in turns}) == 1
    assert len({turn.report.thread for turn in turns}) == 3
    assert [turn.answer.verdict in ("pass", "observe") for each in rounds for turn in each] == [True] * 3 * REPEAT.nudge
    assert [turn.answer.verdict for turn in told[0]] == ["nudge", "nudge", "finalize"], "the last is the last that fits"
    assert [turns_left(turn) for turn in turns] == [most - 1 - n for n in range(most)]
    assert [turn.answer.verdict for turn in over] == ["deny"] * 3


@STREAM
async def test_36_a_sub_agent_that_is_ended_ends_nobody_else(stream: bool, store: Store, heard: Heard) -> None:
    async with live(store, heard) as running:
        main, looping, other = crew(running, heard, "claude code", stream=stream)
        await main.step(act("plan", {}, "two parts"))
        for move in same(REPEAT.cut + 1, LIST):
            last = await looping.step(move)
        calm = [await player.step(act("plan", {"part": n}, f"part {n}")) for n, player in enumerate((main, other))]

    assert last.answer.verdict == "cut"
    assert [turn.answer.verdict for turn in calm] == ["pass", "pass"]


ENDED_ELSEWHERE = {
    "compaction": "its finalize takes out the very calls that its count goes on with",
    "no_progress": "its ladder is long; its own tests climb it",
}
"""Rules that may end a run and are not taken to the end here, with the reason."""


def test_41_every_kind_that_may_be_ended_is_ended_in_a_scene() -> None:
    ended = {scene.rule for scene in (*SCENES, *LOG_SCENES) if "cut" in scene.at.values() and not scene.waits_for}
    may_be = {
        rule
        for rule, settings in default_settings().items()
        if any(isinstance(value := getattr(settings, one.name), Triple) and value.cut for one in fields(settings))
    }
    assert ended >= may_be - set(ENDED_ELSEWHERE)


@STREAM
async def test_43_function_call_items_are_seen(stream: bool, store: Store, heard: Heard) -> None:
    items: list[Json] = [{"role": "user", "content": "List the processes."}]
    for number in range(REPEAT.cut):
        call_id = f"call_{number}"
        items += [
            {"type": "function_call", "call_id": call_id, "name": "process", "arguments": '{"action":"list"}'},
            {"type": "function_call_output", "call_id": call_id, "output": "[]"},
        ]
    async with live(store, heard) as running:
        running.provider.script = lambda _got: Said("ok")
        body = {"model": "mock-1", "input": items, "stream": stream}
        answer = await running.post(body, path="/v1/responses")

    assert answer.verdict == "cut"


@pytest.mark.skipif(not LIST_OF_CASES.exists(), reason="the survey of gateways is not beside this repository")
def test_the_list_of_cases_is_the_surveys() -> None:
    text = LIST_OF_CASES.read_text("utf-8")
    part = text.partition("**Sessions and loops**")[2].partition("**Operations**")[0]
    named = set(re.findall(r"(?:^|\s)(3[3-9]|4[0-3])\. ", part))
    assert named == CASES


def test_every_case_is_here() -> None:
    tests = {found.group(1) for name in globals() if (found := re.match(r"test_(\d\d)_", name))}
    assert {scene.case[1:3] for scene in SCENES} | {name[:2] for name in RUNS} | tests == CASES
