"""Requests that hold only what is new: the run goes on, nothing is said twice, and no call stays without its result.

The provider here keeps conversations as the real one does, and refuses what it would refuse.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import Answer, Got, Json, Live, Said, live, unique
from tests.surfaces import responses

TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {"q": {"type": "string"}}}}
    for name in ("search", "delete", "send_mail")
]
Calls = list[tuple[str, str, str]]
Made = Callable[[int], Said]


class Strict:
    """A provider that holds conversations. `made` says what it answers, by the number of the request."""

    def __init__(self, running: Live, made: Made, *, stream: bool) -> None:
        self.running = running
        self.made = made
        self.stream = stream
        self.known: dict[str, list[Json]] = {}
        self.conversations: dict[str, list[Json]] = {}
        self.number = 0
        self.seen: list[list[Json]] = []  # the whole conversation of each request
        running.provider.script = self.script

    def script(self, got: Got) -> Said:
        body = got.json
        items = body.get("input") or []
        items = [{"role": "user", "content": items}] if isinstance(items, str) else items
        before: list[Json] = []
        if previous := body.get("previous_response_id"):
            if previous not in self.known:
                return refusal(f"Previous response with id '{previous}' not found.")
            before = self.known[previous]
        if conversation := body.get("conversation"):
            before = self.conversations.setdefault(conversation, [])
        whole = [*before, *items]
        self.seen.append(whole)
        made = [item["call_id"] for item in whole if item.get("type") == "function_call"]
        told = [item["call_id"] for item in whole if item.get("type") == "function_call_output"]
        if sorted(made) != sorted(told):
            return refusal(f"No tool output found for function calls: made {made}, told {told}.")
        ids = [item["id"] for item in whole if item.get("id")]
        if len(set(ids)) < len(ids):
            return refusal(f"Duplicate item found with id {ids}.")
        self.number += 1
        return self._answer(self.made(self.number), whole, conversation)

    def _answer(self, said: Said, whole: list[Json], conversation: str | None) -> Said:
        name = f"resp_{self.number}"
        chunks = responses.events(said, usage=True) if self.stream else [responses.whole(said)]
        raw = [chunk.replace(b'"resp_1"', f'"{name}"'.encode()) for chunk in chunks]
        last = json.loads(raw[-1].partition(b"data: ")[2] if self.stream else raw[0])
        output = (last["response"] if self.stream else last)["output"]
        self.known[name] = [*whole, *output]
        if conversation:
            self.conversations[conversation] = self.known[name]
        return Said(raw=raw if self.stream else raw[0])


def refusal(message: str) -> Said:
    return Said(status=400, raw=json.dumps({"error": {"message": message, "type": "invalid_request_error"}}).encode())


class Client:
    """An agent that sends only what is new."""

    def __init__(self, running: Live, strict: Strict, **more: Any) -> None:
        self.running = running
        self.strict = strict
        self.more = more
        self.previous = ""
        self.answers: list[Answer] = []
        self.message: Json = {}

    async def send(self, new: str | list[Json]) -> Json:
        """One request; the message that came."""
        body: Json = {"model": "mock-1", "input": new, "tools": TOOLS, "stream": self.strict.stream, **self.more}
        if self.previous and "conversation" not in self.more:
            body["previous_response_id"] = self.previous
        answer = await self.running.post(body)
        assert answer.status == 200, answer.body
        self.answers.append(answer)
        self.message, _, _ = responses.answer(answer.body, stream=self.strict.stream)
        if self.strict.stream:
            begun = next(line for line in answer.body.split(b"\n") if line.startswith(b"data: "))
            self.previous = json.loads(begun[6:])["response"]["id"]
        else:
            self.previous = answer.json["id"]
        return self.message

    async def results(self, text: str = "nothing") -> Json:
        """Answer the calls of the newest message."""
        calls = self.message["tool_calls"]
        return await self.send([output(call["id"], text) for call in calls])

    @property
    def verdicts(self) -> list[str]:
        return [answer.verdict for answer in self.answers]


def output(call_id: str, text: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": text}


def search(q: str, number: int) -> tuple[str, str, str]:
    return "search", json.dumps({"q": q}), f"call_{number:09}"


def words(items: list[Json]) -> str:
    return json.dumps(items, ensure_ascii=False)


def going_on(how: str) -> Json:
    """What a request has by which it goes on, beside the id of an answer."""
    return {"conversation": unique("conv")} if how == "conversation" else {}


going = pytest.mark.parametrize("how", ["previous", "conversation"])
both = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])


@both
@going
async def test_a_loop_is_seen_nudged_and_cut(store: Store, stream: bool, how: str) -> None:
    more = going_on(how)
    async with live(store, surface=responses) as running:
        strict = Strict(
            running, lambda number: Said(calls=[search("x", number), search("y", 1000 + number)]), stream=stream
        )
        client = Client(running, strict, **more)
        await client.send("Find the refund policy.")
        for _ in range(4):
            await client.results()
        assert client.verdicts == ["pass", "pass", "observe", "nudge", "firm"]
        asked = strict.number
        sent = [running.provider.got[at].json["input"] for at in range(asked)]
        assert [GUARD_MARK in words(items) for items in sent[1:]] == [False, False, True, True]
        assert words(strict.seen[-1]).count(GUARD_MARK) == 2, "what is stored upstream is not said again"

        await client.results()
        assert client.verdicts[-1] == "cut"
        assert strict.number == asked
        assert client.message["content"]
        if how == "previous":  # who starts the task again meets the same end
            again = Client(running, strict)
            await again.send("Find the refund policy.")
            assert again.verdicts == ["cut"]

        strict.made = lambda _: Said("It is on page 3.")
        await client.send([{"role": "user", "content": "Then look at page 3."}])
        assert client.message["content"] == "It is on page 3."
        last = strict.seen[-1]
        assert client.answers[-1].headers["x-guardproxy-edit"] == "history"
        assert last[-2]["role"] == "assistant", "our words stand where they were said"
        assert GUARD_MARK in words(last[-2:-1])
        await client.send("And page 4?")  # after an answer of its own the provider has it all
        assert running.provider.got[-1].json["input"] == "And page 4?"
        assert len({answer.headers["x-guardproxy-session-id"] for answer in client.answers}) == 1


@both
async def test_advice_that_the_provider_has_is_not_lost(store: Store, stream: bool) -> None:
    """What was said on an earlier turn is not in this request: it is not said again for that."""
    async with live(store, surface=responses) as running:
        strict = Strict(running, lambda number: Said(calls=[search("xy"[number % 2], number)]), stream=stream)
        client = Client(running, strict)
        await client.send("Find the refund policy.")
        while client.verdicts[-1] != "nudge":
            await client.results()
        await client.results()  # half of a cycle further: it counts no more than before
        assert client.verdicts[-1] in ("pass", "observe")
        assert words(strict.seen[-1]).count(GUARD_MARK) == 1


@both
async def test_calls_that_were_taken_out_of_the_last_answer(store: Store, stream: bool) -> None:
    async with live(store, surface=responses) as running:
        strict = Strict(running, lambda number: Said(calls=[search("x", number)]), stream=stream)
        client = Client(running, strict)
        await client.send("Find the refund policy.")
        for _ in range(5):
            await client.results()
        assert client.verdicts[-2:] == ["firm", "finalize"]
        assert running.provider.got[-1].json["tool_choice"] == "none"
        assert "tool_calls" not in client.message
        strict.made = lambda _: Said("It is on page 3.")
        await client.send("Then look at page 3.")
        assert client.message["content"] == "It is on page 3."


@both
async def test_a_healthy_run_is_untouched(store: Store, stream: bool) -> None:
    async with live(store, surface=responses) as running:
        strict = Strict(running, lambda number: Said(calls=[search(f"x{number}", number)]), stream=stream)
        client = Client(running, strict)
        await client.send("Find it.")
        for number in range(12):
            await client.results(f"found {number} of many")
        assert set(client.verdicts) == {"pass"}
        assert not any("x-guardproxy-edit" in answer.headers for answer in client.answers)
        turns = [answer.headers["x-guardproxy-turn"] for answer in client.answers]
        assert turns == [str(number + 1) for number in range(13)]
        strict.made = lambda _: Said("Done.")
        await client.results("the last")
        await client.send("Thanks. Now something else.")
        assert client.answers[-1].verdict == "pass"


@both
@going
async def test_refused_calls_get_their_outputs(store: Store, stream: bool, how: str) -> None:
    """One of two calls is refused: the client never sees it, and the provider hears of it."""
    async with live(store, surface=responses, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        strict = Strict(
            running,
            lambda number: Said(calls=[search("x", number), ("delete", '{"q":"y"}', f"call_d{number:08}")]),
            stream=stream,
        )
        client = Client(running, strict, **going_on(how))
        await client.send("Find it.")
        assert [call["function"]["name"] for call in client.message["tool_calls"]] == ["search"]
        strict.made = lambda _: Said("Done.")
        await client.results("found")
        assert client.message["content"] == "Done."
        told = [item for item in strict.seen[-1] if item.get("type") == "function_call_output"]
        assert [item["call_id"] for item in told] == ["call_d00000001", "call_000000001"]
        assert GUARD_MARK in told[0]["output"]
        await client.send("Thanks.")  # and only once
        assert words(strict.seen[-1]).count(GUARD_MARK) == 1


@both
@going
async def test_an_answer_that_was_asked_for_again(store: Store, stream: bool, how: str) -> None:
    """The only call is refused, the model answers again: the client has one id, the provider two."""
    made = [Said("Let me delete it.", [("delete", '{"q":"y"}', "call_d00000001")]), Said(calls=[search("x", 2)])]
    async with live(store, surface=responses, policy={"refuse": "enforce"}, tools={"deny": ["delete"]}) as running:
        strict = Strict(running, lambda _: made.pop(0), stream=stream)
        client = Client(running, strict, **going_on(how))
        await client.send("Find it.")
        assert [call["function"]["name"] for call in client.message["tool_calls"]] == ["search"]
        made.append(Said("Done."))
        await client.results("found")
        assert client.message["content"] == "Done."
        assert how == "conversation" or running.provider.got[-1].json["previous_response_id"] == "resp_2"
        assert (
            client.answers[0].headers["x-guardproxy-session-id"] == client.answers[1].headers["x-guardproxy-session-id"]
        )


@both
@going
async def test_a_call_that_a_person_has_to_allow(store: Store, stream: bool, how: str) -> None:
    asked = ("send_mail", '{"q":"to all"}', "call_m00000001")
    policy = {"refuse": "enforce"}
    tools = {"approval": ["send_mail"]}
    async with live(store, surface=responses, policy=policy, tools=tools) as running:
        strict = Strict(running, lambda _: Said("I write to all.", [asked]), stream=stream)
        client = Client(running, strict, **going_on(how))
        await client.send("Tell them.")
        assert client.verdicts == ["pass" if stream else "pause"]
        session = client.answers[-1].headers["x-guardproxy-session-id"]
        name = next(one for one in (client.message["content"] or "").split() if one.startswith("apr_")).strip("`.,")
        await store.approvals.decide("default", name, "approve", "someone")
        await client.send([{"role": "user", "content": "They said yes."}])
        assert [call["id"] for call in client.message["tool_calls"]] == [asked[2]]
        strict.made = lambda _: Said("Sent.")
        await client.results("sent")
        assert client.message["content"] == "Sent."
        assert client.answers[-1].headers["x-guardproxy-session-id"] == session
        kinds = [item.get("type") or item["role"] for item in strict.seen[-1]]
        assert kinds.count("function_call") == 1


@both
@going
async def test_a_call_that_a_person_does_not_allow(store: Store, stream: bool, how: str) -> None:
    """The call stands in the conversation with what came of it, once; our notice is not the model's words."""
    asked = ("send_mail", '{"q":"to all"}', "call_m00000001")
    async with live(
        store, surface=responses, policy={"refuse": "enforce"}, tools={"approval": ["send_mail"]}
    ) as running:
        strict = Strict(running, lambda _: Said("I write to all.", [asked]), stream=stream)
        client = Client(running, strict, **going_on(how))
        await client.send("Tell them.")
        name = next(one for one in (client.message["content"] or "").split() if one.startswith("apr_")).strip("`.,")
        await store.approvals.decide("default", name, "deny", "someone", "not to all")
        strict.made = lambda _: Said("I leave it.")
        for new in ("What now?", "And now?"):
            await client.send([{"role": "user", "content": new}])
            assert client.message["content"] == "I leave it."
            last = strict.seen[-1]
            kinds = [item.get("type") or item["role"] for item in last]
            assert kinds.count("function_call") == kinds.count("function_call_output") == 1
            assert "not to all" in words(last)
            assert name not in words(last), "our notice"
            assert last[-1]["content"] == new
        assert len({answer.headers["x-guardproxy-session-id"] for answer in client.answers}) == 1


