"""Tool results tidied on their way to the model: each kind, off, observed and enforced, and the same later."""

from __future__ import annotations

import json
from dataclasses import replace

from tests.live import Said
from tests.scene_interventions import Ask, Later, Part, Plot, call, calls

LONG = "\n".join(f"line {n}: nothing to see here" for n in range(4000))
WIDE = "\n".join(f"第{n}行：这里没有什么可看的，请继续。" for n in range(4000))
JSON = json.dumps([{"id": n, "text": "nothing to see here"} for n in range(3000)])


def turn(number: int, tool: str = "search", result: str | None = None, **expected: object) -> Ask:
    """A turn whose call brings `result`."""
    made = call(tool, f"c{number}", q=f"{number}", path=f"{number}", command=f"run {number}")
    results = {} if result is None else {f"c{number}": result}
    return Ask((calls(made),), (f"c{number}",), results=results, **expected)  # type: ignore[arg-type]


END = Ask((Said("Done."),), text="Done.")


def kind(name: str, settings: dict[str, object]) -> dict[str, object]:
    """A policy with one kind of hygiene."""
    return {"hygiene": {name: settings}}


TIDIED: dict[str, tuple[str, dict[str, object], str, str, str, str]] = {
    # kind, its settings, tool, result, what is said, the name of the edit
    "a long text": ("truncate", {"max_tokens": 1000}, "search", LONG, "tokens were left out here: lines", "results"),
    "a long text, by its tool": (
        "truncate",
        {"tools": {"read": 500}},
        "read",
        LONG,
        "tokens were left out here",
        "results",
    ),
    "a long text of wide letters": ("truncate", {"max_tokens": 1000}, "search", WIDE, "left out", "results"),
    "a long JSON": ("truncate", {"max_tokens": 1000}, "search", JSON, "It is valid JSON", "results"),
    "an empty result": ("empty", {}, "search", "[]", "worked and found nothing", "advice"),
    "an empty result, in the user's words": (
        "empty",
        {"templates": {"search": "No match for {q}; if it came from the user, confirm it."}},
        "search",
        "",
        "No match for 1; if it came from the user",
        "advice",
    ),
    "a failure that can be put right": (
        "errors",
        {},
        "read",
        "Error: no such file or directory: 1",
        "not there as it was named",
        "advice",
    ),
    "a refused access": ("errors", {}, "read", "Error: permission denied", "refused access", "advice"),
    "wrong arguments": ("errors", {}, "search", "Error: invalid arguments: q is required", "put right", "advice"),
    "a failure that passes": ("errors", {}, "search", "HTTP 503 Service Unavailable", "wait about 2 s", "advice"),
    "a failure that passes and says when": (
        "errors",
        {},
        "search",
        "HTTP 429 Too Many Requests, retry after 20 seconds",
        "wait about 20 s",
        "advice",
    ),
    "a tool that is gone": (
        "errors",
        {"on_fatal": "tell"},
        "search",
        "Error: this API has been discontinued",
        "is not available in this run",
        "advice",
    ),
}


def each() -> list[Plot]:
    """Each kind in each mode. Enforced, it says the same at the same place on later turns."""
    plots = []
    for name, (which, settings, tool, result, says, edit) in TIDIED.items():
        for mode in ("off", "observe", "enforce"):
            done = mode == "enforce"
            told = () if mode == "off" else ((which, mode, tool),)
            expected = {"says": says, "edits": edit} if done else {"quiet": True, "edits": ""}
            later = {"says": says, "edits": edit} if done else {"quiet": True, "edits": ""}
            plots.append(
                Plot(
                    f"{name}: {mode}",
                    [
                        turn(1, tool, result, edits=""),
                        turn(2, "bash", "ok", report={"hygiene": told}, **expected),
                        turn(3, "bash", "ok then", report={"hygiene": ()}, **later),
                        replace(END, report={"hygiene": ()}, **later),  # type: ignore[arg-type]
                    ],
                    policy=kind(which, {"mode": mode, **settings}),
                )
            )
    return plots


