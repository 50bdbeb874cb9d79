"""The checks together: which of them decides, what is held back, and what it costs to have nothing to do."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from guardproxy.core import proposals
from guardproxy.core.model import Call, Episode, Rung, Trail, Triple
from guardproxy.core.proposals import CHECKS, approval, arguments, deny, repeat
from guardproxy.core.tool_rules import ToolRule, ToolRules
from tests.core.proposals.turns import call, inspection, said, steps
from tests.core.talk import PRINTER, ask, user

NEAR = PRINTER.near(call("a"))
LOOP = Episode("repeated_call", NEAR, (NEAR,), Rung.FIRM, 4, 3, Triple(3, 4, 6))
ALL = (ToolRule("a"),)
SCHEMA = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
ASKED = replace(ask(user("x")), tools=("a",))


@pytest.mark.parametrize(
    ("modes", "expected"),
    [
        ("enforce enforce enforce enforce", ["refuse tools.deny"]),
        ("off enforce enforce enforce", ["refuse repeated_call 5"]),
        ("off off enforce enforce", ["repair arguments"]),
        ("off off off enforce", ["pause tools.approval"]),
        ("off off off off", []),
        ("observe enforce enforce enforce", ["observe refuse tools.deny", "refuse repeated_call 5"]),
        (
            "observe off observe enforce",
            ["observe refuse tools.deny", "observe repair arguments", "pause tools.approval"],
        ),
        ("enforce observe observe observe", ["refuse tools.deny"]),
    ],
)
def test_the_first_that_is_enforced_decides(modes: str, expected: list[str]) -> None:
    denies, repeats, repairs, approves = modes.split()
    settings = {
        "approval": approval.Settings(approves),
        "arguments": arguments.Settings(repairs),
        "repeat": repeat.Settings(repeats),
        "deny": deny.Settings(denies),
    }
    found = inspection(
        settings=settings,
        asked=ASKED,
        run=Trail(steps("a a a a")),
        episodes=(LOOP,),
        tools=ToolRules(deny=ALL, approval=ALL),
        schemas=lambda tool: SCHEMA,
    )
    assert said(found, call("a")) == [f"0 {one}" for one in expected]
    assert (found is not None and found.concerns("a")) is ("enforce" in modes)


def test_objections_stand_in_the_order_of_the_calls() -> None:
    found = inspection(tools=ToolRules(deny=(ToolRule("x"),), approval=(ToolRule("y"),)))
    assert said(found, Call("y", "{}"), Call("z", "{}"), Call("x", "{}")) == [
        "0 pause tools.approval",
        "2 refuse tools.deny",
    ]
    assert said(found) == []


def test_a_check_that_raises_costs_only_itself() -> None:
    def broken(what: str) -> Any:
        raise RuntimeError(what)

    more: dict[str, Any] = {"asked": ASKED, "run": Trail(steps("a a a a")), "episodes": (LOOP,)}
    settings = proposals.default_settings() | {"arguments": arguments.Settings("enforce")}
    rules = ToolRules(approval=ALL)
    found = inspection(**more, settings=settings | {"repeat": repeat.Settings("off")}, tools=rules, schemas=broken)
    assert said(found, call("a")) == ["0 pause tools.approval"]
    assert found
    assert found.errors == ["arguments: RuntimeError: a"]
    found = inspection(**more, tools=rules, mode_of=broken)
    assert said(found, call("a")) == ["0 pause tools.approval"]
    assert found
    assert found.errors == ["repeat: RuntimeError: repeated_call"]
    found = inspection(**more, mode_of=broken)
    assert found
    assert not found.concerns("a")
    assert said(found, call("a")) == []


def test_with_the_default_settings_an_ordinary_turn_looks_at_nothing() -> None:
    assert inspection(asked=ASKED, run=Trail(steps("a b c W")), schemas=lambda tool: SCHEMA) is None


def test_a_check_that_has_no_settings_is_off() -> None:
    assert inspection(settings={}, tools=ToolRules(deny=ALL, approval=ALL), episodes=(LOOP,)) is None


def test_every_check_has_settings_with_a_mode() -> None:
    made = proposals.default_settings()
    assert list(made) == list(CHECKS)
    assert {name: one.mode for name, one in made.items()} == {  # type: ignore[attr-defined]
        "deny": "enforce",
        "repeat": "enforce",
        "arguments": "off",
        "approval": "enforce",
        "human": "enforce",
    }
