"""The same histories through one worker or through four give the same decisions: what they share is in the store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from hypothesis import HealthCheck, Phase, given, settings, strategies as st

from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry, TurnReport
from tests.live import OFFSET, Answer, Got, Json, Live, Said, config_of, live
from tests.properties.runs import KINDS, SETTINGS, Turn, judged, messages, runs
from tests.store.kit import emptied

STEP_MS = 20_000
"""Between two turns. Not the 30 s of `replay`: a pause above that is a patient one, and clocks are not so exact."""

TOOLS = {name: getattr(SETTINGS, name) for name in ("read_only", "mutates", "shells", "think_like")}

Heard = list[tuple[int, str, str, int]]
"""Index of the message to come, action, rule, count."""


class Told(Telemetry):
    """Telemetry that keeps what was decided, by session and turn."""

    def __init__(self) -> None:
        super().__init__(config_of(telemetry={"log_level": "error"}).telemetry, b"s" * 32, "test")
        self.turns: dict[tuple[str, int], TurnReport] = {}

    def report(self, report: TurnReport, *, settle_ns: int = 0) -> None:
        super().report(report, settle_ns=settle_ns)
        self.turns[report.session, report.turn] = report


@dataclass
class Play:
    """One run as an agent plays it: its messages, the places at which it asks, and what it was told."""

    said: list[Json]
    name: str
    heard: Heard = field(default_factory=list)

    @property
    def asks(self) -> list[int]:
        """How many messages each request carries."""
        places = [at for at, one in enumerate(self.said) if one["role"] == "assistant"]
        return places if self.said[-1]["role"] == "assistant" else [*places, len(self.said)]

    def answer(self, at: int) -> Said:
        """The recorded answer to the request with so many messages."""
        if at >= len(self.said):
            return Said("That is all.")
        said = self.said[at]
        calls = [
            (call["function"]["name"], call["function"]["arguments"], call["id"]) for call in said.get("tool_calls", ())
        ]
        return Said(said["content"], calls)


def plays(many: Sequence[list[Turn]], *, named: bool) -> list[Play]:
    """The runs, each with a task of its own so that an unnamed one can be told from the others."""
    made = []
    for number, run in enumerate(many):
        said = messages(run)
        said[1] = {"role": "user", "content": f"Task {number}: see to it that everything works."}
        made.append(Play(said, f"run-{number}" if named else ""))
    return made


async def through(server: Embedded, many: list[Play], workers: int, which: Sequence[int], *, streamed: bool) -> None:
    """Play the runs side by side, turn by turn, each request through the worker that `which` says."""
    told = Told()
    by_task = {play.said[1]["content"]: play for play in many}

    def script(got: Got) -> Said:
        asked = got.json["messages"]
        return by_task[asked[1]["content"].split("\n")[0]].answer(len(asked))

    async with emptied(server), AsyncExitStack() as stack:
        crew = [await _worker(stack, server, told) for _ in range(workers)]
        for one in crew:
            one.provider.script = script
        rounds = max(len(play.asks) for play in many)
        ended: set[int] = set()
        for turn in range(rounds):
            asking = [n for n, play in enumerate(many) if turn < len(play.asks) and n not in ended]
            posts = [_ask(crew[which[(n + 3 * turn) % len(which)] % workers], many[n], turn, streamed) for n in asking]
            answers = await asyncio.gather(*posts)
            for n, answer in zip(asking, answers, strict=True):
                assert answer.status == 200, answer.body
                key = answer.headers["x-guardproxy-session-id"], int(answer.headers["x-guardproxy-turn"])
                made = told.turns[key].decision
                if made.action != "pass":
                    many[n].heard.append((many[n].asks[turn], made.action, made.rule, made.count))
                if made.action == "cut":
                    ended.add(n)


async def _worker(stack: AsyncExitStack, server: Embedded, told: Told) -> Live:
    """A proxy with its own printer, memo and connections to the one store, as another process would have."""
    store = await Store.connect(socket_path=server.socket_path, timeout_ms=10_000)
    stack.push_async_callback(store.close)
    made = await stack.enter_async_context(live(store, told, tools=TOOLS))
    made.settled = True
    return made


async def _ask(worker: Live, play: Play, turn: int, streamed: bool) -> Answer:
    body: Json = {"model": "m", "messages": play.said[: play.asks[turn]]}
    if streamed:
        body["stream"] = True
    headers = {OFFSET: str(turn * STEP_MS)}
    if play.name:
        headers["x-guardproxy-session-id"] = play.name
    return await worker.post(body, headers)


@settings(
    max_examples=8,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],  # looking for a smaller case would take minutes
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(
    st.lists(st.sampled_from(KINDS).flatmap(runs), min_size=2, max_size=4),
    st.lists(st.integers(0, 3), min_size=5, max_size=9),
    st.booleans(),
    st.booleans(),
)
def test_one_worker_or_four(
    server: Embedded, many: list[list[Turn]], which: list[int], named: bool, streamed: bool
) -> None:
    """Whichever worker a request meets, named or not, streamed or not; and as `replay` decides."""
    one, four = plays(many, named=named), plays(many, named=named)
    asyncio.run(through(server, one, 1, which, streamed=streamed))
    asyncio.run(through(server, four, 4, which, streamed=streamed))

    assert [play.heard for play in four] == [play.heard for play in one]
    assert [play.heard for play in one] == [judged(play.said) for play in one]
