"""The texts that the model and the user get: a file is a language, one template a rule and rung.

A text says where it comes from, which call, how often and with what result; then two ways on. It states facts, hides
nothing and never asks the model to call a tool that ends the run. One paragraph without blank lines, so that it can be
taken out of a client's copy again (`fingerprint.strip_own`).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from guardproxy.core.advice._words import (
    LANGUAGES,
    QUESTION,
    QUOTE,
    because,
    harmless,
    in_lines,
    named,
    note,
    quoted,
    short,
    tool_name,
)
from guardproxy.core.advice.people import (
    answered_below,
    approval_notice,
    call_waits,
    handed_on,
    one_at_a_time,
    paused_notice,
    question_notice,
    unverified,
    waited,
    was_paused,
    was_stopped,
)
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Decision, Finding, Flag, Rung

__all__ = [
    "LANGUAGES",
    "QUESTION",
    "QUOTE",
    "Facts",
    "Problem",
    "Progress",
    "answered_below",
    "approval_notice",
    "block",
    "call_waits",
    "declined",
    "denied",
    "ended",
    "finalize",
    "handed_on",
    "handed_over",
    "one_at_a_time",
    "paused_notice",
    "question_notice",
    "quoted",
    "refusal",
    "render",
    "repair",
    "short",
    "summary",
    "unverified",
    "waited",
    "was_paused",
    "was_stopped",
    "way_on",
]


@dataclass(frozen=True, slots=True)
class Facts:
    """What a text says of the newest call. `arguments` and `result` are short quotes of the request itself.

    `written`: the agent's calls stand in its texts; then `ending` is how its instructions begin a final answer, if known.
    """

    tool: str
    arguments: str = ""
    result: str = ""
    count: int = 0
    flags: Flag = Flag.NONE
    untried: tuple[str, ...] = ()
    written: bool = False
    ending: str = ""


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run has done, as far as the request shows: calls, calls per tool, newest results, the last words."""

    steps: int = 0
    tools: tuple[tuple[str, int], ...] = ()
    found: tuple[tuple[str, str], ...] = ()
    said: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """What is wrong with a call's arguments. `kind` names the sentence: a key of PROBLEMS in each language.

    `path`: the argument, dotted. `expected` and `got`: a type's name or a value in short, as the schema and the call
    have them.
    """

    kind: str
    path: str = ""
    expected: str = ""
    got: str = ""


def render(language: str, rung: Rung, finding: Finding, facts: Facts) -> str:
    """The text of a nudge or a firm word. Raises ValueError where it could not say which call, how often and why."""
    words = LANGUAGES[language]
    if not finding.reason or finding.count < 1 or not (facts.tool.strip() or finding.rule in words.NAMELESS):
        raise ValueError(f"no text for {finding.rule}: it needs a tool, a count and a reason")
    told = _fill(words.RULES[finding.rule], finding, facts)
    meaning = _meaning(words, facts)
    other = (
        _fill(words.UNTRIED, finding, facts, tools=", ".join(map(tool_name, facts.untried))) if facts.untried else ""
    )
    ways = words.FIRM_WAYS if rung >= Rung.FIRM else words.WAYS
    parts: list[str] = [f"{GUARD_MARK} {words.SOURCE}", told, meaning, other, ways]
    text = words.JOIN.join(part for part in parts if part)
    return f"{text}\n{block(finding)}" if rung >= Rung.FIRM else text


def finalize(language: str, decision: Decision, facts: Facts) -> str:
    """The request for an answer with what is known, when no further call is possible.

    Calls in texts cannot be forbidden: their agents are asked to end as their instructions say.
    """
    words = LANGUAGES[language]
    reason = _reason(words, decision, facts)
    asked = str(words.FINALIZE)
    if facts.written:
        ending = words.ENDING.format(ending=harmless(facts.ending)) if facts.ending else ""
        asked = words.FINALIZE_TEXT.format(ending=ending)
    return str(words.JOIN).join((f"{GUARD_MARK} {words.SOURCE}", reason, asked))


def summary(language: str, decision: Decision, progress: Progress) -> str:
    """The partial summary with which a run ends: status, reason, what was done and found, what is open."""
    words = LANGUAGES[language]
    budget = decision.rule.startswith("budget.")
    lines = [
        f"{GUARD_MARK} {words.REFUSED if budget else words.ENDED}",
        words.WHY.format(reason=harmless(decision.reason), rule=decision.rule),
    ]
    if progress.tools:
        tools = ", ".join(f"{tool_name(tool)} ({count})" for tool, count in progress.tools)
        lines.append(words.DONE.format(steps=progress.steps, tools=tools))
    lines += [words.FOUND.format(tool=tool_name(tool), result=harmless(result)) for tool, result in progress.found]
    if progress.said:
        lines.append(words.SAID.format(said=harmless(progress.said)))
    lines.append(_open(words, decision))
    return "\n".join(lines)


