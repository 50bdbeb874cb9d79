"""What the client of a judged turn is given: parts, signs of life, one end; a client that is gone misses it."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.core.model import Decision
from guardproxy.http import outlet
from guardproxy.http.outlet import Outlet, behind, last, whole_events


class Response:
    """A stream to a client; `gone`: nobody reads it."""

    def __init__(self, *, gone: bool = False) -> None:
        self.gone = gone
        self.parts: list[bytes] = []
        self.ended = 0

    async def write(self, data: bytes) -> None:
        if self.gone:
            raise ConnectionResetError
        self.parts.append(data)

    async def write_eof(self) -> None:
        if self.gone:
            raise ConnectionResetError
        self.ended += 1


class Turn:
    """As much of a turn as is written for."""

    surface = chat
    decision = Decision("refuse", rule="tools.deny")
    look: Any = None

    def __init__(self, response: Response | None = None, *, late: bool = False) -> None:
        self.response: Any = response
        self.late_action = late
        self.settled = 0

    def settle(self) -> None:
        self.settled += 1

    def guard_headers(self) -> list[tuple[str, str]]:
        return [("x-guardproxy-verdict", "refuse")]


def made(turn: Turn) -> Outlet:
    turned: Any = turn
    return Outlet(turned)


async def test_parts_go_to_a_stream_alone() -> None:
    response = Response()
    streamed, whole = made(Turn(response)), made(Turn())
    for one in (streamed, whole):
        await one.write(b"a")
        await one.write(b"")
        await one.write(b"b")

    assert response.parts == [b"a", b"b"]


async def test_signs_of_life_come_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    response, clock = Response(), SimpleNamespace(monotonic=lambda: clock.now, now=100.0)
    monkeypatch.setattr(outlet, "time", clock)
    out = made(Turn(response))
    for now in (
        101.0,
        100 + outlet.ALIVE_S,
        100.1 + outlet.ALIVE_S,
        100.2 + outlet.ALIVE_S,
        100.2 + 2 * outlet.ALIVE_S,
    ):
        clock.now = now
        await out.alive()

    assert response.parts == [chat.keep_alive(), chat.keep_alive()]
    assert response.parts[0].startswith(b":")
    await made(Turn()).alive()


@pytest.mark.parametrize("late", [False, True])
async def test_the_end_of_a_stream(late: bool) -> None:
    response = Response()
    turn = Turn(response, late=late)
    found: Any = await made(turn).finish(b"rest")

    assert found is response
    assert b"".join(response.parts) == (b": guardproxy action=refuse rule=tools.deny\n\nrest" if late else b"rest")
    assert (turn.settled, response.ended) == (1, 1)


async def test_the_end_of_a_whole_answer_has_our_headers_once() -> None:
    turn = Turn()
    out = made(turn)
    out.headers = [("Content-Type", "application/json"), ("x-guardproxy-verdict", "pass"), ("x-request-id", "1")]
    found: Any = await out.finish(b"{}")

    assert (found.status, found.body, turn.settled) == (200, b"{}", 1)
    assert found.headers.getall("x-guardproxy-verdict") == ["refuse"]
    assert found.headers["x-request-id"] == "1"


@pytest.mark.parametrize("rest", [b"", b"rest"])
async def test_a_client_that_is_gone_misses_the_end(rest: bytes) -> None:
    response: Any = Response(gone=True)
    turn = Turn(response, late=True)

    assert await made(turn).finish(rest) is response
    assert turn.settled == 1, "before anything is written"
    assert await last(response, rest) is response


class Tasks:
    """As much of a proxy as runs things beside a turn."""

    def spawn(self, work: Any) -> asyncio.Task[Any]:
        return asyncio.get_running_loop().create_task(work)


async def late(value: object, seconds: float = 0.05) -> object:
    await asyncio.sleep(seconds)
    if isinstance(value, Exception):
        raise value
    return value


@pytest.mark.parametrize("streamed", [False, True])
async def test_what_takes_its_time(streamed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "ALIVE_S", 0.01)
    response = Response()
    turn: Any = Turn(response if streamed else None)
    turn.proxy = Tasks()
    out = made(turn)

    assert await out.meanwhile(late("done")) == "done"
    assert (len(response.parts) >= 2) is streamed
    with pytest.raises(KeyError):
        await out.meanwhile(late(KeyError("no")))


async def test_nothing_goes_on_for_a_client_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "ALIVE_S", 0.01)
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.sleep(9)
        finally:
            ended.append("work")

    for leaves in (True, False):
        turn: Any = Turn(Response(gone=leaves))
        turn.proxy = Tasks()
        asking = asyncio.get_running_loop().create_task(made(turn).meanwhile(work()))
        await asyncio.sleep(0.05)
        if not leaves:
            asking.cancel()
        with pytest.raises(ConnectionResetError if leaves else asyncio.CancelledError):
            await asking
        await asyncio.sleep(0)
    assert ended == ["work", "work"]


@pytest.mark.parametrize(
    ("tail", "expected"),
    [
        (b"", b"ours"),
        (b"data: 1\n\n", b"ours"),
        (b"data: 1\r\n\r\n", b"ours"),
        (b"data: 1\r\r", b"ours"),
        (b"data: 1\n", b"\n\nours"),
        (b"data: {", b"\n\nours"),
        (b"data: 1\r\n", b"\n\nours"),
    ],
)
def test_words_behind_half_an_event(tail: bytes, expected: bytes) -> None:
    response: Any = SimpleNamespace(tail=tail)
    assert behind(response, b"ours") == expected


@pytest.mark.parametrize(
    ("rest", "expected"),
    [(b"", b""), (b"da", b""), (b"a\n\nda", b"a\n\n"), (b"a\r\rb\r\n\r\n", b"a\r\rb\r\n\r\n"), (b"a\n\n", b"a\n\n")],
)
def test_half_an_event_is_not_handed_on_at_the_end(rest: bytes, expected: bytes) -> None:
    assert whole_events(rest) == expected


COMMENT, DONE = b": guardproxy action=refuse rule=tools.deny\n\n", b"data: [DONE]\n\n"


async def test_nothing_stands_behind_the_end() -> None:
    """What is decided once the end has come goes before it; it is held for that long, and no longer."""
    response = Response()
    streamed = made(Turn(response, late=True))
    await streamed.flow(b"data: {}\n\n" + DONE)
    await streamed.flow(b"\n")
    assert response.parts == [b"data: {}\n\n"]
    await streamed.finish(b"")
    assert b"".join(response.parts) == b"data: {}\n\n" + COMMENT + DONE + b"\n"


async def test_once_the_end_is_sent_nobody_hears_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer is all given, and is looked at for the report: no sign of life, no second word."""
    monkeypatch.setattr(outlet, "ALIVE_S", 0.0)
    response = Response()
    streamed = made(Turn(response, late=True))
    await streamed.over()
    assert response.parts == []
    await streamed.flow(DONE)
    await streamed.over()
    await streamed.alive()
    await streamed.finish(b"")
    assert b"".join(response.parts) == COMMENT + DONE
    assert response.ended == 1


async def test_the_end_of_an_attempt_that_is_not_the_last_is_none() -> None:
    response = Response()
    streamed = made(Turn(response))
    await streamed.flow(DONE)
    streamed.begin()
    await streamed.flow(b"data: 1\n\n" + DONE)
    await streamed.finish(b"")
    assert b"".join(response.parts) == b"data: 1\n\n" + DONE
