"""Calls that are refused: those of a loop that was told to stop, and what the rules forbid."""

from __future__ import annotations

from tests.live import Said
from tests.scene_interventions import Ask, Call, Plot, call, calls

DENY = {"deny": ["delete"]}
DENIED = r"`delete` was not carried out.*forbid"
FOUND = "There is no refund policy to be found."


def search(number: int) -> Call:
    """The call of the loop."""
    return call("search", f"s{number}", q="refund")


def loop(upto: int, first: int = 1) -> list[Ask]:
    """The calls of a loop that are carried out: nudged at the third result, told to stop at the fourth."""
    found = []
    for number in range(first, upto + 1):
        verdict = {4: "nudge", 5: "firm"}.get(number, "pass")
        rule = "repeated_call" if verdict != "pass" else ""
        found.append(Ask((calls(search(number)),), (f"s{number}",), verdict=verdict, head=verdict, rule=rule))
    return found


FIRM = "firm"
"""The verdict on the request that carries the fourth equal result."""


def fifth(*answers: Said, **more: object) -> Ask:
    """The turn in which the fifth call is proposed."""
    return Ask(answers, **{"head": FIRM, "rule": "repeated_call", **more})  # type: ignore[arg-type]


def history(upto: int) -> str:
    """The shape of the loop so far."""
    return " ".join(["U", *[f"A(s{n}) T(s{n})" for n in range(1, upto + 1)]])


def of_loops() -> list[Plot]:
    """A loop at firm: its calls are not handed on any more."""
    own = history(4)
    again = f"{own} A(s5) T(s5)"
    twice = f"{again} A(s6) T(s6)"
    thrice = f"{twice} A(s7) T(s7)"
    edit = call("write", "w1", path="policy.md", text="Refunds within 30 days.")
    return [
        Plot(
            "a refused call: the model answers",
            [
                *loop(4),
                fifth(
                    calls(search(5)),
                    Said(FOUND),
                    text=FOUND,
                    verdict="refuse",
                    sent=(own, again),
                    says="not carried out",
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"{again} A U",)),
            ],
        ),
        Plot(
            "a refused call: the model does something else",
            [
                *loop(4),
                fifth(calls(search(5)), calls(edit), gets=("w1",), verdict="refuse", sent=(own, again)),
                Ask((Said("Done."),), text="Done.", sent=(f"{again} A(w1) T(w1)",)),
            ],
        ),
        Plot(
            "refused twice, then another way",
            [
                *loop(4),
                fifth(
                    calls(search(5)),
                    calls(search(6)),
                    Said(FOUND),
                    text=FOUND,
                    verdict="refuse",
                    sent=(own, again, twice),
                ),
            ],
        ),
        Plot(
            "refused three times: the model has to answer",
            [
                *loop(4),
                fifth(
                    *(calls(search(n)) for n in (5, 6, 7)),
                    Said(FOUND),
                    text=FOUND,
                    verdict="finalize",
                    sent=(own, again, twice, thrice),
                    says="No further calls are possible",
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"{thrice} A U",)),
            ],
        ),
        Plot(
            "refused, and it proposes even in the last: our words stand in its place",
            [
                *loop(4),
                fifth(
                    *(calls(search(n)) for n in (5, 6, 7, 8)),
                    text=".*ended by the proxy.*",
                    verdict="finalize",
                    sent=(own, again, twice, thrice),
                ),
            ],
        ),
        Plot(
            "partial: the other call is handed on, the refused one stands in later requests",
            [
                *loop(4),
                fifth(calls(call("read", "r1", path="a"), search(5)), gets=("r1",), verdict="refuse", sent=(own,)),
                Ask(
                    (calls(call("read", "r2", path="b")),),
                    ("r2",),
                    sent=(f"{own} A(r1,s5) T(s5) T(r1)",),
                ),
                Ask(
                    (Said(FOUND),),
                    text=FOUND,
                    sent=(f"{own} A(r1,s5) T(s5) T(r1) A(r2) T(r2)",),
                ),
            ],
        ),
        Plot(
            "a call that changes something lets the same call be made again",
            [
                *loop(4),
                fifth(calls(edit), gets=("w1",), verdict="firm", sent=(own,)),
                Ask((calls(search(5)),), ("s5",), verdict="pass"),
            ],
        ),
        Plot(
            "the user goes on: the same call may be made again",
            [
                *loop(4),
                fifth(Said("Nothing found. What now?"), text="Nothing found. What now.", verdict="firm"),
                Ask((calls(search(5)),), ("s5",), user="Look again, I have added it now."),
            ],
        ),
        Plot(
            "text before the refused call stays, and the answer is one",
            [
                *loop(4),
                fifth(
                    calls(search(5), text="Once more."),
                    Said("Nothing."),
                    text="Once more.\n\nNothing.",
                    verdict="refuse",
                    chunks="(?s)Once .*more",
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"{again} A U",)),
            ],
        ),
        Plot(
            "observed: the call is handed on and said to be one that would be refused",
            [*loop(4), fifth(calls(search(5)), gets=("s5",), verdict="firm")],
            policy={"refuse": "observe"},
        ),
        Plot(
            "off: nothing is looked at",
            [*loop(4), fifth(calls(search(5)), gets=("s5",), verdict="firm")],
            policy={"refuse": "off"},
        ),
    ]


