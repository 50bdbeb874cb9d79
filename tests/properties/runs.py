"""Runs for the properties: healthy rounds that never repeat anything, loops of each kind, and what they are judged.

A run is a list of turns. `messages` writes it down as a client would; a property changes how it is written, never what
was done. Healthy rounds are numbered, so that no two of a run are alike unless a strategy means them to be.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import settings, strategies as st

from guardproxy import replay
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.lineage import RING
from guardproxy.core.policy import Policy
from guardproxy.core.tools import Rules
from tests.thresholds import Thresholds

Json = dict[str, Any]
Verdict = tuple[int, str, str, int]
"""Index of the message that was about to come, action, rule, count."""

AT = Thresholds()
HEARD = ("nudge", "firm", "refuse", "finalize", "cut")
ORDER = ("pass", "observe", "nudge", "firm", "finalize", "cut")
KEY = b"properties"

bounded = settings(max_examples=int(os.environ.get("PROPERTIES", "6")), deadline=None)
"""So many of each kind of loop; `PROPERTIES=200` looks longer. The examples are drawn anew each time."""

READ, FETCH, SEARCH, EDIT, SHELL, THINK, OTHER = (
    "read_file", "fetch_record", "search_docs", "edit_file", "bash", "think", "robomi",
)  # fmt: skip
SETTINGS = Rules(read_only=(READ, FETCH, SEARCH), mutates=(EDIT,), shells=(SHELL,), think_like=(THINK,))
"""What their names say, said aloud, so that they can be renamed. Of OTHER nothing is said, also not by its name."""


@dataclass(frozen=True)
class Did:
    """A call with its result. `arguments`: an object, or a text that is none."""

    tool: str
    arguments: Json | str
    result: str


@dataclass(frozen=True)
class Turn:
    """One assistant message with what answers it: calls with results, or a text and what the user says to it."""

    calls: tuple[Did, ...] = ()
    text: str = ""
    reply: str = ""


def word(number: int) -> str:
    """A word without a meaning, another for each number, in letters alone."""
    made = ""
    for _ in range(3):
        number, rest = divmod(number, 48)
        made += "bdgklmnprtvz"[rest // 4] + "aiou"[rest % 4]
    return made + "".join("bdgklmnprtvz"[int(digit)] + "u" for digit in str(number) if number)


def compact(arguments: Json | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


@dataclass(frozen=True)
class Written:
    """How a run is written down. Each gets the number of the turn and the place of the call in it."""

    name: Callable[[str], str] = lambda tool: tool
    id: Callable[[int, int], str] = lambda turn, place: f"call_{turn:05d}{place:03d}"
    arguments: Callable[[Json | str, int, int], Any] = lambda arguments, turn, place: compact(arguments)
    result: Callable[[str, int, int], str] = lambda result, turn, place: result


PLAIN = Written()


def messages(turns: Sequence[Turn], how: Written = PLAIN) -> list[Json]:
    """The conversation, from the task to the newest result or the user's newest words."""
    made: list[Json] = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "See to it that everything works."},
    ]
    for number, turn in enumerate(turns):
        said: Json = {"role": "assistant", "content": turn.text or None}
        answers: list[Json] = []
        for place, did in enumerate(turn.calls):
            call_id = how.id(number, place)
            function = {"name": how.name(did.tool), "arguments": how.arguments(did.arguments, number, place)}
            said.setdefault("tool_calls", []).append({"id": call_id, "type": "function", "function": function})
            told = how.result(did.result, number, place)
            answers.append({"role": "tool", "tool_call_id": call_id, "content": told})
        made += [said, *(answers or [{"role": "user", "content": turn.reply}])]
    return made


def judged(said: Sequence[Json], rules: Rules = SETTINGS, key: bytes = KEY) -> list[Verdict]:
    """What is decided on each turn, up to the end of the run or the one that it is given; `pass` is left out."""
    (report,) = replay.play([{"id": "r", "messages": said}], Policy(), Fingerprinter(key, rules))
    return [(told.message, told.action, told.rule, told.count) for told in report.decisions]


