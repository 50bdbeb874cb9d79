"""A question to a person is held until it is answered."""

from __future__ import annotations

import pytest

from guardproxy.core.model import Call
from guardproxy.core.proposals import human
from guardproxy.core.tool_rules import ToolRule, ToolRules
from tests.core.proposals.turns import inspection, said

RULES = ToolRules(human=(ToolRule("ask_*"), ToolRule("escalate", {"level": "high"})))
QUESTION = '{"question": "Which of the two, Ms Keller?"}'


@pytest.mark.parametrize(
    ("call", "held"),
    [
        (Call("ask_human", QUESTION), True),
        (Call("ASK_HUMAN", QUESTION), True),
        (Call("ask_human", "not JSON"), True),
        (Call("escalate", '{"level": "high"}'), True),
        (Call("escalate", '{"level": "low"}'), False),
        (Call("task_human", QUESTION), False),
    ],
)
@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_what_is_held(call: Call, held: bool, mode: str) -> None:
    expected = {"off": [], "observe": ["0 observe pause tools.human"], "enforce": ["0 pause tools.human"]}[mode]
    found = inspection(settings={"human": human.Settings(mode)}, tools=RULES)
    assert said(found, call) == (expected if held else [])
    assert (found is None) is (mode == "off")


def test_the_reason_holds_no_content_and_the_text_is_the_person_s() -> None:
    found = inspection(tools=RULES)
    assert found
    (one,) = found.judge([Call(" ask_human ", QUESTION)])
    assert one.reason == "ask_human asks a person"
    assert one.text == ""


def test_only_questions_are_held_back() -> None:
    found = inspection(tools=RULES)
    assert found
    assert found.concerns("ask_human")
    assert not found.concerns("read_file")


def test_what_has_to_be_approved_is_approved_first_and_what_is_forbidden_is_not_asked() -> None:
    both = ToolRules(human=(ToolRule("ask"),), approval=(ToolRule("ask"),))
    assert said(inspection(tools=both), Call("ask", "{}")) == ["0 pause tools.approval"]
    denied = ToolRules(human=(ToolRule("ask"),), deny=(ToolRule("ask"),))
    assert said(inspection(tools=denied), Call("ask", "{}")) == ["0 refuse tools.deny"]


def test_without_such_tools_there_is_nothing_to_look_at() -> None:
    assert inspection(settings={"human": human.Settings()}) is None


def test_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^mode: must be one of"):
        human.Settings("ask")
