"""Final answers: each check, before the answer is seen and after, and what becomes of one that never passes."""

from __future__ import annotations

from dataclasses import replace

from tests.live import Json, Said
from tests.scene_interventions import Ask, Call, Do, Plot, call, calls

HOLD: Json = {"hold": True}
VERIFIED = "x-guardproxy-verification"
PASSED, FAILED = {VERIFIED: "^passed$"}, {VERIFIED: "^failed$"}
SAID = {"verification": "passed", "failed_checks": ()}


def work(*made: Call, **results: str) -> Ask:
    """A turn of work."""
    return Ask((calls(*made),), tuple(one[2] for one in made), results=results, headers={VERIFIED: ""})


def bash(number: int, command: str, result: str) -> Ask:
    """A command, and what it brings."""
    return work(call("bash", f"b{number}", command=command), **{f"b{number}": result})


RED, GREEN = "1 failed, 3 passed in 0.1s", "4 passed in 0.1s"
WRITTEN = work(call("write", "w1", path="secrets/key.pem", text="x"), w1="written")
BILL = work(call("search", "s1", q="bill"), s1="ORD-5731 of 3 May")

CHECKS: dict[str, tuple[str, Json, list[Ask], str, str, str]] = {
    # rule, its settings, what was done, a bad answer, what is said of it, a good answer
    "a required tool was not used": (
        "required_tools",
        {"tools": ["run_tests"]},
        [],
        "All done.",
        "needs a result of `run_tests`",
        "",
    ),
    "the answer has another form": (
        "output_schema",
        {"json_schema": {"type": "object", "required": ["total"], "properties": {"total": {"type": "number"}}}},
        [],
        '{"sum": 3}',
        "does not have the form.*total",
        '{"total": 3}',
    ),
    "the answer is no JSON": (
        "output_schema",
        {"json_schema": {"type": "object"}},
        [],
        "Three.",
        "holds none that can be read",
        "{}",
    ),
    "tests failed, and it says that they pass": (
        "unresolved_failure",
        {"mode": "enforce"},
        [bash(1, "pytest -q", RED)],
        "All tests pass now.",
        "their newest run, with `bash`, failed",
        "One test still fails: test_refund.",
    ),
    "a needed tool failed, and it says that all is done": (
        "unresolved_failure",
        {"mode": "enforce", "tools": ["send_*"]},
        [work(call("send_mail", "m1", to="bob"), m1="Error: mailbox unavailable")],
        "I have sent the mail, all is done.",
        "newest call of `send_mail` failed",
        "The mail could not be sent: the mailbox is unavailable.",
    ),
    "a call is not ready yet": (
        "open_calls",
        {"mode": "enforce", "tools": ["deploy"]},
        [work(call("deploy", "j1"), j1='{"status": "pending"}')],
        "It is deployed.",
        "`deploy` says that it is not ready yet",
        "",
    ),
    "a file that had to stay": (
        "files",
        {"denied": ["secrets/**"]},
        [WRITTEN],
        "Done.",
        "have to stay as they are.*key.pem",
        "",
    ),
    "a file outside": (
        "files",
        {"allowed": ["src/**"]},
        [WRITTEN],
        "Done.",
        "outside of what this task may change",
        "",
    ),
    "tests that nobody ran": (
        "files",
        {"tests": True},
        [work(call("write", "w1", path="src/a.py", text="x"), w1="written")],
        "I ran the tests and they all pass.",
        "no call of this run has run any",
        "I have changed a.py. The tests were not run.",
    ),
    "an id that no result holds": (
        "evidence",
        {"pattern": r"\bORD-\d{4}\b"},
        [BILL],
        "It is ORD-8264.",
        "ORD-8264",
        "It is ORD-5731.",
    ),
    "no source at all": (
        "evidence",
        {"pattern": r"\bORD-\d{4}\b", "least": 1},
        [BILL],
        "It is of May.",
        "0 of the at least 1",
        "It is ORD-5731.",
    ),
}


