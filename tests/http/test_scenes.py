"""The loop log's cases over HTTP: scripted provider, proxy, real store, and an agent that ignores all advice.

Step numbers are those of `field/loop-bugs.md` with `refuse: observe`: the key in `at` is how many moves were played
when the request is sent. A request that is not in `at` must pass or be observed, byte for byte.
"""

from __future__ import annotations

import json

import pytest

from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import live
from tests.scene_checks import check
from tests.scenes import Heard, Move, Player, Scene, act, both, delta, ladder, say, system, tc, user

REPEAT = ladder(3, 4, 5, 6)
BATCH = ladder(3, 4, 0, 5)
INTERLEAVED = {7: "nudge", 9: "firm", 13: "finalize", 15: "cut", 16: "cut", 17: "cut", 18: "over"}
SIGNATURE = ladder(4, 5, 7, 8)
MONOLOGUE = ladder(2, 3, 0, 4)
FORTY = "\n".join(f"const line{n} = {n};" for n in range(40))
CELL = 'Cell In[{0}], line 1{0}\n    print("Hi {0}\n          ^\nSyntaxError: unterminated string literal'
NOT_FOUND = '{"error":"404 not found"}'
TOOLS = user("You have tools available, use them.")
GO = user("List the processes.")
FAIL = say(None, status=500)
FINISHING = [
    {"type": "function", "function": {"name": "process", "parameters": {}}},
    {
        "type": "function",
        "function": {
            "name": "final_answer",
            "parameters": {"type": "object", "properties": {"answer": {"type": "string"}}, "required": ["answer"]},
        },
    },
]
LIST = act("process", {"action": "list"}, "[]")
BOARD = "task {0}: open\ntask {1}: open"
S, U = system("Be brief."), user("What is on the list?")
ZH = (user("请列出所有进程,然后告诉我结果。"),)


def same(times: int, *moves: object) -> list:
    return list(moves) * times


def spoken(*texts: str) -> list[dict]:
    return [{"type": "text", "text": text} for text in texts]


def f(arguments: str, call_id: str, *deltas: dict, **more: object) -> list:
    """Three rounds of `f`, each streamed in the case's own form, with a result that is new each time."""
    return [act("f", arguments, f"r{n}", call_id=call_id, deltas=deltas, **more) for n in range(3)]


def two(first: tuple, second: tuple, *deltas: dict) -> list:
    return [both(first, second, deltas=deltas), say("Both are done.")]


