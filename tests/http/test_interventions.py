"""Interventions over HTTP, whole and streamed: the plots of `tests/scene_interventions_*` through a real proxy.

The provider is scripted and records what it was sent; the store is real. Cases named B33 to B38 are those of the loop
log, section 6; cases 12, 14, 15, 32, 40 to 43 and 64 those of the survey of gateways, section 3.
"""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from types import ModuleType

import pytest
from aiohttp import web

from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import Said, live, serve
from tests.scene_interventions import TOOLS, Actor, Ask, Do, Plot
from tests.scene_interventions_cases import cases
from tests.scene_interventions_final import finals
from tests.scene_interventions_hygiene import hygiene
from tests.scene_interventions_people import APPROVAL, ASKED, people
from tests.scene_interventions_refusals import refusals
from tests.scene_interventions_repair import repairs
from tests.scene_interventions_sessions import sessions
from tests.scenes import Heard
from tests.surfaces import SURFACES

PLOTS = [*refusals(), *repairs(), *hygiene(), *people(), *finals(), *sessions(), *cases()]

CASES = frozenset({"B33", "B34", "B35", "B36", "B37", "B38", "12", "14", "15", "32", "40", "41", "42", "43", "64"})
"""What the plots have to name."""


def tagged() -> list[object]:
    """The plots, whole and streamed. One that is known to fail must fail."""
    return [
        pytest.param(
            plot,
            stream,
            id=f"{plot.case}-{'stream' if stream else 'whole'}",
            marks=[pytest.mark.xfail(reason=plot.broken, strict=True, raises=AssertionError)] if plot.broken else [],
        )
        for plot in PLOTS
        for stream in plot.streams
    ]


@pytest.mark.parametrize(("plot", "stream"), tagged())
async def test_plot(plot: Plot, stream: bool, store: Store, heard: Heard) -> None:
    await perform(plot, store, heard, stream=stream)


async def perform(
    plot: Plot, store: Store, heard: Heard, *, stream: bool, surface: ModuleType = SURFACES["chat"]
) -> None:
    """Play a plot, and see that no call was handed on twice and nothing is held at the end."""
    policy = {"refuse": "enforce", **plot.policy}
    async with live(store, heard, surface=surface, policy=policy, tools=plot.tools, chat=plot.chat) as running:
        actor = Actor(running, store, heard, plot, stream=stream)
        await actor.play()
        assert len(actor.executed) == len(set(actor.executed)), "a call was handed on twice"
        assert await held(store, {actor.session}) == {}


VERDICTS = {
    # what the verifier of the user's answers, when it gives no verdict; the answers, what is delivered, the header
    "it passes": ([True], "closed", ["Done."], "Done.", "passed"),
    "it fails once": ([False, True], "closed", ["Done.", "Really done."], "Really done.", "passed"),
    "it never passes": ([False] * 3, "closed", ["Done."] * 3, "Done.", "failed"),
    "it is away, and that counts as passed": ([None], "open", ["Done."], "Done.", "passed"),
    "it is away, and that counts as failed": ([None], "closed", ["Done."], "Done.", "failed"),
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("name", VERDICTS)
async def test_verifier(name: str, stream: bool, store: Store, heard: Heard) -> None:
    """A server of the user's has the last word on a final answer."""
    verdicts, fail, answers, text, said = VERDICTS[name]
    waiting = list(verdicts)

    async def verifier(request: web.BaseRequest) -> web.StreamResponse:
        assert request.headers["x-guardproxy-signature"].startswith("t=")
        passed = waiting.pop(0)
        if passed is None:
            return web.Response(status=503)
        return web.json_response({"passed": passed, "feedback": "" if passed else "The total is missing."})

    ask = Ask(
        tuple(Said(one) for one in answers),
        text=text,
        headers={"x-guardproxy-verification": f"^{said}$"},
        says="The total is missing" if False in verdicts else "",
        report={"verification": said},
    )
    later = Ask((Said("Yes."),), text="Yes.", user="Sure?", report={"verification": said})
    async with serve(verifier) as url:
        policy = {"final": {"hold": True}, "verifier": {"url": url, "secret": "s" * 32, "fail": fail}}
        async with live(store, heard, policy=policy) as running:
            actor = Actor(running, store, heard, Plot(name, [ask]), stream=stream)
            await actor.play()
            assert not waiting
            waiting += [verdicts[-1]] * 3
            await actor.ask(replace(later, answers=later.answers * len(answers) if said == "failed" else later.answers))


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_an_approved_call_goes_to_one_of_those_who_ask_at_once(stream: bool, store: Store, heard: Heard) -> None:
    """Clients retry while an answer is on its way; what a person has allowed is carried out once."""
    async with live(store, heard, policy={"refuse": "enforce"}, tools=APPROVAL) as running:
        actor = Actor(running, store, heard, Plot("at once", [ASKED, Do("approve")]), stream=stream)
        await actor.play()
        running.provider.script = lambda _got: Said("I wait.")
        actor.history.append({"role": "user", "content": "Go on."})
        body = {"model": "mock-1", "messages": actor.history, "tools": list(TOOLS), "stream": stream}
        named = {"x-guardproxy-session-id": actor.session}
        answers = await asyncio.gather(*[running.post(body, named) for _ in range(8)])
        assert [b'"d1"' in answer.body for answer in answers].count(True) == 1
        assert await held(store, {actor.session}) == {}


def test_every_case_is_here() -> None:
    named = {found for plot in PLOTS for found in re.findall(r"\bB3[3-8]\b|(?<=gateway )\d+", plot.case)}
    assert named == CASES
    assert len({plot.case for plot in PLOTS}) == len(PLOTS)
