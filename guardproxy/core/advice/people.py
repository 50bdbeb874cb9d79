"""The texts about people: a call that waits for one, a question, a run that is paused, an answer that was not accepted.

What the client is told while people are asked stays in its history as the assistant's own words. Those would contradict
what came of it (`needs approval` behind a refusal), so that the model gets a line in the past in their place: true
whatever was decided, and the same on every later turn.
"""

from __future__ import annotations

from collections.abc import Sequence

from guardproxy.core.advice._words import (
    LANGUAGES,
    QUESTION,
    because,
    harmless,
    in_lines,
    named,
    note,
    short,
    tool_name,
)


def approval_notice(language: str, approval: str, tool: str, arguments: str, how: str, why: str = "") -> str:
    """The answer with which a run waits for a person's word on a call. `how`: the way to give it; `why`: it is asked."""
    words = LANGUAGES[language]
    asked = words.APPROVAL.format(tool=tool_name(tool), arguments=harmless(short(arguments)), id=harmless(approval))
    reason = words.PAUSED_WHY.format(reason=harmless(why)) if why.strip() else ""
    return in_lines(asked, reason, words.HOW.format(how=harmless(how)) if how else "", words.APPROVAL_THEN)


def paused_notice(language: str, who: str, why: str, how: str) -> str:
    """The answer of a run that somebody or something has paused. `who`: operator, loop, budget, approval, …"""
    words = LANGUAGES[language]
    by = words.PAUSED_BY.get(who, harmless(who))
    reason = words.PAUSED_WHY.format(reason=harmless(why)) if why.strip() else ""
    return in_lines(words.PAUSED.format(who=by), reason, words.HOW.format(how=harmless(how)) if how else "")


def call_waits(language: str, approval: str, tool: str, who: str, why: str, how: str) -> str:
    """The answer of a run that was paused or closed before a call that a person allowed was made. `who` as above, or
    what closed it.
    """
    words = LANGUAGES[language]
    said = words.CALL_WAITS.format(
        who=words.PAUSED_BY.get(who, harmless(who)), tool=tool_name(tool), id=harmless(approval)
    )
    reason = words.PAUSED_WHY.format(reason=harmless(why)) if why.strip() else ""
    return in_lines(said, reason, words.HOW.format(how=harmless(how)), words.CALL_WAITS_THEN)


def question_notice(language: str, tool: str, question: str, how: str) -> str:
    """The answer with which a run waits for what a person says to the agent's question."""
    words = LANGUAGES[language]
    asked = words.QUESTION.format(tool=tool_name(tool), question=harmless(short(question, QUESTION)))
    return in_lines(asked, words.HOW.format(how=harmless(how)) if how else "", words.QUESTION_THEN)


def one_at_a_time(language: str, tool: str) -> str:
    """What a model gets for a second call that needs a person, in an answer that has one already."""
    words = LANGUAGES[language]
    return note(words, named(words.NOT_MADE, tool), words.ONE_AT_A_TIME)


def unverified(language: str, wrong: Sequence[str], tried: int = 0, kept: str = "", how: str = "") -> str:
    """The answer of a run whose result did not pass its checks, after the model was asked again `tried` times.

    `kept`: the way to see what was not handed on; `how`: the way to let the run go on.
    """
    words = LANGUAGES[language]
    again = words.UNVERIFIED_TRIED.format(count=tried) if tried else ""
    return in_lines(
        words.JOIN.join(part for part in (words.UNVERIFIED, again) if part),
        *[words.UNVERIFIED_LINE.format(wrong=harmless(one)) for one in wrong],
        words.UNVERIFIED_KEPT.format(how=harmless(kept)) if kept else "",
        words.HOW.format(how=harmless(how)) if how else "",
    )


def answered_below(language: str) -> str:
    """What a model gets as the result of a question that the user has answered with the next message."""
    words = LANGUAGES[language]
    return note(words, words.ANSWERED_BELOW)


def handed_on(language: str, tool: str) -> str:
    """What a model gets for a call that a person allowed and the agent was handed, but does not show in its history."""
    words = LANGUAGES[language]
    return note(words, named(words.HANDED_ON, tool))


def waited(language: str, tool: str, question: str = "") -> str:
    """What stands for the model in the place of a notice that a call, or a question, waits for a person."""
    words = LANGUAGES[language]
    if question:
        return note(words, words.ASKED_HERE.format(tool=tool_name(tool), question=harmless(short(question, QUESTION))))
    return note(words, named(words.WAITED_HERE, tool))


def was_paused(language: str, who: str, why: str = "") -> str:
    """What stands for the model in the place of a notice that the run is paused."""
    words = LANGUAGES[language]
    return note(words, words.PAUSED_HERE.format(who=words.PAUSED_BY.get(who, harmless(who))), because(words, why))


def was_stopped(language: str, why: str = "") -> str:
    """What stands for the model in the place of the words with which a run was ended that goes on after all."""
    words = LANGUAGES[language]
    return note(words, words.STOPPED_HERE, because(words, why))