LOOPS = [
    Scene(
        "B01 text between the calls",
        [act("read", {"path": "a.ts"}, FORTY, text=f"Let me look. ({n})") for n in range(9)],
        REPEAT,
        "repeated_call",
        {3: r"`read`.*3 times"},
        (user("fix it"),),
    ),
    Scene(
        "B03 interleaved reads",
        [
            move
            for k in range(9)
            for move in (
                act("sh", {"cmd": "cargo test"}, "error[E0308] mismatched types"),
                act("read", {"path": f"src/m{k}.rs"}, f"pub fn f{k}() -> u{k} {{ {k} }}"),
            )
        ],
        INTERLEAVED,
        "interleaved_repeat",
    ),
    Scene(
        "B04 empty result",
        same(3, act("memory_get", {"key": "quota"}, "(memory is empty)")),
        {3: "nudge"},
        "repeated_call",
        {3: "(?s)memory_get.*3 times.*empty result is the answer.*cannot change"},
        (user("what is my quota?"),),
    ),
    Scene(
        "B04 in Chinese",
        same(3, act("memory_get", {"key": "quota"}, "(memory is empty)")),
        {3: "nudge"},
        "repeated_call",
        {3: "memory_get.*3 次.*空结果就是答案"},
        (user("我的配额是多少?"),),
        language="zh",
    ),
    Scene(
        "B06 the same 404",
        [act("get_issue", {"id": 101 + 37 * k}, NOT_FOUND) for k in range(11)],
        SIGNATURE,
        "error_signature",
        {4: "get_issue.*4 times"},
    ),
    Scene(
        "B06 a success in between",
        [act("get_issue", {"id": 101 + k}, NOT_FOUND if k % 4 < 3 else f'{{"title":"issue {k}"}}') for k in range(8)],
    ),
    Scene(
        "B07 one syntax error, other lines",
        [act("py", {"code": f'print("Hi {k}\n'}, CELL.format(k)) for k in range(5)],
        {4: "nudge", 5: "firm"},
        "error_signature",
    ),
    Scene(
        "B09 A-B-A-B",
        same(7, act("lookup", {"q": "a"}, "none"), act("search", {"q": "b"}, "none")),
        {6: "nudge", 8: "firm", 10: "cut", 11: "cut", 12: "cut", 13: "over", 14: "over"},
        "cycle",
        {6: "same 2 calls.*3 times"},
    ),
    Scene(
        "B09 changing results",
        [
            move
            for k in range(5)
            for move in (act("lookup", {"q": "a"}, f"hit {k}a"), act("search", {"q": "b"}, f"row {k}b"))
        ],
    ),
    Scene(
        "B10 the other half goes on",
        [
            *same(4, act("memory_search", {"q": "x"}, "[]"), act("memory_get", {"k": "x"}, "null")),
            *same(2, act("memory_search", {"q": "x"}, "[]")),
        ],
        {6: "nudge", 8: "firm", 10: "cut"},
        "cycle",
    ),
    Scene("B13 seven lists and more", same(10, LIST), {**REPEAT, 10: "over"}, "repeated_call", counted={10: 6}),
    Scene("B13 with a declared session", same(9, LIST), REPEAT, "repeated_call", counted={9: 6}, session=True),
    Scene(
        "B13 in Chinese",
        same(9, LIST),
        REPEAT,
        "repeated_call",
        {3: "连续调用 3 次", 6: "原因", 9: "原因"},
        ZH,
        language="zh",
    ),
    Scene("B13 observed", same(10, LIST), policy={"mode": "observe"}),
    Scene(
        "B14 the client kept our text",
        [
            *same(4, act("todo", {"op": "list"}, "ok", call_id="9")),
            *same(5, act("todo", {"op": "list"}, "ok\n\n[guardproxy] Note: `todo` was called 4 times.", call_id="9")),
        ],
        REPEAT,
        "repeated_call",
    ),
    Scene(
        "B15 invalid arguments",
        same(9, act("todo", {}, "Invalid arguments: op must be set")),
        REPEAT,
        "invalid_call",
        {3: "3 calls", 4: "not to be repeated"},
    ),
    Scene("B15 calls without a name", same(9, act("", {}, "Error: no tool was named")), REPEAT, "invalid_call"),
    Scene(
        "B15 arguments that are no JSON",
        [act("edit", f'{{"path": "a{n}', "Error: arguments are not valid JSON") for n in range(9)],
        REPEAT,
        "invalid_call",
    ),
    Scene(
        "B33 parallel calls",
        same(8, both(("f", {"x": 1}, "one"), ("g", {"y": 2}, "two"))),
        BATCH,
        "repeated_call",
    ),
    Scene("B34 advice goes inside the tool message", same(3, act("f", {}, "same")), {3: "nudge"}, "repeated_call"),
    Scene("B34 results in parts", same(3, act("f", {}, spoken("same", "parts"))), {3: "nudge"}, "repeated_call"),
    Scene(
        "B34 a user message after the result",
        same(3, act("f", {}, "same", then=(user("Observation: go on"),))),
        {3: "nudge"},
        "repeated_call",
    ),
    Scene(
        "B35 system and developer messages stay",
        same(4, act("f", {}, "same", then=(system("reminder"),))),
        {3: "nudge", 4: "firm"},
        "repeated_call",
        opening=(
            system("More rules.", "developer"),
            user("Go."),
        ),
    ),
    Scene(
        "B36 all calls are taken out on finalize",
        [
            *same(5, act("f", {"x": 1}, "same")),
            both(("f", {"x": 1}, "same"), ("f", {"x": 1}, "same"), ("g", {}, "other")),
        ],
        {3: "nudge", 4: "firm", 5: "finalize"},
        "repeated_call",
    ),
    Scene("B36 a call without its result", [both(("f", {"x": 1}, "one"), ("f", {"x": 2}, None), ("g", {}, "three"))]),
]