def _open(words: ModuleType, decision: Decision) -> str:
    """What is open, and who can let the run go on. A new message opens only what was cut, and by a loop."""
    if decision.rule.startswith("budget."):
        return str(words.OPEN_BUDGET)
    if decision.over or decision.rule == "operator":
        return str(words.OPEN_OVER)
    return str(words.OPEN if decision.action == "cut" else words.OPEN_LEFT)


def way_on(language: str, how: str) -> str:
    """The line that says by which command a run goes on."""
    return str(LANGUAGES[language].HOW).format(how=harmless(how))


def ended(language: str, decision: Decision, progress: Progress, how: str) -> str:
    """The answer of a run that is ended: what was achieved, and the command by which a person lets it go on."""
    return f"{summary(language, decision, progress)}\n{way_on(language, how)}"


def refusal(language: str, rule: str, facts: Facts, period: int = 1) -> str:
    """What a model gets as the result of a call that was refused because it belongs to a loop.

    `facts` are those of the calls that were made; the refused one is not among them.
    """
    words = LANGUAGES[language]
    told = _filled(words.RULES[rule], facts, period) if rule in words.RULES else ""
    return note(words, named(words.NOT_MADE, facts.tool), told[:1].upper() + told[1:], words.REFUSE_WAYS)


def denied(language: str, tool: str, reason: str = "") -> str:
    """What a model gets as the result of a call that the rules of its run forbid."""
    words = LANGUAGES[language]
    why = because(words, reason)
    return note(words, named(words.NOT_MADE, tool), words.FORBIDDEN, why, words.NOT_OTHERWISE, words.WITHOUT)


def declined(language: str, tool: str, reason: str = "", *, expired: bool = False, asked: bool = False) -> str:
    """What a model gets as the result of a call that a person declined, or (`expired`) that nobody decided in time.

    `asked`: it was a question.
    """
    words = LANGUAGES[language]
    said = (
        (words.UNANSWERED if asked else words.EXPIRED,)
        if expired
        else (words.DECLINED, because(words, reason), words.NOT_OTHERWISE)
    )
    return note(words, named(words.NOT_MADE, tool), *said, words.WITHOUT)


def repair(language: str, tool: str, problems: Sequence[Problem], known: Sequence[str] = ()) -> str:
    """What a model gets as the result of a call that was written wrongly: what exactly, and that it may try again.

    `known`: tools that there are. Raises ValueError where it could not say what is wrong.
    """
    words = LANGUAGES[language]
    if not problems:
        raise ValueError("no text for a repair: it needs a problem")
    wrong = [
        words.PROBLEMS[one.kind].format(path=harmless(one.path), expected=harmless(one.expected), got=harmless(one.got))
        for one in problems
    ]
    names = words.KNOWN.format(tools=", ".join(f"`{tool_name(name)}`" for name in known)) if known else ""
    return note(words, named(words.NOT_MADE, tool), *wrong, names, words.REPAIR_WAYS)


def handed_over(language: str, decision: Decision, progress: Progress, how: str) -> str:
    """The answer of a run that is handed to a person in place of its end: what was achieved, and the way on."""
    words = LANGUAGES[language]
    told = summary(language, decision, progress).split("\n")
    return in_lines(words.HANDED_OVER, *told[1:-1], words.HOW.format(how=harmless(how)) if how else "")


def block(finding: Finding) -> str:
    """The machine-readable part of a firm word (DESIGN section 7), one line of JSON."""
    return json.dumps(
        {
            "runtime_feedback": {
                "pattern": finding.rule,
                "repeats": finding.count,
                "new_information": False,
                "required_action": "state_cause_and_one_different_next_step",
                "forbidden_fingerprints": [member.hex()[:16] for member in finding.members[-4:]],
            }
        },
        separators=(",", ":"),
    )


def _reason(words: ModuleType, decision: Decision, facts: Facts) -> str:
    finding = decision.finding
    if finding is None or finding.rule not in words.RULES:
        limit = words.BUDGET_OF if decision.scope else words.BUDGET
        template = limit if decision.rule.startswith("budget.") else words.REFUSED_CALLS
        return str(template).format(reason=harmless(decision.reason), scope=decision.scope)
    return _fill(words.RULES[finding.rule], finding, facts)


def _meaning(words: ModuleType, facts: Facts) -> str:
    """What the result means, where it is commonly misread. The first that fits."""
    for flag, text in words.MEANING:
        if facts.flags & flag:
            return str(text)
    return ""


def _fill(template: str, finding: Finding, facts: Facts, **more: str) -> str:
    return _filled(template, replace(facts, count=finding.count), finding.unit, **more)


def _filled(template: str, facts: Facts, period: int, **more: str) -> str:
    return template.format(
        tool=tool_name(facts.tool),
        count=facts.count,
        arguments=harmless(facts.arguments),
        result=harmless(facts.result) or "-",
        period=period,
        **more,
    )
