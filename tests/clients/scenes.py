"""What is played with every client: what the model says, and what must have come of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from tests.clients import Way, fill
from tests.clients.provider import Turn
from tests.clients.tap import Exchange, said
from tests.live import Said
from tests.surfaces import SURFACES

Json = dict[str, Any]
FILES = ("note.txt", "other.txt", "third.txt", "fourth.txt")
"""In the client's folder; the first says hello."""

PAGES = ("page0.txt", "page1.txt", "page2.txt")
"""More of them, each read once."""

FINAL = "The note says hello."
ENOUGH = 60
"""Turns after which the model ends by itself, so that a loop that nobody ends costs no more."""

SPARED = ("pass", "observe")
EXECUTED = 4
"""Equal calls that an agent may get: the fifth is never handed on where calls are refused (DESIGN section 7)."""

IN_TEXT = 6
"""The same where calls stand in texts, which cannot be taken back."""


class Wrong(Exception):
    """What was not as it should be."""


@dataclass(slots=True)
class Played:
    """A scene as it went. `code` None: the client had to be ended."""

    way: Way
    exchanges: Sequence[Exchange]
    turns: Sequence[Turn]
    code: int | None
    output: str
    run: str = ""
    facts: Json = field(default_factory=dict)

    @property
    def asked(self) -> list[Exchange]:
        """Requests for an answer of the model that are turns of the agent, in order."""
        return [one for one in self.exchanges if self.is_turn(one)]

    def is_turn(self, exchange: Exchange) -> bool:
        """Whether it goes on with the agent's work: requests without tools of one that has some do not."""
        path = SURFACES[self.way.get("surface")].PATH.removeprefix("/v1")
        if exchange.method != "POST" or not exchange.path.partition("?")[0].endswith(path):
            return False
        return bool(not self.way.get("tools", True) or (exchange.request.json or {}).get("tools"))

    def actions(self) -> list[str]:
        """Of each turn the last thing that the proxy said of it."""
        return [([action for action, _ in said(one)] or ["?"])[-1] for one in self.asked]

    def answers(self) -> Iterator[Json]:
        """The messages that the client was given, each read as its surface has it."""
        for one in self.asked:
            if one.status == 200:
                stream = one.answer.headers.get("content-type", "").startswith("text/event-stream")
                body = b"\n".join(line for line in one.answer.body.split(b"\n") if not line.startswith(b":"))
                yield SURFACES[self.way.get("surface")].answer(body.lstrip(b"\n"), stream=stream)[0]

    def executed(self) -> int:
        """Answers that had the repeated call."""
        call = self.way.get("call")
        if "text" in call:
            return sum(call["text"].partition("{")[0] in (one["content"] or "") for one in self.answers())
        made = [[one["function"]["name"] for one in answer.get("tool_calls") or ()] for answer in self.answers()]
        return sum(call["tool"] in names for names in made)


@dataclass(frozen=True, slots=True)
class Scene:
    """`script` gives the model's answers, `judge` raises Wrong. `model` is the one that the client is told to use.

    `cut`: number of the turn in which a person ends the run, while the model is still at it; None: nobody does.
    """

    name: str
    script: Callable[[Way], Callable[[int, Json], Said]]
    judge: Callable[[Played], None]
    model: str = "mock-model"
    cut: int | None = None


def _say(way: Way, number: int, *files: str, slow: bool = False) -> Said:
    """The model's wish to read these files."""
    call = way.get("call")
    if "text" in call:
        return Said(fill(call["text"], {"file": files[0]}))
    made = []
    for position, file in enumerate(files):
        arguments = call["slow"] if slow and not position and "slow" in call else call["arguments"]
        made.append(
            (
                call["tool"],
                json.dumps(fill(arguments, {"file": file, "work": way.get("work", "")})),
                f"call_n{number:03}p{position:02}",
            )
        )
    return Said(calls=made)


def _end(way: Way, number: int) -> Said:
    """The model's last word, the way this client takes it."""
    end = way.get("end")
    if end is None:
        return Said(FINAL)
    if "text" in end:
        return Said(fill(end["text"], {"final": FINAL}))
    return Said(calls=[(end["tool"], json.dumps(fill(end["arguments"], {"final": FINAL})), f"call_e{number:05}")])


def _healthy(way: Way) -> Callable[[int, Json], Said]:
    return lambda n, _body: _say(way, n, FILES[n]) if n < len(FILES) else _end(way, n)


def _parallel(way: Way) -> Callable[[int, Json], Said]:
    return lambda n, _body: _end(way, n) if n else _say(way, n, *FILES[:3], slow=True)


def _mixed(way: Way) -> Callable[[int, Json], Said]:
    """A loop up to where its call is refused; then that call beside a new one, then new ones alone."""

    def script(number: int, _body: Json) -> Said:
        if number < EXECUTED:
            return _say(way, number, FILES[0])
        page = number - EXECUTED
        if page >= len(PAGES):
            return _end(way, number)
        return _say(way, number, *(() if page else (FILES[0],)), PAGES[page])

    return script


