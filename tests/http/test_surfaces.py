"""The scenes and plots of chat on every other surface, whole and streamed: what holds on one holds on all.

A part of them is played in `make test`, all of them in `make verify`. What a surface has no words for is left out with
its reason (skipped in `make verify`); how many those are is bounded here, so that nothing falls out unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import ModuleType
from typing import TypeVar

import pytest

from guardproxy.store.redis import Store
from tests.http.test_gateway_cases import SCENES as GATEWAYS
from tests.http.test_interventions import PLOTS, perform
from tests.http.test_scenes import SCENES as LOGGED, played
from tests.scene_interventions import Plot
from tests.scenes import Heard, Scene
from tests.surfaces import OTHERS, SURFACES, chat, unsaid

SCENES = [*LOGGED, *GATEWAYS]
PART = 20
"""Scenes, and as many plots, of each surface that are played every time."""

SAYABLE = 0.8
"""The part of all cases that a surface must have words for."""

T = TypeVar("T", Scene, Plot)


def sayable(cases: Sequence[T], surface: ModuleType) -> list[T]:
    """The cases that can be played on a surface."""
    return [case for case in cases if not (case.unsaid(surface) or getattr(case, "waits_for", ""))]


def params(cases: Sequence[T]) -> list[object]:
    """Every case on every surface, whole and streamed; but for a part of them, spread over the list, for `verify`."""
    found: list[object] = []
    for name in OTHERS:
        chosen = sayable(cases, SURFACES[name])
        for case in cases:
            if why := case.unsaid(SURFACES[name]):
                unsaid_marks = [pytest.mark.verify, pytest.mark.skip(reason=why)]
                found.append(pytest.param(name, case, False, id=f"{name}-{case.case}-unsaid", marks=unsaid_marks))
        step = max(1, len(chosen) // PART)
        for number, case in enumerate(chosen):
            for stream in getattr(case, "streams", (False, True)):
                often = number % step == 0 and stream == bool(number // step % 2)
                marks = [] if often else [pytest.mark.verify]
                if broken := getattr(case, "broken", ""):
                    marks.append(pytest.mark.xfail(reason=broken, strict=True, raises=AssertionError))
                label = f"{name}-{case.case}-{'stream' if stream else 'whole'}"
                found.append(pytest.param(name, case, stream, id=label, marks=marks))
    return found


@pytest.mark.parametrize(("name", "scene", "stream"), params(SCENES))
async def test_scene(name: str, scene: Scene, stream: bool, store: Store, heard: Heard) -> None:
    await played(scene, store, heard, stream=stream, surface=SURFACES[name])


@pytest.mark.parametrize(("name", "plot", "stream"), params(PLOTS))
async def test_plot(name: str, plot: Plot, stream: bool, store: Store, heard: Heard) -> None:
    await perform(plot, store, heard, stream=stream, surface=SURFACES[name])


@pytest.mark.parametrize("name", OTHERS)
def test_most_can_be_said(name: str) -> None:
    surface = SURFACES[name]
    assert len(sayable(SCENES, surface)) >= SAYABLE * len(SCENES)
    assert len(sayable(PLOTS, surface)) >= SAYABLE * len(PLOTS)
    reasons = {case.unsaid(surface) for cases in (SCENES, PLOTS) for case in cases}
    assert all(" " in reason for reason in reasons - {""})


def test_chat_says_everything() -> None:
    assert not any(unsaid(chat, ()) or scene.unsaid(chat) for scene in SCENES)
