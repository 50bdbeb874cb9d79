"""Interventions as data: what the model answers, what the agent gets, what the provider was sent. And their player.

A plot is a list of parts: requests of the agent, deeds of a person, time that passes. The player is a plain agent: it
appends what it is given, carries out the calls in it, and sends the whole history again. What must hold of every
request (`upstream`) is checked for all plots; a plot says the rest. Shapes of conversations are written
`U A(r1,d1) T(r1) T(d1)`: role and ids, an answer without calls is `A`.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import ModuleType

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.errors import GuardError
from guardproxy.http.approvals import Desk
from guardproxy.http.sessions import Runs
from guardproxy.store.redis import Store
from guardproxy.telemetry import TurnReport
from tests.live import Answer, Got, Json, Live, Said, unique
from tests.scene_checks import HIDDEN
from tests.scenes import Heard
from tests.surfaces import chat, raw_messages, unsaid

Call = tuple[str, str, str]
STANDS = f"{GUARD_MARK} Note from the proxy that watches this run: here the run "
"""Begins what the model reads where a notice of ours stands in the client's history."""
ROLES = {"user": "U", "system": "S", "developer": "S", "tool": "T", "function": "T", "assistant": "A"}


def tool(name: str, required: Sequence[str] = (), **properties: Json) -> Json:
    """A tool with the schema of its arguments."""
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


TEXT: Json = {"type": "string"}
TOOLS: tuple[Json, ...] = (
    tool("search", ["q"], q=TEXT, limit={"type": "integer"}),
    tool("read", ["path"], path=TEXT),
    tool("write", ["path", "text"], path=TEXT, text=TEXT),
    tool("delete", ["path"], path=TEXT),
    tool("bash", ["command"], command=TEXT),
    tool("send_mail", ["to"], to=TEXT, text=TEXT),
    tool("ask_human", ["question"], question=TEXT),
    tool("deploy"),
    tool("run_tests"),
    tool("final_answer", ["answer"], answer=TEXT),
)


def call(name: str, call_id: str, arguments: str = "", /, **given: object) -> Call:
    """A proposed call. `arguments` stand as they are, else the named ones are written as JSON."""
    return name, arguments or json.dumps(given), call_id


def calls(*made: Call, text: str | None = None) -> Said:
    """An answer with calls."""
    return Said(text, calls=made)


@dataclass(frozen=True, slots=True)
class Do:
    """What a person does. `approve`, `deny`, `answer`, `edit`: to the oldest call that waits; else to the session.

    `fails`: the code of the error with which it is refused.
    """

    what: str
    text: str = ""
    amounts: Mapping[str, float] = field(default_factory=dict)
    fails: str = ""


@dataclass(frozen=True, slots=True)
class Later:
    """Time passes. `really`: it is waited for, where the clock of approvals is meant."""

    seconds: float
    really: bool = False


@dataclass(frozen=True, slots=True)
class Ask:
    """One request of the agent: what is answered to it, and what comes of it.

    `answers`: of the provider, to as many requests as it must get. `gets`: ids of the calls that the agent is given.
    `text`: a regular expression for all the words that it is given ("" = none). `verdict`, `rule`: of the whole answer;
    a stream says `head` first, and the rest in a comment ("pass": or observe, by whatever rule; "*": nothing is
    refused). `headers`: expressions, "" = absent. `sent`: shapes of what the provider was sent. `says`: what our words
    in the last request are like; `quiet`: nothing of ours is in it. `user`: the agent adds this before it asks. `lost`:
    the answer does not reach it, and it will ask again. `forgets`: it does not append the answer. `meanwhile`: what a
    person does while it waits. `results`: of the calls by id, None = none. `more`: of the body.
    """

    answers: tuple[Said, ...] = ()
    gets: tuple[str, ...] = ()
    text: str = ""
    verdict: str = "pass"
    rule: str = ""
    head: str = "pass"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    sent: tuple[str, ...] = ()
    says: str = ""
    quiet: bool = False
    user: str = ""
    lost: bool = False
    forgets: bool = False
    meanwhile: Do | None = None
    results: Mapping[str, str | None] = field(default_factory=dict)
    more: Json = field(default_factory=dict)
    report: Mapping[str, object] = field(default_factory=dict)
    chunks: str = ""  # an expression that the bytes of a stream must match
    arguments: Mapping[str, str] = field(default_factory=dict)  # of calls that the agent is given, by id
    error: str = ""  # code of an error in the answer's place
    untouched: bool = False  # the answer is the provider's, byte for byte
    send: Mapping[str, str] = field(default_factory=dict)  # headers of the request
    edits: str | None = None  # what `x-guardproxy-edit` says beside the usage that is asked for


