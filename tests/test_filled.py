"""Values whose fields are set one by one, since forty keywords would cost three times that: none is forgotten.

A field that its filler does not set would keep its default for ever, and no type checker says so.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Callable, Iterator

import pytest

from guardproxy.core.view import Closing, View
from guardproxy.http import charging, closing, reporting
from guardproxy.store import _codec
from guardproxy.telemetry import Telemetry
from guardproxy.telemetry.report import TurnReport
from tests.as_written import as_written

Filler = Callable[..., object]

FILLED: dict[type, tuple[tuple[Filler, ...], dict[str, str]]] = {
    # the fillers, and what is set elsewhere, or nowhere: why
    View: ((_codec._view,), {"degraded": "a store that answers is not away; local memory says so"}),
    TurnReport: (
        (reporting.report_of, reporting._more, reporting.finish, charging.charge, Telemetry._report),
        {},
    ),
    Closing: ((closing.closing_of,), {"close_session": "no turn cuts a session: operators and budgets do"}),
}


def made(filler: Filler, owner: type) -> Iterator[str]:
    """The fields that a function gives to a value of that class, or to one of its kind that it has."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(filler)))
    names = [field.name for field in dataclasses.fields(owner)]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == owner.__name__:
            yield from names[: len(node.args)]
            yield from [str(keyword.arg) for keyword in node.keywords]
        targets = node.targets if isinstance(node, ast.Assign) else []
        for one in [part for target in targets for part in ast.walk(target)]:
            if isinstance(one, ast.Attribute) and isinstance(one.value, ast.Name) and one.attr in names:
                yield one.attr


@as_written
@pytest.mark.parametrize("owner", FILLED, ids=lambda owner: owner.__name__)
def test_every_field_is_set(owner: type) -> None:
    fillers, elsewhere = FILLED[owner]
    found = {name for filler in fillers for name in made(filler, owner)}
    names = {field.name for field in dataclasses.fields(owner)}

    assert names - found == elsewhere.keys(), "set by none of its fillers, or set and said to be not"


def test_a_field_that_is_forgotten_is_seen() -> None:
    @dataclasses.dataclass
    class Told:
        one: int
        two: int = 0
        three: int = 0

    def filler() -> Told:
        told = Told(1)
        told.two = 2
        return told

    assert {*made(filler, Told)} == {"one", "two"}