def text(expression: str) -> str:
    """The words themselves, as an expression."""
    return "".join(f"\\{one}" if one in r"\.+*?()[]{}|^$" else one for one in expression)


def shape(done: list[Ask]) -> str:
    """The conversation in which the answer comes."""
    return " ".join(["U", *[f"A({one.gets[0]}) T({one.gets[0]})" for one in done]])


def policy(rule: str, settings: Json, **final: object) -> Json:
    """One check, and on what terms an answer is handed on."""
    return {"completion": {rule: settings}, "final": {**HOLD, **final}}


def each() -> list[Plot]:
    """Each check: held and sent back, held and passed, only reported, observed."""
    plots = []
    for name, (rule, settings, done, bad, says, good) in CHECKS.items():
        back = Ask(
            (Said(bad), Said(good or bad), *([] if good else [Said(bad)])),
            text=text(good or bad),
            headers=PASSED if good else FAILED,
            report={"verification": "passed" if good else "failed", "failed_checks": () if good else (rule,)},
            says=f"does not hold yet.*{says}",
            sent=tuple(" ".join([shape(done), *["A U"] * times]) for times in range(2 if good else 3)),
        )
        plots.append(Plot(f"{name}: sent back", [*done, back], policy=policy(rule, settings)))
        told = Ask((Said(bad),), text=text(bad), report={"verification": "failed", "failed_checks": (rule,)})
        plots.append(
            Plot(
                f"{name}: only reported",
                [*done, replace(told, headers=FAILED, untouched=True)],
                policy={"completion": {rule: settings}},
            )
        )
        observed = {"completion": {rule: {**settings, "mode": "observe"}}, "final": HOLD}
        plots.append(Plot(f"{name}: observed", [*done, replace(told, headers=FAILED)], policy=observed))
        plots.append(
            Plot(
                f"{name}: off",
                [
                    *done,
                    Ask(
                        (Said(bad),),
                        text=text(bad),
                        untouched=True,
                        headers={VERIFIED: ""},
                        report={"verification": ""},
                    ),
                ],
                policy={"completion": {rule: {**settings, "mode": "off"}}, "final": HOLD},
            )
        )
        if good:
            passed = Ask((Said(good),), text=text(good), headers=PASSED, report=SAID, quiet=True)
            plots.append(Plot(f"{name}: a good one passes", [*done, passed], policy=policy(rule, settings)))
    return plots


NEEDS: Json = {"completion": {"required_tools": {"tools": ["run_tests"]}}}
TESTS = call("run_tests", "t1")
UNTESTED = Said("All done.")
UNPASSED = (
    r".*did not pass its checks, and is not handed on\. Times that the model was asked to put it right: 2\.\n"
    r"Not passed: .*'run_tests'.*\n.*kept for a person: guardproxy sessions show plot-"
)
PAUSES = f"{UNPASSED}.*To go on: guardproxy sessions resume plot-.*"
AFTER = Ask((calls(TESTS),), ("t1",), user="Run the tests.", sent=("U A U A U A U A U",))
PERSON = Do("resume", "I have looked at it")


def held(*answers: Said, **more: object) -> Ask:
    """The turn whose answer is checked before it is seen."""
    return Ask(answers, **more)  # type: ignore[arg-type]


