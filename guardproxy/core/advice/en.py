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
BUDGET_OF = "the limit of the {scope} that this run draws on is nearly reached ({reason})."
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
OPEN_LEFT = "Open: the task itself."
"""After a finalize that brought no answer: nothing is closed, so that a new message would open nothing."""
OPEN_OVER = "Open: the task itself. This run is not continued; a new run, or a person, can take it up."
OPEN_BUDGET = "Open: the task itself. Whoever governs the limits can raise them."
RATE = "this request was not sent: its rate is used up for the moment. The same request may be sent again soon."
SOFT = (
    "{percent} % of the budget that this run draws on ({budget}) are used. Two ways on: come to a conclusion with what is "
    "known; or, where that is not possible, do only what the task cannot do without."
)
HALTED = "This answer was stopped by the proxy that watches it: the same words came {count} times in it."

NOT_MADE = "this call of `{tool}` was not carried out."
"""Begins what stands in the place of a call's result."""

REFUSE_WAYS = (
    "Once more would bring nothing new, and nothing has changed since. Answer with what is known and name what is missing, "
    "or say what the cause is and take one different step."
)
FORBIDDEN = "The rules of this run forbid it."
DECLINED = "The user declined it."
UNANSWERED = "It asked a person, and nobody answered in time."
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
APPROVAL_THEN = (
    "Until then this run is paused. Nothing of the call has been carried out. Once a person has decided, the run goes on "
    "with the next message here."
)
CALL_WAITS = "This run was stopped by {who} before `{tool}` could be called, which a person has allowed ({id})."
CALL_WAITS_THEN = "Nothing of the call has been carried out; it is made when the run goes on."
HOW = "To go on: {how}"
PAUSED = "This run is paused by {who}; nothing was asked of the model."
PAUSED_BY: Mapping[str, str] = {
    "operator": "an operator",
    "loop": "the proxy that watches it, because it went round in circles",
    "budget": "the proxy that watches it, because a limit was reached",
    "approval": "a call that waits for a person's approval",
    "question": "a question that waits for a person's answer",
    "check": "the proxy that watches it, because its answer did not pass its checks",
    "tool": "the proxy that watches it, because a tool that it needs is not available",
}
PAUSED_WHY = "Reason: {reason}"
QUESTION = "The agent asks a person (`{tool}`): {question}"
QUESTION_THEN = "This run waits for the answer; it can also be given as the next message."
ANSWERED_BELOW = "the user answers with the next message."
HANDED_ON = (
    "a person allowed this call of `{tool}`, and it was handed on once; whether it was carried out is not known, since its "
    "result never came back. Look whether it was before you make it again."
)
WAITED_HERE = "here the run waited for a person's word on a call of `{tool}`; nothing of the call had been carried out until then."
ASKED_HERE = "here the run asked a person (`{tool}`): {question}"
PAUSED_HERE = "here the run was paused by {who}; it was let go on afterwards."
STOPPED_HERE = "here the run was stopped; it was let go on afterwards."
"""What stands for the model where a notice of ours stands in the client's history: true whatever was decided."""
UNFINISHED = "this answer was checked before it counts as the end of the run, and it does not hold yet:"
UNFINISHED_WAYS = (
    "Two ways on: do what is missing and answer then; or, where that is not possible, say in the answer what is not done "
    "and why."
)
COMPLETION: Mapping[str, str] = {
    "required_missing": "this task needs a result of `{tool}`, which was not used.",
    "required_failed": "this task needs `{tool}` to succeed; it was tried {count} times and failed each time, last with: "
    "{result}.",
    "no_json": "the answer has to be JSON in a given form, and it holds none that can be read.",
    "schema": "the JSON of the answer does not have the form that is asked for: {error}.",
    "artifacts_few": "the agent reports {count} artefacts where there must be at least {least}.",
    "unresolved_many": "the agent reports {count} open items where there may be {most} at most.",
    "validation_failures_many": "the agent reports {count} failed validations where there may be {most} at most.",
    "evidence_few": "the answer cites {count} of the at least {least} sources that it needs.",
    "evidence_unknown": "the answer names what no result of this run holds: {ids}. Only what was found may be cited.",
    "open_waits": "a call is still waiting for its approval or its result: {tools}.",
    "open_unanswered": "a call of the last message has no result yet: {tools}.",
    "open_pending": "the newest result of `{tool}` says that it is not ready yet: {result}.",
    "tests_failed": "the answer says that the tests pass, but their newest run, with `{tool}`, failed: {result}.",
    "tool_failed": "the answer says that all is done, but the newest call of `{tool}` failed and nothing resolved it: "
    "{result}.",
    "files_outside": "files were changed that are outside of what this task may change: {files}. It may change: {allowed}.",
    "files_denied": "files were changed that have to stay as they are: {files}.",
    "tests_not_run": "the answer speaks of tests that were run, but no call of this run has run any.",
}
"""What a check of a final answer found. Placeholders differ a sentence; each says what is wrong and where it shows."""
VERIFIER_REFUSED = "the check that this run's owner has set up did not accept the answer, without saying why."
VERIFIER_SILENT = "the check that this run's owner has set up could not be reached, and no answer counts without it."
VERIFIER_UNREAD = "the check that this run's owner has set up gave no verdict, and no answer counts without one."
LEFT_OUT = "about {left} of {total} tokens were left out here: {where}. The rest is as it was. {ask}"
LEFT_OUT_LINES = "lines {first} to {last} of {all}"
LEFT_OUT_CHARACTERS = "characters {first} to {last} of {all}"
LEFT_OUT_JSON = (
    "about {left} of {total} tokens of the JSON above were left out where it has “…”: {where}. It is valid JSON and the "
    "rest is as it was. {ask}"
)
LEFT_OUT_PLACE = {"items": "{left} of {total} in `{path}`", "characters": "{left} of {total} characters of `{path}`"}
LEFT_OUT_MORE = "{count} other places"
TOP_LEVEL = "the whole"
NO_LONGER_JSON = " Cut like this it is no valid JSON any more."
ASK_FOR_PART = "To see more of it, ask for that part: a range of lines, a narrower search, fewer fields, the next page."
"""What a shortened result says of itself (`hygiene.truncate`)."""

