"""Kinds of loops that are not of calls alone: pages read again, plans that do not move, compactions, reports."""

from __future__ import annotations

import json

from tests.scene_loops import ZH
from tests.scenes import Move, Scene, act, user
from tests.thresholds import Thresholds

GO = user("List the processes.")


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


def kinds(t: Thresholds) -> list[Scene]:
    """Each with what it may be confused with."""
    return [
        Scene(
            "a plan in other words",
            [plan(word, "pending", "pending", "pending") for word in ("plan", "draft", "sketch", "outline")],
            {3: "nudge"},
            "unmoved_plan",
            {3: "update_plan.*3 times.*first open one"},
        ),
        Scene("a plan whose steps advance", [plan("do", *["done"] * k, *["pending"] * (6 - k)) for k in range(7)]),
        Scene("forty pages", pages(*((1 + 40 * k, 40 + 40 * k) for k in range(40)))),
        Scene(
            "a search page by page", [act("search", {"q": "def", "page": k}, f"hit {k * 7919}") for k in range(1, 12)]
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
            "compactions without progress, with calls between",
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
