"""A request whose results are tidied, in a line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import cast

from guardproxy.api import _messages
from guardproxy.core import hygiene
from guardproxy.core.edit import AppendText, ReplaceText
from guardproxy.core.hygiene import Cleaned
from guardproxy.core.model import Ask
from guardproxy.core.tool_rules import ToolRules
from tests.core import talk
from tests.core.talk import Json

NO_LIMITS: Mapping[str, float] = {}


def clean(
    asked: Ask,
    language: str = "en",
    *,
    whole: Ask | None = None,
    limits: Mapping[str, float] = NO_LIMITS,
    since_ms: int = 0,
    **settings: object,
) -> Cleaned:
    """`settings` by kind, the others off; `whole`: another than all of it; `limits`: deadlines."""
    return hygiene.clean(
        asked,
        {**hygiene.default_settings(), **settings},
        ToolRules(deadlines=limits),
        language,
        whole=lambda: whole or everything(asked),
        since_ms=since_ms,
        printer=talk.PRINTER,
    )


def one(tool: str, arguments: str, answer: str, **settings: object) -> Cleaned:
    """What is done to the newest result of a conversation of one call."""
    return clean(answered((tool, arguments, answer)), **settings)


def answered(*steps: tuple[str, str, str]) -> Ask:
    """A conversation of calls with their results, one after the other: (tool, arguments, result)."""
    messages: list[Json] = [talk.user("go")]
    for number, (tool, arguments, answer) in enumerate(steps):
        messages += [talk.called((tool, arguments, f"c{number}")), talk.result(answer, f"c{number}")]
    return talk.ask(*messages)


def everything(asked: Ask) -> Ask:
    """The ask with all of its messages in the tail."""
    messages = cast("list[Json]", asked.parsed["messages"])
    return replace(asked, tail=tuple(map(_messages.neutral, messages)), tail_start=0)


def said(cleaned: Cleaned) -> str:
    """All texts of the edits."""
    return "".join(edit.text for edit in cleaned.edits if isinstance(edit, AppendText | ReplaceText))
