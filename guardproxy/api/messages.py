"""/v1/messages (Anthropic): bytes <-> model. Pure.

A request's messages are read as `_blocks` spreads them out: each result of a call is a message of its own, and the
system prompt is the first. `write` splices bytes and leaves all others alone; `watch` looks at the answer. Thoughts and
their signatures, marks for the cache and all that we do not know pass unchanged, both ways. Of a conversation that the
provider holds (`thread`) the client is asked for the whole (`_message_threads`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from guardproxy.api import _messages
from guardproxy.api._asked import boolean, count, model_of, objects, wrong
from guardproxy.api._blocks import SPREAD, Spread, count as of_message
from guardproxy.api._blocks_error import error, failure
from guardproxy.api._blocks_held import calls_in_message, keep_calls, read_calls, read_message, sound, with_arguments
from guardproxy.api._blocks_made import closing, feedback, keep_alive, replay_message, reply, results
from guardproxy.api._blocks_watch import watch
from guardproxy.api._blocks_write import write
from guardproxy.api._chat_halt import OFF, RULE, Options
from guardproxy.api._chat_held import placed, raw_messages
from guardproxy.api._declared import declare
from guardproxy.api._gate import GAP, Gate, Joint
from guardproxy.api._json import read_object
from guardproxy.api._message_threads import whole
from guardproxy.api._prefix import Prefixes
from guardproxy.api._progress import progress
from guardproxy.api._sse import comment
from guardproxy.api._too_long import too_long
from guardproxy.api._tools import finish_tool, parameters, schema_defaults, tool_names
from guardproxy.api._watcher import Watcher
from guardproxy.core.model import Ask, Declared, Message

__all__ = [
    "GAP",
    "OFF",
    "PATHS",
    "REPLY_ID",
    "RULE",
    "SURFACE",
    "Gate",
    "Joint",
    "Options",
    "Watcher",
    "ask_of",
    "calls_in_message",
    "closing",
    "comment",
    "conversation",
    "error",
    "failure",
    "feedback",
    "first_language",
    "keep_alive",
    "keep_calls",
    "long_results",
    "message",
    "placed",
    "raw_messages",
    "read",
    "read_calls",
    "read_message",
    "replay_message",
    "reply",
    "results",
    "schema",
    "sound",
    "too_long",
    "watch",
    "widen",
    "with_arguments",
    "write",
]

SURFACE = "messages"
PATHS = ("/v1/messages",)
REPLY_ID = "msg_guardproxy_"
"""Begins the id of an answer of ours."""

NOTHING: Mapping[str, object] = MappingProxyType({})
NOBODY = Declared()
CHOICES = {"any": "required"}
"""Where a call is demanded, in chat's word."""


def read(body: bytes, headers: Mapping[str, str], *, short: bool = False, prefixes: Prefixes | None = None) -> Ask:
    """The request as an Ask. Header names are lower-case. Raises BadAsk with the offending `param`.

    `short`, `prefixes`: as for chat.
    """
    found = prefixes.read(body, of_message) if prefixes is not None else None
    parsed = read_object(body) if found is None else found[1]
    if found is None:
        objects(parsed, "messages")
    else:
        parsed["messages"] = found[0]
    whole(parsed)
    declared, told = declare(headers, parsed), progress(headers)
    model = model_of(parsed, headers)
    return _ask(parsed, model, body, replace(declared, progress=told) if told else declared, short=short)


def ask_of(
    messages: Sequence[Mapping[str, object]],
    *,
    model: str = "",
    tools: object = (),
    parsed: Mapping[str, object] = NOTHING,
    declared: Declared = NOBODY,
) -> Ask:
    """The Ask of a conversation given as values."""
    return _ask({**parsed, "messages": list(messages), "tools": tools}, model, b"", declared)


def _ask(parsed: Mapping[str, object], model: str, body: bytes, declared: Declared, *, short: bool = False) -> Ask:
    spread = Spread(parsed)
    first = _messages.head(spread)
    last, start = _messages.tail(spread, short=short)
    tools = _functions(parsed)
    names, choice = tool_names(tools), _choice(parsed)
    return Ask(
        surface=SURFACE,
        model=model,
        stream=boolean(parsed, "stream"),
        body=body,
        count=len(spread),
        head=first,
        tail=last,
        tail_start=start,
        declared=declared,
        tools=names,
        tool_choice=choice,
        finish_tool=finish_tool(tools, {"tool_choice": choice}) if choice == "required" else None,
        max_tokens=count(parsed, "max_tokens"),
        wants_usage=True,
        language=_messages.language(first, last),
        parsed={**parsed, SPREAD: spread},
        defaults=schema_defaults(tools, names, last),
    )


def widen(ask: Ask) -> Ask:
    """The same ask with the whole window in its tail."""
    last, start = _messages.tail(_spread(ask))
    return replace(ask, tail=last, tail_start=start, defaults=schema_defaults(_functions(ask.parsed), ask.tools, last))


def conversation(ask: Ask) -> Ask:
    """The same ask with all its messages in its tail; the cost grows with the history."""
    return replace(ask, tail=tuple([_messages.neutral(one) for one in _spread(ask)]), tail_start=0)


def first_language(ask: Ask) -> str:
    """The language of the head alone: what is said again on every turn must not change as a conversation goes on."""
    return _messages.language(ask.head, ())


def long_results(ask: Ask, size: int) -> list[tuple[int, Message]]:
    """Results before the tail that may have more than `size` bytes of text, by index."""
    return [(at, _messages.neutral(one)) for at, one in _spread(ask).longer(size, ask.tail_start)]


def schema(ask: Ask, tool: str) -> Mapping[str, object] | None:
    """The JSON schema of a tool's arguments in the request; {} where it has none, None where it is no such function."""
    return parameters(_functions(ask.parsed), tool)


def message(ask: Ask, index: int) -> Message | None:
    """The message at `index` of those that are spread out, in neutral form: where our earlier advice is found again.

    Where an answer begins with what the provider ran itself, it is known by what it says and calls for.
    """
    found = _spread(ask)
    return _messages.neutral(found.answer(index)) if 0 <= index < len(found) else None


def _spread(ask: Ask) -> Spread:
    found = ask.parsed.get(SPREAD)
    return found if isinstance(found, Spread) else Spread(ask.parsed)


def _functions(parsed: Mapping[str, object]) -> list[object]:
    """The tools as chat has them: what the provider runs itself has a kind of its own, and no schema."""
    tools = parsed.get("tools") or ()
    if not isinstance(tools, list | tuple):
        raise wrong("tools", "a list")
    return [_function(tool) for tool in tools]


def _function(tool: object) -> object:
    if not isinstance(tool, dict) or tool.get("type", "custom") not in ("custom", None):
        return tool
    return {"function": {"name": tool.get("name"), "parameters": tool.get("input_schema")}}


def _choice(parsed: Mapping[str, object]) -> str:
    choice = parsed.get("tool_choice")
    kind = choice.get("type") if isinstance(choice, dict) else choice
    return CHOICES.get(kind, kind) if isinstance(kind, str) else ""
