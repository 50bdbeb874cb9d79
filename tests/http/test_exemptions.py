"""Healthy runs that repeat, over HTTP: nothing is done, and log, record and report say what spared them.

One table, a run or more for each exemption. Cases are those of the loop log (`B..`), sections 3 to 5.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from guardproxy.core.exemption import Exemption
from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.store.redis import Store
from guardproxy.telemetry.log import fields_of
from guardproxy.telemetry.looptable import rows_of
from guardproxy.telemetry.record import read_record
from tests.http_store import held
from tests.live import live
from tests.scene_checks import check
from tests.scenes import Heard, Move, Player, Scene, Turn, act, both, say, user


@dataclass(frozen=True, slots=True)
class Run:
    """A scene, what spares its turns somewhere on the way, and the pauses after its moves (the last over and over)."""

    scene: Scene
    spared: frozenset[tuple[Exemption, str]] = frozenset()
    pauses_ms: tuple[int, ...] = (2000,)


class Paced(Player):
    """Plays a scene with a pause of its own after each move."""

    async def play_at(self, pauses_ms: Sequence[int]) -> list[Turn]:
        """As `play`."""
        last = None
        for number, move in enumerate((*self.scene.moves, say("Done."))):
            await self._turn(number, move, last)
            last = move
            self.live.offset_ms += pauses_ms[min(number, len(pauses_ms) - 1)]
        return self.turns


def run(case: str, moves: Sequence[Move], *spared: tuple[Exemption, str], pauses: Sequence[int] = (2000,), **more):
    """A run on which nobody speaks, unless `at` says so."""
    return Run(Scene(case, moves, **more), frozenset(spared), tuple(pauses))


def picture(number: int) -> list[dict]:
    """The content of a tool message: a picture, another one each time."""
    url = f"data:image/png;base64,iVBORw0KGgo{number:04d}"
    return [{"type": "image_url", "image_url": {"url": url}}]


def todo(number: int) -> Move:
    todos = [{"text": f"part {k}", "status": "done" if k <= number else "open"} for k in range(6)]
    return act("todo_write", {"todos": todos}, "ok")


def edit(path: str, new: str) -> Move:
    return act("edit", {"p": path, "new": new}, "ok")


X = Exemption
DOWN = act("get", {"u": "http://x"}, "503 Service Unavailable")
LIST = act("process", {"action": "list"}, "[]")
POLL = act("poll", {}, "none")
PYTEST = act("sh", {"cmd": "pytest -q"}, "3 failed")
LETTERS = "abcdefghijklmnop"

RUNS = [
    run(
        "B19 the board changes",
        [act("task_list", {"at": "x"}, f"task {k}: open\ntask {k + 1}: open") for k in range(8)],
        (X.CHANGED_RESULTS, "repeated_call"),
    ),
    run(
        "B22 build status",
        [act("build_status", {"id": 3}, f"step {k}/9 running") for k in range(9)],
        (X.CHANGED_RESULTS, "repeated_call"),
    ),
    run(
        "B28 a reader without a position",
        [act("read_output", {"session": 1}, f"block {k * 7919} of it") for k in range(20)],
        (X.CHANGED_RESULTS, "repeated_call"),
    ),
    run(
        "B09 laps with changing results",
        [act(tool, {"q": tool}, f"{tool} {k}") for k in range(5) for tool in ("look", "find")],
        (X.CHANGED_RESULTS, "cycle"),
        (X.CHANGED_RESULTS, "interleaved_repeat"),
    ),
    run(
        "B23 fewer failures after each fix",
        [move for k in range(5) for move in (edit("a.py", f"v{k}"), act("sh", {"cmd": "pytest"}, f"{5 - k} failed"))],
        (X.CHANGED_RESULTS, "interleaved_repeat"),
    ),
    run(
        "B26 up again at the third try",
        [DOWN, DOWN, act("get", {"u": "http://x"}, '{"rates":[1]}')],
        (X.CHANGED_RESULTS, "repeated_call"),
        pauses=(2000, 8000),
    ),
    run(
        "B26 down at growing pauses",
        [DOWN] * 4,
        (X.GROWING_PAUSES, "repeated_error"),
        pauses=(2000, 8000, 30_000, 90_000),
        at={4: "nudge"},
        rule="repeated_error",
    ),
    run("B26 down at pauses of a second", [DOWN] * 3, pauses=(1000,), at={3: "nudge"}, rule="repeated_error"),
    run(
        "B20 asked once a minute",
        [act("job", {"id": 7}, "(no new output)")] * 12,
        (X.LONG_PAUSES, "unchanged_poll"),
        (X.NOT_READY, "unchanged_poll"),
        pauses=(60_000,),
    ),
    run(
        "B20 asked every four seconds",
        [act("job", {"id": 7}, "(no new output)")] * 7,
        (X.NOT_READY, "unchanged_poll"),
        pauses=(4000,),
    ),
    run(
        "B23 the same failure after five fixes",
        [move for k in range(5) for move in (edit("a.py", f"v{k}"), PYTEST)],
        (X.STATE_CHANGE, "interleaved_repeat"),
    ),
    run(
        "another check fails differently in between",
        [
            move
            for k in range(5)
            for move in (act("sh", {"cmd": "lint"}, f"error: rule {LETTERS[k]} is broken"), PYTEST)
        ],
        (X.NEW_INFORMATION, "interleaved_repeat"),
        (X.CHANGED_RESULTS, "interleaved_repeat"),
        (X.CHANGED_RESULTS, "cycle"),
    ),
    run(
        "B21 other work in between",
        [POLL, POLL, *(act("sh", {"cmd": f"make {k}x"}, f"built {k}x") for k in LETTERS[:10]), POLL, POLL],
        (X.OTHER_WORK, "interleaved_repeat"),
    ),
    run(
        "B29 pages of lines",
        [
            act("read_file", {"path": "x", "start_line": 1 + 40 * k, "end_line": 40 + 40 * k}, f"page {LETTERS[k]}")
            for k in range(8)
        ],
    ),
    run(
        "B30 pages of hits",
        [act("search", {"pattern": "def main", "offset": 50 * k, "limit": 50}, f"hits {k}") for k in range(6)],
    ),
    run(
        "B29 pages by a shell",
        [act("sh", {"cmd": f"sed -n '{1 + 40 * k},{40 + 40 * k}p' x"}, f"text of part {LETTERS[k]}") for k in range(8)],
        (X.FORWARD_PAGING, "same_result"),
    ),
    run(
        "B05 seven folders",
        [act("sh", {"command": "ls -l", "dir_path": f"/srv/{k}x"}, "total 0") for k in LETTERS[:7]],
        (X.DISTINCT_TARGETS, "same_result"),
    ),
    run(
        "B31 search, move, mend, for each of twelve",
        [
            move
            for k in LETTERS[:12]
            for move in (
                act("grep", {"q": f"comp {k}"}, f"list {k}"),
                act("sh", {"cmd": f"git mv {k}x new/"}, ""),
                edit(f"idx {k}", "x"),
            )
        ],
    ),
    run(
        "sixteen files edited in a row",
        [edit(f"{k}x.py", "import new") for k in LETTERS],
        (X.DISTINCT_TARGETS, "same_result"),
    ),
    run("B27 a list that advances", [todo(k) for k in range(6)], (X.ADVANCING_LIST, "same_result")),
    run(
        "a lock taken away between other work",
        [
            move
            for k in LETTERS[:6]
            for move in (act("delete", {"p": "lock"}, ""), act("sh", {"cmd": f"make {k}x"}, f"built {k}x"))
        ],
        (X.ACKNOWLEDGED, "interleaved_repeat"),
    ),
    run("four thoughts", [act("think", {"thought": "hm"}, "ok")] * 4, (X.WAIT_TOOL, "repeated_call")),
    run(
        "B32 clicks, pictures and waits",
        [
            move
            for k in range(8)
            for move in (
                act("click", {"i": k}, "clicked"),
                act("screenshot", {}, picture(k)),
                act("wait", {"s": 2}, "ok"),
            )
        ],
        (X.WAIT_TOOL, "interleaved_repeat"),
        (X.IMAGES, "interleaved_repeat"),
    ),
    run(
        "a screen that is watched",
        [act("screenshot", {}, picture(k)) for k in range(8)],
        (X.IMAGES, "repeated_call"),
    ),
    run(
        "a person asks again",
        [LIST, LIST, say("Nothing runs.", user("And now?")), LIST, LIST],
        (X.USER_MESSAGE, "repeated_call"),
    ),
    run(
        "B02 equal calls in one message",
        [both(*[("sh", {"cmd": "mvn test"}, "BUILD SUCCESS")] * 4), act("sh", {"cmd": "ls"}, "target")],
        (X.DUPLICATE_IN_ROUND, "repeated_call"),
        (X.DUPLICATE_IN_ROUND, "duplicate_calls"),
    ),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("run", RUNS, ids=[one.scene.case for one in RUNS])
async def test_what_spares_a_run_is_said_everywhere(run: Run, stream: bool, store: Store, heard: Heard) -> None:
    async with live(store, heard, policy=run.scene.policy) as running:
        turns = await Paced(running, heard, run.scene, stream=stream).play_at(run.pauses_ms)
        check(turns, running.proxy.printer)
        sessions = {turn.report.view.session for turn in turns}
        assert await held(store, sessions) == {}
        records = [read_record(one) for one in await store.records(DEFAULT_ORG, sessions.pop())]
    told = [one for turn in turns for one in turn.report.decision.spared]
    assert {(one.because, one.rule) for one in told} == run.spared
    logged = [row for turn in turns for row in fields_of(turn.report).get("spared", [])]  # type: ignore[attr-defined]
    assert [(row["because"], row["rule"], row["count"], row["steps"]) for row in logged] == told
    assert [words for record in records for words in record["spared"]] == [str(one) for one in told]
    table = "\n".join(row.action for row in rows_of(records))
    assert all(f"spared: {one}" in table for one in told)


def test_every_exemption_has_its_run() -> None:
    elsewhere = {X.FALSE_ALARM, X.REPORTED_PROGRESS}  # said by people and agents: test_false_alarm, test_no_progress
    assert {because for one in RUNS for because, _ in one.spared} == set(Exemption) - elsewhere