@both
@going
async def test_what_was_denied_stays_though_a_person_is_asked_again(store: Store, stream: bool, how: str) -> None:
    """The request that brought it was answered in our words: the provider has nothing of it."""
    made = [Said(calls=[("send_mail", '{"q":"a"}', f"call_m{number:08}")]) for number in range(2)]
    async with live(store, surface=responses, tools={"approval": ["send_mail"]}) as running:
        strict = Strict(running, lambda _: made.pop(0), stream=stream)
        client = Client(running, strict, **going_on(how))
        await client.send("Tell them.")
        for why in ("not to all", "nor to her"):
            (waits,) = await store.approvals.list("default")
            await store.approvals.decide("default", waits.id, "deny", "someone", why)
            made += [Said("I leave it.")] if not made else []
            await client.send([{"role": "user", "content": f"{why}?"}])
        assert client.message["content"] == "I leave it."
        said = words(strict.seen[-1])
        assert [said.count(text) for text in ("not to all.", "nor to her.", '"not to all?"')] == [1, 1, 1]
        assert said.index("not to all.") < said.index('"not to all?"') < said.index("nor to her.")


async def test_of_a_client_that_sends_its_whole_history_one_answer_is_kept(store: Store) -> None:
    async with live(store, surface=responses) as running:
        history: list[Json] = [{"role": "user", "content": unique("find it")}]
        for number in range(4):
            running.provider.script = lambda _, n=number: Said(calls=[search(f"x{n}", n)])
            answer = await running.post({"model": "m", "input": history, "tools": TOOLS})
            made = answer.json["output"]
            history = [*history, *made, output(made[0]["call_id"], f"found {number} of many")]
        await running.proxy.quiet()
        keys = await store._client.command("KEYS", "*chain:*")
        assert isinstance(keys, list)
        assert len(keys) == 1


