"""Scenarios as data, in the notation of the loop log, and the player that acts them out over HTTP.

A scene is what a model does, move by move. The player is an agent that ignores all advice: it appends the scripted move
to its history whatever the proxy answered, and sends the whole history again. What must hold on every turn of every
scene is in `scene_checks`; a scene only says on which turns the proxy speaks.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from guardproxy.telemetry import Telemetry, TurnReport
from tests.live import Answer, Got, Json, Live, Said, config_of, ids, unique
from tests.surfaces import chat, unsaid

Result = str | list[Json] | None
Arguments = Json | str
Called = tuple[str, Arguments, str | None]  # tool, arguments (a string stands as it is), id (None: a fresh one)

ODD = '"x_odd" : {"b":1.10,"a":[ ],"é":"\\u00e9"}, "seed":9007199254740993 '
"""Fields that nobody knows, spelled as no serialiser would: they must arrive as they are."""


@dataclass(frozen=True, slots=True)
class Move:
    """What the model answers, and what the client makes of it.

    `results` answer `calls` in order; None: no result. `then` are messages that the client adds. `deltas`: the streamed
    form, where the case is about it. `forgets`: the client appends nothing. `anew`: what stood before this move is
    replaced by these messages, also after a refusal. `error` is the body of a refusal. `headers` come with the request
    that follows. `order` says in which order the results are sent.
    """

    text: str | None = None
    calls: tuple[Called, ...] = ()
    results: tuple[Result, ...] = ()
    then: tuple[Json, ...] = ()
    deltas: tuple[Json, ...] = ()
    finish: str = ""
    legacy: bool = False
    forgets: bool = False
    pause_ms: int = 0  # until the next request; 0: the scene's pause
    anew: tuple[Json, ...] | None = None
    order: tuple[int, ...] = ()
    status: int = 200
    written: tuple[tuple[str, Json, str], ...] = ()  # calls that stand in the text: tool, arguments, result
    error: str = '{"error":{"message":"try later","type":"server_error"}}'
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """The client has no answer and asks the very same again."""
        return self.status != 200 and self.anew is None


def act(
    tool: str, arguments: Arguments, result: Result, *, text: str | None = None, call_id: str | None = None, **more: Any
) -> Move:
    """`A: tool{arguments}#id  T#id: result`."""
    return Move(text, ((tool, arguments, call_id),), (result,), **more)


def both(*rounds: tuple[Any, ...], **more: Any) -> Move:
    """`A: f{}#1 | g{}#2  T#1: …  T#2: …`: parallel calls as (tool, arguments, result[, id])."""
    calls = tuple((tool, arguments, rest[0] if rest else None) for tool, arguments, _, *rest in rounds)
    return Move(calls=calls, results=tuple(one[2] for one in rounds), **more)


def say(text: str | None, *then: Json, **more: Any) -> Move:
    """`A: "text"`, and what the client adds to it."""
    return Move(text, then=then, **more)


def write(text: str, observation: str, *written: tuple[str, Json, str]) -> Move:
    """`A: "Action: f[x]"  U: observation`: a call in the text, and what is to be read of both."""
    return Move(text, then=(user(observation),), written=written)


def user(text: str) -> Json:
    """`U: text`."""
    return {"role": "user", "content": text}


def system(text: str, role: str = "system") -> Json:
    """`S: text`."""
    return {"role": role, "content": text}


def tc(*fragments: Mapping[str, Any], **more: Any) -> Json:
    """`{tc:[{i,id,n,a}]}`: a delta with fragments of calls; a key not given is absent."""
    entries = []
    for one in fragments:
        function = {name: one[key] for key, name in (("n", "name"), ("a", "arguments")) if key in one}
        entry: Json = {name: one[key] for key, name in (("i", "index"), ("id", "id")) if key in one}
        entries.append({**entry, **({"function": function} if function else {})})
    return {"choices": [{"index": 0, "delta": {"tool_calls": entries, **more}, "finish_reason": None}]}


def delta(**content: Any) -> Json:
    """A delta of any other kind."""
    return {"choices": [{"index": 0, "delta": content, "finish_reason": None}]}


@dataclass(frozen=True, slots=True)
class Scene:
    """One case. `at` maps the number of moves played to the verdict on the request that follows them.

    On all other requests the verdict is pass or observe, byte for byte; "observe" there asks for no less. `over` is the
    HTTP 400 after the last text. `says` are regular expressions for what is added to the request there (or answered in
    the model's place).
    """

    case: str
    moves: Sequence[Move]
    at: Mapping[int, str] = field(default_factory=dict)
    rule: str = ""
    says: Mapping[int, str] = field(default_factory=dict)
    opening: tuple[Json, ...] = (user("Do what has to be done."),)
    policy: Json = field(default_factory=dict)
    more: Json = field(default_factory=dict)  # of the request's body
    headers: Mapping[str, str] = field(default_factory=dict)
    session: bool = False  # with a declared session id
    sessions: int = 1  # how many runs the requests belong to
    counted: Mapping[int, int] = field(default_factory=dict)  # requests that the provider got, after so many moves
    spared: Mapping[int, str] = field(default_factory=dict)  # regular expressions for why a count was not raised
    pause_ms: int = 2000
    observed: Mapping[int, str] = field(default_factory=dict)  # rules that are told on requests without a verdict
    language: str = "en"
    tools: bool = True  # the requests offer tools
    differs: str = ""  # why the numbers are not the log's, where that is by decision
    waits_for: str = ""  # what has to be built before this holds: until then it must fail

    def expected(self, number: int) -> str:
        """The verdict on a request; "" = pass or observe. The error after the last text stays."""
        over = min((turn for turn, verdict in self.at.items() if verdict == "over"), default=number)
        return self.at.get(number, "over" if number > over else "")

    def unsaid(self, surface: ModuleType) -> str:
        """Why it cannot be played on a surface; "" where it can."""
        if self.case in surface.CASES:
            return str(surface.CASES[self.case])
        answers = [_said(move, tuple((tool, _text(a), i or "-") for tool, a, i in move.calls)) for move in self.moves]
        empty = [call for move in self.moves for call in move.calls if call[2] == ""]
        kept = [one for one in answers if one.status == 200]
        return unsaid(surface, kept) or next((why for one in empty if (why := surface.unsaid(one))), "")


@dataclass(slots=True)
class Turn:
    """One request of a scene, from both ends."""

    number: int
    scene: Scene
    stream: bool
    move: Move
    last: Move | None  # the one before: what the client has just appended
    calls: tuple[tuple[str, str, str], ...]  # as the provider makes them: tool, arguments, id
    history: list[Json]
    sent: bytes
    answer: Answer
    got: Got | None
    replied: bytes
    report: TurnReport
    before: Turn | None
    surface: ModuleType = chat

    @property
    def expected(self) -> str:
        """The verdict that the scene asks for; "" = pass or observe."""
        return self.scene.expected(self.number)

    @property
    def messages(self) -> list[Json]:
        """The messages as the client sent them."""
        found: list[Json] = self.surface.messages(json.loads(self.sent))
        return found

    @property
    def reached(self) -> list[Json]:
        """The messages as the provider got them."""
        assert self.got is not None
        found: list[Json] = self.surface.messages(self.got.json)
        return found


class Heard(Telemetry):
    """Telemetry that also hands each report to the test."""

    def __init__(self) -> None:
        super().__init__(config_of().telemetry, b"s" * 32, "test")
        self.reports: asyncio.Queue[TurnReport] = asyncio.Queue()

    def report(self, report: TurnReport, *, settle_ns: int = 0) -> None:
        super().report(report, settle_ns=settle_ns)
        self.reports.put_nowait(report)

    async def next(self) -> TurnReport:
        """The report of the turn that was just played; it may come a moment after the answer."""
        return await asyncio.wait_for(self.reports.get(), 5)


class Player:
    """Plays one scene; `turns` holds what happened."""

    def __init__(self, live: Live, heard: Heard, scene: Scene, *, stream: bool, tag: str = "") -> None:
        self.live, self.heard, self.scene, self.stream = live, heard, scene, stream
        self.turns: list[Turn] = []
        tag = tag or unique("run")  # two runs may have the same system message
        self._fresh = ids(unique("")[-8:])
        self._opening = [system(f"You are an agent. Run {tag}."), *scene.opening]
        self._history = list(self._opening)
        self._headers = {**scene.headers, **({"x-guardproxy-session-id": tag} if scene.session else {})}

    async def play(self) -> list[Turn]:
        """Act out all moves, and one request after the last."""
        for move in (*self.scene.moves, say("Done.")):
            await self.step(move)
        return self.turns

    async def step(self, move: Move) -> Turn:
        """One request and its answer; the client's pause after it."""
        await self._turn(len(self.turns), move, self.turns[-1].move if self.turns else None)
        self.live.offset_ms += move.pause_ms or self.scene.pause_ms
        return self.turns[-1]

    async def _turn(self, number: int, move: Move, last: Move | None) -> None:
        calls = tuple((tool, _text(arguments), self._fresh() if i is None else i) for tool, arguments, i in move.calls)
        provider = self.live.provider
        provider.script = lambda _got: _said(move, calls)
        known = len(provider.got)
        sent = self._body()
        answer = await self.live.post(sent, {**self._headers, **(last.headers if last else {})})
        reached = provider.got[known:]
        assert len(reached) < 2, f"{number}: the provider was asked {len(reached)} times"
        before = self.turns[-1] if self.turns else None
        self.turns.append(
            Turn(
                number,
                self.scene,
                self.stream,
                move,
                last,
                calls,
                list(self._history),
                sent,
                answer,
                reached[0] if reached else None,
                provider.sent[-1] if reached else b"",
                await self.heard.next(),
                before,
                self.live.surface,
            )
        )
        if not move.failed:
            self._append(move, calls)

    def _body(self) -> bytes:
        names = {tool: None for move in self.scene.moves for tool, _, _ in move.calls}
        tools = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in (*names, "other_tool")]
        offered = {"tools": tools} if self.scene.tools else {}
        body: Json = {"model": "mock-1", "messages": self._history, **offered, **self.scene.more}
        if self.stream:
            body["stream"] = True
        else:
            body.pop("stream_options", None)
        return f"{json.dumps(self.live.surface.request(body))[:-1]}, {ODD}}}".encode()

    def _append(self, move: Move, calls: tuple[tuple[str, str, str], ...]) -> None:
        if move.anew is not None:
            self._history = [self._opening[0], *move.anew]
        if not (move.forgets or move.status != 200):
            self._history += [_message(move, calls), *_results(move, calls), *move.then]


