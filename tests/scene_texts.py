"""Agents that write their calls in texts: ReAct, one fenced command, a JSON action; and people who talk about code."""

from __future__ import annotations

import json

from tests.live import Json
from tests.scene_loops import same
from tests.scenes import Move, Scene, say, system, user, write
from tests.thresholds import Thresholds

REJECTED = "Please always provide EXACTLY ONE action in triple backticks, found 2 actions."
U = user("What is on the list?")
REACT = system(
    "Write Thought, then Action: tool[input]; you are given the Observation. End with Final Answer: and the text."
)
SHELL = system(
    "You interact with a computer shell. Your response must contain exactly ONE bash code block with ONE command; it "
    "is executed and you get its output."
)
OBJECT = system(
    'Answer with JSON only: {"action": name, "action_input": arguments}. You then receive the result of the tool.'
)


def searched(what: str, found: str) -> Move:
    """A round of ReAct."""
    return write(
        f"Thought: I look for {what}.\nAction: Search[{what}]",
        f"Observation: {found}",
        ("Search", {"input": what}, found),
    )


def ran(command: str, output: str) -> Move:
    """A round of mini-swe-agent."""
    told = f"<returncode>0</returncode>\n<output>\n{output}\n</output>"
    return write(f"THOUGHT: I run it.\n\n```bash\n{command}\n```", told, ("bash", {"command": command}, told))


def asked(arguments: Json, answer: str) -> Move:
    """A round of an agent that writes JSON; its results have no label."""
    made = json.dumps({"thought": "I need it.", "action": "get_order", "action_input": arguments})
    return write(made, answer, ("get_order", arguments, answer))


def pasted(code: str, words: str) -> Move:
    """An assistant's code, and what a person says of it."""
    return say(f"Try this:\n\n```bash\n{code}\n```", user(words))


def texts(t: Thresholds) -> list[Scene]:
    """Loops and healthy runs of such agents."""
    repeat, talk = t("repeated_call"), t("monologue", "same_text")
    return [
        Scene(
            "a ReAct loop",
            same(repeat.whole(), searched("oil price in 1873", "No results found.")),
            repeat.ladder(),
            "repeated_call",
            {
                repeat.nudge: "Search.*3 times.*empty result is the answer",
                5: "no further action in this turn.*`Final Answer:`",
            },
            (REACT, U),
            tools=False,
        ),
        Scene(
            "ReAct that gets on",
            [
                *(searched(f"river {k}", f"River {k} is {k * 317} km long.") for k in range(8)),
                say("Thought: I know.\nFinal Answer: river 7", user("And the shortest?")),
                *(searched(f"river {k}", f"River {k} is {k * 317} km long.") for k in range(2)),
            ],
            opening=(REACT, U),
            tools=False,
        ),
        Scene(
            "a ReAct loop by its observations alone",
            same(3, searched("oil price in 1873", "No results found.")),
            repeat.ladder(upto=3),
            "repeated_call",
            tools=False,
        ),
        Scene(
            "one fenced command again and again",
            same(repeat.whole(), ran("git status", "nothing to commit, working tree clean")),
            repeat.ladder(),
            "repeated_call",
            {3: "`bash`.*3 times", 5: "final answer now, in the form"},
            (SHELL, U),
            tools=False,
        ),
        Scene(
            "fenced commands that get on",
            [
                move
                for k in range(5)
                for move in (ran(f"sed -i s/a/{k}/ x.py", ""), ran("pytest -q", f"{9 - k} failed, {k} passed in 0.1s"))
            ],
            opening=(SHELL, U),
            tools=False,
        ),
        Scene(
            "replies that a harness rejects make no call",
            same(talk.whole(), say("```bash\nls\n```\n```bash\npwd\n```", user(REJECTED))),
            talk.ladder(),
            "monologue",
            opening=(SHELL, U),
            tools=False,
        ),
        Scene(
            "a JSON action again and again",
            same(repeat.whole(), asked({"id": 7}, '{"order": 7, "state": "unknown"}')),
            repeat.ladder(),
            "repeated_call",
            {3: "get_order.*3 times"},
            (OBJECT, U),
            tools=False,
        ),
        Scene(
            "JSON actions that get on",
            [asked({"id": k}, f'{{"order": {k}, "paid": {k * 31}}}') for k in range(9)],
            opening=(OBJECT, U),
            tools=False,
        ),
        Scene(
            "a budget counts calls in texts",
            [asked({"id": k}, f'{{"order": {k}, "paid": {k * 31}}}') for k in range(5)],
            {3: "finalize", 4: "deny", 5: "deny"},
            "budget.tool_calls",
            policy={"limits": {"span": {"tool_calls": 4}}},
            opening=(OBJECT, U),
            tools=False,
        ),
        Scene(
            "a person who pastes what went wrong",
            [
                *(
                    pasted(f"pip install thing=={k}", "ERROR: No matching distribution found for thing")
                    for k in range(3)
                ),
                pasted("python3 -m venv .venv", "same"),
                pasted("pip install thing", "still the same error, what now?"),
                pasted("pip install thing", "Error: it still does not work"),
                pasted("pip download thing", "ERROR: No matching distribution found for thing"),
                pasted("pip index versions thing", "ok that printed a list, thanks"),
            ],
            tools=False,
        ),
    ]
