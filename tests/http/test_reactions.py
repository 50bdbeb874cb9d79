"""What clients do while they wait, and after the provider has refused a conversation for its length, on every surface.

`clients/README.md`, 4, 24 and 25: refusals pass as they are and cost nothing; a client that compacts goes on in its
run; who waits for a person, or for another attempt, is told so for as long as it takes.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from types import ModuleType

import pytest

from guardproxy.api import SURFACES as SPOKEN
from guardproxy.api._too_long import too_long
from guardproxy.core.terms import LONGEST_HOLD_S
from guardproxy.errors import BadAsk
from guardproxy.http import outlet
from guardproxy.store.redis import Store
from tests.core.test_advice import TEXTS
from tests.http.test_approving import asked_of, desk
from tests.http.test_room import budget, counters
from tests.http_store import held
from tests.live import Answer, Json, Live, Said, live, unique
from tests.scene_reactions import TOO_LONG
from tests.surfaces import SURFACES

EVERYWHERE = pytest.mark.parametrize("surface", SURFACES.values(), ids=SURFACES.keys())
BOTH = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("read", "delete")]
DELETE = ("delete", '{"path": "b"}', "call_del000001")

FAILED = {
    "code": "context_length_exceeded",
    "message": "Your input exceeds the context window of this model. Please adjust your input and try again.",
}
RESPONSE = {"id": "resp_1", "object": "response", "status": "failed", "error": FAILED}
IN_STREAM: dict[str, list[Json]] = {
    "chat": [{"error": {**FAILED, "type": "invalid_request_error", "param": "messages"}}],
    "responses": [{"type": "response.failed", "sequence_number": 0, "response": RESPONSE}],
    "messages": [{"type": "error", "error": json.loads(TOO_LONG[1])["error"]}],
}
"""The refusal of a stream that was begun with 200."""


def in_stream(surface: ModuleType) -> bytes:
    found = []
    for event in IN_STREAM[surface.NAME]:
        name = f"event: {event['type']}\n" if "type" in event else ""
        found.append(f"{name}data: {json.dumps(event)}\n\n".encode())
    return b"".join(found)


def conversation(task: str, rounds: int, start: int = 0) -> list[Json]:
    messages: list[Json] = [{"role": "system", "content": "You are an agent."}, {"role": "user", "content": task}]
    for number in range(start, start + rounds):
        call = ("read", json.dumps({"page": number}), f"call_{task[-6:]}{number:04d}")
        found = {"role": "tool", "tool_call_id": call[2], "content": f"page {number * 7919}"}
        messages += [Said(None, [call]).message(), found]
    return messages


async def ask(running: Live, messages: list[Json], session: str, *, stream: bool, tools: bool = True) -> Answer:
    asked = {"model": "m", "messages": messages, "stream": stream, **({"tools": TOOLS} if tools else {})}
    return await running.post(running.surface.request(asked), {"x-guardproxy-session-id": session})


REFUSALS = {
    "OpenAI's words": lambda _surface: Said(status=400, raw=TOO_LONG[0].encode()),
    "Anthropic's words": lambda _surface: Said(status=400, raw=TOO_LONG[1].encode()),
    "413": lambda _surface: Said(status=413, raw=b'{"error":{"type":"request_too_large","message":"too large"}}'),
    "in the stream": lambda surface: Said(raw=[in_stream(surface)]),
}


@BOTH
@EVERYWHERE
async def test_a_refused_length_passes_as_it_is_and_costs_nothing(
    store: Store, surface: ModuleType, stream: bool
) -> None:
    """Three times, as Claude Code tries it: the same, one round less, two rounds less. Then the agent goes on."""
    async with live(store, surface=surface, budgets=[budget("org", "total_tokens", 10**6)]) as running:
        running.settled = True
        for name, made in REFUSALS.items():
            if name == "in the stream" and not stream:
                continue
            session, task, refusal = unique("s"), unique("task"), made(surface)
            running.provider.script = lambda _got: Said("Hm.")
            await ask(running, conversation(task, 3), session, stream=stream)
            before = await counters(store)
            for rounds in (4, 3, 2):
                running.provider.script = lambda _got, said=refusal: said
                answer = await ask(running, conversation(task, rounds), session, stream=stream)
                assert (answer.status, answer.verdict in ("pass", "observe")) == (refusal.status, True), name
                assert answer.body == running.provider.sent[-1], name
            assert refusal.status == 200 or await counters(store) == before, name
            assert {waiting for _, waiting in (await counters(store)).values()} == {0}, name
            running.provider.script = lambda _got: Said("Hm.")
            for rounds in (3, 4, 5):
                answer = await ask(running, conversation(task, rounds, 2), session, stream=stream)
                assert (answer.status, answer.verdict) == (200, "pass"), name


@BOTH
@EVERYWHERE
async def test_a_compaction_after_a_refused_length_goes_on_in_its_run(
    store: Store, surface: ModuleType, stream: bool
) -> None:
    """As opencode does: a request without tools under another head, then the summary as the whole conversation."""
    async with live(store, surface=surface) as running:
        running.settled = True
        session, task = unique("s"), unique("task")
        for lap in range(2):
            running.provider.script = lambda _got: Said(status=400, raw=TOO_LONG[0].encode())
            answer = await ask(running, conversation(task, 4), session, stream=stream)
            assert (answer.status, answer.body) == (400, TOO_LONG[0].encode())
            summary = f"In short, for the {lap + 1}th time: " + "the pages were read, and nothing was found. " * 8
            running.provider.script = lambda _got, text=summary: Said(text)
            told = [{"role": "system", "content": "You sum up."}, {"role": "user", "content": "<conversation> …"}]
            answer = await ask(running, told, session, stream=stream, tools=False)
            assert (answer.status, answer.verdict) == (200, "pass")
            task = f"<conversation> {summary}"
            running.provider.script = lambda _got: Said("Hm.")
            for rounds in range(1, 4):
                answer = await ask(running, conversation(task, rounds), session, stream=stream)
                assert (answer.status, answer.verdict) == (200, "pass")
                assert answer.headers["x-guardproxy-session-id"].endswith(session)
        assert await held(store, {session}) == {}


# ------------------------------------------------------------------------------------------------ a long wait

HOLD: Json = {"approvals": {"way": "hold", "hold_seconds": 20}}
COMMENT = re.compile(rb"(?m)^:[^\n]*\n\n|^event: ping\n[^\n]*\n\n")


def read(answer: Answer, surface: ModuleType) -> Json:
    """The message, as a client reads it that leaves out comments and pings."""
    found: Json = surface.answer(COMMENT.sub(b"", answer.body), stream=True)[0]
    return found


def alive(body: bytes) -> int:
    return len(re.findall(rb"(?m)^: keep-alive$|^event: ping$", body))


@EVERYWHERE
async def test_who_waits_for_a_person_is_told_so(
    store: Store, monkeypatch: pytest.MonkeyPatch, surface: ModuleType
) -> None:
    """The stream is open, its text is out, something comes all the while, and nothing is left held behind it."""
    monkeypatch.setattr(outlet, "ALIVE_S", 0.05)
    async with live(store, surface=surface, policy=HOLD, tools={"approval": ["delete"]}) as running:
        running.settled = True
        running.provider.script = lambda _got: Said("I clean up.", [DELETE])
        session, began = unique("s"), time.monotonic()
        turn = asyncio.ensure_future(ask(running, conversation("t", 1), session, stream=True))
        asked = await asked_of(store, session)
        await asyncio.sleep(0.3)
        await desk(store).approve(asked.id, "ann")
        answer = await turn
        assert 2 <= alive(answer.body) <= 1 + (time.monotonic() - began) / 0.05
        message = read(answer, surface)
        assert message["content"] == "I clean up."
        assert [one["function"]["name"] for one in message["tool_calls"]] == ["delete"]
        assert await held(store, {session}) == {}


@EVERYWHERE
async def test_who_waits_for_another_attempt_is_told_so(
    store: Store, monkeypatch: pytest.MonkeyPatch, surface: ModuleType
) -> None:
    monkeypatch.setattr(outlet, "ALIVE_S", 0.05)
    policy = {"refuse": "enforce"}
    async with live(store, surface=surface, policy=policy, tools={"deny": ["delete"]}) as running:
        running.settled = True
        answers = iter([Said("I clean up.", [DELETE]), Said("Then I read.", wait=asyncio.sleep(0.3))])
        running.provider.script = lambda _got: next(answers)
        session = unique("s")
        began = time.monotonic()
        answer = await ask(running, conversation("t", 1), session, stream=True)
        assert 2 <= alive(answer.body) <= 1 + (time.monotonic() - began) / 0.05
        message = read(answer, surface)
        assert message["content"].split() == "I clean up. Then I read.".split()
        assert not message.get("tool_calls")
        assert await held(store, {session}) == {}


@EVERYWHERE
async def test_a_provider_that_is_silent_in_mid_stream_is_waited_for(store: Store, surface: ModuleType) -> None:
    """Its own comments pass at once, those of a silent one are not made up: the bytes are the provider's."""
    async with live(store, surface=surface) as running:
        gate = asyncio.Event()
        chunks = surface.events(Said("Well.", [("read", "{}", "call_000000001")]), usage=True)
        chunks.insert(2, b": still here\n\n")
        running.provider.script = lambda _got: Said(raw=chunks, stall=(3, gate.wait()))
        body = running.surface.request({"model": "m", "messages": conversation("t", 0), "tools": TOOLS, "stream": True})
        async with running.client.post(running.url + surface.PATH, json=body) as response:
            early = b""
            while b": still here\n\n" not in early:
                early += await asyncio.wait_for(response.content.readany(), 5)
            gate.set()
            whole = early + await response.read()
        sent = running.provider.sent[-1]
        assert b": still here\n\n" in whole
        assert COMMENT.sub(b"", sent).startswith(COMMENT.sub(b"", early))


