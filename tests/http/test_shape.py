"""Whatever agents do side by side, the shape of what they send stays theirs (B33 to B36, B48, B49, B51).

Calls and results stay paired, no message is added, moved or given another role or id, what the provider has seen of a
conversation comes again byte for byte, and a turn on which nothing is said arrives as it was sent.
"""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field

from hypothesis import HealthCheck, example, given, settings, strategies as st

from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.live import Answer, Json, Live, Said, live, unique
from tests.scene_checks import SPLICE
from tests.surfaces import chat

TOOLS = [{"type": "function", "function": {"name": name, "parameters": {}}} for name in ("f", "g", "h")]
IDS = st.sampled_from(["fresh", "fresh", "constant", "empty", "twice"])
CALLS = st.lists(
    st.tuples(st.sampled_from("fgh"), st.sampled_from(["{}", '{"a": 1}', "broken"])), min_size=1, max_size=3
)
RESULTS = st.sampled_from(["same", "", "Error: no such file", "new", "parts", "emoji 🙂 \u2028 \\u0041"])
MOVES = st.one_of(
    st.tuples(st.just("call"), CALLS, RESULTS, st.booleans()),
    st.tuples(st.just("loop"), st.just([("f", "{}")]), st.just("same"), st.booleans()),
    st.tuples(
        st.just("say"), st.sampled_from(["Done.", "", "x" * 300]), st.sampled_from(["Go on.", "new"]), st.booleans()
    ),
    st.tuples(st.sampled_from(["retry", "forget", "lose", "lose"]), st.none(), st.none(), st.booleans()),
)
RUNS = st.lists(st.tuples(IDS, st.booleans(), st.lists(MOVES, max_size=9)), min_size=1, max_size=3)


@dataclass
class Agent:
    """One of several agents; `ids` is how its provider names calls, `spaced` how its JSON is spelled."""

    running: Live
    ids: str
    spaced: bool
    moves: list[tuple]
    messages: list[Json] = field(default_factory=list)
    seen: list[tuple[list[Json], bytes]] = field(default_factory=list)
    number: int = 0

    def __post_init__(self) -> None:
        self.name = unique("agent")
        self.messages = [{"role": "system", "content": "S"}, {"role": "user", "content": self.name}]

    def body(self, *, stream: bool) -> bytes:
        made = {"model": "mock-1", "x_odd": [1.10, {}], "messages": self.messages, "tools": TOOLS, "stream": stream}
        return json.dumps(made, separators=None if self.spaced else (",", ":"), ensure_ascii=self.spaced).encode()

    def calls(self, wanted: list[tuple[str, str]]) -> list[tuple[str, str, str]]:
        self.number += 1
        name = {"constant": "call_0", "empty": "", "twice": f"call_{self.number}"}
        return [
            (tool, arguments, name.get(self.ids, f"call_{self.name}_{self.number}_{n}"))
            for n, (tool, arguments) in enumerate(wanted)
        ]

    async def move(self, move: tuple) -> None:
        kind, what, then, stream = move
        said = Said("", status=500, raw=b'{"error":{"message":"busy"}}') if kind == "retry" else Said("Hm.")
        after: list[Json] = []
        if kind == "say":
            said, after = Said(what), [{"role": "user", "content": unique("w") if then == "new" else then}]
        elif kind == "call":
            made = self.calls(what)
            said = Said(None, made)
            after = [{"role": "tool", "tool_call_id": i, "content": self.content(then)} for _, _, i in made]
        sent = self.body(stream=stream)
        answer, got = await self.ask(sent, said)
        check(self, sent, answer, got, stream=stream)
        if kind == "lose":  # the client takes back its last round
            del self.messages[max(2, len(self.messages) - 2) :]
            self.seen.clear()
        elif kind not in ("retry", "forget"):
            self.messages += [said.message(), *after]

    def content(self, then: str) -> object:
        if then == "parts":
            return [{"type": "text", "text": "same"}, {"type": "image_url", "image_url": {"url": "data:,"}}]
        return unique("r") if then == "new" else then

    async def ask(self, sent: bytes, said: Said) -> tuple[Answer, bytes | None]:
        """Ask with a header that tells the provider whose answer it is."""
        provider = self.running.provider
        known = len(provider.got)
        scripts[self.name] = said
        answer = await self.running.post(sent, {"x-agent": self.name})
        got = [one.body for one in provider.got[known:] if one.headers["x-agent"] == self.name]
        assert len(got) < 2
        return answer, got[0] if got else None


scripts: dict[str, Said] = {}


def roles(messages: list[Json]) -> list[tuple[str, str | None, object]]:
    return [(m["role"], m.get("tool_call_id"), m.get("tool_calls")) for m in messages]


def check(agent: Agent, sent: bytes, answer: Answer, got: bytes | None, *, stream: bool) -> None:
    if got is None:
        assert answer.verdict == "cut"
        return
    ours = json.loads(got)["messages"]
    assert roles(ours) == roles(agent.messages), "the sequence of roles, ids and calls"
    plain = SPLICE.sub(b"", got) if stream else got
    plain = plain.replace(b'"stream_options":{"include_usage":true},', b"") if stream else plain
    changed = [number for number, (out, came) in enumerate(zip(ours, agent.messages, strict=True)) if out != came]
    for number in changed:
        out, came = ours[number], agent.messages[number]
        assert came["role"] in ("tool", "user")
        assert {**out, "content": None} == {**came, "content": None}
        assert out["content"][: len(came["content"])] == came["content"]
        assert "[guardproxy]" in json.dumps(out["content"][len(came["content"]) :])
    if answer.verdict in ("pass", "observe") and not changed:
        assert plain == sent, "a turn on which nothing is said arrives as it was sent"
        assert "advice" not in answer.headers.get("x-guardproxy-edit", "")
    if answer.verdict in ("nudge", "firm"):
        assert changed, "it is said"
    kept = re.compile(chat.FORBID + b", ?").sub(b"", plain)
    begin = messages_of(kept)
    if agent.seen:
        before, bytes_before = agent.seen[-1]
        if agent.messages[: len(before)] == before and len(agent.messages) > len(before):
            assert begin.startswith(bytes_before), "what the provider has seen comes again byte for byte"
    agent.seen.append((list(agent.messages), begin))


