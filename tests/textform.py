"""Recorded runs whose calls were made of texts, turned back into texts: what such an agent really sends.

The recordings say of each run how its calls were found (`labels.conversion`); the original prompts are not all there,
so each form brings the sentence with which a harness asks for it. Which of a group's forms a run gets is drawn by seed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

Json = dict[str, Any]
Call = tuple[str, Json]

LANGUAGES = {"bash": "bash", "shell": "", "sql": "sql", "run_python": "python"}
"""Tools that are a language: their calls are one fenced block."""

ASKED = {
    "fenced": "Answer with exactly one command in a code block. It is executed, and you get its output.",
    "bracket": "Write Thought, then Action: tool[input]. You are then given the Observation.",
    "input": "Write Thought:, Action: and Action Input: lines. You are then given the Observation.",
    "json": 'Answer with a JSON object with the keys "action" and "action_input". You are then given the Observation.',
}
"""The sentence of the prompt for each form."""


def fenced(calls: Sequence[Call]) -> str:
    """One fenced block, as mini-swe-agent, SWE-agent and InterCode ask for it."""
    ((tool, arguments),) = calls
    (command,) = arguments.values()
    return f"```{LANGUAGES[tool]}\n{command}\n```"


def bracket(calls: Sequence[Call]) -> str:
    """`Action: Search[x]`, as the ReAct papers write it."""
    ((tool, arguments),) = calls
    (value,) = arguments.values()
    return f"Action: {tool}[{value}]"


def with_input(calls: Sequence[Call]) -> str:
    """`Action:` and `Action Input:`."""
    ((tool, arguments),) = calls
    return f"Action: {tool}\nAction Input: {json.dumps(arguments)}"


def blob(calls: Sequence[Call]) -> str:
    """A JSON action; several as a list."""
    made = [{"action": tool, "action_input": arguments} for tool, arguments in calls]
    return json.dumps(made[0] if len(made) == 1 else made)


FORMS: dict[str, Callable[[Sequence[Call]], str]] = {
    "fenced": fenced, "bracket": bracket, "input": with_input, "json": blob,
}  # fmt: skip


def form_of(run: Json, draw: Random) -> str:
    """The form of a run, by what its calls were made of."""
    calls = [call for message in run["messages"] for call in _calls(message)]
    several = any(len(_calls(message)) > 1 for message in run["messages"])
    plain = all(len(arguments) == 1 and isinstance(next(iter(arguments.values())), str) for _, arguments in calls)
    if several or not plain:
        return "json"
    if {tool for tool, _ in calls} <= set(LANGUAGES) and not any(
        "\n```" in f"\n{a}" for _, call in calls for a in call.values()
    ):
        return "fenced"
    if "ReAct" in run["labels"].get("conversion", "") or "Action[arg]" in run["labels"].get("conversion", ""):
        return draw.choice(("bracket", "input", "json"))
    return draw.choice(("input", "json"))


def text_form(run: Json, draw: Random) -> tuple[str, list[Json]]:
    """The form that was drawn, and the run's messages in it."""
    form = form_of(run, draw)
    labelled = form != "fenced" or draw.random() < 0.5
    messages: list[Json] = [{"role": "system", "content": ASKED[form]}]
    open_calls = 0
    for message in run["messages"]:
        content = message.get("content") or ""
        if message["role"] == "tool":
            if open_calls:  # one that answers no call answers nothing in the recorded form, too
                label = "Observation: " if labelled and not content.startswith("<returncode>") else ""
                messages.append({"role": "user", "content": label + content})
                open_calls -= 1
            continue
        calls = _calls(message)
        if message["role"] == "assistant":
            open_calls = len(calls)
        if calls:
            if content.count("\n```") % 2:  # the recording cut the text inside a block
                content += "\n```"
            messages.append({"role": "assistant", "content": f"{content}\n\n{FORMS[form](calls)}".strip()})
        else:
            messages.append({"role": message["role"], "content": content})
    return form, messages


def _calls(message: Json) -> list[Call]:
    return [
        (one["function"]["name"], _arguments(one["function"]["arguments"])) for one in message.get("tool_calls") or ()
    ]


def _arguments(text: str) -> Json:
    value = json.loads(text)
    return value if isinstance(value, dict) else {"input": value}