Part = Ask | Do | Later


@dataclass(frozen=True, slots=True)
class Plot:
    """One case. `ends`: the state of the session at the end; `by`: who brought it there. `broken`: why it fails now."""

    case: str
    parts: Sequence[Part]
    policy: Json = field(default_factory=dict)
    tools: Json = field(default_factory=dict)
    chat: Json = field(default_factory=dict)
    opening: tuple[Json, ...] = ({"role": "user", "content": "Find the refund policy."},)
    offered: tuple[Json, ...] = TOOLS
    ends: str = ""
    by: str = ""
    moves: bool = False  # the prefix may change: what is asked for is about it
    broken: str = ""
    streams: tuple[bool, ...] = (False, True)

    def unsaid(self, surface: ModuleType) -> str:
        """Why it cannot be played on a surface; "" where it can."""
        return surface.CASES.get(self.case, "") or unsaid(
            surface, [one for part in self.parts if isinstance(part, Ask) for one in part.answers]
        )


@dataclass(slots=True)
class Kept:
    """What the provider has been sent of a session, for what must not change in it."""

    raw: list[bytes] = field(default_factory=list)


class Actor:
    """Plays a plot and checks it."""

    def __init__(self, live: Live, store: Store, heard: Heard, plot: Plot, *, stream: bool) -> None:
        self.live, self.store, self.heard, self.plot, self.stream = live, store, heard, plot, stream
        self.session = unique("plot")
        self.history: list[Json] = [dict(one) for one in plot.opening]
        self.executed: list[str] = []
        self.kept = Kept()
        self.reports: list[TurnReport] = []
        self.desk = Desk(store, live.proxy.sealer, "default")
        self.runs = Runs(store, live.proxy.sealer, "default")

    async def play(self) -> None:
        """All of it."""
        for number, part in enumerate(self.plot.parts):
            try:
                await self.part(part)
            except AssertionError as error:
                error.add_note(f"{self.plot.case}, part {number}: {part}")
                raise
        if self.plot.ends:
            shown = (await self.runs.shown(self.session)).known
            assert shown.state == self.plot.ends, shown
            assert not self.plot.by or shown.by == self.plot.by, shown

    async def part(self, part: Part) -> None:
        """One of the parts."""
        if isinstance(part, Later):
            if part.really:
                await asyncio.sleep(part.seconds)
            else:
                self.live.offset_ms += round(part.seconds * 1000)
        elif isinstance(part, Do):
            await self.do(part)
        else:
            await self.ask(part)

    # ------------------------------------------------------------------------------------------------------ a person

    async def do(self, deed: Do) -> None:
        """Do it, and see that it is refused where it must be."""
        code = ""
        try:
            await self._do(deed)
        except GuardError as error:
            code = error.code
        assert code == deed.fails, f"{deed.what}: {code}"

    async def _do(self, deed: Do) -> None:
        if deed.what in ("pause", "resume", "cut", "reset"):
            await self.runs.act(deed.what, self.session, "ann", deed.text)
            return
        if deed.what == "extend":
            await self.runs.extend(self.session, "ann", deed.text, deed.amounts)
            return
        found = [one for one in await self.desk.listed("") if one.approval.session == self.session]
        waiting = [one for one in found if one.approval.state == "pending"] or found
        name = waiting[-1].approval.id
        if deed.what == "edit":
            await self.desk.approve(name, "ann", "", deed.text)
        elif deed.what == "answer":
            await self.desk.answer(name, "ann", deed.text)
        else:
            await {"approve": self.desk.approve, "deny": self.desk.deny}[deed.what](name, "ann", deed.text)

    async def _meanwhile(self, deed: Do) -> None:
        """Wait until the run is where the person finds it: a call that waits, or a provider that writes."""
        known = len(self.live.provider.got)
        for _ in range(400):
            waiting = [one for one in await self.desk.listed() if one.approval.session == self.session]
            running = deed.what == "cut" and len(self.live.provider.got) > known - 1
            if waiting or (running and await self.store.session_state("default", self.session)):
                break
            await asyncio.sleep(0.02)
        await self.do(deed)

    # ------------------------------------------------------------------------------------------------------ the agent

    async def ask(self, ask: Ask) -> None:
        """One request, and everything that is said of it."""
        if ask.user:
            self.history.append({"role": "user", "content": ask.user})
        provider = self.live.provider
        known, waiting = len(provider.got), list(ask.answers)
        spare = Said("The provider was asked too often.")
        provider.script = lambda _got: waiting.pop(0) if waiting else spare
        answer = await self._post(ask)
        report = await self.heard.next()
        self.reports.append(report)
        reached = provider.got[known:]
        surface = self.live.surface
        shapes = [shape(surface.messages(got.json)) for got in reached]
        assert len(reached) == len(ask.answers), (
            f"the provider was asked {len(reached)} times: {shapes} {answer.body!r}"
        )
        self._sent(ask, reached, shapes)
        self._said(ask, answer)
        if ask.untouched:
            plain = provider.sent[-1]
            if self.stream and surface.ASKS_USAGE:
                plain = b"".join(event + b"\n\n" for event in plain.split(b"\n\n") if event and b'"usage"' not in event)
            assert answer.body == plain
        message = self._got(ask, answer)
        for name, expected in ask.report.items():
            assert getattr(report, name) == expected, (name, getattr(report, name))
        if message is not None and not ask.lost:
            self._append(ask, message)

    async def _post(self, ask: Ask) -> Answer:
        body: Json = {"model": "mock-1", "messages": self.history, "tools": list(self.plot.offered), **ask.more}
        if not self.plot.offered:
            body.pop("tools")
        body["stream"] = self.stream
        sent = self.live.post(self.live.surface.request(body), {"x-guardproxy-session-id": self.session, **ask.send})
        if ask.meanwhile is None:
            return await sent
        answer, _ = await asyncio.gather(sent, self._meanwhile(ask.meanwhile))
        return answer

    def _sent(self, ask: Ask, reached: Sequence[Got], shapes: list[str]) -> None:
        """What the provider was sent: always paired, nothing lost, nothing spelled anew."""
        if ask.sent:
            assert shapes == list(ask.sent), shapes
        first: list[bytes] | None = None
        surface = self.live.surface
        body = surface.request({"model": "", "messages": self.history})
        client = surface.messages(body)
        for got in reached:
            raw = raw_messages(surface, got.body)
            upstream(client, surface.messages(got.json))
            if surface is not chat and surface.sound(body):
                assert surface.sound(got.json), got.body
            if not self.plot.moves:
                assert raw[: len(self.kept.raw)] == self.kept.raw, "the prefix has changed"
            self.kept.raw = raw
            first = first or raw
        if first is not None and ask.lost:
            self.kept.raw = first
        if ask.says or ask.quiet:
            words = "\n".join(ours(surface.messages(reached[-1].json), client))
            assert not ask.quiet or not words, words
            assert re.search(ask.says, words), f"{ask.says!r} is not in {words!r}"

    def _said(self, ask: Ask, answer: Answer) -> None:
        """Verdict, rule and headers; what came after the head of a stream stands in a comment."""
        assert answer.status == ask.status, answer.body
        if ask.verdict == "*":
            assert answer.verdict not in ("refuse", "finalize", "cut")
            assert b": guardproxy action" not in answer.body
            return
        streamed = self.stream and ask.status == 200 and bool(ask.answers)
        comment = f": guardproxy action={ask.verdict} rule={ask.rule}".encode()
        head = ask.head if streamed else ask.verdict
        quiet = ("pass", "observe")
        assert answer.verdict == head or (head in quiet and answer.verdict in quiet), (answer.verdict, answer.rule)
        if streamed and ask.verdict != head and ask.verdict != "observe":  # what is only observed changes no byte
            assert comment in answer.body, answer.body
        else:
            assert answer.rule == ask.rule or head in quiet, answer.rule
            assert b": guardproxy action" not in answer.body
        for name, pattern in ask.headers.items():
            if not (streamed and name == "x-guardproxy-verification"):
                found = answer.headers.get(name, "")
                assert re.search(pattern, found) if pattern else not found, (name, found)
        if ask.edits is not None:
            said = [one for one in answer.headers.get("x-guardproxy-edit", "").split(",") if one not in ("", "usage")]
            assert ",".join(said) == ask.edits
        if ask.chunks and self.stream:
            assert re.search(ask.chunks.encode(), answer.body), answer.body

    def _got(self, ask: Ask, answer: Answer) -> Json | None:
        """The message that the agent is given."""
        if answer.status != 200:
            assert answer.json["error"]["code"] == ask.error, answer.body
            assert re.fullmatch(ask.text, answer.json["error"]["message"], re.DOTALL), answer.body
            return None
        surface = self.live.surface
        message: Json
        message, finish, usage = surface.answer(answer.body, stream=self.stream)
        assert (finish == "tool_calls") == bool(message.get("tool_calls")), finish
        made = message.get("tool_calls") or ()
        assert [one["id"] for one in made] == list(ask.gets), message
        said = message.get("content") or ""
        assert re.fullmatch(ask.text, said, re.DOTALL), f"{ask.text!r} is not {said!r}"
        assert not HIDDEN.search(said)
        for one in made:
            wanted = ask.arguments.get(one["id"])
            given = one["function"]["arguments"]
            assert wanted in (None, given) or (surface is not chat and json.loads(given) == json.loads(wanted))
        if usage and not self.stream and ask.answers and ask.verdict != "cut" and all(one.usage for one in ask.answers):
            assert usage["total_tokens"] == sum(one.usage["total_tokens"] for one in ask.answers if one.usage), usage
        return message

    def _append(self, ask: Ask, message: Json) -> None:
        if ask.forgets:
            return
        self.history.append(message)
        for one in message.get("tool_calls") or ():
            name, call_id = one["function"]["name"], one["id"]
            self.executed.append(call_id)
            result = ask.results.get(call_id, f"{name}: nothing new")
            if result is not None:
                self.history.append({"role": "tool", "tool_call_id": call_id, "content": result})