def heard(verdicts: Iterable[Verdict]) -> list[Verdict]:
    return [one for one in verdicts if one[1] in HEARD]


# --- healthy rounds ---


def _read(n: int) -> Turn:
    return Turn(
        (Did(READ, {"path": f"src/{word(n)}.py", "encoding": "utf-8"}, f"def {word(n)}():\n    return {word(n + 7)}"),)
    )


def _edit(n: int) -> Turn:
    changed = {"path": f"src/{word(n)}.py", "old": f"return {word(n)}", "new": f"return {word(n + 1)}"}
    return Turn((Did(EDIT, changed, "The file has been updated."),), text="Now the next one.")


def _search(n: int) -> Turn:
    found = f"1. {word(n + 3)}: all about {word(n)}\n2. {word(n + 4)}"
    return Turn((Did(SEARCH, {"query": f"{word(n)} {word(n + 1)}", "tags": ["b", "a"], "deep": True}, found),))


def _look(n: int) -> Turn:
    return Turn(
        (Did(SHELL, {"command": f"cat notes/{word(n)}.txt", "timeout": 10}, f"the {word(n)} is {word(n + 2)}"),)
    )


def _make(n: int) -> Turn:
    return Turn((Did(SHELL, {"command": f"mkdir -p build/{word(n)}"}, ""),))


def _fail(n: int) -> Turn:
    told = f'Traceback (most recent call last):\n  File "x.py", line {n}\n{word(n).title()}Error: {word(n + 5)} lost'
    return Turn((Did(SHELL, {"command": f"python tools/{word(n)}.py"}, told),))


def _think(n: int) -> Turn:
    return Turn((Did(THINK, {"thought": f"perhaps {word(n)}, then {word(n + 1)}"}, ""),))


def _record(n: int) -> Turn:
    told = json.dumps({"name": word(n), "rows": [{"of": word(n + 1), "count": n}], "note": "é"})
    return Turn((Did(FETCH, {"record": word(n), "fields": {"b": 1, "a": [n, 2.5]}}, told),))


def _other(n: int) -> Turn:
    return Turn((Did(OTHER, {"what": f"{word(n)} mit {word(n + 1)}", "n": n}, f"{word(n)} gives {word(n + 9)}"),))


def _several(n: int) -> Turn:
    calls = _read(n).calls + _search(n).calls + _look(n).calls
    return Turn(calls, text=f"Three at once: {word(n)}.")


def _mixed(n: int) -> Turn:
    return Turn(_fail(n).calls + _read(n).calls + _record(n).calls)


def _asked(n: int) -> Turn:
    return Turn(text=f"The {word(n)} is done. What next?", reply=f"Good, now see to the {word(n)} of {word(n + 1)}.")


HEALTHY: tuple[Callable[[int], Turn], ...] = (
    _read, _edit, _search, _look, _make, _fail, _think, _record, _other, _several, _mixed, _asked,
)  # fmt: skip
QUIET = tuple(one for one in HEALTHY if one is not _asked)
"""Those that do not begin a new request span."""


@st.composite
def fillers(
    draw: st.DrawFn, least: int = 0, most: int = 8, start: int = 0, kinds: Sequence[Any] = HEALTHY
) -> list[Turn]:
    """Healthy rounds, mostly of a few kinds; `start` keeps those of one run apart."""
    few = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=3))
    chosen = draw(st.lists(st.sampled_from(few), min_size=least, max_size=most))
    return [make(100 * (start + number) + 11) for number, make in enumerate(chosen)]


# --- loops ---


@dataclass(frozen=True)
class Loop:
    """A loop: `turns`, of which the first `due` are enough to be spoken of. `end`: what is said with the last one."""

    kind: str
    turns: list[Turn]
    due: int
    end: str = "cut"


def _one(did: Did, *, times: int, text: str = "") -> list[Turn]:
    return [Turn((did,), text=text)] * times