def _text(arguments: Arguments) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(arguments)


def _message(move: Move, calls: tuple[tuple[str, str, str], ...]) -> Json:
    if move.legacy:
        ((tool, arguments, _),) = calls
        return {"role": "assistant", "content": move.text, "function_call": {"name": tool, "arguments": arguments}}
    message = Said(move.text, calls).message()
    return message if move.text is not None or calls else {**message, "content": None, "tool_calls": []}


def _results(move: Move, calls: tuple[tuple[str, str, str], ...]) -> list[Json]:
    found: list[Json] = []
    for (tool, _, call_id), result in zip(calls, move.results, strict=True):
        if result is not None:
            where = {"role": "function", "name": tool} if move.legacy else {"role": "tool", "tool_call_id": call_id}
            found.append({**where, "content": result})
    return [found[at] for at in move.order] if move.order else found


def _said(move: Move, calls: tuple[tuple[str, str, str], ...]) -> Said:
    """The provider's answer: plain, or in the form that the case is about."""
    if move.status != 200:
        return Said(status=move.status, raw=move.error.encode())
    said = Said(move.text, calls, finish=move.finish)
    if not (move.deltas or move.legacy or move.forgets):
        return said
    return Odd(move.text, calls, finish=move.finish, move=move)


@dataclass(slots=True)
class Odd(Said):
    """An answer in a form that providers really send: legacy calls, empty call lists, deltas of all kinds."""

    move: Move = field(default_factory=Move)

    def message(self) -> Json:
        return _message(self.move, tuple(self.calls))  # type: ignore[arg-type]

    def chunks(self, *, usage: bool) -> list[bytes]:
        if not self.move.deltas:
            return Said.chunks(self, usage=usage)
        base = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "mock-1"}
        finish = self.finish or ("tool_calls" if self.calls else "stop")
        events: list[Json] = [*self.move.deltas, {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}]
        if usage:
            events.append({"choices": [], "usage": self.usage})
        return [b"data: " + json.dumps(base | event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]
