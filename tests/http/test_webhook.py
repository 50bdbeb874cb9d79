"""Webhooks: each event once, signed, tried again, in order, never waited for, and nothing of it in the log."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from guardproxy.http import webhook
from guardproxy.http.signed import HEADER, Receiver, genuine
from guardproxy.http.webhook import ATTEMPTS, EVENTS, Event, Webhook
from tests.live import serve

SECRET = "hush-hush-hush"
LOCAL = frozenset({"127.0.0.1"})
Answer = Callable[[int], web.Response]


def event(number: int, **data: Any) -> Event:
    return Event(f"e{number}", "approval.asked", 1_800_000_000_000, "org", "s-1", data)


@dataclass
class Hook:
    """A webhook and what its receiver got."""

    hook: Webhook
    got: list[tuple[str, str, bytes]] = field(default_factory=list)
    ended: Counter[str] = field(default_factory=Counter)

    @property
    def ids(self) -> list[str]:
        return [one for one, _, _ in self.got]

    async def over(self, count: int, within_s: float = 5.0) -> None:
        """Wait until so many events have ended."""
        async with asyncio.timeout(within_s):
            while self.ended.total() < count:
                await asyncio.sleep(0.005)


@asynccontextmanager
async def hooked(answer: Answer, *, pause_s: float = 0.01, timeout_s: float = 5.0) -> AsyncIterator[Hook]:
    async def receive(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        made.got.append((request.headers["x-guardproxy-id"], request.headers[HEADER], body))
        return answer(len(made.got))

    async with serve(receive) as url:
        ended: Counter[str] = Counter()
        hook = Webhook(
            Receiver(f"{url}/{SECRET}", SECRET, timeout_s, LOCAL),
            first_pause_s=pause_s,
            ended=lambda outcome: ended.update([outcome]),
        )
        made = Hook(hook, ended=ended)
        try:
            yield made
        finally:
            await hook.close(1)


def taken(_number: int) -> web.Response:
    return web.Response(status=204)


async def test_events_arrive_once_in_order_and_signed() -> None:
    async with hooked(taken) as made:
        for number in (1, 2, 1, 3, 2):
            made.hook.tell(event(number, tool="send_mail", when=object))
        await made.over(3)
        made.hook.tell(event(1))

    assert made.ids == ["e1", "e2", "e3"]
    assert made.ended == {"sent": 3}
    for _, header, body in made.got:
        assert genuine(SECRET, header, body, int(time.time()))
    said = json.loads(made.got[0][2])
    assert said["type"] == "approval.asked"
    assert (said["id"], said["org"], said["session"], said["at_ms"]) == ("e1", "org", "s-1", 1_800_000_000_000)
    assert said["data"]["tool"] == "send_mail"


@pytest.mark.parametrize("status", [500, 502, 503, 429, 408, 425])
async def test_an_event_is_sent_again_with_the_same_id_and_body(status: int) -> None:
    async with hooked(lambda number: web.Response(status=status if number < 3 else 200)) as made:
        made.hook.tell(event(1))
        await made.over(1)

    assert made.ids == ["e1"] * 3
    assert len({body for _, _, body in made.got}) == 1
    assert made.ended == {"sent": 1}


@pytest.mark.parametrize("status", [301, 307, 400, 401, 404, 410])
async def test_a_refusal_is_final_and_the_next_event_goes_on(status: int, caplog: pytest.LogCaptureFixture) -> None:
    def refuse_first(number: int) -> web.Response:
        return web.Response(status=status if number == 1 else 200, headers={"Location": "/elsewhere"})

    with caplog.at_level(logging.DEBUG):
        async with hooked(refuse_first) as made:
            made.hook.tell(event(1))
            made.hook.tell(event(2))
            await made.over(2)

    assert made.ids == ["e1", "e2"]
    assert made.ended == {"refused": 1, "sent": 1}
    assert f"e1 (approval.asked) was not taken: the receiver answered {status}" in caplog.text
    assert SECRET not in caplog.text


async def test_an_event_that_nobody_takes_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    async with hooked(lambda _number: web.Response(status=500), pause_s=0.001) as made:
        made.hook.tell(event(1, arguments=SECRET))
        await made.over(1)

    assert made.ids == ["e1"] * ATTEMPTS
    assert made.ended == {"given_up": 1}
    assert "answered 500" in caplog.text
    assert SECRET not in caplog.text


async def test_the_pauses_grow() -> None:
    at: list[float] = []

    def answer(number: int) -> web.Response:
        at.append(time.monotonic())
        return web.Response(status=500 if number < 4 else 200)

    async with hooked(answer, pause_s=0.1) as made:
        made.hook.tell(event(1))
        await made.over(1)

    pauses = [after - before for before, after in pairwise(at)]
    assert pauses[0] >= 0.09
    assert pauses[1] >= 0.19
    assert pauses[2] >= 0.39


async def test_telling_never_waits_and_the_queue_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook, "WAITING", 10)
    hook = Webhook(Receiver("http://127.0.0.1:1/", SECRET, 5, LOCAL), first_pause_s=60)
    begun = time.monotonic()
    told = [hook.tell(event(number)) for number in range(1000)]

    assert sum(told) == 10
    assert time.monotonic() - begun < 1
    await hook.close(0.2)


async def test_an_event_that_was_dropped_may_be_told_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with hooked(taken) as made:
        monkeypatch.setattr(webhook, "WAITING", 0)
        assert not made.hook.tell(event(1))
        monkeypatch.setattr(webhook, "WAITING", 10)
        assert made.hook.tell(event(1))
        await made.over(2)

    assert made.ended == {"dropped": 1, "sent": 1}


async def test_closing_sends_what_is_queued() -> None:
    async with hooked(taken) as made:
        for number in range(20):
            made.hook.tell(event(number))
        await made.hook.close(5)

        assert made.ids == [f"e{number}" for number in range(20)]
        assert not made.hook.tell(event(99)), "it is closed"


async def test_closing_does_not_wait_for_a_long_pause() -> None:
    async with hooked(lambda number: web.Response(status=500 if number == 1 else 200), pause_s=60) as made:
        made.hook.tell(event(1))
        while not made.got:
            await asyncio.sleep(0.005)
        begun = time.monotonic()
        await made.hook.close(5)

    assert time.monotonic() - begun < 2
    assert made.ended == {"sent": 1}, "the attempt that the pause was before"


async def test_closing_tries_once_more_and_no_longer() -> None:
    async with hooked(lambda _number: web.Response(status=500), pause_s=60) as made:
        made.hook.tell(event(1))
        while not made.got:
            await asyncio.sleep(0.005)
        await made.hook.close(5)

    assert made.ids == ["e1", "e1"]
    assert made.ended == {"given_up": 1}


async def test_closing_ends_though_the_receiver_hangs(caplog: pytest.LogCaptureFixture) -> None:
    hangs = asyncio.Event()

    async def receive(request: web.BaseRequest) -> web.Response:
        await hangs.wait()
        return web.Response()

    async with serve(receive) as url:
        ended: Counter[str] = Counter()
        hook = Webhook(Receiver(url, SECRET, 30, LOCAL), ended=lambda outcome: ended.update([outcome]))
        for number in range(3):
            hook.tell(event(number))
        await asyncio.sleep(0.05)
        begun = time.monotonic()
        await hook.close(0.2)
        assert time.monotonic() - begun < 2
        hangs.set()

    assert ended == {"given_up": 3}
    assert "the proxy stops" in caplog.text


async def test_an_event_that_cannot_be_written_does_not_end_the_others() -> None:
    circle: dict[str, object] = {}
    circle["itself"] = circle
    async with hooked(taken) as made:
        made.hook.tell(event(1, circle=circle))
        made.hook.tell(event(2))
        await made.over(2)

    assert made.ended == {"refused": 1, "sent": 1}


async def test_closing_unused() -> None:
    await Webhook(Receiver("http://127.0.0.1:1/", SECRET, 5, LOCAL)).close()


async def test_a_receiver_that_hangs_is_asked_again() -> None:
    hangs = asyncio.Event()
    tries: list[str] = []

    async def receive(request: web.BaseRequest) -> web.Response:
        tries.append(request.headers["x-guardproxy-id"])
        if len(tries) == 1:
            await hangs.wait()
        return web.Response()

    async with serve(receive) as url:
        ended: Counter[str] = Counter()
        hook = Webhook(
            Receiver(url, SECRET, 0.1, LOCAL), first_pause_s=0.01, ended=lambda outcome: ended.update([outcome])
        )
        hook.tell(event(1))
        async with asyncio.timeout(5):
            while not ended:
                await asyncio.sleep(0.005)
        hangs.set()
        await hook.close(1)

    assert tries == ["e1", "e1"]
    assert ended == {"sent": 1}


ROOT = Path(__file__).resolve().parents[2]


def test_the_documents_have_every_field() -> None:
    rows = [f"| `{kind}` | `{name}` | {what} |" for kind, told in EVENTS.items() for name, what in told.items()]
    text = (ROOT / "docs" / "webhooks.md").read_text("utf-8")
    assert [line for line in text.splitlines() if line.startswith("| `")] == rows


def test_nothing_is_told_that_is_not_described() -> None:
    sources = "".join(path.read_text("utf-8") for path in (ROOT / "guardproxy").rglob("*.py"))
    kinds = set(re.findall(r'\.tell\(\s*"([a-z.]+)"', sources))
    assert kinds
    assert kinds <= EVENTS.keys()
