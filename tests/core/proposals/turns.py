"""Turns for the tests of proposed calls: a run in one line, and what is said of the next calls.

Words of a line are rounds, `+` joins parallel calls: `a` a call with its own result, `a1` with another one, `!a`
failing, `?a` not ready, `W` a change (`W1` another one, `!W` a failing one), `T` a thought, `Z` a pause, `S` a command
that only sleeps, `|` a word of the user. Numbers after W, T and Z stand in their arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from guardproxy.core import proposals
from guardproxy.core.episode import pack_episode, unpack_episodes
from guardproxy.core.model import Ask, Call, Decision, Flag, Message, Step, Trail
from guardproxy.core.policy import Policy, decide
from guardproxy.core.proposals import Inspection, Objection
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.session import trail
from guardproxy.core.tool_rules import ToolRules
from tests.core.talk import PRINTER, ask, user, view_of

Json = dict[str, Any]
NOBODY: Callable[[str], Mapping[str, object] | None] = lambda tool: None  # noqa: E731
TOOLS = {"W": "write_file", "T": "think", "Z": "wait", "S": "bash"}
POLICY = Policy()


def call(word: str) -> Call:
    """The call that a word of a line stands for."""
    name = word.lstrip("!?")
    kind, number = name[0], name[1:]
    if kind not in TOOLS:
        return Call(kind, "{}")
    arguments = {
        "W": f'{{"path": "f{number}", "content": "{number}"}}',
        "T": f'{{"thought": "{number} or so"}}',
        "Z": f'{{"seconds": {number or 30}}}',
        "S": f'{{"command": "sleep {number or 30}"}}',
    }
    return Call(TOOLS[kind], arguments[kind])


def steps(line: str) -> tuple[Step, ...]:
    """The steps of a line."""
    made: list[Step] = []
    for at, word in enumerate(line.split()):
        if word == "|":
            made.append(PRINTER.boundary(at))
            continue
        if word == '"':  # a reply without a call, and what a program says to it
            made.append(PRINTER.text_step("I stop here.", "Now retry.", at_ms=at * 30_000))
            continue
        for number, one in enumerate(word.split("+")):
            answer = f"Error: {one[1:]} failed" if one[0] == "!" else f"result {one}"
            answer = "in progress" if one[0] == "?" else answer
            answer = "ok" if one[0] in "WTZS" else answer
            made.append(PRINTER.step(call(one), Message("tool", answer), first=number == 0, at_ms=at * 30_000))
    return tuple(made)


def played(
    line: str, policy: Policy = POLICY, exempt: Sequence[ScopedExemption] = (), asked: Ask | None = None, **more: Any
) -> Inspection | None:
    """What is to be looked at after a run, whose decisions were kept as the store keeps them."""
    ring, marks = steps(line), list[bytes]()
    for number in range(1, len(ring) + 1):
        if number < len(ring) and not int(ring[number].flags) & int(Flag.ROUND_START) and ring[number].tool:
            continue  # the round goes on
        view = view_of(ring[:number], episodes=tuple(marks))
        decision = decide(view, policy, exempt=exempt)
        told = tuple(marks)
        if decision.episode:
            marks.append(pack_episode(decision.episode))
    settings = {"repeat": proposals.default_settings()["repeat"], **more.pop("settings", {})}
    return inspection(
        settings=settings,
        asked=asked,
        run=trail(view),
        episodes=unpack_episodes(told),
        decision=decision,
        mode_of=policy.mode_of,
        exempt=exempt,
        **more,
    )


def inspection(
    *,
    settings: Mapping[str, object] | None = None,
    asked: Ask | None = None,
    run: Trail = Trail(()),  # noqa: B008 - frozen
    tools: ToolRules = ToolRules(),  # noqa: B008 - frozen
    language: str = "en",
    schemas: Callable[[str], Mapping[str, object] | None] = NOBODY,
    episodes: Sequence[Any] = (),
    decision: Decision | None = None,
    **more: Any,
) -> Inspection | None:
    """`proposals.prepare` with something for all that a test does not care about."""
    settings = proposals.default_settings() if settings is None else settings
    decision = decision or Decision("pass")
    asked = asked or ask(user("do it"))
    return proposals.prepare(asked, run, episodes, decision, settings, tools, PRINTER, language, schemas, **more)


def said(found: Inspection | None, *calls: Call, **tries: int) -> list[str]:
    """What is said of calls, in short."""
    return [short(one) for one in found.judge(calls, **tries)] if found else []


def short(one: Objection) -> str:
    """An objection in a word or two."""
    mode = "" if one.mode == "enforce" else f"{one.mode} "
    return f"{one.position} {mode}{one.action} {one.rule}" + (f" {one.count}" if one.count else "")