def shape(messages: Sequence[Json]) -> str:
    """A conversation in short."""
    return " ".join(map(_short, messages))


def _short(message: Json) -> str:
    role = ROLES[message["role"]]
    if role == "T":
        return f"T({message.get('tool_call_id', message.get('name'))})"
    made = message.get("tool_calls")
    return f"{role}({','.join(one['id'] for one in made)})" if made else role


def upstream(client: Sequence[Json], sent: Sequence[Json]) -> None:
    """What holds of every request: paired as it came, in order, no system message of ours, no id changed, none lost."""
    systems = [one for one in sent if ROLES[one["role"]] == "S"]
    assert systems == [one for one in client if ROLES[one["role"]] == "S"], "a system message was added or changed"
    if paired(client):
        assert paired(sent), shape(sent)
    theirs = [_short(one) for one in client if one["role"] in ("user", "tool")]
    rest = iter([_short(one) for one in sent])
    assert all(one in rest for one in theirs), f"{shape(client)} became {shape(sent)}"
    known = [one["id"] for message in client for one in message.get("tool_calls") or ()]
    rest = iter([one["id"] for message in sent for one in message.get("tool_calls") or ()])
    assert all(one in rest for one in known), "a call is lost, or its id was changed"
    assert not any(HIDDEN.search(text) for text in ours(sent, client))
    said = [str(one["content"]) for one in sent if one["role"] == "assistant" and GUARD_MARK in str(one["content"])]
    assert all(STANDS in text for text in said), f"the model reads our notice as its own words: {said}"
    assert GUARD_MARK not in str(sent[-1]["content"]) or sent[-1]["role"] != "assistant", "the last word is ours"


def ours(sent: Sequence[Json], client: Sequence[Json]) -> list[str]:
    """Our words in a request."""
    theirs = {json.dumps(one.get("content")) for one in client}
    texts = [one.get("content") for one in sent if json.dumps(one.get("content")) not in theirs]
    return [text for text in texts if isinstance(text, str) and GUARD_MARK in text]


def paired(messages: Sequence[Json]) -> bool:
    """Whether each call has exactly one result, behind its message, and no result stands elsewhere."""
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                return False
            waiting.remove(message["tool_call_id"])
            continue
        if waiting:
            return False
        waiting = [one["id"] for one in message.get("tool_calls") or ()]
    return not waiting


def variants(plot: Plot, **policies: Json) -> list[Plot]:
    """The same plot under several policies."""
    return [
        replace(plot, case=f"{plot.case}, {name}", policy={**plot.policy, **more}) for name, more in policies.items()
    ]