def _delegate(way: Way) -> Callable[[int, Json], Said]:
    """Hands the work to a sub-agent, which reads the note and reports; the order of both does not matter."""
    work = way.get("delegate")

    def script(number: int, _body: Json) -> Said:
        if not number:
            return Said(calls=[(work["tool"], json.dumps(work["arguments"]), "call_n000d00")])
        return _say(way, number, FILES[0]) if number == 1 else _end(way, number)

    return script


def _obedient(way: Way) -> Callable[[int, Json], Said]:
    """Repeats one call, but keeps to `tool_choice`, as the API of a real provider makes it."""

    def script(number: int, body: Json) -> Said:
        choice = body.get("tool_choice")
        forbidden = choice == "none" or (isinstance(choice, dict) and choice.get("type") == "none")
        return Said(FINAL) if forbidden or number >= ENOUGH else _say(way, number, FILES[0])

    return script


def _deaf(way: Way) -> Callable[[int, Json], Said]:
    return lambda n, _body: _say(way, n, FILES[0]) if n < ENOUGH else _end(way, n)


def untouched(played: Played) -> None:
    """Nothing was done about a run, and what the provider sent is what the client got."""
    must(set(played.actions()) <= set(SPARED), f"a healthy run was told {spell(played.actions())}")
    must(all(one.status == 200 for one in played.asked), f"statuses {[one.status for one in played.asked]}")
    must(len(played.asked) == len(played.turns), f"{len(played.asked)} requests, {len(played.turns)} to the provider")
    for exchange, turn in zip(played.asked, played.turns, strict=True):
        given = exchange.answer.body
        same = given == turn.sent or ("usage" in exchange.answer.headers.get("x-guardproxy-edit", "")
                                      and given == without_usage(turn.sent))  # fmt: skip
        must(same, f"turn {exchange.number} of a healthy run was changed on its way: {given[-300:]!r}")
    must(played.code == 0, f"exit {played.code}: {played.output[-600:]}")
    must(FINAL in played.output or played.way.get("silent", False), f"the answer is missing: {played.output[-600:]}")


def _judge_healthy(played: Played) -> None:
    untouched(played)
    must(len(played.asked) == len(FILES) + 1, f"{len(played.asked)} requests")
    played.facts["requests"] = len(played.asked)


def _judge_parallel(played: Played) -> None:
    untouched(played)
    must(len(played.asked) == 2, f"{len(played.asked)} requests")
    second = played.asked[1].request.json
    there = set(results_in(second)) >= {f"call_n000p{position:02}" for position in range(3)}
    told = all(f"text of {file}" in json.dumps(second) for file in FILES[1:3])  # a result may be no message
    must(there or told, "a result of the parallel calls is missing")
    played.facts["requests"] = 2


def _judge_mixed(played: Played) -> None:
    """Calls that go on with a loop are taken out of an answer, those beside them are made, and no result is lost."""
    played.facts["actions"] = spell(played.actions())
    must(played.code == 0, f"exit {played.code}: {played.output[-600:]}")
    must(FINAL in played.output or played.way.get("silent", False), f"the answer is missing: {played.output[-600:]}")
    handed = [call["function"]["arguments"] for one in played.answers() for call in one.get("tool_calls") or ()]
    same = sum(FILES[0] in arguments for arguments in handed)
    must(same <= EXECUTED, f"{same} equal calls were handed on: {spell(played.actions())}")
    played.facts["calls"] = same
    last = json.dumps(played.turns[-1].body)
    for page in PAGES:
        must(sum(page in arguments for arguments in handed) == 1, f"the call for {page} was not handed on once")
        must(f"text of {page}" in last, f"the result of {page} did not reach the model")


def _judge_delegate(played: Played) -> None:
    must(set(played.actions()) <= set(SPARED), f"a healthy run was told {spell(played.actions())}")
    must(played.code == 0, f"exit {played.code}: {played.output[-600:]}")
    must(len(played.asked) >= 4, f"{len(played.asked)} requests: nobody was sent")
    threads = {one.answer.headers.get("x-guardproxy-session-id") for one in played.asked}
    must(len(threads) == 1, f"a sub-agent is another run: {threads}")
    played.facts["requests"] = len(played.asked)


def _judge_loop(played: Played) -> None:
    actions = played.actions()
    played.facts["actions"] = spell(actions)
    must("nudge" in actions, f"not nudged: {spell(actions)}")
    first = actions.index("nudge")
    must(b"[guardproxy]" in json.dumps(played.turns[first].body).encode(), "the nudge did not reach the model")
    most = played.way.get("calls", IN_TEXT if "text" in played.way.get("call") else EXECUTED)
    must(played.executed() <= most, f"{played.executed()} equal calls were handed on: {spell(actions)}")
    must({"finalize", "cut"} & set(actions) != set(), f"not ended: {spell(actions)}")
    played.facts["calls"] = played.executed()


