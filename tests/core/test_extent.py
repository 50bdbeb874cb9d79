"""`extent`: the range that a call asks for, whatever it calls it."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.canon import canonical
from guardproxy.core.extent import _KINDS, _NAMED, _NUMBERED, LONGEST, Extent, extent
from guardproxy.core.tools import DEFAULT_RULES, tool_of


def of(name: str, arguments: dict[str, object], lines: int = 10_000) -> Extent | None:
    tool, text = tool_of(name, DEFAULT_RULES), json.dumps(arguments)
    return extent(canonical(text, tool).near, text, tool, lines)


def sh(command: str) -> tuple[int, int] | None:
    found = of("bash", {"command": command})
    return found and (found.start, found.stop)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"path": "a", "offset": 80, "limit": 40}, (80, 120)),
        ({"path": "a", "offset": "80", "limit": "40"}, (80, 120)),
        ({"path": "a", "start_line": 1, "end_line": 40}, (1, 41)),
        ({"path": "a", "startLine": 1, "endLine": 40}, (1, 41)),
        ({"path": "a", "view_range": [10, 40]}, (10, 41)),
        ({"path": "a", "view_range": [9, 40]}, (9, 41)),
        ({"path": "a", "view_range": [10, -1]}, None),  # no end is told: what came is not known
        ({"path": "a", "offset": 80}, (80, 81)),
        ({"path": "a", "limit": 50}, (0, 50)),
        ({"path": "a", "end_line": 50}, (0, 51)),
        ({"q": "x", "page": 3, "page_size": 50}, (3, 4)),
        ({"path": "a"}, None),
        ({"path": "a", "offset": None}, None),
        ({"path": "a", "from": "2024-01-01", "to": "2024-02-01"}, None),
        ({"path": "a", "cursor": "abc"}, None),
    ],
)
def test_ranges_of_readers(arguments: dict[str, object], part: tuple[int, int] | None) -> None:
    found = of("read_file", arguments)
    assert (found and (found.start, found.stop)) == part


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("sed -n '10,40p' a.py", (10, 41)),
        ('sed -n "10,40p" a.py', (10, 41)),
        ("sed -n 10,40p a.py", (10, 41)),
        ("sed -n '10p' a.py", (10, 11)),
        ("cd /src && nl -ba a.py | sed -n '10,40p'", (10, 41)),
        ("head -n 40 a.py", (1, 41)),
        ("head -40 a.py", (1, 41)),
        ("tail -n +30 a.py | head -n 20", (30, 50)),
        ("tail -n +30 a.py", (30, 10_030)),
        ("awk 'NR>=10 && NR<=40' a.py", (10, 41)),
        ("tail -n 20 a.py", None),  # from the end
        ("sed -n '1,9p' a.py; sed -n '30,39p' a.py", None),
        ("sed -i 's/1,9p/x/' a.py", None),
        ("sed -n '1,9p' a.py > b.py", None),  # writes
        ("make test | head -n 20", None),  # runs
        ("cat a.py", None),
    ],
)
def test_ranges_of_commands(command: str, part: tuple[int, int] | None) -> None:
    assert sh(command) == part


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ({"path": "a", "offset": 0, "limit": 40}, {"limit": 10, "path": "a", "offset": 9}, True),
        ({"path": "a", "offset": 0}, {"path": "b", "offset": 0}, False),
        ({"q": "x", "page": 1, "page_size": 10}, {"q": "x", "page": 2, "page_size": 10}, True),
        ({"q": "x", "page": 1, "page_size": 10}, {"q": "x", "page": 1, "page_size": 20}, False),  # other pages
        ({"path": "a", "view_range": [1, 9]}, {"path": "a", "view_range": [20, 29]}, True),
        ({"path": "part 1", "offset": 0}, {"path": "part 2", "offset": 0}, False),
    ],
)
def test_parts_of_one_thing(one: dict[str, object], other: dict[str, object], equal: bool) -> None:
    first, second = of("read_file", one), of("read_file", other)
    assert first is not None
    assert second is not None
    assert (first.what == second.what) == equal


@pytest.mark.parametrize(
    ("name", "arguments", "seen"),
    [
        ("search", {"q": "x", "offset": 50, "limit": 50}, True),
        ("str_replace_based_edit_tool", {"command": "view", "path": "a", "view_range": [1, 9]}, True),
        ("str_replace_editor", {"command": "view", "path": "a/header.py", "view_range": [1, 9]}, True),
        ("shell", {"command": ["bash", "-lc", "sed -n '1,9p' a.py"], "workdir": "/app"}, True),
        ("shell", {"command": ["bash", "-lc", "sed -n '1,9p' a.py > b.py"], "workdir": "/app"}, False),
        ("str_replace_editor", {"command": "view", "path": "a", "view_range": [1, 9]}, True),
        ("str_replace_based_edit_tool", {"command": "insert", "path": "a", "insert_line": 9}, False),
        ("edit_lines", {"path": "a", "start_line": 1, "end_line": 9}, False),  # changes
        ("book", {"from": 1, "to": 9}, False),
        ("seat_map", {"from": 1, "to": 9}, False),  # nobody knows whether it looks
    ],
)
def test_only_looks_have_ranges(name: str, arguments: dict[str, object], seen: bool) -> None:
    assert (of(name, arguments) is not None) == seen


def test_a_range_is_no_longer_than_what_came() -> None:
    assert of("read_file", {"path": "a", "start_line": 1, "end_line": 5000}, lines=200) == Extent(
        of("read_file", {"path": "a", "start_line": 1, "end_line": 9}).what,  # type: ignore[union-attr]
        1,
        201,
    )


def test_long_arguments_are_not_looked_through() -> None:
    assert of("read_file", {"path": "a" * LONGEST, "offset": 1}) is None


@pytest.mark.parametrize("name", sorted(_KINDS))
@pytest.mark.parametrize(
    "form", ["('{}', 5)", "('{}', '5')", '"{}":5}}', '"{}":"5"}}', "('{}', [1, 40])", '"{}":[-1, 40]']
)
def test_the_first_look_misses_no_range(name: str, form: str) -> None:
    """What tells cheaply that there is no range lets every one through that is looked for."""
    text = form.format(name)
    assert _NAMED.search(text + ")") is not None
    assert _NUMBERED.search(text) is not None