def bounds() -> list[Plot]:
    """Sent back, and again, and what then."""
    late = replace(Ask((Said("Tested."),), text="Tested.", headers=PASSED), report=SAID)
    back = held(UNTESTED, calls(TESTS), gets=("t1",), sent=("U", "U A U"), headers={VERIFIED: ""})
    never = held(UNTESTED, UNTESTED, UNTESTED, text="All done.", headers=FAILED)
    end = {"report": {"verification": "failed", "failed_checks": ("required_tools",)}}
    return [
        Plot(
            "sent back, tested, passed; and the same later",
            [
                back,
                replace(late, sent=("U A U A(t1) T(t1)",)),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A U A(t1) T(t1) A U",), headers=PASSED),
            ],
            policy={**NEEDS, "final": HOLD},
        ),
        Plot(
            "an answer that was sent back stands in later requests",
            [
                held(
                    Said("It is ORD-8264."),
                    Said("I do not know."),
                    text=r"I do not know\.",
                    headers=PASSED,
                    sent=("U", "U A U"),
                ),
                Ask((Said("No."),), text=r"No\.", user="Sure?", sent=("U A U A U",), says="ORD-8264"),
                Ask((Said("No!"),), text="No!", user="Quite?", sent=("U A U A U A U",), says="ORD-8264"),
            ],
            policy=policy("evidence", {"pattern": r"\bORD-\d{4}\b"}),
        ),
        Plot("never passed: delivered, marked", [replace(never, **end)], policy={**NEEDS, "final": HOLD}),  # type: ignore[arg-type]
        Plot(
            "never passed: cut",
            [
                replace(never, text=f"{UNPASSED}[^§]*", verdict="cut", rule="completion.required_tools"),
                Ask((), text=".*ended before.*", verdict="cut", rule="completion.required_tools"),
            ],
            policy={**NEEDS, "final": {**HOLD, "on_failure": "cut"}},
            ends="closed",
        ),
        Plot(
            "never passed: cut, and taken up again by the user",
            [
                replace(never, text=f"{UNPASSED}[^§]*", verdict="cut", rule="completion.required_tools"),
                replace(AFTER, says="here the run was stopped; it was let go on afterwards"),
            ],
            policy={**NEEDS, "final": {**HOLD, "on_failure": "cut"}},
        ),
        Plot(
            "never passed: a person takes over, and lets it go on",
            [
                replace(never, text=PAUSES, verdict="pause", rule="completion.required_tools"),
                Ask((), text=".*paused by the proxy.*did not pass its checks.*", verdict="pause", rule="paused.check"),
                PERSON,
                replace(AFTER, says="needs a result of `run_tests`"),
                Ask((Said("Tested."),), text="Tested.", headers=PASSED),
            ],
            policy={**NEEDS, "final": {**HOLD, "on_failure": "pause"}},
            ends="active",
        ),
        Plot(
            "never passed: let go on without a word, the model is asked to mend it",
            [
                replace(never, text=PAUSES, verdict="pause", rule="completion.required_tools"),
                PERSON,
                replace(AFTER, user="", sent=("U A U A U A U",), says="needs a result of `run_tests`"),
                Ask((Said("Tested."),), text="Tested.", headers=PASSED, sent=("U A U A U A U A(t1) T(t1)",)),
            ],
            policy={**NEEDS, "final": {**HOLD, "on_failure": "pause"}},
            ends="active",
        ),
        Plot(
            "never asked again: it says no more than it is",
            [
                replace(
                    held(UNTESTED, text=".*is not handed on\\.\nNot passed: .*", headers=FAILED),
                    verdict="pause",
                    rule="completion.required_tools",
                )
            ],
            policy={**NEEDS, "final": {**HOLD, "retries": 0, "on_failure": "pause"}},
        ),
        Plot(
            "asked once only",
            [held(UNTESTED, UNTESTED, text="All done.", headers=FAILED)],
            policy={**NEEDS, "final": {**HOLD, "retries": 1}},
        ),
        Plot(
            "not asked at all",
            [held(UNTESTED, text="All done.", headers=FAILED)],
            policy={**NEEDS, "final": {**HOLD, "retries": 0}},
        ),
        Plot(
            "not held, and never passed: nothing is cut",
            [held(UNTESTED, text="All done.", headers=FAILED, untouched=True)],
            policy={**NEEDS, "final": {"hold": False, "on_failure": "cut"}},
        ),
        Plot(
            "a call is no final answer: nothing is checked, its text comes with it",
            [
                Ask(
                    (calls(TESTS, text="I test."),),
                    ("t1",),
                    "I test.",
                    headers={VERIFIED: ""},
                    report={"verification": ""},
                )
            ],
            policy={**NEEDS, "final": HOLD},
        ),
        Plot(
            "every check at once: each says what it has found",
            [
                held(
                    Said("All tests pass, see ORD-8264."),
                    Said("I give up."),
                    Said("I give up."),
                    text=r"I give up\.",
                    headers=FAILED,
                    report={"failed_checks": ("required_tools",)},
                    says="(?s)ORD-8264.*`run_tests`",
                )
            ],
            policy={
                "completion": {"required_tools": {"tools": ["run_tests"]}, "evidence": {"pattern": r"\bORD-\d{4}\b"}},
                "final": HOLD,
            },
        ),
        Plot(
            "sent back, then a forbidden call, then the answer",
            [
                held(
                    UNTESTED,
                    calls(call("delete", "d1", path="a")),
                    calls(TESTS),
                    gets=("t1",),
                    verdict="refuse",
                    rule="tools.deny",
                    sent=("U", "U A U", "U A U A(d1) T(d1)"),
                ),
                replace(late, sent=("U A U A(d1) T(d1) A(t1) T(t1)",)),
            ],
            policy={**NEEDS, "final": HOLD},
            tools={"deny": ["delete"]},
        ),
    ]