def messages_of(body: bytes) -> bytes:
    """The messages as they are spelled, without the closing bracket."""
    start = body.index(b'"messages":')
    return body[start : body.index(b'"tools":', start)].rstrip(b" ,").removesuffix(b"]")


AFTER_A_CUT = [
    # An answer without text leaves nothing by which its run is found; after the cut it appends what it never got.
    ("say", "", "Go on.", False),
    ("call", [("f", "{}")], "same", False),
    *[("lose", None, None, False)] * 2,
    ("say", "", "Go on.", False),
    *[("loop", [("f", "{}")], "same", False)] * 2,
]

AFTER_A_CUT_ON_ITS_OWN = [
    # Cut, the client goes on with a call that nobody gave it, and that another run of its head was given: it meets the
    # cut all the same.
    ("call", [("f", '{"a": 1}')], "same", False),
    ("lose", None, None, False),
    ("call", [("f", "{}")], "same", False),
    *[("loop", [("f", "{}")], "same", False)] * 2,
    ("call", [("f", '{"a": 1}')], "same", False),
]


TAKEN_BACK = [
    # The first run was given the same call nearer to the beginning, and dropped the words that came after it; the
    # second one takes back a round, and is not to be taken for the first, which has none of its texts.
    ("call", [("f", "{}")], "", False),
    ("lose", None, None, False),
    ("loop", [("f", "{}")], "same", False),
    ("lose", None, None, False),
    ("say", "", "Go on.", False),
]
EMPTY = [
    # An empty answer leaves nothing to go by but the place where it stands. After a rewind in words, a run of its own,
    # that is not always the youngest run of the head, nor the one that has asked the same before.
    [
        ("loop", [("f", "{}")], "same", False),
        ("say", "Done.", "Go on.", False),
        ("call", [("f", "{}")], "same", False),
        *[("lose", None, None, False)] * 2,
        ("say", "", "Go on.", False),
    ],
    [
        ("loop", [("f", "{}")], "same", False),
        ("say", "Done.", "Go on.", False),
        ("say", "", "Go on.", False),
        ("lose", None, None, False),
        ("say", "", "Go on.", False),
    ],
    [("say", "", "Go on.", False), *[("lose", None, None, False), ("say", "", "Go on.", False)] * 2],
    [
        ("loop", [("f", "{}")], "same", False),
        ("say", "Done.", "new", False),
        ("say", "Done.", "Go on.", False),
        *[("lose", None, None, False)] * 2,
        ("say", "", "new", False),
    ],
    # After a cut that a client puts its own words in the place of.
    [
        *[("call", [("f", "{}")], "same", False)] * 2,
        ("loop", [("f", "{}")], "same", False),
        ("lose", None, None, False),
        ("say", "Done.", "Go on.", False),
        ("say", "", "new", False),
    ],
    # The words in the place of the cut are those that another run said nearer to the beginning.
    [
        ("say", "Done.", "Go on.", False),
        ("say", "", "Go on.", False),
        ("lose", None, None, False),
        *[("loop", [("f", "{}")], "same", False)] * 2,
        ("say", "Done.", "Go on.", False),
    ],
]
TAKEN_BACK_IN_PART = [
    # The client takes back a part of a round, is answered, takes back the rest, and is given the same again: the longer
    # history of the first run is not the one that goes on.
    ("loop", [("f", "{}")], "same", False),
    ("say", "Done.", "Go on.", False),
    ("call", [("f", "{}")] * 3, "same", False),
    *[("lose", None, None, False)] * 2,
    ("call", [("f", "{}")] * 3, "same", False),
]
TAKEN_BACK_FURTHER = [TAKEN_BACK[0], TAKEN_BACK[0], *[TAKEN_BACK[1]] * 2, *TAKEN_BACK[2:]]


@example(runs=[("fresh", False, TAKEN_BACK)])
@example(runs=[("constant", False, TAKEN_BACK_FURTHER)])
@example(runs=[("constant", False, TAKEN_BACK_IN_PART)])
@example(runs=[("fresh", False, AFTER_A_CUT)])
@example(runs=[(ids, False, AFTER_A_CUT_ON_ITS_OWN) for ids in ("fresh", "empty")])
@example(runs=[("fresh", False, moves) for moves in EMPTY])
@example(runs=[("constant", True, moves) for moves in EMPTY])
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(runs=RUNS)
def test_the_shape_of_a_conversation_stays(server: Embedded, runs: list[tuple[str, bool, list[tuple]]]) -> None:
    async def main() -> None:
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
        try:
            async with live(store) as running:
                running.provider.script = lambda got: scripts[got.headers["x-agent"]]
                agents = [Agent(running, ids, spaced, moves) for ids, spaced, moves in runs]
                await asyncio.gather(*(play(agent) for agent in agents))
        finally:
            await store.close()

    asyncio.run(main())


async def play(agent: Agent) -> None:
    for kind, *rest in [*agent.moves, ("say", "Done.", "new", False)]:
        for _ in range(4 if kind == "loop" else 1):
            await agent.move(("call" if kind == "loop" else kind, *rest))
