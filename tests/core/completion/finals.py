"""Final answers written down in short: a conversation, what is said at its end, and what a check says of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from guardproxy.api._messages import neutral
from guardproxy.core.completion import CHECKS, Candidate
from guardproxy.core.model import Ask, Call
from tests.core.talk import Json, ask, called, result, system, user

Did = tuple[str, object, str | None]
"""A call with its result: (tool, arguments, result); None: not answered."""


def whole(*messages: Json, **parsed: object) -> Ask:
    """An ask with all its messages in the tail, as `api.conversation` makes it."""
    return replace(ask(*messages, **parsed), tail=tuple(map(neutral, messages)), tail_start=0)


def did(*acts: Did) -> list[Json]:
    """Rounds of one call each; a text instead of an act is what the user says."""
    messages: list[Json] = []
    for number, (tool, arguments, answer) in enumerate(acts):
        if tool == "user":
            messages.append(user(str(arguments)))
            continue
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        messages.append(called((tool, text, f"c{number}")))
        if answer is not None:
            messages.append(result(answer, f"c{number}"))
    return messages


def final(text: str, *acts: Did, calls: Sequence[Call] = (), head: str = "do it", **more: Any) -> Candidate:
    """A candidate after these acts."""
    tools = more.pop("tools", None)
    parsed = {} if tools is None else {"tools": tools}
    made = whole(system("You are an agent."), user(head), *did(*acts), **parsed)
    if tools is not None:
        made = replace(made, tools=tuple(tools))
    return Candidate(text, tuple(calls), made, **more)


def judged(rule: str, candidate: Candidate, language: str = "en", **settings: Any) -> str:
    """What the check says; "" if nothing."""
    module = CHECKS[rule]
    found: str | None = module.check(candidate, module.Settings(**settings), language)
    return found or ""


def sh(command: str, answer: str | None = "ok") -> Did:
    """A shell's call."""
    return ("bash", {"command": command}, answer)


def edit(path: str, answer: str = "The file was updated.") -> Did:
    """An edit of a file."""
    return ("edit_file", {"path": path, "old": "a", "new": "b"}, answer)