async def test_items_that_are_named_by_reference(store: Store) -> None:
    """A client that names the provider's items in place of sending them: its loop is seen, and passes as it came."""
    async with live(store, surface=responses) as running:
        history: list[Json] = [{"role": "user", "content": unique("find it")}]
        verdicts = []
        for number in range(6):
            running.provider.script = lambda _, n=number: Said(calls=[search("x", n)])
            answer = await running.post({"model": "m", "input": history, "tools": TOOLS})
            verdicts.append(answer.verdict)
            sent = running.provider.got[-1].json["input"]
            assert [item.get("id") for item in sent] == [item.get("id") for item in history]
            made = answer.json["output"][0]
            named = {"type": "item_reference", "id": made["id"]}
            history = [*history, named, output(made["call_id"], "nothing")]
        assert verdicts == ["pass", "pass", "pass", "observe", "nudge", "firm"], "the first call was not yet remembered"
        assert len({answer.headers["x-guardproxy-session-id"]}) == 1


async def test_an_answer_of_ours_that_nobody_remembers(store: Store) -> None:
    async with live(store, surface=responses) as running:
        body = {"model": "m", "input": "hi", "previous_response_id": "resp_guardproxy_gone"}
        answer = await running.post(body)
        assert (answer.status, answer.json["error"]["code"]) == (400, "previous_response_not_found")
        assert answer.json["error"]["param"] == "previous_response_id"
        assert not running.provider.got
        body["previous_response_id"] = "resp_of_another_proxy"
        answer = await running.post(body)
        assert answer.status == 200
        assert running.provider.got[-1].json == body


async def test_an_answer_that_cannot_be_remembered_is_given_all_the_same(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        message = "no room"
        raise ValueError(message)

    async with live(store, surface=responses) as running:
        monkeypatch.setattr(running.proxy.sealer, "seal", broken)
        answer = await running.post({"model": "m", "input": unique("hi")})
        assert answer.status == 200
        await running.proxy.quiet()
        assert await held(store, {answer.headers["x-guardproxy-session-id"]}) == {}


async def test_what_is_not_stored_is_not_remembered(store: Store) -> None:
    async with live(store, surface=responses) as running:
        for stored, known in ((False, False), (True, True), (None, True)):
            running.provider.script = lambda _: Said(calls=[search("x", 1)])
            start: Json = {"model": "m", "input": unique("hi"), "tools": TOOLS, "store": stored}
            first = await running.post(start)
            more = {**start, "input": [output("call_000000001", "y")], "previous_response_id": first.json["id"]}
            second = await running.post(more)
            same = [one.headers["x-guardproxy-session-id"] for one in (first, second)]
            assert (len(set(same)) == 1) == known
            await running.proxy.quiet()