def test_nobody_is_held_longer_than_clients_wait() -> None:
    """OpenHands gives up after 300 s, the others after 600."""
    assert LONGEST_HOLD_S < 300
    assert outlet.ALIVE_S * 4 < LONGEST_HOLD_S


# ------------------------------------------------------------------------------------------------ what we say


QUOTED = [
    "Error: This model's maximum context length is 8192 tokens (context_length_exceeded)",
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Your input exceeds the context window of this model",
    "The input token count (1250000) exceeds the maximum number of tokens allowed",
    "input is too long for requested model; please reduce the length of the messages",
    "the request exceeds the available context size",
]
COMPACTS = re.compile(
    r"prompt is too long|input is too long|exceeds the (?:context|available)|input token count|maximum prompt length|"
    r"reduce the length|maximum context|context[_ ](?:length|window|size)|too many tokens|request too large",
    re.IGNORECASE,
)
"""What clients look for in an error."""


@pytest.mark.parametrize("name", SURFACES)
def test_nothing_of_ours_reads_like_a_refused_length(name: str) -> None:
    """Clients would compact and ask again, without end: in none of the errors that we answer, whatever they quote."""
    for text in (*QUOTED, *(text for _, text in TEXTS)):
        wrong = BadAsk(f"[guardproxy] Found by f: {text}", code="session_cut")
        for told in (SPOKEN[name].error(wrong), SPOKEN[name].failure(wrong)):
            assert not too_long(400, told), text
            assert not COMPACTS.search(told.decode()), text
    assert SPOKEN[name].error(BadAsk("the run has no room left")).count(b"the run has no room left") == 1


