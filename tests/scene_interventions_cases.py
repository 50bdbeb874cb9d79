"""Cases of the loop log, section 6 (B33 to B38), and of the survey of gateways, section 3, about interventions."""

from __future__ import annotations

from dataclasses import replace

from tests.live import Said
from tests.scene_interventions import Ask, Call, Do, Part, Plot, call, calls
from tests.scene_interventions_people import APPROVAL, GONE, NOTICE
from tests.scene_interventions_refusals import FOUND, fifth, history, loop, search
from tests.scenes import Move, Odd, delta, user

SYSTEM = {"role": "system", "content": "You are an agent."}
DEVELOPER = {"role": "developer", "content": "You are an agent."}
RULE = "repeated_call"


def both(number: int) -> tuple[Call, Call]:
    """Two equal calls of each turn, side by side."""
    return search(number), call("read", f"r{number}", path="a")


def twins(upto: int) -> str:
    """The shape of a conversation of such turns."""
    return " ".join(["U", *[f"A(s{n},r{n}) T(s{n}) T(r{n})" for n in range(1, upto + 1)]])


def of_messages() -> list[Plot]:
    """Where our words may stand, and what they are like."""
    side_by_side: list[Part] = [
        Ask((calls(*both(n)),), (f"s{n}", f"r{n}"), verdict="*", sent=(twins(n - 1),)) for n in range(1, 5)
    ]
    spoken = "(?s)Note from the proxy that watches this run: .*`(search|read)` was called 3 times.*Two ways on"
    side_by_side[3] = replace(side_by_side[3], says=spoken)  # type: ignore[type-var]
    refused = [*loop(4), fifth(calls(search(5)), Said(FOUND), text=FOUND, verdict="refuse")]
    again = f"{history(4)} A(s5) T(s5)"
    once = r"^\[guardproxy\] Note from the proxy that watches this run: (?!.*Note from the proxy).*"
    return [
        Plot("B33 our words stand inside a result, never between calls and results", side_by_side),
        Plot(
            "B33 refused side by side: nothing between calls and results",
            [
                *side_by_side,
                Ask(
                    (calls(*both(5)), Said(FOUND)),
                    text=FOUND,
                    verdict="refuse",
                    head="firm",
                    rule=RULE,
                    sent=(twins(4), twins(5)),
                ),
            ],
        ),
        Plot(
            "B34 a user's message behind a result is the client's own: it goes on as it is",
            [
                Ask((calls(call("read", "r1", path="a")),), ("r1",)),
                Ask((Said("Yes."),), text="Yes.", user="And?", sent=("U A(r1) T(r1) U",), quiet=True),
            ],
        ),
        Plot(
            "B34 with our words: they stand in the result, not in a message behind it",
            [
                *loop(3),
                Ask(
                    (Said(FOUND),),
                    text=FOUND,
                    verdict="nudge",
                    head="nudge",
                    rule=RULE,
                    sent=(history(3),),
                    says="3 times",
                ),
            ],
        ),
        *[
            Plot(
                f"B35 no system message but the client's ({first['role']})",
                [
                    *refused[:-1],
                    replace(refused[-1], sent=(f"S {history(4)}", f"S {again}")),
                    Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"S {again} A U",)),
                ],
                opening=(first, user("Find the refund policy.")),
            )
            for first in (SYSTEM, DEVELOPER)
        ],
        Plot(
            "B36 some of several parallel calls have no result: it is the client's, and goes on as it is",
            [
                Ask((calls(*both(1), call("bash", "b1", command="ls")),), ("s1", "r1", "b1"), results={"b1": None}),
                Ask((Said("Hm."),), text="Hm.", sent=("U A(s1,r1,b1) T(s1) T(r1)",), quiet=True),
            ],
        ),
        Plot(
            "B36 the end with several parallel calls: all are taken out, and words stand there",
            [
                *loop(4),
                fifth(
                    *[calls(search(n), call("search", f"x{n}", q="refund")) for n in (5, 6, 7)],
                    calls(search(8), call("read", "r8", path="a"), call("read", "r9", path="b")),
                    text=r"\[guardproxy\] This run was ended.*",
                    verdict="finalize",
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?"),
            ],
        ),
        Plot(
            "B36 some are refused, the others handed on: no call is without a result",
            [
                *loop(4),
                fifth(calls(search(5), call("read", "r5", path="a"), search(6)), gets=("r5",), verdict="refuse"),
                Ask((Said(FOUND),), text=FOUND, sent=(f"{history(4)} A(s5,r5,s6) T(s5) T(s6) T(r5)",)),
            ],
        ),
        Plot(
            "B37 a refusal says once who speaks, and hides nothing",
            [
                Ask(
                    (calls(GONE), Said("I leave it.")),
                    text="I leave it.",
                    verdict="refuse",
                    rule="tools.deny",
                    says=f"(?s){once}`delete` was not carried out",
                )
            ],
            tools={"deny": ["delete"]},
        ),
        Plot(
            "B38 what is said of a loop names the call, how often, and with what result",
            [
                *loop(4),
                fifth(
                    calls(search(5)),
                    Said(FOUND),
                    text=FOUND,
                    verdict="refuse",
                    says='(?s)`search` was called 4 times in a row with .* arguments.*"q": ?"refund".*nothing new',
                ),
            ],
        ),
    ]


