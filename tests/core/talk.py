"""Conversations written down in short: what a test of the core says in a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from guardproxy.api import chat
from guardproxy.core.fingerprint import Fingerprinter, pack
from guardproxy.core.model import Ask, Call, Declared, Kind, Message, Step
from guardproxy.core.view import View

Json = dict[str, Any]
PRINTER = Fingerprinter(b"a key for tests")
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("f", "g", "h")]


def system(text: str) -> Json:
    return {"role": "system", "content": text}


def user(text: str) -> Json:
    return {"role": "user", "content": text}


def said(text: str) -> Json:
    return {"role": "assistant", "content": text}


def called(*calls: tuple[str, str, str], text: str | None = None) -> Json:
    """An assistant message; a call is (tool, arguments, id)."""
    made = [{"id": i, "type": "function", "function": {"name": n, "arguments": a}} for n, a, i in calls]
    return {"role": "assistant", "content": text, "tool_calls": made}


def result(text: str, call_id: str = "") -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": text}


def ask(*messages: Json, session: str = "", thread: str = "", short: bool = False, **parsed: object) -> Ask:
    """The ask of a conversation."""
    body = {"model": "m", "messages": list(messages), "tools": TOOLS, **parsed}
    return chat.ask_of(
        list(messages),
        model="m",
        tools=TOOLS,
        body=json.dumps(body).encode(),
        parsed=body,
        declared=Declared(session, thread),
        short=short,
    )


def step(tool: str, arguments: str = "{}", answer: str | None = "same", at_ms: int = 0) -> Step:
    """A call with its result (None: not answered), alone in its message."""
    outcome = None if answer is None else Message("tool", answer)
    return PRINTER.step(Call(tool, arguments), outcome, first=True, at_ms=at_ms)


def steps(line: str) -> tuple[Step, ...]:
    """`a b c1 !a |`: calls named by letters, with the letter's own result (c1: another one); `!` fails, `|` a span."""
    found = []
    for at, word in enumerate(line.split()):
        if word == "|":
            found.append(PRINTER.boundary(at))
            continue
        name = word.lstrip("!")
        answer = f"Error: {name} failed" if word.startswith("!") else f"result {name}"
        found.append(step(name[0], "{}", answer, at * 1000))
    return tuple(found)


def view_of(ring: Sequence[Step], **more: Any) -> View:
    """A view whose ring is this and nothing before it."""
    ordinals = {"steps": len(ring), "turn": 1 + len([one for one in ring if one.kind is Kind.CALL])}
    return View("s", "main", now_ms=0, ring=tuple(map(pack, ring)), **{**ordinals, **more})