def windows() -> list[Plot]:
    """Failures that pass: longer and longer, then not again; and tools that are gone for good."""
    down = "HTTP 503 Service Unavailable"
    same = call("search", "x", q="refund")

    def again(number: int, **expected: object) -> Ask:
        made = (same[0], same[1], f"c{number}")
        return Ask((calls(made),), (f"c{number}",), results={f"c{number}": down}, verdict="*", **expected)  # type: ignore[arg-type]

    waits: list[Part] = [again(1)]
    for number, seconds in enumerate((2, 4, 8), start=2):
        waits += [Later(seconds + 1), again(number, says=f"time {number - 1} of at most 3.*wait about {seconds} s")]
    waits += [Later(20), again(5, says="is down for now")]
    gone = "Error: this API has been discontinued"
    fatal = [turn(1, "search", gone), turn(2, "search", gone, says="not available in this run")]
    late = "the text, at last"
    return [
        Plot(
            "a failure that passes: longer each time, then not again",
            waits,
            policy=kind("errors", {"mode": "enforce", "retries": 3}),
        ),
        Plot(
            "a tool that is gone for good: the model has to answer",
            [
                *fatal,
                Ask(
                    (Said("It is gone."),),
                    text="It is gone.",
                    verdict="finalize",
                    head="finalize",
                    rule="hygiene.errors",
                ),
            ],
            policy=kind("errors", {"mode": "enforce"}),
        ),
        Plot(
            "a tool that is gone for good: a person takes over",
            [*fatal, Ask((), text=".*paused by the proxy.*", verdict="pause", rule="hygiene.errors")],
            policy=kind("errors", {"mode": "enforce", "on_fatal": "pause"}),
            ends="paused",
        ),
        Plot(
            "a tool that is gone for good: observed",
            [turn(1, "search", gone), turn(2, "search", gone, quiet=True), replace(END, quiet=True)],
            policy=kind("errors", {"mode": "observe"}),
        ),
        Plot(
            "a result that came too late is a fact",
            [
                turn(1, "read", late),
                Later(40),
                turn(2, "bash", "ok", says="later than its deadline of 30 s", report={"late": ("read",)}),
                replace(END, says="later than its deadline", report={"late": ()}),
            ],
            policy=kind("deadlines", {"mode": "enforce"}),
            tools={"deadlines": {"read": 30}},
        ),
        Plot(
            "a result that came in time is none",
            [turn(1, "read", late), Later(20), turn(2, "bash", "ok", quiet=True, report={"late": ()})],
            policy=kind("deadlines", {"mode": "enforce"}),
            tools={"deadlines": {"read": 30}},
        ),
        Plot(
            "a result that came too late: observed",
            [turn(1, "read", late), Later(40), turn(2, "bash", "ok", quiet=True, report={"late": ("read",)})],
            policy=kind("deadlines", {"mode": "observe"}),
            tools={"deadlines": {"read": 30}},
        ),
        Plot(
            "several kinds at once, on one turn",
            [
                Ask(
                    (
                        calls(
                            call("search", "c1", q="a"), call("read", "c2", path="b"), call("bash", "c3", command="c")
                        ),
                    ),
                    ("c1", "c2", "c3"),
                    results={"c1": "[]", "c2": "Error: permission denied", "c3": LONG},
                ),
                replace(
                    END, says="(?s)found nothing.*refused access.*left out", sent=("U A(c1,c2,c3) T(c1) T(c2) T(c3)",)
                ),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", says="(?s)found nothing.*refused access.*left out"),
            ],
            policy={"hygiene": {name: {"mode": "enforce"} for name in ("truncate", "empty", "errors")}},
        ),
        Plot(
            "an answer that was lost: the result is told the same, once",
            [
                turn(1, "search", "[]"),
                Ask((Said("Done."),), text="Done.", lost=True, says="found nothing"),
                Ask((Said("Done."),), text="Done.", says="^[^§]*found nothing[^§]*$"),
                Ask((Said("Yes."),), text="Yes.", user="Sure?", says="found nothing"),
            ],
            policy=kind("empty", {"mode": "enforce"}),
        ),
    ]


def hygiene() -> list[Plot]:
    """All of them."""
    return [*each(), *windows()]