def of_budgets() -> list[Plot]:
    """Budgets that ask for too much, or end a run for good."""
    one, two = call("read", "r1", path="a"), call("read", "r2", path="b")
    work, more = Ask((calls(one),), ("r1",)), Ask((calls(two),), ("r2",))
    spent = {"limits": {"session": {"total_tokens": 5_000}}, "default_output_hold": 100}
    big = Said(None, calls=(one,), usage={"prompt_tokens": 4_000, "completion_tokens": 500, "total_tokens": 4_500})
    over = Ask(
        (),
        text=r".*total_tokens \(session\) of 5,?000.*used.*",
        verdict="deny",
        rule="budget.total_tokens",
        status=400,
        error="budget_exceeded",
    )
    handed = replace(over, text=".*paused.*sessions extend.*", verdict="pause", status=200, error="")
    return [
        Plot(
            "gateway 12 max_tokens is not asked for, with a limit of tokens or without",
            [replace(work, more={}), replace(more, more={"max_tokens": 50})],
            policy={"limits": {"session": {"total_tokens": 100_000}}},
        ),
        Plot("gateway 12 without a limit", [work, replace(more, more={"max_tokens": 50})]),
        Plot(
            "gateway 14 a session's tokens are used up: it is paused, raised and goes on",
            [
                replace(work, answers=(big,)),
                handed,
                Do("extend", "worth it", {"total_tokens": 5_000}),
                replace(more, sent=("U A(r1) T(r1)",)),
            ],
            policy={**spent, "on_budget": "pause"},
            ends="active",
        ),
        Plot(
            "gateway 15 the limit that is reached is named, with what it counts",
            [replace(work, answers=(big,)), over],
            policy=spent,
        ),
    ]


def of_loops() -> list[Plot]:
    """Loops that went on, and those that could not be left again."""
    gone = [call("delete", f"d{n}", path=f"{n}") for n in (1, 2, 3)]
    ends: list[Part] = [
        *loop(4),
        fifth(*[calls(search(n)) for n in (5, 6, 7)], Said(FOUND), text=FOUND, verdict="finalize"),
    ]
    cut = Ask((calls(search(8)),), text=".*ended by the proxy.*", verdict="cut", rule=RULE)
    stays = replace(cut, answers=())
    legacy = Odd(
        None,
        (("delete", '{"path":"a"}', ""),),
        move=Move(
            calls=(("delete", {"path": "a"}, None),),
            legacy=True,
            deltas=(
                delta(role="assistant", content=None),
                delta(function_call={"name": "delete", "arguments": '{"path"'}),
                delta(function_call={"arguments": ':"a"}'}),
            ),
        ),
    )
    approving: list[Part] = []
    for number in range(1, 7):
        made = call("delete", f"d{number}", path="a")
        approving += [
            Ask((calls(made),), text=NOTICE, verdict="pause", rule="tools.approval", quiet=True),
            Do("approve"),
            Ask((), (f"d{number}",), results={f"d{number}": "Error: it is in use"}),
        ]
    return [
        Plot(
            "gateway 32 three forbidden calls of one answer: one refusal each, one answer, one comment",
            [
                Ask(
                    (calls(*gone), Said("I leave them.")),
                    text="I leave them.",
                    verdict="refuse",
                    rule="tools.deny",
                    sent=("U", "U A(d1,d2,d3) T(d1) T(d2) T(d3)"),
                    chunks=r"(?s)^(?!.*action=refuse.*action=refuse).*action=refuse",
                )
            ],
            tools={"deny": ["delete"]},
        ),
        Plot(
            "gateway 40 the same call without end: four are carried out",
            [*ends, cut, stays, stays, replace(stays, status=400, error="session_cut")],
            ends="closed",
        ),
        Plot(
            "gateway 41 a model that heeds no warning: the ladder ends in a stop",
            [*ends, cut, stays],
            ends="closed",
        ),
        Plot(
            "gateway 42 a user's new word lets the run go on",
            [*ends, cut, Ask((calls(search(9)),), ("s9",), user="The policy is there now, look again.")],
            ends="active",
        ),
        Plot(
            "gateway 42 a person resets it",
            [*ends, cut, Do("reset"), Ask((calls(search(9)),), ("s9",))],
            ends="active",
        ),
        Plot(
            "gateway 43 calls in another form are seen: the legacy function_call",
            [
                Ask(
                    (legacy, Said("I leave it.")),
                    text="I leave it.",
                    verdict="refuse",
                    rule="tools.deny",
                    says="`delete` was not carried out",
                )
            ],
            tools={"deny": ["delete"]},
        ),
        Plot(
            "gateway 64 a person approves again and again: the call is not locked out",
            approving,
            tools=APPROVAL,
        ),
        Plot(
            "gateway 64 the hard limit stays, whatever is approved",
            [
                *approving[:6],
                Ask(
                    (calls(call("delete", "d9", path="a")),),
                    text=r"\[guardproxy\].*",
                    verdict="finalize",
                    head="finalize",
                    rule="budget.tool_calls",
                ),
            ],
            tools=APPROVAL,
            policy={"limits": {"session": {"tool_calls": 3}}},
        ),
    ]


def cases() -> list[Plot]:
    """All of them."""
    return [*of_messages(), *of_budgets(), *of_loops()]
