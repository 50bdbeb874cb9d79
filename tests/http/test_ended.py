"""How a run has ended, as a list tells it: with records, and through the front door."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy._telemetry import TelemetrySection
from guardproxy.http.ended import outcome
from guardproxy.http.in_words import row, standing
from guardproxy.secrets import derive
from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry
from tests.http.test_sessions import runs_of
from tests.live import SECRET, Json, Live, Said, live, unique


def turn(thread: str, ended: str = "", *, calls: int = 0, **more: Any) -> Any:
    told = {"thread": thread, "outcome": ended, "calls": [{"tool": "ls"}] * calls, "status": 200, "action": "pass"}
    return told | more


CASES: dict[str, tuple[list[Any], str]] = {
    "nothing": ([], ""),
    "under way": ([turn("main", calls=1)], ""),
    "finished": ([turn("main", calls=1), turn("main", "finished")], "finished"),
    "a title after the end": ([turn("main", "finished"), turn("aside")], "finished"),
    "no turns at all": ([turn("aside")], ""),
    "a sub-agent is through, its caller is not": ([turn("main", calls=1), turn("sub")], ""),
    "started again, under way": ([turn("main", "denied", status=400), turn("two", calls=1)], ""),
    "started again and finished": ([turn("main", "denied", status=400), turn("two", calls=1), turn("two")], "finished"),
    "finished twice": ([turn("main", "finished"), turn("two")], "finished"),
    "started again, and its provider failed": ([turn("main", "finished"), turn("two", status=502)], ""),
    "started again, and waits for a person": (
        [turn("main", "finished"), turn("two", events={"state": "paused"})], ""),
    "started again, and cut": ([turn("main", "finished"), turn("two", action="cut")], ""),
    "a sub-agent met a limit": ([turn("main", calls=1), turn("sub", "denied", status=400)], "denied"),
    "the main one is not among what is kept": ([turn("two")], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_of_records(name: str) -> None:
    records, expected = CASES[name]

    assert outcome(records, "main") == expected


START: list[Json] = [{"role": "system", "content": "You watch."}, {"role": "user", "content": "go"}]
TOOLS = [{"type": "function", "function": {"name": "status", "parameters": {"type": "object"}}}]


async def send(running: Live, session: str, messages: list[Json], said: Said, *, tools: bool = True) -> int:
    running.settled, running.provider.script = True, lambda _got: said
    body = {"model": "gpt-4", "messages": messages, **({"tools": TOOLS} if tools else {})}
    return (await running.post(body, {"x-guardproxy-session-id": session})).status


def call(number: int) -> Said:
    return Said(calls=[("status", f'{{"n": {number}}}', f"call_{number:09d}")])


async def work(running: Live, session: str, history: list[Json], turns: int) -> list[int]:
    """Some turns with calls; their status."""
    given = []
    for number in range(turns):
        said = call(number)
        given.append(await send(running, session, history, said))
        history += [said.message(), {"role": "tool", "tool_call_id": f"call_{number:09d}", "content": f"r{number}"}]
    return given


@pytest.mark.parametrize("on_budget", ["deny", "pause"])
@pytest.mark.parametrize("how", ["as it stands", "from the start", "from the start, with other words"])
async def test_stopped_extended_and_finished(how: str, on_budget: str, store: Store) -> None:
    """Its process may have ended with the refusal: the agent is started again under the same name."""
    session, history = unique("s"), list(START)
    limits = {"limits": {"session": {"turns": 2}}, "on_budget": on_budget}
    async with live(store, policy=limits) as running:
        assert (await work(running, session, history, 3))[0] == 200
        await runs_of(store).extend(session, "ann", "", {"turns": 5})
        if how != "as it stands":
            history = [START[0], {"role": "user", "content": "go" if how == "from the start" else "go again"}]
        await work(running, session, history, 2)
        assert (await runs_of(store).shown(session)).outcome == ""  # it goes on
        await send(running, session, history, Said("all done"))
    (run,) = await runs_of(store).listed()

    assert row(run)[:3] == (session, "active", "finished")


async def test_a_title_hides_neither_an_end_nor_what_lets_a_run_go_on(store: Store) -> None:
    session, history = unique("s"), list(START)
    async with live(store, policy={"limits": {"session": {"turns": 2}}}) as running:
        await work(running, session, history, 3)
        await send(running, session, [{"role": "user", "content": "a title, please"}], Said("Status"), tools=False)
        (stopped,) = await runs_of(store).listed()
        assert row(stopped)[1:3] == ("active, stopped by a limit", "denied")
        await runs_of(store).extend(session, "ann", "", {"turns": 5})
        await send(running, session, history, Said("all done"))
        await send(running, session, [{"role": "user", "content": "a title, please"}], Said("Status"), tools=False)
    (run,) = await runs_of(store).listed()

    assert row(run)[1:3] == ("active", "finished")


async def test_what_lets_a_run_go_on_whose_model_ignored_the_finalize(store: Store) -> None:
    """Its calls were taken out of the answer, and nobody has closed it: who is on call is told what helps."""
    session, history = unique("s"), list(START)
    async with live(store, policy={"limits": {"span": {"tool_calls": 2}}}) as running:
        assert await work(running, session, history, 3) == [200, 200, 200]
        expected = f"a new message of the user's, or guardproxy sessions extend {session} --tool-calls N --config g"
        assert await standing(store, "default", session, " --config g") == [
            "state: active, finalized by budget.tool_calls", f"to go on: {expected}"]  # fmt: skip
        await runs_of(store).extend(session, "ann", "", {"tool_calls": 5})
        assert await standing(store, "default", session) == []  # it was given more
        await work(running, session, history, 1)
        assert await standing(store, "default", session) == []


async def test_the_same_of_a_loop(store: Store) -> None:
    session, history = unique("s"), list(START)
    async with live(store) as running:
        for number in range(6):
            said = Said(calls=[("status", "{}", f"call_{number:09d}")])
            await send(running, session, history, said)
            history += [said.message(), {"role": "tool", "tool_call_id": f"call_{number:09d}", "content": "same"}]
    (run,) = await runs_of(store).listed()

    assert row(run)[1:3] == ("active", "finalized")
    assert (await standing(store, "default", session))[1] == (
        f"to go on: a new message of the user's, or where it was no loop guardproxy false-alarm {session}"
    )


async def test_a_run_that_is_cut_after_its_finalize_is_counted_once(store: Store) -> None:
    """As docs/metrics.md says: as it first ended. A list says how it stands now."""
    session, history = unique("s"), list(START)
    told = Telemetry(TelemetrySection(), derive(SECRET).trace, "test")
    async with live(store, told) as running:
        for number in range(8):
            said = Said(calls=[("status", "{}", f"call_{number:09d}")])
            await send(running, session, history, said)
            history += [said.message(), {"role": "tool", "tool_call_id": f"call_{number:09d}", "content": "same"}]
        await running.proxy.quiet()
        rows = told.snapshot().series["guardproxy.sessions"]
        acted = told.snapshot().series["guardproxy.interventions"]
    (run,) = await runs_of(store).listed()

    assert row(run)[1:3] == ("closed by repeated_call", "cut")
    assert [(labels[2], cell[0]) for labels, cell in rows.items()] == [("finalized", 1)]
    assert {labels[1] for labels in acted} >= {"finalize", "cut"}