@st.composite
def same_call(draw: st.DrawFn) -> Loop:
    """The same call with the same result."""
    make = draw(st.sampled_from((_read, _edit, _search, _look, _record, _other)))
    text = draw(st.sampled_from(("", "Let me look at it again.")))
    calls = make(draw(st.integers(9000, 9400))).calls
    void = draw(st.booleans())
    did = replace(calls[0], result="No results found." if void and make is _search else calls[0].result)
    marks = AT("repeated_call")
    return Loop("same_call", _one(did, times=marks.cut, text=text), marks.nudge)


@st.composite
def same_error(draw: st.DrawFn) -> Loop:
    """The same call with the same error."""
    did = _fail(draw(st.integers(9000, 9400))).calls[0]
    marks = AT("repeated_error")
    return Loop("same_error", _one(did, times=marks.cut), marks.nudge)


@st.composite
def same_batch(draw: st.DrawFn) -> Loop:
    """The same set of parallel calls, in changing order, one of them perhaps failing."""
    n = draw(st.integers(9000, 9400))
    calls = draw(st.sampled_from((_several, _mixed)))(n).calls
    marks = AT("repeated_call", "batch")
    turns = [Turn(tuple(draw(st.permutations(calls)))) for _ in range(marks.cut)]
    return Loop("same_batch", turns, marks.nudge)