def tests_again() -> list[Plot]:
    """A test that is run after each edit is work, however often it fails in the same way."""
    red = "1 failed: test_refund\nE assert 30 == 14"
    parts: list[Ask] = []
    for number in range(1, 8):
        edit = call("write", f"w{number}", path="refund.py", text=f"DAYS = {number}")
        test = call("bash", f"t{number}", command="pytest -q")
        parts.append(Ask((calls(edit),), (f"w{number}",), verdict="*", head="*", results={f"w{number}": "written"}))
        parts.append(Ask((calls(test),), (f"t{number}",), verdict="*", head="*", results={f"t{number}": red}))
    return [Plot("a test run again after each edit is never refused", parts)]


FIRST = Ask((calls(call("read", "r0", path="0")),), ("r0",))
"""A turn before the one that the plot is about: with it, the same request again is a retry and no new run."""


def of_rules() -> list[Plot]:
    """What the rules forbid, from the first call on."""
    gone, read = call("delete", "d1", path="a"), call("read", "r1", path="a")
    denied = "U A(d1) T(d1)"
    plots = [
        Plot(
            "forbidden from the first call on",
            [
                Ask(
                    (calls(gone, text="I clean up."), calls(read, text="Then I read.")),
                    ("r1",),
                    "I clean up.\n\nThen I read.",
                    "refuse",
                    "tools.deny",
                    sent=("U", denied),
                    says=DENIED,
                ),
                Ask((Said("Done."),), text="Done.", sent=(f"{denied} A(r1) T(r1)",)),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"{denied} A(r1) T(r1) A U",)),
            ],
            tools=DENY,
        ),
        Plot(
            "forbidden, three times and once more: the end of the turn",
            [
                Ask(
                    tuple(calls(call("delete", f"d{n}", path="a")) for n in range(1, 5)),
                    text=".*ended by the proxy.*",
                    verdict="finalize",
                    rule="tools.deny",
                    sent=("U", denied, f"{denied} A(d2) T(d2)", f"{denied} A(d2) T(d2) A(d3) T(d3)"),
                ),
            ],
            tools=DENY,
        ),
        Plot(
            "two forbidden of three: the third is handed on",
            [
                Ask(
                    (calls(gone, read, call("delete", "d2", path="b")),),
                    ("r1",),
                    verdict="refuse",
                    rule="tools.deny",
                    results={"r1": "text"},
                ),
                Ask((Said("Done."),), text="Done.", sent=("U A(d1,r1,d2) T(d1) T(d2) T(r1)",)),
            ],
            tools=DENY,
        ),
        Plot(
            "partial, then alone, in one turn and the next",
            [
                Ask((calls(read, gone),), ("r1",), verdict="refuse", rule="tools.deny"),
                Ask(
                    (calls(call("delete", "d2", path="a")), Said("I leave it.")),
                    text="I leave it.",
                    verdict="refuse",
                    rule="tools.deny",
                    sent=("U A(r1,d1) T(d1) T(r1)", "U A(r1,d1) T(d1) T(r1) A(d2) T(d2)"),
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(r1,d1) T(d1) T(r1) A(d2) T(d2) A U",)),
            ],
            tools=DENY,
        ),
        Plot(
            "a refused turn asked for again, because its answer was lost",
            [
                FIRST,
                Ask((calls(gone), calls(read)), ("r1",), verdict="refuse", rule="tools.deny", lost=True),
                Ask(
                    (calls(call("search", "s1", q="x"), call("delete", "d9", path="b")),),
                    ("s1",),
                    verdict="refuse",
                    rule="tools.deny",
                ),
                Ask((Said("Done."),), text="Done.", sent=("U A(r0) T(r0) A(s1,d9) T(d9) T(s1)",)),
            ],
            tools=DENY,
        ),
        Plot(
            "an answer with a refused call is lost; the next has none",
            [
                FIRST,
                Ask((calls(read, gone),), ("r1",), verdict="refuse", rule="tools.deny", lost=True),
                Ask((calls(call("search", "d1", q="x")),), ("d1",)),
                Ask((Said("Done."),), text="Done.", sent=("U A(r0) T(r0) A(d1) T(d1)",)),
            ],
            tools=DENY,
        ),
        Plot(
            "an answer with a refused call is lost; the next is equal, and another call is refused in it",
            [
                FIRST,
                Ask((calls(gone), calls(read)), ("r1",), verdict="refuse", rule="tools.deny", lost=True),
                Ask((calls(call("delete", "d2", path="b")), calls(read)), ("r1",), verdict="refuse", rule="tools.deny"),
                Ask((Said("Done."),), text="Done.", sent=("U A(r0) T(r0) A(d2) T(d2) A(r1) T(r1)",)),
            ],
            tools=DENY,
        ),
    ]
    rules = {
        "by a glob": ("del*", gone),
        "by an argument": ({"tool": "delete", "args": {"path": "/etc/*"}}, call("delete", "d1", path="/etc/passwd")),
        "by a path": ({"tool": "*", "paths": ["~/.ssh/**"]}, call("read", "d1", path="~/.ssh/id_rsa")),
        "by a path in a command": (
            {"tool": "bash", "paths": ["/etc/**"]},
            call("bash", "d1", command="cat /etc/../etc/shadow"),
        ),
        "with a reason": ({"tool": "delete", "reason": "backups are kept"}, gone),
    }
    for name, (rule, made) in rules.items():
        says = "backups are kept" if "reason" in name else "not carried out"
        plots.append(
            Plot(
                f"forbidden {name}",
                [
                    Ask(
                        (calls(made), Said("I leave it.")),
                        text="I leave it.",
                        verdict="refuse",
                        rule="tools.deny",
                        sent=("U", denied),
                        says=says,
                    )
                ],
                tools={"deny": [rule]},
            )
        )
    allowed = {"another argument": call("delete", "d1", path="/tmp/a"), "another tool": read}
    for name, made in allowed.items():
        plots.append(
            Plot(
                f"not forbidden: {name}",
                [Ask((calls(made),), (made[2],), sent=("U",))],
                tools={"deny": [{"tool": "delete", "args": {"path": "/etc/*"}}]},
            )
        )
    return plots


def refusals() -> list[Plot]:
    """All of them."""
    return [*of_loops(), *tests_again(), *of_rules()]
