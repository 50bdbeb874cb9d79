"""/v1/chat/completions: bytes <-> model. Pure.

`read` keeps the body's bytes and converts only the window; `write` splices bytes and leaves all others alone; `watch`
(in `_chat_watch`) looks at the answer. What we do not understand passes unchanged, both ways.

Cost: `read` of a 61 KB body with 40 messages is `orjson.loads` plus about 60 µs, whatever the history's length
(`python -m timeit`; `tests/api/test_chat.py::test_read_cost_is_bounded` keeps the ratio).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from guardproxy.api import _messages
from guardproxy.api._asked import boolean, count, model_of, objects, usage_wish, wrong
from guardproxy.api._chat_halt import OFF, RULE, Options
from guardproxy.api._chat_held import (
    calls_in_message,
    keep_calls,
    placed,
    raw_messages,
    read_calls,
    read_message,
    with_arguments,
)
from guardproxy.api._chat_made import closing, feedback, keep_alive, replay_message, results, sound
from guardproxy.api._chat_watch import watch
from guardproxy.api._chat_write import write
from guardproxy.api._declared import declare
from guardproxy.api._error import error, failure
from guardproxy.api._gate import GAP, Gate, Joint, torn
from guardproxy.api._json import read_object
from guardproxy.api._prefix import Messages, Prefixes
from guardproxy.api._progress import progress
from guardproxy.api._reply import reply
from guardproxy.api._sse import comment, end_at
from guardproxy.api._too_long import too_long
from guardproxy.api._tools import finish_tool, parameters, schema_defaults, tool_choice, tool_names
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
    "end_at",
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
    "torn",
    "watch",
    "widen",
    "with_arguments",
    "write",
]

SURFACE = "chat"
PATHS = ("/v1/chat/completions",)
REPLY_ID = "chatcmpl-guardproxy-"
"""Begins the id of an answer of ours."""

NOTHING: Mapping[str, object] = MappingProxyType({})
NOBODY = Declared()


def read(body: bytes, headers: Mapping[str, str], *, short: bool = False, prefixes: Prefixes | None = None) -> Ask:
    """The request as an Ask. Header names are lower-case. Raises BadAsk with the offending `param`.

    `short`: a tail of the newest rounds only; `widen` gives the whole window where it is needed. `prefixes`: what is
    known of the beginnings of bodies, so that long ones are read from where they go on.
    """
    found = prefixes.read(body) if prefixes is not None else None
    parsed = read_object(body) if found is None else found[1]
    if found is not None:
        parsed["messages"] = found[0]
    return ask_of(
        objects(parsed, "messages") if found is None else found[0],
        model=model_of(parsed, headers),
        tools=parsed.get("tools") or parsed.get("functions") or (),
        body=body,
        parsed=parsed,
        declared=_declared(headers, parsed),
        short=short,
    )


def _declared(headers: Mapping[str, str], parsed: Mapping[str, object]) -> Declared:
    declared, told = declare(headers, parsed), progress(headers)
    return replace(declared, progress=told) if told else declared


def widen(ask: Ask) -> Ask:
    """The same ask with the whole window in its tail."""
    last, start = _messages.tail(_conversation(ask))
    tools = ask.parsed.get("tools") or ask.parsed.get("functions") or ()
    defaults = schema_defaults(tools, ask.tools, last) if isinstance(tools, list) else ask.defaults
    return replace(ask, tail=last, tail_start=start, defaults=defaults)


def ask_of(
    messages: Sequence[Mapping[str, object]],
    *,
    model: str = "",
    tools: object = (),
    body: bytes = b"",
    parsed: Mapping[str, object] = NOTHING,
    declared: Declared = NOBODY,
    short: bool = False,
) -> Ask:
    """The Ask of a conversation given as values (replay has no bytes). `tools` as in the request's body."""
    first = _messages.head(messages)
    last, start = _messages.tail(messages, short=short)
    stream = boolean(parsed, "stream")
    wants_usage, may_splice = usage_wish(parsed) if stream else (False, False)
    if not isinstance(tools, list | tuple):
        raise wrong("tools", "a list")
    names = tool_names(tools)
    return Ask(
        surface=SURFACE,
        model=model,
        stream=stream,
        body=body,
        count=len(messages),
        head=first,
        tail=last,
        tail_start=start,
        declared=declared,
        tools=names,
        tool_choice=tool_choice(parsed),
        finish_tool=finish_tool(tools, parsed),
        max_tokens=_max_tokens(parsed),
        choices=count(parsed, "n") or 1,
        wants_usage=wants_usage,
        may_splice_usage=may_splice,
        language=_messages.language(first, last),
        parsed=parsed,
        defaults=schema_defaults(tools, names, last),
        background=parsed.get("deferred") is True,
    )


def conversation(ask: Ask) -> Ask:
    """The same ask with all its messages in its tail; the cost grows with the history."""
    return replace(ask, tail=tuple([_messages.neutral(one) for one in _conversation(ask)]), tail_start=0)


def first_language(ask: Ask) -> str:
    """The language of the head alone: what is said again on every turn must not change as a conversation goes on."""
    return _messages.language(ask.head, ())


def long_results(ask: Ask, size: int) -> list[tuple[int, Message]]:
    """Results before the tail that may have more than `size` bytes of text, by index; of a long body little is read."""
    messages = _conversation(ask)
    found = messages.longer(size) if isinstance(messages, Messages) else enumerate(messages)
    some = [(at, one) for at, one in found if at < ask.tail_start and _messages.role_of(one) == "tool"]
    return sorted(((at, _messages.neutral(one)) for at, one in some), key=lambda pair: pair[0])


def schema(ask: Ask, tool: str) -> Mapping[str, object] | None:
    """The JSON schema of a tool's arguments in the request; {} where it has none, None where it is no such function."""
    tools = ask.parsed.get("tools") or ask.parsed.get("functions")
    return parameters(tools, tool) if isinstance(tools, list) else None


def message(ask: Ask, index: int) -> Message | None:
    """The message at `index` of the request in neutral form: where our earlier advice is found again."""
    messages = _conversation(ask)
    return _messages.neutral(messages[index]) if 0 <= index < len(messages) else None


def _conversation(ask: Ask) -> Sequence[Mapping[str, object]]:
    messages = ask.parsed.get("messages")
    return messages if isinstance(messages, list | Messages) else ()


def _max_tokens(parsed: Mapping[str, object]) -> int | None:
    newer = count(parsed, "max_completion_tokens")
    return newer if newer is not None else count(parsed, "max_tokens")
