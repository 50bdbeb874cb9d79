"""The texts that the model and the user get: a file is a language, one template a rule and rung.

A text says where it comes from, which call, how often and with what result; then two ways on. It states facts, hides
nothing and never asks the model to call a tool that ends the run. One paragraph without blank lines, so that it can be
taken out of a client's copy again (`fingerprint.strip_own`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType

from guardproxy.core.advice import en, zh
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Decision, Finding, Flag, Rung

QUOTE, QUESTION = 160, 600
"""Characters of arguments and results, and of an agent's question to a person, that a text quotes."""

LANGUAGES: Mapping[str, ModuleType] = {"en": en, "zh": zh}
"""Language to its texts."""


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
    other = _fill(words.UNTRIED, finding, facts, tools=", ".join(map(_tool, facts.untried))) if facts.untried else ""
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
        ending = words.ENDING.format(ending=_quoted(facts.ending)) if facts.ending else ""
        asked = words.FINALIZE_TEXT.format(ending=ending)
    return str(words.JOIN).join((f"{GUARD_MARK} {words.SOURCE}", reason, asked))


def summary(language: str, decision: Decision, progress: Progress) -> str:
    """The partial summary with which a run ends: status, reason, what was done and found, what is open."""
    words = LANGUAGES[language]
    budget = decision.rule.startswith("budget.")
    lines = [
        f"{GUARD_MARK} {words.REFUSED if budget else words.ENDED}",
        words.WHY.format(reason=_quoted(decision.reason), rule=decision.rule),
    ]
    if progress.tools:
        tools = ", ".join(f"{_tool(tool)} ({count})" for tool, count in progress.tools)
        lines.append(words.DONE.format(steps=progress.steps, tools=tools))
    lines += [words.FOUND.format(tool=_tool(tool), result=_quoted(result)) for tool, result in progress.found]
    if progress.said:
        lines.append(words.SAID.format(said=_quoted(progress.said)))
    lines.append(
        words.OPEN_BUDGET if budget else words.OPEN_OVER if decision.over or decision.rule == "operator" else words.OPEN
    )
    return "\n".join(lines)


def refusal(language: str, rule: str, facts: Facts, period: int = 1) -> str:
    """What a model gets as the result of a call that was refused because it belongs to a loop.

    `facts` are those of the calls that were made; the refused one is not among them.
    """
    words = LANGUAGES[language]
    told = _filled(words.RULES[rule], facts, period) if rule in words.RULES else ""
    return _note(words, _named(words.NOT_MADE, facts.tool), told[:1].upper() + told[1:], words.REFUSE_WAYS)


def denied(language: str, tool: str, reason: str = "") -> str:
    """What a model gets as the result of a call that the rules of its run forbid."""
    words = LANGUAGES[language]
    why = _because(words, reason)
    return _note(words, _named(words.NOT_MADE, tool), words.FORBIDDEN, why, words.NOT_OTHERWISE, words.WITHOUT)


def declined(language: str, tool: str, reason: str = "", *, expired: bool = False) -> str:
    """What a model gets as the result of a call that a person declined, or (`expired`) that nobody decided in time."""
    words = LANGUAGES[language]
    said = (words.EXPIRED,) if expired else (words.DECLINED, _because(words, reason), words.NOT_OTHERWISE)
    return _note(words, _named(words.NOT_MADE, tool), *said, words.WITHOUT)


def repair(language: str, tool: str, problems: Sequence[Problem], known: Sequence[str] = ()) -> str:
    """What a model gets as the result of a call that was written wrongly: what exactly, and that it may try again.

    `known`: tools that there are. Raises ValueError where it could not say what is wrong.
    """
    words = LANGUAGES[language]
    if not problems:
        raise ValueError("no text for a repair: it needs a problem")
    wrong = [
        words.PROBLEMS[one.kind].format(path=_quoted(one.path), expected=_quoted(one.expected), got=_quoted(one.got))
        for one in problems
    ]
    names = words.KNOWN.format(tools=", ".join(f"`{_tool(name)}`" for name in known)) if known else ""
    return _note(words, _named(words.NOT_MADE, tool), *wrong, names, words.REPAIR_WAYS)


def approval_notice(language: str, approval: str, tool: str, arguments: str, how: str) -> str:
    """The answer with which a run waits for a person's word on a call. `how`: the way to give it."""
    words = LANGUAGES[language]
    asked = words.APPROVAL.format(tool=_tool(tool), arguments=_quoted(short(arguments)), id=_quoted(approval))
    return _lines(asked, words.HOW.format(how=_quoted(how)) if how else "", words.APPROVAL_THEN)


