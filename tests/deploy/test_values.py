"""The chart's values: each is in the schema, and the schema lets in no other. What becomes of them: tests/verify."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

import guardproxy

CHART = Path(__file__).parents[2] / "deploy" / "helm" / "guardproxy"
VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
FREE = {"config", "resources", "requests", "limits", "annotations", "labels", "podAnnotations", "podLabels"}
FREE |= {"nodeSelector", "affinity"}
"""Whose keys are not ours."""


def good(values: dict) -> bool:
    return jsonschema_rs.is_valid(SCHEMA, values)


def sections(values: dict, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Where a value of the chart's own may be written."""
    yield path
    for name, value in values.items():
        if isinstance(value, dict) and name not in FREE:
            yield from sections(value, (*path, name))


def test_the_values_are_good_but_for_the_secret() -> None:
    assert not good(VALUES)
    assert good(VALUES | {"existingSecret": "guardproxy"})


@pytest.mark.parametrize("path", [*sections(VALUES)], ids=".".join)
def test_a_value_that_is_misspelt_is_refused(path: tuple[str, ...]) -> None:
    values = deepcopy(VALUES) | {"existingSecret": "guardproxy"}
    place = values
    for name in path:
        place = place[name]
    place["mispelt"] = 1

    assert not good(values)


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())

    assert chart["appVersion"] == guardproxy.__version__