EMPTY = (
    "`{tool}` worked and found nothing ({arguments}). That is its answer: asking the same again cannot change it. If what "
    "was asked for came from the user, confirm it with them; otherwise look once under another name or in another place."
)
"""What an empty result means where no template says it (`hygiene.empty`). Placeholders: tool, arguments."""

ERRORS: Mapping[str, str] = {
    "arguments": "`{tool}` did not accept the call as it was written. This can be put right: compare the arguments with "
    "the tool's schema (names, types, required ones, allowed values), change what does not fit and call it once more.",
    "permissions": "`{tool}` was refused access. The same call will be refused again: use a place or an account that is "
    "open to this run, or ask the user for the permission and say what it is needed for.",
    "not_found": "what `{tool}` was asked for is not there as it was named. Look first at what is there (list, search, "
    "read), then call it with that; if the name came from the user, ask whether it is right.",
    "no_tool": "there is no tool `{tool}`. The tools of this run: {tools}.",
    "too_slow": "`{tool}` was stopped because it took too long. The same command will take as long again: run a smaller "
    "part, let it run in the background and look at its output later, or give it more time if the tool takes a limit.",
    "transient": "`{tool}` failed for a passing reason, time {count} of at most {retries} in a row. The arguments "
    "need no change: wait about {seconds} s before this call is made again, and do meanwhile what does not need it.",
    "spent": "`{tool}` has failed {count} times in a row for the same passing reason, more often than the {retries} retries "
    "that make sense. It is down for now: leave this call, go on with what does not need it, or report what is missing.",
    "fatal": "`{tool}` is not available in this run, and waiting will not change that. Go on without it: with another "
    "tool, or with an answer from what is known that says what could not be looked up or done.",
}
"""What to do about a failure, by its kind (`hygiene.errors`). Placeholders: tool, tools, count, retries, seconds."""

LATE = (
    "the result of `{tool}` came later than its deadline of {seconds} s. What it shows may be out of date; where it is "
    "needed again, ask for less at once or let it run in the background."
)
"""Said behind a late result (`hygiene.deadlines`). Placeholders: tool, seconds."""

ONE_AT_A_TIME = (
    "A person was asked about another call of the same message; one such call at a time. Propose it again once that one is "
    "decided, if it is still needed."
)
HANDED_OVER = "This run is paused by the proxy that watches it, in place of its end; a person can let it go on."
UNVERIFIED = "The answer of this run did not pass its checks, and is not handed on."
UNVERIFIED_TRIED = "Times that the model was asked to put it right: {count}."
UNVERIFIED_KEPT = "The answer is kept for a person: {how}"
UNVERIFIED_LINE = "Not passed: {wrong}"
REFUSED_CALLS = "the calls that were proposed are not carried out ({reason})."