def paused_notice(language: str, who: str, why: str, how: str) -> str:
    """The answer of a run that somebody or something has paused. `who`: operator, loop, budget or approval."""
    words = LANGUAGES[language]
    by = words.PAUSED_BY.get(who, _quoted(who))
    reason = words.PAUSED_WHY.format(reason=_quoted(why)) if why.strip() else ""
    return _lines(words.PAUSED.format(who=by), reason, words.HOW.format(how=_quoted(how)) if how else "")


def call_waits(language: str, approval: str, tool: str, who: str, why: str, how: str) -> str:
    """The answer of a run that was paused or closed before a call that a person allowed was made. `who` as above, or
    what closed it.
    """
    words = LANGUAGES[language]
    said = words.CALL_WAITS.format(who=words.PAUSED_BY.get(who, _quoted(who)), tool=_tool(tool), id=_quoted(approval))
    reason = words.PAUSED_WHY.format(reason=_quoted(why)) if why.strip() else ""
    return _lines(said, reason, words.HOW.format(how=_quoted(how)), words.CALL_WAITS_THEN)


def question_notice(language: str, tool: str, question: str, how: str) -> str:
    """The answer with which a run waits for what a person says to the agent's question."""
    words = LANGUAGES[language]
    asked = words.QUESTION.format(tool=_tool(tool), question=_quoted(short(question, QUESTION)))
    return _lines(asked, words.HOW.format(how=_quoted(how)) if how else "", words.QUESTION_THEN)


def one_at_a_time(language: str, tool: str) -> str:
    """What a model gets for a second call that needs a person, in an answer that has one already."""
    words = LANGUAGES[language]
    return _note(words, _named(words.NOT_MADE, tool), words.ONE_AT_A_TIME)


def handed_over(language: str, decision: Decision, progress: Progress, how: str) -> str:
    """The answer of a run that is handed to a person in place of its end: what was achieved, and the way on."""
    words = LANGUAGES[language]
    told = summary(language, decision, progress).split("\n")
    return _lines(words.HANDED_OVER, *told[1:-1], words.HOW.format(how=_quoted(how)) if how else "")


def unverified(language: str, wrong: Sequence[str]) -> str:
    """The answer of a run whose result did not pass its checks."""
    words = LANGUAGES[language]
    return _lines(words.UNVERIFIED, *[words.UNVERIFIED_LINE.format(wrong=_quoted(one)) for one in wrong])


def short(text: str, most: int = QUOTE) -> str:
    """A quote on one line: enough to recognise what is quoted, too little to be read as content."""
    plain = " ".join(text[: most * 4].split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


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
        template = words.BUDGET if decision.rule.startswith("budget.") else words.REFUSED_CALLS
        return str(template).format(reason=_quoted(decision.reason))
    return _fill(words.RULES[finding.rule], finding, facts)


def _meaning(words: ModuleType, facts: Facts) -> str:
    """What the result means, where it is commonly misread. The first that fits."""
    for flag, text in words.MEANING:
        if facts.flags & flag:
            return str(text)
    return ""


def quoted(text: str, most: int = 80) -> str:
    """Content in one line of at most so many characters, harmless inside our words."""
    plain = " ".join(_quoted(text[: 8 * most]).split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _fill(template: str, finding: Finding, facts: Facts, **more: str) -> str:
    return _filled(template, replace(facts, count=finding.count), finding.unit, **more)


def _filled(template: str, facts: Facts, period: int, **more: str) -> str:
    return template.format(
        tool=_tool(facts.tool),
        count=facts.count,
        arguments=_quoted(facts.arguments),
        result=_quoted(facts.result) or "-",
        period=period,
        **more,
    )


def _named(template: str, tool: str) -> str:
    return template.format(tool=_tool(tool))


def _tool(name: str) -> str:
    """A tool's name, which a model can make up like any other text."""
    return _quoted(short(name)) or "-"


def _because(words: ModuleType, reason: str) -> str:
    plain = _quoted(reason).rstrip(".。")
    return str(words.BECAUSE).format(reason=plain) if plain else ""


def _note(words: ModuleType, *parts: str) -> str:
    """One paragraph of ours."""
    return str(words.JOIN).join(part for part in (f"{GUARD_MARK} {words.SOURCE}", *parts) if part)


def _lines(*lines: str) -> str:
    """What a person reads, line by line."""
    return f"{GUARD_MARK} " + "\n".join(line for line in lines if line)


def _quoted(text: str) -> str:
    """Content inside our words: on one line, without brackets that make it look like a harness's, and without earlier
    words of ours.
    """
    text = " ".join(text.partition(GUARD_MARK)[0].split())
    return text.replace("<", "‹").replace(">", "›").replace("`", "'")
