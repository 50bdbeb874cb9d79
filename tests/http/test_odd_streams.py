"""Odd streams of providers through the proxy, on every surface: untouched bytes, and usage settled as it was said."""

from __future__ import annotations

import copy
import json

import pytest

from guardproxy.store.redis import Store
from tests.api.test_oddities import ASKS, FRAMED, MADE, ODD, told
from tests.http.test_room import budget, counters
from tests.live import Said, live
from tests.scenes import Heard
from tests.surfaces import SURFACES


def streams(name: str) -> dict[str, bytes]:
    """Every oddity of events, and every framing."""
    found = {framing: change(told(name, MADE[name]())) for framing, change in FRAMED.items()}
    for odd in ODD:
        events = copy.deepcopy(MADE[name]())
        odd(events, name)
        found[odd.__name__] = told(name, events)
    return found


@pytest.mark.parametrize("name", MADE)
async def test_untouched_and_settled(store: Store, heard: Heard, name: str) -> None:
    """Asked as clients do who want usage themselves: nothing is asked for in their place, and nothing stripped."""
    usage = {"stream_options": {"include_usage": True}} if name == "chat" else {}
    async with live(store, heard, surface=SURFACES[name], budgets=[budget("org", "total_tokens", 10**6)]) as running:
        played = streams(name)
        for odd, raw in played.items():
            said = Said(raw=[raw[at : at + 700] for at in range(0, len(raw), 700)] if len(raw) < 20_000 else [raw])
            running.provider.script = lambda _got, said=said: said  # type: ignore[misc]
            asked = {"model": f"m {odd}", "stream": True, **ASKS[name], **usage}
            answer = await running.post(json.dumps(asked).encode(), {"x-guardproxy-session-id": f"run {odd}"})
            assert (answer.status, answer.verdict) == (200, "pass")
            assert answer.body == raw, odd
            report = await heard.next()
            assert (report.usage.input, report.usage.output, report.usage.estimated) == (9, 4, False), odd
            assert report.outcome == "", odd  # there are calls, whatever the finish reason says
        await running.proxy.quiet()
        assert [*(await counters(store)).values()] == [(13 * len(played), 0)]
