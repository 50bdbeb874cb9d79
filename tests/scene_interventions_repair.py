"""Calls that cannot be carried out as they are written: sent back with what is wrong, a few times."""

from __future__ import annotations

from tests.live import Said
from tests.scene_interventions import Ask, Call, Plot, call, calls
from tests.scenes import Move, Odd, tc

MEND = {"arguments": {"mode": "enforce"}}
GOOD = call("search", "s9", q="refund")

WRONG: dict[str, tuple[Call, str]] = {
    "no JSON": (call("search", "s1", '{"q": "ref'), r"no valid JSON \(at"),
    "no object": (call("search", "s1", '["refund"]'), "must be a JSON object, not array"),
    "another type": (call("search", "s1", q="refund", limit="many"), "`limit` must be integer, not string"),
    "something missing": (call("search", "s1", limit=3), r"`q` \(string\) is missing"),
    "no such tool": (call("serch_web", "s1", q="refund"), "There is no tool of this name.*`search`"),
    "no name": (call("", "s1", q="refund"), "names no tool"),
}

RIGHT: dict[str, Call] = {
    "as the schema says": call("search", "s1", q="refund", limit=3),
    "a number as text": call("search", "s1", q="refund", limit="3"),
    "an argument that the schema does not name": call("search", "s1", q="refund", why="to know"),
    "nothing, where nothing is needed": call("deploy", "s1", ""),
    "in another spelling of the name": call("Search", "s1", q="refund"),
    "with its spaces": ("search", ' {"q" : "refund" } ', "s1"),
}


def alone() -> list[Plot]:
    """One call that is wrong, and what the model makes of it."""
    plots = [
        Plot(
            f"repaired: {name}",
            [
                Ask(
                    (calls(made, text="I look."), calls(GOOD)),
                    ("s9",),
                    "I look.",
                    "refuse",
                    "arguments",
                    sent=("U", "U A(s1) T(s1)"),
                    says=says,
                ),
                Ask((Said("Done."),), text="Done.", sent=("U A(s1) T(s1) A(s9) T(s9)",)),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(s1) T(s1) A(s9) T(s9) A U",)),
            ],
            policy=MEND,
        )
        for name, (made, says) in WRONG.items()
    ]
    plots += [
        Plot(
            f"left alone: {name}",
            [Ask((calls(made),), ("s1",), untouched=True, sent=("U",), arguments={"s1": made[1]})],
            policy=MEND,
        )
        for name, made in RIGHT.items()
    ]
    return plots


def bounded() -> list[Plot]:
    """How often, and what then."""
    bad = [call("search", f"s{n}", '{"q": "ref') for n in range(1, 6)]
    once = "U A(s1) T(s1)"
    return [
        Plot(
            "wrong again and again: the third is handed on as it is",
            [
                Ask(
                    tuple(calls(one) for one in bad[:3]),
                    ("s3",),
                    verdict="refuse",
                    rule="arguments",
                    sent=("U", once, f"{once} A(s2) T(s2)"),
                    arguments={"s3": '{"q": "ref'},
                ),
                Ask((Said("Done."),), text="Done.", sent=(f"{once} A(s2) T(s2) A(s3) T(s3)",)),
            ],
            policy=MEND,
        ),
        Plot(
            "wrong, asked once only",
            [Ask((calls(bad[0]), calls(bad[1])), ("s2",), verdict="refuse", rule="arguments", sent=("U", once))],
            policy={"arguments": {"mode": "enforce", "repairs": 1}},
        ),
        Plot(
            "the bound is a turn's: the next may be repaired as often",
            [
                Ask(tuple(calls(one) for one in bad[:3]), ("s3",), verdict="refuse", rule="arguments"),
                Ask((calls(bad[3]), calls(bad[4]), calls(GOOD)), ("s9",), verdict="refuse", rule="arguments"),
            ],
            policy=MEND,
        ),
        Plot(
            "observed: handed on, and said",
            [
                Ask(
                    (calls(bad[0]),),
                    ("s1",),
                    verdict="observe",
                    rule="arguments",
                    sent=("U",),
                    arguments={"s1": bad[0][1]},
                )
            ],
            policy={"arguments": {"mode": "observe"}},
        ),
        Plot("off: handed on", [Ask((calls(bad[0]),), ("s1",), untouched=True, sent=("U",))]),
        Plot(
            "a policy that observes repairs nothing",
            [Ask((calls(bad[0]),), ("s1",), verdict="observe", rule="arguments", sent=("U",))],
            policy={"mode": "observe", **MEND},
        ),
    ]