WORDS = [
    Scene(
        "B16 nothing at all, again and again",
        same(7, say(None, forgets=True, finish="tool_calls")),
        {1: "nudge", 2: "firm", 3: "cut", 4: "cut", 5: "cut", 6: "over", 7: "over"},
        "monologue",
        counted={7: 3},
    ),
    Scene("B18 re-prompted", same(7, say("Two sessions are open.", TOOLS)), MONOLOGUE, "monologue", counted={7: 4}),
    Scene(
        "B18 in Chinese",
        same(7, say("有两个会话是打开的。", user("你有可用的工具,请使用它们。"))),
        MONOLOGUE,
        "monologue",
        opening=ZH,
        language="zh",
    ),
    Scene(
        "B18 re-prompted in parts",
        same(7, say("Two sessions are open.", {"role": "user", "content": spoken("You have tools,", "use them.")})),
        MONOLOGUE,
        "monologue",
    ),
]

HEALTHY = [
    Scene(
        "B19 the board changes", [act("task_list", {"status": "in_progress"}, BOARD.format(k, k + 1)) for k in range(8)]
    ),
    Scene(
        "B19 a frozen board",
        same(9, act("task_list", {"status": "open"}, BOARD.format(1, 2))),
        REPEAT,
        "repeated_call",
    ),
    Scene(
        "B19 a frozen board that says pending",
        same(12, act("task_list", {"status": "in_progress"}, "task 1: in progress\ntask 2: in progress")),
        {8: "nudge", 12: "firm"},
        "unchanged_poll",
        {8: "task_list.*8 times"},
    ),
    Scene(
        "B21 a gap of ten steps",
        [
            *same(2, act("poll", {}, "none")),
            *(act("sh", {"cmd": f"make part{k}"}, f"built part {k}") for k in range(10)),
            *same(2, act("poll", {}, "none")),
        ],
    ),
    Scene("B21 without the gap", same(3, act("poll", {}, "none")), {3: "nudge"}, "repeated_call"),
    Scene(
        "B22 build status",
        [
            *(act("build_status", {"id": 3}, f"step {k}/9 running") for k in range(1, 10)),
            act("build_status", {"id": 3}, "done"),
        ],
    ),
    Scene(
        "B23 tests after each fix",
        [
            move
            for k in range(5)
            for move in (
                act("edit", {"p": "a.py", "new": f"v{k}"}, "ok"),
                act("sh", {"cmd": "pytest -q"}, f"{5 - k} failed"),
            )
        ],
    ),
    Scene(
        "B23 three failed each time",
        [
            move
            for k in range(7)
            for move in (act("edit", {"p": "a.py", "new": f"v{k}"}, "ok"), act("sh", {"cmd": "pytest -q"}, "3 failed"))
        ],
        {12: "nudge"},
        "interleaved_repeat",
    ),
    Scene("B24 one tool, twenty-five commands", [act("sh", {"cmd": f"ls part{k}"}, f"file {k}") for k in range(25)]),
    Scene(
        "B25 lists of files",
        [act("read", {"files": [{"path": p} for p in paths]}, "same body") for paths in ("a", "b", "c", "ab")],
    ),
    Scene(
        "B28 a reader without a position",
        [
            *(act("read_output", {"session": 1}, f"block {k}: {k * 7919}") for k in range(20)),
            act("read_output", {"session": 1}, ""),
        ],
    ),
]

