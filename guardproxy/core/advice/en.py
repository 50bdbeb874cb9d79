"""English texts. Placeholders: tool, count, arguments, result, period. One paragraph each."""

from __future__ import annotations

from collections.abc import Mapping

from guardproxy.core.model import Flag

JOIN = " "
SOURCE = "Note from the proxy that watches this run:"
NAMELESS = frozenset({"invalid_call", "monologue", "context_overflow"})
"""Rules whose text may name no tool: replies without a call, calls without a name, refused conversations."""

RULES: Mapping[str, str] = {
    "repeated_call": "`{tool}` was called {count} times in a row with the same arguments ({arguments}) and gave the same "
    "result each time: {result}.",
    "interleaved_repeat": "`{tool}` was called {count} times with the same arguments ({arguments}), with other calls in "
    "between, and gave the same result each time: {result}.",
    "repeated_error": "`{tool}` failed {count} times with the same arguments ({arguments}) and the same error: {result}.",
    "error_signature": "`{tool}` failed {count} times with different arguments but the same kind of error. The newest: "
    "{result}.",
    "same_result": "`{tool}` was called {count} times with different arguments and gave the same result each time: {result}.",
    "cycle": "the same {period} calls were made in the same order {count} times, with the same results each time; the newest "
    "is `{tool}`: {result}.",
    "invalid_call": "{count} calls in a row could not be carried out as they were written; the newest is `{tool}` with "
    "arguments ({arguments}): {result}.",
    "unchanged_poll": "`{tool}` was asked {count} times and the state has not changed: {result}.",
    "monologue": "the last {count} replies said the same, or nothing, and called no tool.",
    "nothing_new": "the last {count} calls brought nothing that was not known before; the newest is `{tool}`: {result}.",
    "compaction": "this conversation was shortened {count} times and no call since has brought anything new; the newest is "
    "`{tool}`: {result}. What is done again after each summary will be lost again: write down what is known and go on "
    "from there.",
    "context_overflow": "the provider has refused this conversation {count} times as too long, and nothing new came in "
    "between. Making it shorter in the same way will not help: large results have to be left out or asked for in part.",
    "duplicate_calls": "`{tool}` stands {count} times in one message with the same arguments ({arguments}); one of them is "
    "enough.",
    "no_progress": "{count} times in a row nothing has moved: the newest is `{tool}` with {result}. What was changed in "
    "between had no effect on it, so the cause is elsewhere.",
    "reread_range": "`{tool}` has read {count} times what it had read before, under other numbers ({arguments}). What it "
    "shows is known already.",
    "same_words": "the last {count} messages said the same words beside different calls; the newest is `{tool}`.",
    "unmoved_plan": "`{tool}` was sent {count} times in a row with the same statuses, in other words at most. A plan moves "
    "when one of its steps is carried out: take the first open one.",
}

MEANING: tuple[tuple[Flag, str], ...] = (
    (
        Flag.PENDING,
        "It is not ready yet. Wait once for clearly longer before looking again, or report that it is stuck.",
    ),
    (
        Flag.FAILED | Flag.INVALID,
        (
            "The same call will fail the same way; the cause has to change first (arguments, permissions, whether the "
            "thing exists, whether the service is up)."
        ),
    ),
    (Flag.MUTATES, "This call changes something: each repetition may have done it once more, so check for duplicates."),
    (Flag.VOID, "An empty result is the answer: there is nothing there. Asking again cannot change that."),
    (Flag.NONE, ""),
)
"""What a result means where it is often misread, by what is known of the step; the first that fits is said."""

UNTRIED = "Not tried since: {tools}."
WAYS = (
    "Two ways on: give the conclusion that what is already known supports; or say what exactly is missing and who or what "
    "could supply it, and take one different step towards that."
)
FIRM_WAYS = (
    "This was said before and the same calls went on. They are not to be repeated. State the cause in one sentence and take "
    "one different next step; if there is none, answer with what is known and name what is missing."
)
BUDGET = "the limit of this run is nearly reached ({reason})."
FINALIZE = (
    "No further calls are possible in this turn. Answer now with what is known: what was done, what was found, what is "
    "still open and what would be needed for it."
)
FINALIZE_TEXT = (
    "Write no further action in this turn. Give the final answer now, in the form that your "
    "instructions ask for at the end{ending}, with what is known: what was done, what was found, what is still open."
)
ENDING = " (`{ending}`)"
ENDED = "This run was ended by the proxy that watches it; the task may not be complete."
REFUSED = "This request was refused by the proxy that watches this run: a hard limit leaves no room for it."
WHY = "Reason: {reason} (rule: {rule})."
DONE = "Done so far: {steps} recent calls, most of them {tools}."
FOUND = "Found by {tool}: {result}"
SAID = "The model's last words: {said}"
OPEN = "Open: the task itself. A new message that says what to do differently starts it again."
OPEN_OVER = "Open: the task itself. This run is not continued; a new run, or a person, can take it up."
OPEN_BUDGET = "Open: the task itself. Whoever governs the limits can raise them."
HALTED = "This answer was stopped by the proxy that watches it: the same words came {count} times in it."

NOT_MADE = "this call of `{tool}` was not carried out."
"""Begins what stands in the place of a call's result."""

REFUSE_WAYS = (
    "Once more would bring nothing new, and nothing has changed since. Answer with what is known and name what is missing, "
    "or say what the cause is and take one different step."
)
FORBIDDEN = "The rules of this run forbid it."
DECLINED = "The user declined it."
EXPIRED = "It needed a person's approval, and nobody decided in time."
BECAUSE = "The reason: {reason}."
NOT_OTHERWISE = "The same in other words is not wanted either."
WITHOUT = "Go on without it where that is possible; otherwise say what is left open because of it."
PROBLEMS: Mapping[str, str] = {
    "not_json": "Its arguments are no valid JSON (at character {path}: {got}).",
    "not_object": "Its arguments must be a JSON object, not {got}.",
    "no_tool": "There is no tool of this name.",
    "no_name": "The call names no tool.",
    "missing": "The argument `{path}` ({expected}) is missing.",
    "type": "`{path}` must be {expected}, not {got}.",
    "enum": "`{path}` must be one of {expected}, not {got}.",
    "unknown": "`{path}` is no argument of this tool.",
    "no_form": "`{path}` has none of the forms that it may have ({expected}): {got}.",
    "more": "There are {got} more problems of this kind.",
}
"""What is wrong with arguments. Placeholders: path, expected, got."""

KNOWN = "Tools that there are: {tools}."
REPAIR_WAYS = "Make the call again with this put right, or go on without it."
APPROVAL = "The call of `{tool}` ({arguments}) needs a person's approval before it is carried out. Approval: {id}"
APPROVAL_THEN = "Until then this run is paused. Nothing of the call has been carried out."
HOW = "To go on: {how}"
PAUSED = "This run is paused by {who}; nothing was asked of the model."
PAUSED_BY: Mapping[str, str] = {
    "operator": "an operator",
    "loop": "the proxy that watches it, because it went round in circles",
    "budget": "the proxy that watches it, because a limit was reached",
    "approval": "a call that waits for a person's approval",
}
PAUSED_WHY = "Reason: {reason}"
QUESTION = "The agent asks a person (`{tool}`): {question}"
QUESTION_THEN = "This run waits for the answer; it can also be given as the next message."
