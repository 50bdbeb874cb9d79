"""`error_signature`: one kind of error over changing arguments."""

from __future__ import annotations

import pytest

from guardproxy.core.detectors.error_signature import Settings, detect
from tests.core.detectors.scripts import Turn, trails


def miss(number: int, tool: str = "get") -> Turn:
    return (tool, f'{{"id":{number}}}', f"404 Not Found: item {number}")


def run(number: int) -> Turn:
    return ("bash", f'{{"command":"./run {number}"}}', f"404 Not Found: item {number}")


@pytest.mark.parametrize(
    ("turns", "count"),
    [
        ([miss(1)], None),
        ([miss(1)] * 4, None),  # one call: `repeated_error`
        ([miss(n) for n in range(4)], 4),
        ([miss(1), miss(2), miss(1), miss(2)], 4),
        ([miss(1), miss(2), ("get", '{"id":3}', "a lamp"), miss(4), miss(5)], 2),
        ([miss(1), miss(2), ("list", "{}", "a lamp"), miss(4), miss(5)], 3),  # a stranger costs one
        ([miss(1), miss(2), ("list", "{}", "a lamp"), ("list", '{"p":2}', "an urn"), miss(4), miss(5)], 2),
        ([miss(1), miss(2), ("edit", '{"p":2}', "done"), miss(4), miss(5)], 2),
        ([run(1), run(2), ("bash", '{"command":"date"}', "noon"), run(4), run(5)], 3),
        ([run(1), run(2), ("bash", '{"command":"make"}', "built it"), run(4), run(5)], 2),
        ([run(1), run(2), ("bash", '{"command":"cat x"}', "cat: x: No such file or directory"), run(4), run(5)], 2),
        ([miss(1), miss(2, "fetch"), miss(3), miss(4, "fetch")], None),
        ([miss(1), miss(2), ("get", '{"id":3}', "Error: permission denied"), miss(4)], None),
        ([miss(1), miss(2), miss(3), ("get", '{"id":4}', "a lamp")], None),
        ([miss(1), "sorry", miss(2), ("think", '{"thought":"hm"}', "OK."), miss(3)], 3),
    ],
)
def test_counts(turns: list[Turn], count: int | None) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert (found.count if found else None) == count


def test_members_are_all_variants() -> None:
    trail = trails([miss(n) for n in range(4)])[-1]
    found = detect(trail, Settings())
    assert found is not None
    assert found.members == tuple(step.near for step in trail.steps)
    assert found.subject == trail.steps[0].signature
    assert found.evidence == (0, 1, 2, 3)


NAMES = ("alpha", "beta", "gamma", "delta", "eta", "zeta", "theta", "iota")


@pytest.mark.parametrize(
    ("turns", "listing"),
    [
        ([("check_domain", f'{{"name":"{name}.com"}}', "Error: domain not available") for name in NAMES], True),
        ([miss(n) for n in range(8)], False),  # counting (case B06)
        ([("edit_file", f'{{"old":"{name}"}}', "Error: string not found") for name in NAMES], False),
        ([("check", f'{{"name":"{name}"}}', "Error: not found") for name in (*NAMES, NAMES[0])], True),
        ([("check", f'{{"name":"{name}"}}', "Error: not found") for name in (*NAMES[:3], *NAMES[:3])], False),
    ],
)
def test_a_list_of_names_gets_more_time(turns: list[Turn], *, listing: bool) -> None:
    found = detect(trails(turns)[-1], Settings())
    assert found is not None
    assert found.triple == (Settings().listing if listing else Settings().triple)