DELTAS = [
    Scene("B39 no index", f('{"x":1}', "c1", tc({"id": "c1", "n": "f", "a": ""}), tc({"a": '{"x":'}), tc({"a": "1}"}))),
    Scene(
        "B39 two calls without index",
        two(
            ("f", "{}", "1", "c1"),
            ("g", "{}", "2", "c2"),
            tc({"id": "c1", "n": "f", "a": "{}"}),
            tc({"id": "c2", "n": "g", "a": "{}"}),
        ),
    ),
    Scene(
        "B39 index now and then",
        f('{"x":1}', "c1", tc({"id": "c1", "n": "f", "a": ""}), tc({"i": 0, "a": '{"x":'}), tc({"a": "1}"})),
    ),
    Scene(
        "B40 every index is 0",
        two(
            ("read", '{"p":"a"}', "1", "a"),
            ("read", '{"p":"b"}', "2", "b"),
            tc({"i": 0, "id": "a", "n": "read", "a": '{"p":"a"}'}),
            tc({"i": 0, "id": "b", "n": "read", "a": '{"p":"b"}'}),
        ),
    ),
    Scene(
        "B41 one chunk, one index, no ids",
        two(
            ("w", '{"c":"A"}', "1", ""),
            ("w", '{"c":"B"}', "2", ""),
            tc({"i": 0, "n": "w", "a": '{"c":"A"}'}, {"i": 0, "n": "w", "a": '{"c":"B"}'}),
        ),
    ),
    Scene(
        "B41 two chunks, one index, no ids",
        two(
            ("w", '{"c":"A"}', "1", ""),
            ("w", '{"c":"B"}', "2", ""),
            tc({"i": 0, "n": "w", "a": '{"c":"A"}'}),
            tc({"i": 0, "n": "w", "a": '{"c":"B"}'}),
        ),
    ),
    Scene(
        "B42 id and name in every chunk",
        f('{"x":1}', "k", *(tc({"i": 0, "id": "k", "n": "f", "a": part}) for part in ("", '{"x"', ":1}"))),
    ),
    Scene(
        "B43 the id comes later",
        f("{}", "z9", tc({"i": 0, "n": "f"}), tc({"i": 0, "id": "z9"}), tc({"i": 0, "a": "{}"})),
    ),
    Scene(
        "B44 empty and null choices",
        f(
            "{}",
            "c1",
            {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
            delta(content="a"),
            {"choices": None},
            tc({"i": 0, "id": "c1", "n": "f", "a": "{}"}),
            text="a",
        ),
    ),
    Scene("B45 finish reason stop", f("{}", "1", tc({"i": 0, "id": "1", "n": "f", "a": "{}"}), finish="stop")),
    Scene(
        "B46 function_call",
        f(
            '{"x":1}',
            "",
            delta(function_call={"name": "f", "arguments": '{"x"'}),
            delta(function_call={"arguments": ":1}"}),
            finish="function_call",
            legacy=True,
        ),
    ),
    Scene(
        "B46 both generations are one call",
        [
            *same(
                2,
                act(
                    "f",
                    '{"x":1}',
                    "same",
                    call_id="",
                    legacy=True,
                    finish="function_call",
                    deltas=(delta(function_call={"name": "f", "arguments": '{"x":1}'}),),
                ),
            ),
            *same(7, act("f", '{"x": 1}', "same")),
        ],
        REPEAT,
        "repeated_call",
    ),
    Scene(
        "B46 interleaved parallel deltas",
        two(
            ("f", "{}", "1", "a"),
            ("g", "{}", "2", "b"),
            tc({"i": 0, "id": "a", "n": "f", "a": "{"}),
            tc({"i": 1, "id": "b", "n": "g", "a": "{"}),
            tc({"i": 0, "a": "}"}),
            tc({"i": 1, "a": "}"}),
        ),
    ),
    Scene(
        "B47 the value leaks into the content",
        same(
            3,
            act(
                "read",
                '{"p":"/etc/x"}',
                "root",
                text="/etc/x",
                call_id="1",
                deltas=(delta(content="/etc/x"), tc({"i": 0, "id": "1", "n": "read", "a": '{"p":"/etc/x"}'})),
            ),
        ),
        {3: "nudge"},
        "repeated_call",
    ),
]

RUNS = [
    Scene("B48 one id for all calls", [act("term", {"cmd": k}, f"r{k}", call_id="ZsSt") for k in range(4)]),
    Scene("B48 one id and a loop", same(9, act("term", {"cmd": 1}, "r1", call_id="ZsSt")), REPEAT, "repeated_call"),
    Scene("B49 two calls share an id", [both(("f", {"x": 1}, "one", "d"), ("f", {"x": 2}, "two", "d"))]),
    Scene(
        "B49 and loop", same(8, both(("f", {"x": 1}, "one", "d"), ("f", {"x": 2}, "two", "d"))), BATCH, "repeated_call"
    ),
    Scene(
        "B54 a reminder of role system",
        [
            act("f", {}, "one", then=(system("reminder"), user("And now?"))),
            say("That is all.", system("reminder 2"), user("More.")),
        ],
        opening=(S, U),
    ),
    Scene(
        "B55 one header, two conversations",
        [
            *same(2, act("f", {}, "same")),
            say("Done.", forgets=True, anew=(user("Another task."),)),
            *same(3, act("f", {}, "same")),
        ],
        {6: "nudge"},
        "repeated_call",
        session=True,
    ),
    Scene(
        "B56 over a compaction",
        [
            *same(2, act("f", {}, "x")),
            act("f", {}, "x", anew=(user("Summary of what was done: f was called."),)),
            *same(6, act("f", {}, "x")),
        ],
        REPEAT,
        "repeated_call",
    ),
    Scene(
        "B56 over a compaction, with a declared session",
        [
            *same(2, act("f", {}, "x")),
            act("f", {}, "x", anew=(user("Summary of what was done: f was called."),)),
            *same(6, act("f", {}, "x")),
        ],
        REPEAT,
        "repeated_call",
        session=True,
    ),
    Scene(
        "B58 over budget",
        [act("f", {"n": 1}, "1"), act("f", {"n": 2}, "2"), *same(3, say("more", forgets=True))],
        {1: "finalize", 2: "deny", 3: "deny", 4: "deny", 5: "deny"},
        "budget.turns",
        {2: "of 2: 2 used"},
        policy={"limits": {"session": {"turns": 2}}},
        counted={5: 2},
        session=True,
    ),
    Scene(
        "a failed answer is asked again, on each rung",
        [LIST, FAIL, *same(2, LIST), FAIL, LIST, FAIL, FAIL, LIST, FAIL, LIST, *same(2, LIST)],
        {4: "nudge", 6: "firm", 9: "finalize", 10: "finalize", 11: "cut", 12: "cut", 13: "cut"},
        "repeated_call",
    ),
    Scene(
        "a new word from the user after the cut",
        [*same(6, LIST), say("(what the proxy said)", user("Then look at process 7 only.")), *same(3, LIST)],
        {3: "nudge", 4: "firm", 5: "finalize", 6: "cut", 10: "nudge"},
        "repeated_call",
    ),
    Scene(
        "a client that starts the task again after the cut",
        [*same(6, LIST), *same(3, say("", forgets=True, anew=(GO,)))],
        REPEAT,
        "repeated_call",
        opening=(GO,),
    ),
    Scene(
        "a client that demands calls is ended by its finishing tool",
        same(9, LIST),
        REPEAT,
        "repeated_call",
        more={"tools": FINISHING, "tool_choice": "required"},
    ),
    Scene(
        "the client asks for usage itself",
        [act("f", {}, "one"), act("g", {}, "two")],
        more={"stream_options": {"include_usage": True}},
    ),
    Scene(
        "the client wants no usage",
        [act("f", {}, "one"), act("g", {}, "two")],
        more={"stream_options": {"include_usage": False}},
    ),
    Scene(
        "two texts at one place",
        same(4, say(None, forgets=True, finish="tool_calls")),
        {1: "nudge", 2: "firm", 4: "finalize"},
        "monologue",
        policy={"detectors": {"monologue": {"same_text": [2, 3, 6]}}},
    ),
]


def lines(start: int, stop: int) -> str:
    return "\n".join(f"line {number}" for number in range(start, stop + 1))


def pages(*parts: tuple[int, int]) -> list:
    return [
        act("read_file", {"path": "x", "start_line": start, "end_line": stop}, lines(start, stop))
        for start, stop in parts
    ]


def plan(word: str, *statuses: str) -> Move:
    steps = [{"s": f"{word} part {n} well", "st": status} for n, status in enumerate(statuses)]
    return act("update_plan", {"steps": steps}, "Plan updated")


def report(number: int, result: str, **numbers: int) -> Move:
    told = {"x-guardproxy-progress": json.dumps(numbers)}
    return act("work", {"part": chr(97 + number) + "x"}, result, headers=told)


def lap(number: int, **more: object) -> list:
    """Three looks in other words each time, with the answers that they had before."""
    asked = "abcdefgh"[number] + "x"
    return [
        act("search_code", {"q": asked}, "nothing in the index", **more),
        act("look_up", {"word": asked}, "an old note"),
        act("browse_docs", {"topic": asked}, "the front page"),
    ]


REFUSED = (
    '{"error":{"message":"This model\'s maximum context length is 128000 tokens.","code":"context_length_exceeded"}}'
)
HELD = "call_h31dh31d0"
BIG = act("read_file", {"path": "big.log"}, "much", call_id=HELD)


def refused(number: int) -> Move:
    """The provider refuses the conversation; the client keeps its last round and writes another summary."""
    made = {"id": HELD, "type": "function", "function": {"name": "read_file", "arguments": '{"path": "big.log"}'}}
    kept = {"role": "assistant", "content": None, "tool_calls": [made]}
    rest = (GO, kept, {"role": "tool", "tool_call_id": HELD, "content": "much"}, user(f"<conversation> {number * 7}"))
    return Move(status=400, error=REFUSED, anew=rest)


KINDS = [
    Scene(
        "B02 one call four times in one message",
        same(3, both(*[("sh", {"cmd": "mvn test"}, "BUILD SUCCESS")] * 4)),
        {3: "nudge"},
        "repeated_call",
        {3: "`sh`.*3 times"},
        observed={1: "duplicate_calls", 2: "duplicate_calls"},
    ),
    Scene(
        "B27 a plan in other words",
        [plan(word, "pending", "pending", "pending") for word in ("plan", "draft", "sketch", "outline")],
        {3: "nudge"},
        "unmoved_plan",
        {3: "update_plan.*3 times.*first open one"},
    ),
    Scene("B27 a plan that advances", [plan("do", *["done"] * k, *["pending"] * (6 - k)) for k in range(7)]),
    Scene("B29 forty pages", pages(*((1 + 40 * k, 40 + 40 * k) for k in range(40)))),
    Scene(
        "B30 a search page by page", [act("search", {"q": "def", "page": k}, f"hit {k * 7919}") for k in range(1, 12)]
    ),
    Scene(
        "pages of what was read before",
        pages((1, 200), *((5 + 9 * k, 80 + 9 * k) for k in range(12))),
        {6: "nudge", 9: "firm", 12: "finalize", 13: "cut"},
        "reread_range",
        {6: "read_file.*5 times.*known already"},
    ),
    Scene(
        "pages of what was read before, in Chinese",
        pages((1, 200), *((5 + 9 * k, 80 + 9 * k) for k in range(5))),
        {6: "nudge"},
        "reread_range",
        {6: "5 次.*已知"},
        ZH,
        language="zh",
    ),
    Scene(
        "B57 compactions without progress",
        [
            move
            for k in range(6)
            for move in lap(k, **({"anew": (user(f"<conversation> in short, {k}"),)} if k else {}))
        ][:16],  # it stops here: who follows a finalize has no further calls to compact
        {10: "nudge", 13: "nudge", 16: "finalize"},
        "compaction",
        {10: "shortened 3 times"},
        observed={4: "compaction", 7: "compaction"},
    ),
    Scene(
        "the conversation stays too long",
        [BIG, *map(refused, range(9))],
        {5: "nudge", 8: "finalize", 9: "cut", 10: "cut"},
        "context_overflow",
        {5: "refused this conversation 4 times"},
        (GO,),
        observed={3: "context_overflow"},
    ),
    Scene(
        "too long three times, then it goes on",
        [BIG, *map(refused, range(3)), act("read_file", {"path": "small.log"}, "little"), *map(refused, range(3))],
        opening=(GO,),
    ),
    Scene(
        "four reports without a gain",
        [report(k, f"done {k}", completed_steps=2, unresolved=3) for k in range(6)],
        {5: "nudge"},
        "no_progress",
    ),
    Scene(
        "reports with a gain now and then",
        [report(k, f"done {k}", completed_steps=k // 3, unresolved=3) for k in range(12)],
    ),
]

SCENES = [*LOOPS, *WORDS, *HEALTHY, *DELTAS, *RUNS, *KINDS]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("scene", SCENES, ids=[scene.case for scene in SCENES])
async def test_scene(scene: Scene, stream: bool, store: Store, heard: Heard) -> None:
    async with live(store, heard, policy=scene.policy) as running:
        turns = await Player(running, heard, scene, stream=stream).play()
        check(turns, running.proxy.printer)
        assert await held(store, {turn.report.view.session for turn in turns}) == {}
