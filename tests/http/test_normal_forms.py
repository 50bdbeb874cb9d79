"""Normal forms over HTTP: what the `tools` section, a request's schemas and a run itself make equal, and what not."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import live
from tests.scene_checks import check
from tests.scenes import Heard, Player, Scene, act
from tests.thresholds import Thresholds

BALANCED = Thresholds()
REPEAT = BALANCED("repeated_call").ladder()
NUMBERS = BALANCED("same_result", "numbers").ladder()
FORTY = "\n".join(f"const line{n} = {n};" for n in range(40))
TOKENS = ("a8f3c091", "7b20de4f", "1c9e8f7a", "7be4102f", "3d8b2c70", "0f9e8d7c")
LIMIT = {"type": "object", "properties": {"q": {"type": "string"}, "limit": {"type": "integer", "default": 10}}}
SCHEMA = [{"type": "function", "function": {"name": "search", "parameters": LIMIT}}]
NONE = "no match"

PLAIN = [
    Scene(
        "B08 widening literals",
        [act("grep", {"cmd": f"grep -B{n} needle f"}, NONE) for n in (10, 50, 250, 1750)],
        {4: "nudge"},
        "same_result",
    ),
    Scene(
        "B08 real paging",
        [act("read", {"path": "v.py", "offset": n * 80, "limit": 80}, f"page {n}: def f{n}(): ...") for n in range(6)],
    ),
    Scene(
        "B11 a fresh id in each answer",
        [
            act("send", {"to": "ops", "text": "done"}, f'{{"ok":true,"messageId":"m{n}","ts":171000000{n}}}')
            for n in range(9)
        ],
        REPEAT,
        "repeated_call",
    ),
    Scene(
        "B12 read so many times",
        [act("read", {"path": "a"}, f"{FORTY}\n(40/40 lines shown - read {n} times this session)") for n in range(9)],
        REPEAT,
        "repeated_call",
    ),
    Scene(
        "B12 a body that changes",
        [act("read", {"path": "a"}, f"row {n}\n(40/40 lines shown - read {n} times this session)") for n in range(6)],
    ),
    Scene(
        "a token that nobody knows",
        [act("read", {"path": "a"}, f"{FORTY}\n(cursor handle {token})") for token in TOKENS],
        {3: "nudge", 4: "firm", 5: "finalize", 6: "cut"},
        "repeated_call",
    ),
    Scene(
        "a token and a count",
        [act("read", {"path": "a"}, f"{n} rows have been copied so far by worker {t}") for n, t in enumerate(TOKENS)],
    ),
    Scene(
        "a queue whose jobs are worked on",
        [
            move
            for token in TOKENS
            for move in (
                act("next_job", {}, f"the next job that waits for a worker is {token}"),
                act("edit", {"job": token}, "ok"),
            )
        ],
    ),
    Scene(
        "B19 the board changes",
        [
            act("task_list", {"status": "open"}, "\n".join(f"task {k}: open" for k in range(n, 8)) or "all is done")
            for n in range(8)
        ],
    ),
    Scene(
        "one search in three spellings",
        [
            act("search", arguments, "one row about the thing that was looked for")
            for arguments in ('{"q":"thing","limit":10}', '{"q":"thing"}', '{"limit":10.0,"q":"thing"}')
        ],
        {3: "nudge"},
        "repeated_call",
        more={"tools": SCHEMA},
    ),
    Scene(
        "a limit that is not the schema's",
        [act("search", {"q": "thing", "limit": n}, f"{n} rows about the thing") for n in (10, 20, 30)],
        more={"tools": SCHEMA},
    ),
]

SPELLINGS = ("./my files/a.py", "my files//a.py", "my files/x/../a.py")
MOMENTS = ("now-5m", "now-10m", "now-15m")
TOOLS: list[tuple[Scene, dict[str, Any]]] = [
    (
        Scene(
            "ignored arguments",
            [act("ask", {"q": "x", "nonce": t}, "the same answer") for t in TOKENS[:3]],
            {3: "nudge"},
            "repeated_call",
        ),
        {"ignore_args": {"ask": ["nonce"]}},
    ),
    (
        Scene(
            "spellings of a path",
            [act("show", {"target": p}, "the same answer") for p in SPELLINGS],
            {3: "nudge"},
            "repeated_call",
        ),
        {"path_args": {"show": ["target"]}},
    ),
    (
        Scene(
            "points in time",
            [act("logs", {"since": t}, "no line but this one") for t in MOMENTS],
            {3: "nudge"},
            "repeated_call",
        ),
        {"time_args": {"logs": ["since"]}},
    ),
    (
        Scene(
            "points in time with other lines", [act("logs", {"since": t}, f"all well at stage {t}") for t in MOMENTS]
        ),
        {"time_args": {"logs": ["since"]}},
    ),
    (
        Scene(
            "an order without a meaning",
            [
                act("label", {"labels": [{"n": n} for n in order]}, "three labels are set")
                for order in ((1, 2, 3), (3, 2, 1), (2, 1, 3))
            ],
            {3: "nudge"},
            "repeated_call",
        ),
        {"unordered_args": {"label": ["labels"]}},
    ),
    (
        Scene(
            "a default",
            [act("page", arguments, "the first page") for arguments in ({}, {"size": 20}, {"size": 20.0})],
            {3: "nudge"},
            "repeated_call",
        ),
        {"defaults": {"page": {"size": 20}}},
    ),
    (
        Scene("failures that are answers", [act("lint", {"p": f"f{n}"}, "Error: unused import") for n in range(6)]),
        {"failure_ok": ["lint"]},
    ),
]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("scene", "tools"),
    [*((scene, {}) for scene in PLAIN), *TOOLS],
    ids=[scene.case for scene in (*PLAIN, *(scene for scene, _ in TOOLS))],
)
async def test_scene(scene: Scene, tools: dict[str, Any], stream: bool, store: Store, heard: Heard) -> None:
    async with live(store, heard, policy=scene.policy, tools=tools) as running:
        turns = await Player(running, heard, scene, stream=stream).play()
        check(turns, running.proxy.printer)
        assert await held(store, {turn.report.view.session for turn in turns}) == {}


DECIDED = [scene for scene, _ in TOOLS if scene.case != "points in time with other lines"]


@pytest.mark.parametrize("scene", DECIDED, ids=[scene.case for scene in DECIDED])
async def test_without_the_setting(scene: Scene, store: Store, heard: Heard) -> None:
    """It is the setting that makes the difference."""
    async with live(store, heard) as running:
        turns = await Player(running, heard, scene, stream=False).play()
        assert {t.number for t in turns if t.report.decision.action not in ("pass", "observe")} != set(scene.at)
