"""What needs a person's word is held until it is given."""

from __future__ import annotations

import pytest

from guardproxy.core.model import Call
from guardproxy.core.proposals import approval
from guardproxy.core.tool_rules import ToolRule, ToolRules
from tests.core.proposals.turns import inspection, said

RULES = ToolRules(approval=(ToolRule("send_*", {"to": "*@example.org"}, reason="it leaves the house"),))


@pytest.mark.parametrize(
    ("call", "held"),
    [
        (Call("send_mail", '{"to": "a@example.org"}'), True),
        (Call("send_mail", '{"to": "a@example.com"}'), False),
        (Call("read_mail", '{"to": "a@example.org"}'), False),
        (Call("send_mail", '{"to": "a@example.org"'), True),
    ],
)
@pytest.mark.parametrize("mode", ["off", "observe", "enforce"])
def test_what_is_held(call: Call, held: bool, mode: str) -> None:
    expected = {"off": [], "observe": ["0 observe pause tools.approval"], "enforce": ["0 pause tools.approval"]}[mode]
    found = inspection(settings={"approval": approval.Settings(mode)}, tools=RULES)
    assert said(found, call) == (expected if held else [])
    assert (found is None) is (mode == "off")


def test_the_reason_holds_no_content_and_the_text_waits_for_the_person() -> None:
    found = inspection(tools=RULES)
    assert found
    (one,) = found.judge([Call("send_mail", '{"to": "a@example.org"}')])
    assert one.reason == "send_mail needs approval by send_*(to=*@example.org): it leaves the house"
    assert one.text == ""


def test_only_calls_that_a_rule_is_about_are_held_back() -> None:
    found = inspection(tools=RULES)
    assert found
    assert found.concerns("send_mail")
    assert not found.concerns("read_mail")


def test_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^mode: must be one of"):
        approval.Settings("ask")