def together() -> list[Plot]:
    """Next to other calls, and to what is forbidden."""
    bad, read, gone = call("search", "s1", "{"), call("read", "r1", path="a"), call("delete", "d1", path="a")
    return [
        Plot(
            "the good one of two is handed on, the wrong one stands in later requests",
            [
                Ask((calls(bad, read),), ("r1",), verdict="refuse", rule="arguments", sent=("U",)),
                Ask((Said("Done."),), text="Done.", sent=("U A(s1,r1) T(s1) T(r1)",)),
            ],
            policy=MEND,
        ),
        Plot(
            "two wrong ones: each is told what is wrong with it",
            [
                Ask(
                    (calls(bad, call("nothing", "n1")), calls(read)),
                    ("r1",),
                    verdict="refuse",
                    rule="arguments",
                    sent=("U", "U A(s1,n1) T(s1) T(n1)"),
                    says="(?s)no valid JSON.*no tool of this name",
                )
            ],
            policy=MEND,
        ),
        Plot(
            "wrong twice, then forbidden three times: each has its own bound",
            [
                Ask(
                    (
                        *[calls(call("search", f"s{n}", "{")) for n in (1, 2)],
                        *[calls(call("delete", f"d{n}", path="a")) for n in (1, 2, 3)],
                        Said("I cannot."),
                    ),
                    text="I cannot.",
                    verdict="finalize",
                    rule="tools.deny",
                )
            ],
            policy=MEND,
            tools={"deny": ["delete"]},
        ),
        Plot(
            "forbidden and wrong: it is refused, not repaired",
            [
                Ask(
                    (calls(call("delete", "d1", "{")), Said("I leave it.")),
                    text="I leave it.",
                    verdict="refuse",
                    rule="tools.deny",
                    says="forbid",
                )
            ],
            policy=MEND,
            tools={"deny": ["delete"]},
        ),
        Plot(
            "one wrong, one forbidden: both are told",
            [
                Ask(
                    (calls(bad, gone), Said("I leave it.")),
                    text="I leave it.",
                    verdict="refuse",
                    rule="tools.deny",
                    sent=("U", "U A(s1,d1) T(s1) T(d1)"),
                    says="(?s)no valid JSON.*forbid",
                )
            ],
            policy=MEND,
            tools={"deny": ["delete"]},
        ),
    ]


def odd() -> list[Plot]:
    """Deltas as some providers send them: all calls at index 0, the name late or in every chunk."""
    good, bad = call("read", "r1", path="a"), call("search", "s1", "{")
    forms = {
        "all at index 0": (
            tc({"i": 0, "id": "r1", "n": "read", "a": good[1]}),
            tc({"i": 0, "id": "s1", "n": "search", "a": "{"}),
        ),
        "without an index": (tc({"id": "r1", "n": "read", "a": good[1]}), tc({"id": "s1", "n": "search", "a": "{"})),
        "the name late": (
            tc({"i": 0, "id": "r1"}),
            tc({"i": 1, "id": "s1"}),
            tc({"i": 1, "n": "search", "a": "{"}),
            tc({"i": 0, "n": "read", "a": good[1]}),
        ),
        "name and id in every chunk": (
            tc({"i": 0, "id": "r1", "n": "read", "a": good[1][:5]}),
            tc({"i": 0, "id": "r1", "n": "read", "a": good[1][5:]}),
            tc({"i": 1, "id": "s1", "n": "search", "a": "{"}),
        ),
    }
    return [
        Plot(
            f"the wrong one is taken out of deltas {name}",
            [
                Ask(
                    (Odd(None, (good, bad), move=Move(calls=(good, bad), deltas=(FIRST_CHUNK, *deltas))),),
                    ("r1",),
                    verdict="refuse",
                    rule="arguments",
                ),
                Ask((Said("Done."),), text="Done.", sent=("U A(r1,s1) T(s1) T(r1)",)),
            ],
            policy=MEND,
            streams=(True,),
        )
        for name, deltas in forms.items()
    ]


FIRST_CHUNK = {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]}


def repairs() -> list[Plot]:
    """All of them."""
    return [*alone(), *bounded(), *together(), *odd()]
