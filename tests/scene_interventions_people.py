"""Calls that a person has to allow, questions to a person, and results that come later."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import ANY

from tests.live import Said
from tests.scene_interventions import Ask, Do, Later, Plot, call, calls

APPROVAL = {"approval": ["delete"]}
HOLD = {"approvals": {"way": "hold", "hold_seconds": 20}}
BRIEF = {"approvals": {"way": "hold", "hold_seconds": 1}}
GONE, READ, MAIL = call("delete", "d1", path="a"), call("read", "r1", path="a"), call("send_mail", "m1", to="bob")
HUMAN = {"human": ["ask_human"]}
WHY = call("ask_human", "h1", question="Which of the two shops?")
QUESTION = ".*asks a person.*Which of the two shops.*"
NOTICE = r".*`delete`.*needs a person's approval.*Approval: apr_\w+.*"
PAUSED = ".*paused by a call that waits.*"
ASKED = Ask((calls(GONE),), text=NOTICE, verdict="pause", rule="tools.approval", sent=("U",))
WAITS = Ask((), text=PAUSED, verdict="pause", rule="tools.approval", user="And?")
DONE = Ask((Said("Done."),), text="Done.")


def answered() -> list[Plot]:
    """Answered at once, with a notice that names the approval."""
    told = "U A(d1) T(d1) A U"
    released = Ask((), ("d1",), user="Go on.")
    return [
        Plot(
            "approved: the original call, once",
            [ASKED, Do("approve"), released, replace(DONE, sent=("U A U A(d1) T(d1)",))],
            tools=APPROVAL,
            ends="active",
        ),
        Plot("still waiting: nobody is asked", [ASKED, WAITS, WAITS], tools=APPROVAL, ends="paused", by="approval"),
        Plot(
            "waited for again and again: an error in the end",
            [
                ASKED,
                *[WAITS] * 3,
                Ask(
                    (),
                    text=PAUSED,
                    verdict="pause",
                    rule="tools.approval",
                    user="?",
                    status=400,
                    error="session_paused",
                ),
                Do("approve"),
                Ask((), ("d1",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "waiting, then approved",
            [
                ASKED,
                WAITS,
                Do("approve"),
                replace(released, user="Now?"),
                replace(DONE, sent=("U A U A U A(d1) T(d1)",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "denied: the model is told, and why",
            [
                ASKED,
                Do("deny", "not on a Friday"),
                Ask(
                    (Said("I leave it."),),
                    text="I leave it.",
                    user="Go on.",
                    sent=(told,),
                    says="declined.*not on a Friday",
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"{told} A U",), says="not on a Friday"),
            ],
            tools=APPROVAL,
            ends="active",
        ),
        Plot(
            "approved with other arguments",
            [
                ASKED,
                Do("edit", '{"path": "b"}'),
                Ask((), ("d1",), user="Go on.", arguments={"d1": '{"path": "b"}'}),
                replace(DONE, sent=("U A U A(d1) T(d1)",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "decided once only",
            [ASKED, Do("deny"), Do("approve", fails="already_decided"), Do("deny", fails="already_decided")],
            tools=APPROVAL,
        ),
        Plot(
            "nobody decides: it is denied",
            [
                ASKED,
                Later(1.2, really=True),
                Do("approve", fails="expired"),
                Ask(
                    (Said("I leave it."),),
                    text="I leave it.",
                    user="Go on.",
                    sent=(told,),
                    says="nobody decided in time",
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"{told} A U",)),
            ],
            policy={"approvals": {"expire_seconds": 1}},
            tools=APPROVAL,
        ),
        Plot(
            "nobody decides: the run ends",
            [
                ASKED,
                Later(1.2, really=True),
                Ask((), text=".*nobody decided in time.*", user="Go on.", verdict="cut", rule="tools.approval"),
                Ask((), text=".*nobody decided in time.*|.*was ended before.*", verdict="cut", rule="tools.approval"),
                Ask((Said("Hello."),), text="Hello.", user="Something else, then.", verdict="*"),
            ],
            policy={"approvals": {"expire_seconds": 1, "on_expiry": "cut"}},
            tools=APPROVAL,
        ),
        Plot(
            "the released call is lost: it is not released again",
            [
                ASKED,
                Do("approve"),
                replace(released, lost=True),
                Ask(
                    (calls(call("delete", "d2", path="a")),),
                    text=NOTICE,
                    verdict="pause",
                    rule="tools.approval",
                    sent=("U A U A(d1) T(d1)",),
                    says="handed on once; whether it was carried out is not known",
                    headers={"x-guardproxy-notice": "^approved-call-not-shown$"},
                ),
                Do("deny"),
                Ask(
                    (Said("I leave it."),),
                    text="I leave it.",
                    user="Go on.",
                    sent=("U A U A(d1) T(d1) A(d2) T(d2) A U",),
                ),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "the notice is lost: the run waits all the same",
            [
                Ask((calls(READ),), ("r1",)),
                replace(ASKED, lost=True, sent=("U A(r1) T(r1)",)),
                replace(WAITS, user=""),
                Do("approve"),
                Ask((), ("d1",)),
                replace(DONE, sent=("U A(r1) T(r1) A(d1) T(d1)",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "the notice is lost, and the call denied",
            [
                Ask((calls(READ),), ("r1",)),
                replace(ASKED, lost=True, sent=("U A(r1) T(r1)",)),
                Do("deny"),
                Ask((Said("I leave it."),), text="I leave it.", sent=("U A(r1) T(r1) A(d1) T(d1)",), says="declined"),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(r1) T(r1) A(d1) T(d1) A U",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "asked again without a word, and denied: no request ends with the assistant",
            [
                ASKED,
                replace(WAITS, user=""),
                replace(WAITS, user=""),
                Do("deny"),
                Ask((Said("I leave it."),), text="I leave it.", sent=("U A(d1) T(d1)",), says="declined"),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(d1) T(d1) A U",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "why it is asked is told",
            [
                replace(
                    ASKED,
                    text=f"{NOTICE}Reason: it cannot be undone.*approve apr_.*Once a person has decided.*next.*",
                )
            ],
            tools={"approval": [{"tool": "delete", "reason": "it cannot be undone"}]},
        ),
        Plot(
            "a tool without a rule is not asked about",
            [Ask((calls(READ, text="I read."),), ("r1",), "I read.", untouched=True)],
            tools=APPROVAL,
        ),
        Plot(
            "by its arguments: another one is not asked about",
            [
                Ask((calls(call("delete", "d1", path="/tmp/a")),), ("d1",), untouched=True),
                Ask((calls(call("delete", "d2", path="/srv/a")),), text=NOTICE, verdict="pause", rule="tools.approval"),
            ],
            tools={"approval": [{"tool": "delete", "args": {"path": "/srv/*"}}]},
        ),
        Plot(
            "words before the call stay with it",
            [
                Ask(
                    (calls(GONE, text="I clean up."),),
                    text=f"I clean up.\n\n{NOTICE}",
                    verdict="pause",
                    rule="tools.approval",
                ),
                Do("deny"),
                Ask((Said("I leave it."),), text="I leave it.", user="Go on.", sent=(told,)),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=(f"{told} A U",)),
            ],
            tools=APPROVAL,
        ),
    ]


def beside() -> list[Plot]:
    """Next to other calls."""
    both = Ask((calls(READ, GONE),), text=NOTICE, verdict="pause", rule="tools.approval", sent=("U",))
    told = "U A(r1,d1) T(r1) T(d1) A U"
    two = {"approval": ["delete", "send_mail"]}
    refused = Ask(
        (calls(call("bash", "b1", command="rm -rf /")), calls(GONE)),
        text=NOTICE,
        verdict="pause",
        rule="tools.approval",
        sent=("U", "U A(b1) T(b1)"),
    )
    rules = {**APPROVAL, "deny": ["bash"]}
    return [
        Plot(
            "next to another call: both wait, both are released",
            [
                both,
                Do("approve"),
                Ask((), ("r1", "d1"), user="Go on."),
                replace(DONE, sent=("U A U A(r1,d1) T(r1) T(d1)",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "next to another call, denied: the other may be proposed again",
            [
                both,
                Do("deny"),
                Ask(
                    (calls(call("read", "r2", path="a")),),
                    ("r2",),
                    user="Go on.",
                    sent=(told,),
                    says="(?s)`read`.*declined",
                ),
                replace(DONE, sent=(f"{told} A(r2) T(r2)",)),
            ],
            tools=APPROVAL,
        ),
        Plot(
            "two at once: one is asked about, the other is not carried out",
            [
                Ask((calls(GONE, MAIL),), text=NOTICE, verdict="pause", rule="tools.approval"),
                Do("approve"),
                Ask((), ("d1",), user="Go on."),
                Ask(
                    (calls(call("send_mail", "m2", to="bob")),),
                    text=".*`send_mail`.*approval.*",
                    verdict="pause",
                    rule="tools.approval",
                ),
                Do("approve"),
                Ask((), ("m2",), user="Go on."),
                DONE,
            ],
            tools=two,
        ),
        Plot(
            "next to a forbidden one: the forbidden one is not released",
            [
                Ask(
                    (calls(call("bash", "b1", command="ls"), GONE),),
                    text=NOTICE,
                    verdict="pause",
                    rule="tools.approval",
                ),
                Do("approve"),
                Ask((), ("d1",), user="Go on."),
                DONE,
            ],
            tools=rules,
        ),
        Plot(
            "refused, then held, then approved: the refusal stays",
            [
                refused,
                Do("approve"),
                Ask((), ("d1",), user="Go on."),
                replace(DONE, sent=("U A(b1) T(b1) A U A(d1) T(d1)",)),
            ],
            tools=rules,
        ),
        Plot(
            "refused, then held, then denied: both stay",
            [
                refused,
                Do("deny"),
                Ask((Said("I leave it."),), text="I leave it.", user="Go on.", sent=("U A(b1) T(b1) A(d1) T(d1) A U",)),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(b1) T(b1) A(d1) T(d1) A U A U",)),
            ],
            tools=rules,
        ),
        Plot(
            "forbidden as well: nobody is asked",
            [Ask((calls(GONE), Said("I leave it.")), text="I leave it.", verdict="refuse", rule="tools.deny")],
            tools={**APPROVAL, "deny": ["delete"]},
        ),
        Plot(
            "written wrongly as well: it is repaired first",
            [
                Ask(
                    (calls(call("delete", "d0", "{")), calls(GONE)),
                    text=NOTICE,
                    verdict="pause",
                    rule="tools.approval",
                    sent=("U", "U A(d0) T(d0)"),
                ),
                Do("approve"),
                Ask((), ("d1",), user="Go on."),
                replace(DONE, sent=("U A(d0) T(d0) A U A(d1) T(d1)",)),
            ],
            tools=APPROVAL,
            policy={"arguments": {"mode": "enforce"}},
        ),
    ]


def held() -> list[Plot]:
    """The request waits."""
    one = Ask(
        (calls(GONE, text="So:"),), ("d1",), "So:", meanwhile=Do("approve"), report={"approval": (ANY, "approved")}
    )
    two = replace(one, answers=(calls(READ, GONE),), text="")
    denied = Ask(
        (calls(GONE), Said("I leave it.")),
        text="I leave it.",
        verdict="refuse",
        rule="tools.approval",
        meanwhile=Do("deny", "no"),
        sent=("U", "U A(d1) T(d1)"),
        says="declined.*no",
    )
    return [
        Plot(
            "held, approved: the call goes on",
            [one, replace(DONE, sent=("U A(d1) T(d1)",))],
            tools=APPROVAL,
            policy=HOLD,
        ),
        Plot(
            "held, approved with other arguments",
            [
                replace(one, meanwhile=Do("edit", '{"path": "b"}'), arguments={"d1": '{"path": "b"}'}),
                replace(DONE, sent=("U A(d1) T(d1)",)),
            ],
            tools=APPROVAL,
            policy=HOLD,
        ),
        Plot(
            "held, denied: the model is asked again",
            [denied, Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(d1) T(d1) A U",))],
            tools=APPROVAL,
            policy=HOLD,
        ),
        Plot(
            "held next to another call, approved",
            [replace(two, gets=("r1", "d1")), replace(DONE, sent=("U A(r1,d1) T(r1) T(d1)",))],
            tools=APPROVAL,
            policy=HOLD,
        ),
        Plot(
            "held next to another call, denied: the other goes on",
            [
                replace(two, gets=("r1",), verdict="refuse", rule="tools.approval", meanwhile=Do("deny"), report={}),
                replace(DONE, sent=("U A(r1,d1) T(d1) T(r1)",)),
            ],
            tools=APPROVAL,
            policy=HOLD,
        ),
        Plot(
            "held, two at once",
            [
                Ask((calls(GONE, MAIL),), ("d1",), verdict="refuse", rule="tools.approval", meanwhile=Do("approve")),
                replace(DONE, sent=("U A(d1,m1) T(m1) T(d1)",), says="one such call at a time"),
            ],
            tools={"approval": ["delete", "send_mail"]},
            policy=HOLD,
        ),
        Plot(
            "held too long: a notice after all, and the call later",
            [
                replace(ASKED, headers={}),
                Do("approve"),
                Ask((), ("d1",), user="Go on."),
                replace(DONE, sent=("U A U A(d1) T(d1)",)),
            ],
            tools=APPROVAL,
            policy=BRIEF,
        ),
        Plot(
            "held too long: the next request waits, too",
            [ASKED, Ask((), ("d1",), user="Go on.", meanwhile=Do("approve")), DONE],
            tools=APPROVAL,
            policy=BRIEF,
        ),
        Plot(
            "a question is held, too: the answer is the call's result, in the same turn",
            [
                Ask(
                    (calls(WHY), Said("Bern.")),
                    text="Bern.",
                    meanwhile=Do("answer", "The one in Bern."),
                    sent=("U", "U A(h1) T(h1)"),
                    report={"approval": (ANY, "answered")},
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(h1) T(h1) A U",), quiet=True),
            ],
            tools=HUMAN,
            policy=HOLD,
            ends="active",
        ),
        Plot(
            "a question that is held next to another call: that one goes on",
            [
                Ask((calls(READ, WHY),), ("r1",), meanwhile=Do("answer", "The one in Bern.")),
                replace(DONE, sent=("U A(r1,h1) T(h1) T(r1)",), quiet=True),
            ],
            tools=HUMAN,
            policy=HOLD,
        ),
        Plot(
            "a question that is held too long, answered with the next message",
            [
                Ask((calls(WHY),), text=QUESTION, verdict="pause", rule="tools.human", sent=("U",)),
                Ask((Said("Bern."),), text="Bern.", user="The one in Bern.", sent=("U A(h1) T(h1) A U",)),
            ],
            tools=HUMAN,
            policy=BRIEF,
            ends="active",
        ),
        Plot(
            "a question that is held until nobody has answered in time",
            [
                Ask(
                    (calls(WHY), Said("I take Bern.")),
                    text="I take Bern.",
                    verdict="refuse",
                    rule="tools.human",
                    sent=("U", "U A(h1) T(h1)"),
                    says="asked a person, and nobody answered in time",
                )
            ],
            tools=HUMAN,
            policy={"approvals": {"way": "hold", "hold_seconds": 20, "expire_seconds": 1}},
        ),
        Plot(
            "held until nobody has decided in time",
            [
                replace(denied, meanwhile=None, says="nobody decided in time"),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(d1) T(d1) A U",)),
            ],
            tools=APPROVAL,
            policy={"approvals": {"way": "hold", "hold_seconds": 20, "expire_seconds": 1}},
        ),
    ]


def questions() -> list[Plot]:
    """The model asks a person; results come later."""
    human, why, notice = HUMAN, WHY, QUESTION
    asked = Ask((calls(why),), text=notice, verdict="pause", rule="tools.human", sent=("U",))
    job = call("deploy", "j1")
    return [
        Plot("a question: the run waits", [asked], tools=human, ends="need_human"),
        Plot(
            "a question, answered through the API",
            [
                asked,
                Do("answer", "The one in Bern."),
                Ask((Said("Bern."),), text="Bern.", user="Go on.", sent=("U A(h1) T(h1) A U",)),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(h1) T(h1) A U A U",)),
            ],
            tools=human,
            ends="active",
        ),
        Plot(
            "a question, answered with the next message",
            [
                asked,
                Ask(
                    (Said("Bern."),),
                    text="Bern.",
                    user="The one in Bern.",
                    sent=("U A(h1) T(h1) A U",),
                    says="(?s)the user answers with the next message.*here the run asked a person.*Which of the two",
                    report={"approval": (ANY, "answered")},
                ),
                Do("answer", "Basel.", fails="already_decided"),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", sent=("U A(h1) T(h1) A U A U",)),
            ],
            tools=human,
            ends="active",
        ),
        Plot(
            "a question cannot be approved, and a call cannot be answered",
            [
                asked,
                Do("approve", fails="is_a_question"),
                Do("answer", "Bern."),
                Do("answer", "Basel.", fails="already_decided"),
            ],
            tools=human,
        ),
        Plot(
            "a question next to another call: both wait, the other may be proposed again",
            [
                Ask((calls(READ, why),), text=notice, verdict="pause", rule="tools.human"),
                Do("answer", "The one in Bern."),
                Ask(
                    (Said("Bern."),),
                    text="Bern.",
                    user="Go on.",
                    sent=("U A(r1,h1) T(r1) T(h1) A U",),
                    says="^[^§]*`read` was not carried out[^§]*$",
                ),
            ],
            tools=human,
        ),
        Plot(
            "a result that comes later: the run waits for it",
            [Ask((calls(job, text="It is on its way."),), ("j1",), "It is on its way.", results={"j1": None})],
            tools={"later": ["deploy"]},
            ends="waiting",
        ),
        Plot(
            "a result that comes later is there: the run goes on",
            [
                Ask((calls(job),), ("j1",), results={"j1": "deployed"}),
                Later(3600),
                replace(DONE, sent=("U A(j1) T(j1)",)),
            ],
            tools={"later": ["deploy"]},
            ends="active",
        ),
    ]


def people() -> list[Plot]:
    """All of them."""
    return [*answered(), *beside(), *held(), *questions()]
