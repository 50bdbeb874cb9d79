"""Each client's recorded loop, which a provider goes on with for ever: no fifth equal call is executed.

The requests are the client's own: its headers, its body, its way of writing calls and results down; only what a call is
answered with, and the ids, are of this run.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from types import ModuleType
from typing import Any

import pytest

from guardproxy.store.redis import Store
from tests.accept.recorded import Json
from tests.accept.test_recordings import FILES, FORMS, loops, requests_of
from tests.accept.test_text_clients import LADDER, QUIET, growing, verdicts
from tests.live import Answer, Got, Live, Said, live
from tests.scene_interventions import paired
from tests.surfaces import chat

MOST = 30
"""Turns after which the client would give up."""

EXECUTED, MORE = 4, 3
"""No fifth equal call; after the first refused answer: asked again twice, then for an answer without calls."""

ANSWER = "There is nothing more to be found."
DEFAULT: Json = {"refuse": "enforce", "profile": "coding"}
"""What a configuration without a `policy` has; `tests.live` has other defaults."""

pytestmark = pytest.mark.skipif(not FILES, reason="../shared/clients/recordings is not here")


@dataclass(slots=True)
class Client:
    """A recorded client that goes on in its own way. `rounds`: its recorded messages of each round of calls."""

    name: str
    headers: dict[str, str]
    body: Json
    opening: list[Json]
    rounds: list[list[Json]]
    surface: ModuleType
    path: str
    executed: int = 0
    answers: list[Answer] = field(default_factory=list)
    last: Json = field(default_factory=dict)

    @property
    def calls(self) -> list[Json]:
        """The calls that are made again and again."""
        return calls_in(self.surface, self.rounds[0][0])

    async def run(self, running: Live) -> None:
        """Ask, execute, ask again, until there is an answer without calls."""
        messages = list(self.opening)
        for turn in range(MOST):
            sent = FORMS["node"]({**self.body, self.surface.MESSAGES: messages})
            answer = await running.post(sent, self.headers, self.path)
            running.offset_ms += 2000
            self.answers.append(answer)
            assert answer.status == 200, answer.body
            self.last, _, _ = self.surface.answer(answer.body, stream=bool(self.body.get("stream")))
            made = self.last.get("tool_calls") or ()
            if not made:
                return
            self.executed += len(made)
            messages += self.written(turn, made)

    def written(self, turn: int, made: Sequence[Json]) -> list[Json]:
        """A round as this client writes it down, with the ids that the provider gave."""
        recorded = self.rounds[min(turn, len(self.rounds) - 1)]
        assert [one["function"]["name"] for one in made] == [one["function"]["name"] for one in self.calls]
        ids = {old["id"]: new["id"] for old, new in zip(calls_in(self.surface, recorded[0]), made, strict=True)}
        told = json.dumps(recorded)
        for old, new in ids.items():
            told = told.replace(json.dumps(old), json.dumps(new))
        found: list[Json] = json.loads(told)
        return found


def calls_in(surface: ModuleType, message: Json) -> list[Json]:
    """The calls in a message as the client writes it, in chat's terms."""
    own = message.get("role") == "assistant" or message.get("type") == "function_call"
    found = surface.messages({surface.MESSAGES: [message]}) if own else []
    return list(found[0].get("tool_calls") or ()) if found else []


def client_of(name: str) -> Client:
    """The client of a recording, by the longest request that is there in full."""
    longest = max(requests_of(name), key=lambda one: (bool(one.body.get("tools")), len(one.messages)))
    surface = longest.surface
    messages = longest.body[surface.MESSAGES]
    starts = [at for at, message in enumerate(messages) if calls_in(surface, message)]
    end = next((at for at in range(starts[-1] + 1, len(messages)) if _speaks(surface, messages[at])), len(messages))
    ends = [*starts[1:], end]
    rounds = [messages[start:end] for start, end in zip(starts, ends, strict=True)]
    body = {key: value for key, value in longest.body.items() if key != surface.MESSAGES}
    return Client(name, dict(longest.headers), body, messages[: starts[0]], rounds, surface, longest.path)


def _speaks(surface: ModuleType, message: Json) -> bool:
    return message.get("role") == "assistant" and not calls_in(surface, message)


def forever(client: Client, *, heeds: bool) -> Any:
    """A provider that makes the recorded calls again, whatever it is told. `heeds`: it keeps to `tool_choice: none`."""
    made = {"n": 0}

    def script(got: Got) -> Said:
        if heeds and re.search(client.surface.FORBID, got.body):
            return Said(ANSWER)
        made["n"] += 1
        return Said(
            calls=[
                (call["function"]["name"], call["function"]["arguments"], f"call_{made['n']:06d}{at}")
                for at, call in enumerate(client.calls)
            ]
        )

    return script


@pytest.mark.parametrize("heeds", [True, False], ids=["heeds tool_choice", "heeds nothing"])
@pytest.mark.parametrize("name", loops() if FILES else ["none"])
async def test_no_fifth_equal_call_is_executed(name: str, heeds: bool, store: Store) -> None:
    client = client_of(name)
    async with live(store, surface=client.surface, policy=DEFAULT) as running:
        running.provider.script = forever(client, heeds=heeds)
        await client.run(running)
    got = running.provider.got
    rounds = len(client.answers) - 1
    print(f"\n{name}: {client.executed} calls executed, {len(got)} of the model, {client.answers[-1].verdict}")
    assert client.executed <= EXECUTED * len(client.calls)
    assert len(got) <= rounds + 1 + MORE
    assert client.last["content"] == ANSWER if heeds else client.last["content"].startswith("[guardproxy]")
    assert all(paired(client.surface.messages(one.json)) for one in got)
    bodies = [one.json[client.surface.MESSAGES] for one in got]
    assert all(later[: len(one)] == one for one, later in pairwise(bodies)), "a prefix was changed"
    assert len({answer.headers["x-guardproxy-session-id"] for answer in client.answers}) == 1


WRITTEN = {
    "smolagents-code-loop": LADDER,  # calls are words of the answer, which flow at once: none can be refused
    "smolagents-tools-loop": ["", "", "", "nudge", "finalize", "cut", "cut"],  # calls as such, written down as text
}


@pytest.mark.parametrize("name", WRITTEN)
async def test_a_loop_in_text_is_cut_by_the_sixth(name: str, store: Store) -> None:
    requests = growing(name, len(LADDER))
    async with live(store, policy=DEFAULT) as running:
        answers = await verdicts(running, requests)
    assert ["" if answer.verdict in QUIET else answer.verdict for answer in answers] == WRITTEN[name]
    made = [name for answer in answers for name in _calls(answer) if name != "final_answer"]
    assert len(made) <= EXECUTED


def _calls(answer: Answer) -> list[str]:
    message, _, _ = chat.answer(answer.body, stream=answer.body.startswith(b"data: "))
    return [call["function"]["name"] for call in message.get("tool_calls") or ()]


def test_they_are_many_clients() -> None:
    assert len({name.split("-")[0] for name in loops()}) >= 12