@EVERYWHERE
async def test_a_run_that_is_ended_may_have_read_of_lengths(store: Store, surface: ModuleType) -> None:
    """The final texts say what was found, and so does the error after them: but in words that no client acts upon."""
    async with live(store, surface=surface) as running:
        task, messages = unique("task"), [{"role": "user", "content": unique("task")}]
        for number in range(12):
            call = ("read", "{}", f"call_{task[-6:]}{number:04d}")
            running.provider.script = lambda _got, call=call: Said(None, [call])
            answer = await ask(running, messages, task, stream=False)
            messages += [Said(None, [call]).message(), {"role": "tool", "tool_call_id": call[2], "content": QUOTED[0]}]
            if answer.status == 400:
                break
        assert answer.verdict == "cut"
        assert b"maximum-context-length is 8192 tokens" in answer.body
        assert not COMPACTS.search(answer.body.decode())


MARK = {"cache_control": {"type": "ephemeral"}}


@BOTH
async def test_a_mark_for_the_cache_that_wanders_moves_no_text(store: Store, stream: bool) -> None:
    """Claude Code marks the newest block of each request; what we said before stands where it stood, byte for byte."""
    task = unique("task")
    async with live(store, surface=SURFACES["messages"]) as running:
        running.provider.script = lambda _got: Said(None, [("read", "{}", "toolu_x")])
        turns: list[Json] = [{"role": "user", "content": [{"type": "text", "text": task}]}]
        verdicts, sent = [], []
        for number in range(5):
            marked = [*turns[:-1], {**turns[-1], "content": [{**turns[-1]["content"][0], **MARK}]}]
            body = {"model": "m", "max_tokens": 9, "messages": marked, "stream": stream, "tools": [{"name": "read"}]}
            answer = await running.post(body)
            verdicts.append(answer.verdict)
            sent.append(running.provider.got[-1].json["messages"])
            made = {"type": "tool_use", "id": f"toolu_{number:06d}", "name": "read", "input": {}}
            found = {"type": "tool_result", "tool_use_id": made["id"], "content": "same"}
            turns += [{"role": "assistant", "content": [made]}, {"role": "user", "content": [found]}]
        assert verdicts == ["pass", "pass", "observe", "nudge", "firm"]
        told = sent[3][6]["content"][0]
        assert "[guardproxy]" in told["content"]
        assert told == sent[4][6]["content"][0] | MARK