def _ended(played: Played, kind: str, after: int) -> None:
    must(played.code is not None, f"still going after {len(played.asked)} requests: {played.output[-600:]}")
    accepted = played.way.get("accept", {}).get(kind, [0])
    must(played.code in accepted, f"exit {played.code}: {played.output[-600:]}")
    most = played.way.get("most", {}).get(kind, 0 if kind == "cut" else 1)
    must(after <= most, f"{after} requests, at most {most} are expected")


def _judge_ended(played: Played) -> None:
    _judge_loop(played)
    _judge_after(played)


def _judge_after(played: Played) -> None:
    """How the client takes the end: by itself, and with few further requests."""
    actions = played.actions()
    end = next(n for n, action in enumerate(actions) if action in ("finalize", "cut"))
    played.facts["after"] = len(actions) - end - 1
    _ended(played, "cut", len(actions) - end - 1)


def _judge_cut(played: Played) -> None:
    actions = played.actions()
    played.facts["actions"] = spell(actions)
    must("cut" in actions, f"not cut: {spell(actions)}")
    must(actions.index("cut") == 2, f"cut too early: {spell(actions)}")
    must(set(actions) <= {*SPARED, "cut", "deny"}, f"a healthy run was told {spell(actions)}")
    _judge_after(played)


def _judge_refused(played: Played) -> None:
    must(played.asked != [], "nothing was asked")
    must({one.status for one in played.asked} == {400}, f"statuses {[one.status for one in played.asked]}")
    must(not played.turns, "the provider was asked")
    played.facts["requests"] = len(played.asked)
    _ended(played, "refused", len(played.asked))


SCENES: Mapping[str, Scene] = {
    scene.name: scene
    for scene in (
        Scene("healthy", _healthy, _judge_healthy),
        Scene("parallel", _parallel, _judge_parallel),
        Scene("mixed", _mixed, _judge_mixed),
        Scene("loop", _obedient, _judge_ended),
        Scene("deaf", _deaf, _judge_ended),
        Scene("cut", _healthy, _judge_cut, cut=2),
        Scene("refused", _healthy, _judge_refused, "refused-model"),
        Scene("sub-agent", _delegate, _judge_delegate),
    )
}


def wanted(way: Way) -> list[str]:
    """The scenes that are played: those that the file names, else all but such as it has a reason against.

    `sub-agent` needs to know how one is sent (`delegate`).
    """
    against = {*way.get("not", {}), *(() if way.get("delegate") else ("sub-agent",))}
    return [name for name in way.get("scenes", SCENES) if name not in against]


def judge(scene: Scene, played: Played) -> None:
    """Raises Wrong where it did not go as it should; `played.facts` has what is shown."""
    must(played.code is not None, f"did not end: {spell(played.actions())}: {played.output[-600:]}")
    scene.judge(played)
    list(played.answers())  # each asserts what holds of every answer of its surface
    named(played)


def named(played: Played) -> None:
    """Whether the run's name came from where the client's file says, and was one name throughout."""
    source, _, where = played.way.get("session", "derived").partition(" ")
    names = set()
    for one in played.asked:
        if one.status != 200:
            continue
        name = one.answer.headers.get("x-guardproxy-session-id", "")
        names.add(name)
        wanted = {
            "derived": lambda name=name: name,
            "header": lambda one=one: next(filter(None, map(one.request.headers.get, where.split(", "))), "no header"),
            "body": lambda one=one: _inside(one.request.json, where.split(".")),
            "path": lambda: played.run,
        }[source]()
        must(name == wanted, f"the run is called {name!r}, and {source} {where} says {wanted!r}")
    must(len(names) <= 1, f"a run has several names: {sorted(names)}")


def results_in(value: Any) -> Iterator[str]:
    """Ids of the calls whose results stand in a request of any surface."""
    if isinstance(value, dict):
        if value.get("role") == "tool" or value.get("type") in ("tool_result", "function_call_output"):
            yield value.get("tool_call_id") or value.get("tool_use_id") or value.get("call_id") or ""
        value = list(value.values())
    if isinstance(value, list):
        for one in value:
            yield from results_in(one)


def _inside(value: Any, path: Sequence[str]) -> Any:
    for key in path:
        value = json.loads(value) if isinstance(value, str) else value
        value = value.get(key) if isinstance(value, dict) else None
    return value


def without_usage(sent: bytes) -> bytes:
    """A stream of chat without the chunk that the proxy asked for in the client's place."""
    return b"\n\n".join(event for event in sent.split(b"\n\n") if b'"choices": [], "usage"' not in event)


def spell(actions: Sequence[str]) -> str:
    """Actions in short: `pass ×2, nudge`."""
    parts = [(action, len(list(group))) for action, group in groupby(actions)]
    return ", ".join(action if count == 1 else f"{action} ×{count}" for action, count in parts)


def must(holds: object, why: str) -> None:
    """Raises Wrong."""
    if not holds:
        raise Wrong(why)
