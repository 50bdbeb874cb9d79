"""Interventions over HTTP, whole and streamed: the plots of `tests/scene_interventions_*` through a real proxy.

The provider is scripted and records what it was sent; the store is real. Cases named B33 to B38 are those of the loop
log, section 6; cases 12, 14, 15, 32, 40 to 43 and 64 those of the survey of gateways, section 3.
"""

from __future__ import annotations

import re

import pytest

from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import live
from tests.scene_interventions import Actor, Plot
from tests.scene_interventions_cases import cases
from tests.scene_interventions_final import finals
from tests.scene_interventions_hygiene import hygiene
from tests.scene_interventions_people import people
from tests.scene_interventions_refusals import refusals
from tests.scene_interventions_repair import repairs
from tests.scene_interventions_sessions import sessions
from tests.scenes import Heard

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
    policy = {"refuse": "enforce", **plot.policy}
    async with live(store, heard, policy=policy, tools=plot.tools, chat=plot.chat) as running:
        actor = Actor(running, store, heard, plot, stream=stream)
        await actor.play()
        assert len(actor.executed) == len(set(actor.executed)), "a call was handed on twice"
        assert await held(store, {actor.session}) == {}


def test_every_case_is_here() -> None:
    named = {found for plot in PLOTS for found in re.findall(r"\bB3[3-8]\b|(?<=gateway )\d+", plot.case)}
    assert named == CASES
    assert len({plot.case for plot in PLOTS}) == len(PLOTS)
