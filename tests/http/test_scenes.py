"""The loop log's cases over HTTP: scripted provider, proxy, real store, and an agent that ignores all advice.

The scenes are data (`tests/scene_*.py`); their numbers come from the preset (`tests/thresholds.py`), with
`refuse: observe`: the key in `at` is how many moves were played when the request is sent. A request that is not in `at`
must pass or be observed, byte for byte.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from guardproxy.store.redis import Store
from tests.http_store import held
from tests.live import live
from tests.scene_checks import check
from tests.scene_forms import forms
from tests.scene_healthy import healthy
from tests.scene_kinds import kinds
from tests.scene_loops import loops, words
from tests.scene_reactions import reactions
from tests.scene_runs import runs
from tests.scene_texts import texts
from tests.scenes import Heard, Player, Scene
from tests.surfaces import SURFACES
from tests.thresholds import Thresholds

LOG = Path(__file__).resolve().parents[2].parent / "shared" / "field" / "loop-bugs.md"
SECTIONS = (1, 2, 3, 4, 5, 10)
"""Sections of the log whose every case is a scene."""

CASES = frozenset({*(f"B{n:02}" for n in range(1, 33)), *(f"B{n}" for n in range(54, 58))})
"""Their cases."""


def table(preset: str = "balanced") -> list[Scene]:
    """All scenes, with the numbers of a preset."""
    t = Thresholds(preset)
    return [*loops(t), *words(t), *healthy(t), *forms(t), *runs(t), *texts(t), *kinds(t), *reactions(t)]


SCENES = table()


def tagged(scenes: list[Scene]) -> list[object]:
    """The scenes as parameters. One that waits for something must fail until it is there."""
    return [
        pytest.param(
            scene,
            id=scene.case,
            marks=[pytest.mark.xfail(reason=scene.waits_for, strict=True, raises=AssertionError)]
            if scene.waits_for
            else [],
        )
        for scene in scenes
    ]


async def played(
    scene: Scene, store: Store, heard: Heard, *, stream: bool, surface: ModuleType = SURFACES["chat"]
) -> None:
    """Play a scene, check every turn of it, and see that nothing is held at the end."""
    async with live(store, heard, surface=surface, policy=scene.policy) as running:
        turns = await Player(running, heard, scene, stream=stream).play()
        check(turns, running.proxy.printer)
        assert await held(store, {turn.report.view.session for turn in turns}) == {}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("scene", tagged(SCENES))
async def test_scene(scene: Scene, stream: bool, store: Store, heard: Heard) -> None:
    await played(scene, store, heard, stream=stream)


MOVED = (
    "B01",
    "B03",
    "B05",
    "B09 A",
    "B10",
    "B13 seven",
    "B15 inv",
    "B18 re-prompted",
    "B20",
    "B26",
    "B33",
    "B56 over",
)
"""Scenes of as many ladders as there are, which are played under the other presets, too."""


@pytest.mark.parametrize("preset", ["strict", "patient"])
async def test_a_moved_threshold_moves_the_case(preset: str, store: Store, heard: Heard) -> None:
    """The numbers are the preset's: under another one the same scenes hold with its numbers."""
    moved = [scene for scene in table(preset) if scene.case.startswith(MOVED)]
    assert len(moved) > len(MOVED)
    for scene in moved:
        await played(replace(scene, policy={"preset": preset}), store, heard, stream=False)


def test_every_case_is_a_scene() -> None:
    """Each case of those sections has a scene, and none has a number that the log does not know."""
    found = {match.group() for scene in SCENES if (match := re.match(r"B\d\d", scene.case))}

    assert found >= CASES
    assert len({scene.case for scene in SCENES}) == len(SCENES)


def logged() -> dict[str, tuple[int, str]]:
    """Each case of the log: its section and its text."""
    found = {}
    for part in re.split(r"(?m)^## (?=\d+\.)", LOG.read_text("utf-8"))[1:]:
        for text in re.split(r"(?m)^(?=\*\*B\d\d\*\*)", part)[1:]:
            found[text[2:5]] = (int(part.partition(".")[0]), text[7:])
    return found


@pytest.mark.skipif(not LOG.exists(), reason="the field log is not beside this repository")
def test_the_list_of_cases_is_the_logs() -> None:
    cases = logged()

    assert {case for case, (section, _) in cases.items() if section in SECTIONS} == CASES
    assert {scene.case[:3] for scene in SCENES if re.match(r"B\d\d", scene.case)} <= set(cases)


@pytest.mark.skipif(not LOG.exists(), reason="the field log is not beside this repository")
def test_a_number_that_is_not_the_logs_has_a_reason() -> None:
    """A moved threshold moves the case, with a note."""
    cases = logged()
    for scene in SCENES:
        text = cases.get(scene.case[:3], (0, ""))[1]
        nudge = min((turn for turn, verdict in scene.at.items() if verdict == "nudge"), default=0)
        if nudge and "NUDGE" in text:
            numbers = {int(one) for one in re.findall(r"\d+", text)}
            assert (nudge in numbers) != bool(scene.differs), (scene.case, nudge, scene.differs)