@st.composite
def circle(draw: st.DrawFn) -> Loop:
    """Two to six steps in a circle."""
    period = draw(st.integers(2, AT.setting("cycle", "longest")))
    kinds = draw(
        st.lists(st.sampled_from((_read, _search, _look, _record, _several)), min_size=period, max_size=period)
    )
    lap = [make(9000 + 20 * place) for place, make in enumerate(kinds)]
    marks = AT("cycle")
    laps = min(marks.cut, RING // sum(len(turn.calls) for turn in lap))
    return Loop("circle", lap * laps, marks.nudge * period, "cut" if laps >= marks.cut else "")


@st.composite
def nothing_there(draw: st.DrawFn) -> Loop:
    """Other searches of one tool, and nothing is found; perhaps they differ in numbers alone."""
    numbers = draw(st.booleans())
    marks = AT("same_result", "numbers" if numbers else "void")
    told = draw(st.sampled_from(("No results found.", "[]", "0 matches")))
    queries = [f"record {place + 3}" if numbers else f"{word(9000 + place)} again" for place in range(marks.firm)]
    turns = [Turn((Did(SEARCH, {"query": query}, told),)) for query in queries]
    return Loop("nothing_there", turns, marks.nudge, "firm")


@st.composite
def same_failure(draw: st.DrawFn) -> Loop:
    """One tool fails in the same way whatever it is given."""
    tool = draw(st.sampled_from((SHELL, OTHER, READ)))
    marks = AT("error_signature", "listing")
    told = "Error: permission denied by the gatekeeper"
    key = {SHELL: "command", OTHER: "what", READ: "path"}[tool]
    turns = [Turn((Did(tool, {key: f"{word(9000 + place)} please"}, told),)) for place in range(marks.firm)]
    return Loop("same_failure", turns, marks.nudge, "firm")


@st.composite
def between(draw: st.DrawFn) -> Loop:
    """The same call and result with fresh reads in between."""
    did = _look(draw(st.integers(9000, 9400))).calls[0]
    gaps = draw(st.lists(st.integers(1, 3), min_size=8, max_size=8))
    marks = AT("interleaved_repeat")
    turns, due = [], 0
    for count in range(marks.cut):
        turns.append(Turn((did,)))
        due = len(turns) if count < marks.nudge else due
        turns += [_read(9500 + 10 * count + place) for place in range(gaps[count] if count + 1 < marks.cut else 0)]
    return Loop("between", turns, due)


@st.composite
def malformed(draw: st.DrawFn) -> Loop:
    """Arguments that are no JSON object."""
    marks = AT("invalid_call")
    texts = draw(st.lists(st.sampled_from(('{"path": ', "[1, 2]", "no json at all", '"x"')), min_size=9, max_size=9))
    turns = [Turn((Did(EDIT, texts[place], "Invalid JSON arguments."),)) for place in range(marks.cut)]
    return Loop("malformed", turns, marks.nudge)


@st.composite
def monologue(draw: st.DrawFn) -> Loop:
    """The same words to the same prompt."""
    marks = AT("monologue", "same_text")
    said = f"I will now see to the {word(draw(st.integers(9000, 9400)))}."
    rest = AT.setting("monologue", "rest_ms")
    assert rest > 30_000
    return Loop("monologue", [Turn(text=said, reply="Please go on.")] * marks.cut, marks.nudge)


@st.composite
def waiting(draw: st.DrawFn) -> Loop:
    """Not ready yet, in the same words."""
    marks = AT("unchanged_poll")
    told = draw(st.sampled_from(("Status: pending", "The job is still running.", '{"status": "in_progress"}')))
    did = Did(FETCH, {"job": word(draw(st.integers(9000, 9400)))}, told)
    return Loop("waiting", _one(did, times=marks.cut), marks.nudge)


@st.composite
def pages_again(draw: st.DrawFn) -> Loop:
    """Parts of one file that overlap what has been read."""
    marks = AT("reread_range")
    path = f"src/{word(draw(st.integers(9000, 9400)))}.py"
    text = "\n".join(f"line {n} of {word(n)}" for n in range(100))
    first = Turn((Did(READ, {"path": path, "offset": 1, "limit": 100}, text),))
    parts = [(5 + 3 * place, 40 - place) for place in range(marks.cut)]
    rows = text.split("\n")
    turns = [
        Turn((Did(READ, {"path": path, "offset": at, "limit": many}, "\n".join(rows[at - 1 : at - 1 + many])),))
        for at, many in parts
    ]
    return Loop("pages_again", [first, *turns], 1 + marks.nudge)


@st.composite
def same_plan(draw: st.DrawFn) -> Loop:
    """A list whose words change and whose states do not."""
    marks = AT("unmoved_plan")
    states = draw(st.lists(st.sampled_from(("pending", "in_progress", "completed")), min_size=2, max_size=4))

    def plan(n: int) -> Json:
        return {"plan": [{"step": word(9000 + 10 * n + k), "status": state} for k, state in enumerate(states)]}

    turns = [Turn((Did(OTHER, plan(n), "Kept."),)) for n in range(marks.nudge)]
    return Loop("same_plan", turns, marks.nudge, "nudge")


LOOPS = {
    made.__name__: made
    for made in (
        same_call, same_error, same_batch, circle, nothing_there, same_failure, between, malformed, monologue, waiting,
        pages_again, same_plan,
    )
}  # fmt: skip
KINDS = ("none", *LOOPS)


@st.composite
def runs(draw: st.DrawFn, kind: str) -> list[Turn]:
    """Healthy rounds with a loop of a kind or none in them; perhaps it is left half way and comes again."""
    before = draw(fillers(most=5))
    if kind == "none":
        return [*before, *draw(fillers(least=1, most=8, start=10))]
    loop = draw(LOOPS[kind]())
    cut = draw(st.integers(1, len(loop.turns)))
    inside = draw(fillers(most=3, start=20, kinds=QUIET)) if draw(st.booleans()) else []
    after = draw(fillers(most=3, start=30))
    turns = draw(st.just(loop.turns) | beside(loop.turns))
    return [*before, *turns[:cut], *inside, *turns[cut:], *after]


@st.composite
def beside(draw: st.DrawFn, turns: Sequence[Turn]) -> list[Turn]:
    """The same turns, with healthy calls in the same messages here and there, before or after the others."""
    where = draw(st.lists(st.sampled_from((0, 0, 1, 2)), min_size=len(turns), max_size=len(turns)))
    makes = draw(st.lists(st.sampled_from((_read, _search, _fail, _other)), min_size=1, max_size=3))
    made = []
    for number, (turn, place) in enumerate(zip(turns, where, strict=True)):
        more = makes[number % len(makes)](6000 + 10 * number).calls
        calls = (turn.calls, more + turn.calls, turn.calls + more)[place] if turn.calls else ()
        made.append(replace(turn, calls=calls))
    return made
