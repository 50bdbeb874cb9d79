"""Runs that people and policies pause, end and raise; agents that forget to append; streams that degenerate."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tests.live import Json, Said
from tests.scene_interventions import Ask, Do, Part, Plot, call, calls
from tests.scene_interventions_refusals import FOUND, fifth, loop, search

READ, MORE = call("read", "r1", path="a"), call("read", "r2", path="b")
WORK = Ask((calls(READ),), ("r1",))
NEXT = Ask((calls(MORE),), ("r2",))
PAUSED = Ask((), text=".*paused by an operator.*guardproxy sessions resume.*", verdict="pause", rule="paused.operator")
CLOSED = Ask((), text=".*ended.*", verdict="cut", rule="operator")


class Slow:
    """Makes a provider wait until the run is cut: nothing else ends it."""

    def __await__(self):  # type: ignore[no-untyped-def]
        return asyncio.sleep(8).__await__()


def by_people() -> list[Plot]:
    """Pause, resume, cut, reset, extend."""
    return [
        Plot(
            "paused and resumed",
            [
                WORK,
                Do("pause", "I want to look"),
                replace(PAUSED, text=".*I want to look.*"),
                Do("pause", fails="conflict"),
                Do("resume"),
                Do("resume", fails="conflict"),
                replace(NEXT, user="Go on.", sent=("U A(r1) T(r1) A U",)),
            ],
            ends="active",
        ),
        Plot(
            "paused, asked again and again, resumed: nothing is held against it",
            [
                WORK,
                Do("pause"),
                *[replace(PAUSED, user="And?")] * 3,
                replace(PAUSED, user="And?", status=400, error="session_paused"),
                Do("resume"),
                replace(NEXT, user="Go on.", says="here the run was paused by an operator; it was let go on"),
            ],
        ),
        Plot(
            "paused: whoever asks gets no call, nothing is spent",
            [WORK, Do("pause"), PAUSED],
            ends="paused",
            by="ann",
        ),
        Plot("cut", [WORK, Do("cut", "enough"), CLOSED, Do("resume", fails="conflict")], ends="closed", by="ann"),
        Plot(
            "cut, and a word of the user's does not open it",
            [WORK, Do("cut"), replace(CLOSED, user="Go on, please.")],
            ends="closed",
        ),
        Plot("cut, and reset", [WORK, Do("cut"), CLOSED, Do("reset"), replace(NEXT, user="Go on.")], ends="active"),
        Plot(
            "cut while the provider writes",
            [
                Ask(
                    (Said("Too late.", wait=Slow()),),
                    text=".*a person has cut this run.*",
                    verdict="cut",
                    rule="operator",
                    head="cut",
                    meanwhile=Do("cut"),
                ),
                CLOSED,
            ],
            ends="closed",
        ),
        Plot(
            "a loop that was told to stop, reset: it may be made again",
            [*loop(4), Do("reset"), Ask((calls(search(5)),), ("s5",), user="Once more, please.")],
        ),
    ]


def by_policies() -> list[Plot]:
    """A loop or a budget hands the run to a person."""
    rule = "repeated_call"
    four = [calls(search(number)) for number in (5, 6, 7)]
    ends: list[Part] = [*loop(4), fifth(*four, Said(FOUND), text=FOUND, verdict="finalize")]
    handed = Ask(
        (calls(search(8)),),
        text=".*paused by the proxy that watches it.*sessions resume.*",
        verdict="pause",
        rule=rule,
    )
    waits = Ask((), text=".*went round in circles.*", verdict="pause", rule="paused.loop")
    limits: Json = {"limits": {"session": {"turns": 2}}}
    full = Ask(
        (), text=".*paused by the proxy that watches it.*sessions extend.*", verdict="pause", rule="budget.turns"
    )
    last = replace(
        NEXT, answers=(Said("Read."),), gets=(), text="Read.", verdict="finalize", head="finalize", rule="budget.turns"
    )
    return [
        Plot(
            "a loop that is cut: a person takes over",
            [*ends, handed, waits, Do("resume"), Ask((calls(READ),), ("r1",), user="Read it instead.", verdict="*")],
            policy={"on_cut": "pause"},
            ends="active",
        ),
        Plot(
            "a loop that is cut",
            [
                *ends,
                replace(handed, text=".*ended by the proxy.*", verdict="cut"),
                Ask((), text=".*ended by the proxy.*", verdict="cut", rule=rule),
                Ask((calls(READ),), ("r1",), user="Read it instead.", verdict="*"),
            ],
        ),
        Plot(
            "a budget that is spent: a person takes over and raises it",
            [
                WORK,
                last,
                replace(full, user="More."),
                Ask((), text=".*a limit was reached.*", verdict="pause", rule="paused.budget", user="More!"),
                Do("resume", fails=""),
            ],
            policy={**limits, "on_budget": "pause"},
        ),
        Plot(
            "a budget that is spent, extended: the run goes on at the same turn",
            [
                WORK,
                last,
                replace(full, user="More."),
                Do("extend", "go on", {"turns": 2}),
                Ask((calls(MORE),), ("r2",), user="Go on.", headers={"x-guardproxy-turn": "^3$"}),
            ],
            policy={**limits, "on_budget": "pause"},
            ends="active",
        ),
        Plot(
            "a budget that is spent: an error",
            [
                WORK,
                last,
                Ask(
                    (),
                    text=".*turns.*",
                    verdict="deny",
                    rule="budget.turns",
                    status=400,
                    error="budget_exceeded",
                    user="More.",
                ),
            ],
            policy=limits,
        ),
        Plot(
            "a budget that is spent, extended: it is open again",
            [
                WORK,
                last,
                Ask(
                    (),
                    text=".*turns.*",
                    verdict="deny",
                    rule="budget.turns",
                    status=400,
                    error="budget_exceeded",
                    user="More.",
                ),
                Do("extend", "", {"turns": 5}),
                Ask((calls(MORE),), ("r2",)),
            ],
            policy=limits,
        ),
    ]


def forgetful() -> list[Plot]:
    """The agent that does not append what it is given."""
    notice = "x-guardproxy-notice"
    said = {notice: "^answer-not-appended$"}
    opening = (
        {"role": "system", "content": "You know capitals."},
        {"role": "user", "content": "The capital of France?"},
    )
    paris = Ask((Said("Paris."),), text="Paris.", forgets=True, headers={notice: ""}, report={"missing": False})
    return [
        Plot(
            "the model's last turn is missing in the history: it is said, and not held against the model",
            [
                paris,
                replace(paris, user="And of Spain?", headers=said, report={"missing": True}),
                replace(paris, user="And of Italy?", headers=said, report={"missing": True}),
                replace(paris, user="And of Peru?", headers=said, report={"missing": True}, quiet=True),
            ],
            opening=opening,
        ),
        Plot(
            "nothing is missing",
            [
                replace(paris, forgets=False),
                replace(paris, user="And of Spain?", forgets=False),
                replace(paris, user="And of Italy?", forgets=False),
            ],
            opening=opening,
        ),
        Plot(
            "the very same request again and again: said, then ended, not the model's loop",
            [WORK, *[Ask((Said("Paris."),), text="Paris.", forgets=True, verdict="*", quiet=True)] * 3],
        ),
    ]


def degenerating() -> list[Plot]:
    """The model says the same again and again: the rest is not read."""
    halt = {"halt_repeats": 10}
    same = "I have to look at the file once more. "
    note = r"(?s)(I have to look at the file once more\. ?){8,14}.*\[guardproxy\].*the same words came 1\d times.*"
    many = Said(raw=pieces(same, 60))
    ended = Ask((many,), text=note, verdict="cut", rule="repeated_text", chunks='"finish_reason": ?"length"')
    code = "```\n" + "x = x + 1\n" * 60 + "```\n"
    return [
        Plot("it degenerates: stopped", [ended], chat=halt, streams=(True,)),
        Plot(
            "it degenerates while calls are held: stopped",
            [ended],
            chat=halt,
            tools={"deny": ["delete"]},
            streams=(True,),
        ),
        Plot(
            "it degenerates while the text is held: stopped, and checked",
            [replace(ended, headers={}, report={"verification": "passed"})],
            chat=halt,
            policy={"completion": {"evidence": {"pattern": "ORD-[0-9]+"}}, "final": {"hold": True}},
            streams=(True,),
        ),
        Plot(
            "it degenerates after a refusal: stopped",
            [
                *loop(4),
                fifth(calls(search(5)), many, text=note, verdict="cut", rule="repeated_text"),
            ],
            chat=halt,
            streams=(True,),
            broken="",
        ),
        Plot(
            "code may repeat itself",
            [Ask((Said(raw=pieces(code, 1)),), text="(?s)```.*```\n", untouched=False)],
            chat=halt,
            streams=(True,),
        ),
        Plot("off: it says what it says", [Ask((many,), text="(?s).*", untouched=False)], streams=(True,)),
        Plot(
            "a whole answer is there already: nothing is saved by stopping it",
            [Ask((Said(same * 60),), text="(?s).*", untouched=True)],
            chat=halt,
            streams=(False,),
        ),
    ]


def pieces(text: str, times: int) -> list[bytes]:
    """A streamed answer, a chunk each time."""
    base = '{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"mock-1","choices":[{"index":0,'
    chunks = [f'{base}"delta":{{"role":"assistant","content":""}},"finish_reason":null}}]}}']
    escaped = text.replace("\n", "\\n")
    chunks += [f'{base}"delta":{{"content":"{escaped}"}},"finish_reason":null}}]}}'] * times
    chunks += [f'{base}"delta":{{}},"finish_reason":"stop"}}]}}', "[DONE]"]
    return [f"data: {chunk}\n\n".encode() for chunk in chunks]


def sessions() -> list[Plot]:
    """All of them."""
    return [*by_people(), *by_policies(), *forgetful(), *degenerating()]
