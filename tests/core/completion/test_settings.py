"""The settings of every check make a section of the configuration, and say what is wrong with a file."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, ValidationError

from guardproxy import _sections
from guardproxy.core.completion import CHECKS


class Base(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


GIVEN: dict[str, dict[str, Any]] = {
    "artifacts": {"least": 2, "most_unresolved": 0},
    "evidence": {"pattern": r"\bORD-\d+\b", "ids": ["a"], "least": 1},
    "files": {"allowed": ["src/**"], "denied": ["tests/**"], "scratch": [], "tests": True},
    "open_calls": {"tools": ["deploy"], "mode": "observe"},
    "output_schema": {"json_schema": {"type": "object", "required": ["a"]}, "alone": True},
    "required_tools": {"tools": ["bash"], "arguments": {"bash": "*pytest*"}},
    "unresolved_failure": {"tools": ["send_*"], "tests": False, "mode": "enforce"},
}


@pytest.mark.parametrize("rule", CHECKS)
def test_a_section(rule: str) -> None:
    module = CHECKS[rule]
    section = _sections.section(Base, rule, module.Settings)
    made = _sections.value(section.model_validate(GIVEN[rule]), module.Settings)

    assert made.asks if hasattr(made, "asks") else made
    assert made != module.Settings()
    assert _sections.value(section.model_validate({}), module.Settings) == module.Settings()


@pytest.mark.parametrize(
    ("rule", "given"),
    [(rule, {"unknown": 1}) for rule in CHECKS]
    + [(rule, {"mode": "loud"}) for rule in CHECKS]
    + [
        ("artifacts", {"least": True}),
        ("artifacts", {"most_unresolved": -1}),
        ("evidence", {"pattern": "("}),
        ("files", {"allowed": [""]}),
        ("output_schema", {"json_schema": {"type": "objekt"}}),
        ("required_tools", {"tools": [""]}),
        ("required_tools", {"tools": "bash"}),
    ],
)
def test_what_a_file_may_not_say(rule: str, given: dict[str, Any]) -> None:
    section = _sections.section(Base, rule, CHECKS[rule].Settings)

    with pytest.raises(ValidationError):
        section.model_validate(given)
