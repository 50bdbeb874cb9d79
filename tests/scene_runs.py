"""Sessions, compaction, budgets and ends: sections 10 and 11 of the loop log, and what clients make of an end."""

from __future__ import annotations

from tests.scene_loops import LIST, same
from tests.scenes import Move, Scene, act, say, system, user
from tests.thresholds import Marks, Thresholds

S, U = system("Be brief."), user("What is on the list?")
GO = user("List the processes.")
FAIL = say(None, status=500)
SUMMARY = user("Summary of what was done: f was called.")
BODY = "\n".join(f"def part{n}(): return {n}" for n in range(40))
STARTED = "Session started. " + " ".join(f"I am watching stream {n} for changes." for n in range(50))
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


def runs(t: Thresholds) -> list[Scene]:
    """Sections 10 and 11, and ends."""
    return [*_lineages(t), *_compactions(t), *_budgets(t), *_ends(t), *_usage()]


def _lineages(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")
    return [
        Scene(
            "B54 a reminder of role system",
            [
                act("f", {}, "one", then=(system("reminder"), user("And now?"))),
                say("That is all.", system("reminder 2"), user("More.")),
            ],
            opening=(S, U),
        ),
        Scene(
            "B54 a loop goes on over a reminder of role system",
            [
                act("f", {}, "same", then=(system("reminder"), user("<system-reminder>Go on.</system-reminder>"))),
                *same(repeat.whole() - 1, act("f", {}, "same")),
            ],
            repeat.ladder(),
            "repeated_call",
            opening=(S, U),
        ),
        Scene(
            "B55 one header, two conversations",
            [
                *same(repeat.nudge - 1, act("f", {}, "same")),
                say("Done.", forgets=True, anew=(user("Another task."),)),
                *same(repeat.nudge, act("f", {}, "same")),
            ],
            {2 * repeat.nudge: "nudge"},
            "repeated_call",
            session=True,
        ),
    ]


def _compactions(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")

    def seen(count: int) -> int:
        """The request after the first call that follows a compaction; one is made after every third call."""
        return 3 * count + 1

    over = [
        *same(repeat.nudge - 1, act("f", {}, "x")),
        act("f", {}, "x", anew=(SUMMARY,)),
        *same(repeat.whole() - repeat.nudge, act("f", {}, "x")),
    ]
    return [
        Scene("B56 over a compaction", over, repeat.ladder(), "repeated_call"),
        Scene("B56 over a compaction, with a declared session", over, repeat.ladder(), "repeated_call", session=True),
        Scene(
            "B57 compaction after compaction",
            [move for k in range(6) for move in _lap(k)][: seen(5)],
            {
                **Marks(3, 0, 6).ladder(seen, upto=seen(5)),
                seen(4): "nudge",
            },  # its place was taken away: it is said again
            differs="the log's third compaction: it is seen in the tenth request",
        ),
        Scene(
            "B57 compaction after compaction, with results that are new",
            [move for k in range(9) for move in _lap(k, f"\n# version {k}")],
        ),
    ]


def _lap(number: int, news: str = "") -> tuple[Move, ...]:
    """Three calls of other arguments with what is known already, after a compaction but for the first time."""
    anew = (user(f"<conversation> Summary number {number}: the files were read."),) if number else None
    return (
        act("read", {"path": "a.py", "part": f"{chr(97 + number)}"}, BODY + news, anew=anew),
        act("search", {"q": f"word {chr(97 + number)}"}, "a.py: def part1()" + news),
        act("look_up", {"name": f"note {chr(97 + number)}"}, "an old note" + news),
    )


def _budgets(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")
    return [
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
            "B59 the same long words with each call",
            same(repeat.cut - 1, act("start_log", {}, "ok", text=STARTED)),
            repeat.ladder(upto=repeat.cut - 1),
            "repeated_call",
        ),
    ]


def _ends(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")
    ladder, whole, cut = repeat.ladder(), repeat.whole(), repeat.cut
    return [
        _interrupted(repeat),
        Scene(
            "a new word from the user after the cut",
            [
                *same(cut, LIST),
                say("(what the proxy said)", user("Then look at process 7 only.")),
                *same(repeat.nudge, LIST),
            ],
            {**repeat.ladder(upto=cut), cut + 1 + repeat.nudge: "nudge"},
            "repeated_call",
        ),
        Scene(
            "a client that starts the task again after the cut",
            [*same(cut, LIST), *same(3, say("", forgets=True, anew=(GO,)))],
            ladder,
            "repeated_call",
            opening=(GO,),
        ),
        Scene(
            "a client that demands calls is ended by its finishing tool",
            same(whole, LIST),
            ladder,
            "repeated_call",
            more={"tools": FINISHING, "tool_choice": "required"},
        ),
        Scene(
            "two texts at one place",
            same(4, say(None, forgets=True, finish="tool_calls")),
            Marks(2, 3, 6).ladder(lambda count: count - 1, upto=4),
            "monologue",
            policy={"detectors": {"monologue": {"same_text": [2, 3, 6]}}},
        ),
    ]


def _interrupted(repeat: Marks) -> Scene:
    """On each rung the provider fails, and the client asks again."""
    rungs, moves, at = repeat.ladder(), [LIST, FAIL], {}
    for count in range(2, repeat.cut + 1):
        moves.append(LIST)
        turn, verdict = len(moves), rungs.get(count, "")
        if not verdict:
            continue
        again = 3 if verdict == "cut" else 2 if verdict == "finalize" else 1
        at |= dict.fromkeys(range(turn, turn + again), verdict)
        moves += {"firm": [FAIL, FAIL], "cut": [LIST, LIST]}.get(verdict, [FAIL])
    return Scene("a failed answer is asked again, on each rung", moves, at, "repeated_call")


def _usage() -> list[Scene]:
    return [
        Scene(
            f"the client {said} usage itself",
            [act("f", {}, "one"), act("g", {}, "two")],
            more={"stream_options": {"include_usage": wanted}},
        )
        for said, wanted in (("asks for", True), ("wants no", False))
    ]