def reported() -> list[Plot]:
    """What the agent itself says of its progress."""
    said = {"x-guardproxy-progress": '{"artifacts": 0, "unresolved": 2}'}
    good = {"x-guardproxy-progress": '{"artifacts": 1, "unresolved": 0}'}
    rule: Json = {"least": 1, "most_unresolved": 0}
    failed = {"report": {"verification": "failed", "failed_checks": ("artifacts",)}}
    return [
        Plot(
            "too few artefacts, and open items: sent back, and delivered in the end",
            [
                replace(
                    held(UNTESTED, UNTESTED, UNTESTED, text="All done.", headers=FAILED, send=said, **failed),
                    says="reports 0 artefacts where there must be at least 1",
                )
            ],
            policy=policy("artifacts", rule),
        ),
        Plot(
            "as many as there must be",
            [held(UNTESTED, text="All done.", headers=PASSED, send=good, report=SAID)],
            policy=policy("artifacts", rule),
        ),
    ]


def final_tools() -> list[Plot]:
    """A call that hands over the final answer counts as one."""
    final = {"final": ["final_answer"]}
    first, second = (call("final_answer", f"f{n}", answer=f"It is {n}.") for n in (1, 2))
    return [
        Plot(
            "a final tool: sent back as its result",
            [
                held(calls(first), calls(TESTS), gets=("t1",), sent=("U", "U A(f1) T(f1)"), says="run_tests"),
                Ask((calls(second),), ("f2",), headers=PASSED, sent=("U A(f1) T(f1) A(t1) T(t1)",)),
            ],
            policy={**NEEDS, "final": HOLD},
            tools=final,
        ),
        Plot(
            "a final tool: never passed, delivered",
            [
                held(
                    calls(first),
                    calls(second),
                    calls(call("final_answer", "f3", answer="3")),
                    gets=("f3",),
                    headers=FAILED,
                )
            ],
            policy={**NEEDS, "final": HOLD},
            tools=final,
        ),
        Plot(
            "a final tool: never passed, cut",
            [
                held(
                    calls(first),
                    calls(second),
                    calls(call("final_answer", "f3", answer="3")),
                    text=".*did not pass its checks.*",
                    verdict="cut",
                    rule="completion.required_tools",
                )
            ],
            policy={**NEEDS, "final": {**HOLD, "on_failure": "cut"}},
            tools=final,
        ),
        Plot(
            "a final tool: only reported",
            [held(calls(first), gets=("f1",), headers=FAILED, untouched=True)],
            policy=NEEDS,
            tools=final,
        ),
        Plot(
            "a final tool next to another call is no final answer",
            [held(calls(first, TESTS), gets=("f1", "t1"), report={"verification": ""})],
            policy={**NEEDS, "final": HOLD},
            tools=final,
        ),
    ]


def finals() -> list[Plot]:
    """All of them."""
    return [*each(), *bounds(), *reported(), *final_tools()]
