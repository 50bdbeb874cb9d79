"""The development runs whose calls were made of texts, turned back into texts: the same decisions, step by step."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from functools import cache
from random import Random

import pytest

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.policy import Policy
from guardproxy.replay import KEY, play
from guardproxy.replaying.told import SessionReport
from tests.accept.recorded import Json, shared
from tests.textform import FORMS, text_form

SEED = 20_261_129
"""Draws each run's form, and which runs are played."""

SHARE = 0.3
"""Of the runs; the others come up under other seeds."""


@cache
def runs() -> tuple[Json, ...]:
    draw = Random(SEED)
    with gzip.open(shared("trajectories", "dev.jsonl.gz"), "rt", encoding="utf-8") as lines:
        recorded = [run for run in map(json.loads, lines) if run["labels"].get("native_tool_calls") is False]
    return tuple(run for run in recorded if draw.random() < SHARE)


def decisions(report: SessionReport) -> list[tuple[int, str, str, int]]:
    """All of them, those that are only observed, too. Where they stand among the messages may differ."""
    return [(told.step, told.action, told.rule, told.count) for told in report.decisions]


def test_runs_in_text_form_are_decided_the_same() -> None:
    printer, policy = Fingerprinter(KEY), Policy()
    forms: Counter[str] = Counter()
    differ: list[str] = []
    acted = 0
    for run in runs():
        form, messages = text_form(run, Random(f"{SEED} {run['id']}"))
        forms[form] += 1
        called, written = play([run, {**run, "messages": messages}], policy, printer)
        acted += any(told.action != "observe" for told in called.decisions)
        if decisions(called) != decisions(written):
            differ.append(f"{run['id']} ({form}): {decisions(called)} as calls, {decisions(written)} as texts")
    print(f"\nseed {SEED}: {forms.total()} runs {dict(forms)}, {acted} with a word or an end, {len(differ)} differ")
    assert not differ, "\n".join(differ[:5])
    assert set(forms) == set(FORMS)
    assert acted > 50


@pytest.mark.parametrize("form", FORMS)
def test_each_form_can_be_told_from_words(form: str) -> None:
    """The same run whose calls are words only is another run: the converter is not what makes the forms equal."""
    chosen = next(run for run in runs() if text_form(run, Random(f"{SEED} {run['id']}"))[0] == form and _long(run))
    _, messages = text_form(chosen, Random(f"{SEED} {chosen['id']}"))
    words = [{**message, "content": message["content"].replace("```", "'").replace("ction", "ct").replace("{", "(")}
             for message in messages]  # fmt: skip
    written, spoken = play(
        [{**chosen, "messages": messages}, {**chosen, "messages": words}], Policy(), Fingerprinter(KEY)
    )
    assert written.steps > 2
    assert spoken.steps == 0


def _long(run: Json) -> bool:
    return sum(len(message.get("tool_calls") or ()) for message in run["messages"]) > 4
