"""/v1/responses (OpenAI): bytes <-> model. Pure.

What one response brought is one message of the assistant's (`_responses_items`). A request that goes on with an earlier
response (`previous_response_id`, `conversation`) holds only what is new: what was before is told by `recall`.

Cost: `read` is `orjson.loads` of the body and a look at the type of each item; only the window is converted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from guardproxy.api import _messages
from guardproxy.api._asked import IN_PATH
from guardproxy.api._chat_halt import OFF, RULE, Options
from guardproxy.api._chat_made import keep_alive
from guardproxy.api._declared import declare
from guardproxy.api._error import error
from guardproxy.api._gate import GAP, Gate, Joint
from guardproxy.api._json import peek, read_object
from guardproxy.api._prefix import Prefixes
from guardproxy.api._progress import progress
from guardproxy.api._responses_chain import OURS, Said, continues, keep, names, recalled, references, stored
from guardproxy.api._responses_held import (
    calls_in_message,
    keep_calls,
    placed,
    raw_messages,
    read_calls,
    read_message,
    with_arguments,
)
from guardproxy.api._responses_items import History
from guardproxy.api._responses_made import (
    closing,
    failure,
    feedback,
    replay_message,
    reply,
    results,
    sound,
    unanswered,
)
from guardproxy.api._responses_watch import watch
from guardproxy.api._responses_write import Body, write
from guardproxy.api._sse import comment
from guardproxy.api._too_long import too_long
from guardproxy.api._tools import finish_tool, parameters, schema_defaults, tool_choice, tool_names
from guardproxy.api._watcher import Watcher
from guardproxy.core.model import Ask, Declared, Message
from guardproxy.errors import BadAsk

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
    "Said",
    "Watcher",
    "ask_of",
    "calls_in_message",
    "closing",
    "comment",
    "continues",
    "conversation",
    "error",
    "failure",
    "feedback",
    "first_language",
    "keep",
    "keep_alive",
    "keep_calls",
    "long_results",
    "message",
    "names",
    "placed",
    "raw_messages",
    "read",
    "read_calls",
    "read_message",
    "recall",
    "references",
    "replay_message",
    "reply",
    "resolve",
    "results",
    "schema",
    "sound",
    "stored",
    "too_long",
    "unanswered",
    "watch",
    "widen",
    "with_arguments",
    "write",
]

SURFACE = "responses"
REPLY_ID = OURS
PATHS = ("/v1/responses",)
NOBODY = Declared()


def read(
    body: bytes,
    headers: Mapping[str, str],
    *,
    short: bool = False,
    prefixes: Prefixes | None = None,  # bodies are read whole here
) -> Ask:
    """The request as an Ask. Header names are lower-case. Raises BadAsk with the offending `param`.

    `short`: a tail of the newest rounds only; `widen` gives the whole window where it is needed.
    """
    parsed = Body(read_object(body))
    declared, told = declare(headers, parsed), progress(headers)
    if told:
        declared = replace(declared, progress=told)
    return _ask(parsed, body, declared, short=short, named=headers.get(IN_PATH, ""))


def ask_of(items: Sequence[Mapping[str, object]], *, model: str = "", tools: object = ()) -> Ask:
    """The Ask of items given as values."""
    return _ask(Body(input=[*items], model=model or "-", tools=tools), b"", NOBODY, short=False)


def _ask(parsed: Body, body: bytes, declared: Declared, *, short: bool, named: str = "") -> Ask:
    if not hasattr(parsed, "history"):
        parsed.history = History(_items(parsed), _instructions(parsed))
    model, tools = named or parsed.get("model"), parsed.get("tools") or ()
    if not isinstance(model, str | None):
        raise _wrong("model", "a string")
    if not model and not parsed.get("prompt"):
        raise BadAsk("`model` is missing.", code="missing_required_parameter", param="model")
    if not isinstance(tools, list | tuple):
        raise _wrong("tools", "a list")
    names = tool_names(tools)
    first = _head(parsed.history)
    last, start = _tail(parsed.history, short=short)
    return Ask(
        surface=SURFACE,
        model=model or "",
        stream=_boolean(parsed, "stream"),
        body=body,
        count=len(parsed.history),
        head=first,
        tail=last,
        tail_start=start,
        declared=declared,
        tools=names,
        tool_choice=tool_choice(parsed),
        finish_tool=_finish_tool(tools, parsed),
        max_tokens=_count(parsed, "max_output_tokens"),
        language=_messages.language(first, last),
        parsed=parsed,
        defaults=schema_defaults(tools, names, last),
        background=parsed.get("background") is True,
    )


def recall(ask: Ask, kept: bytes | None) -> tuple[Ask, str, str] | None:
    """The request behind what was before it, with its session and thread; None where nothing is known of that."""
    found = recalled(ask, kept)
    if found is None or not isinstance(ask.parsed, Body):
        return None
    ask.parsed.history, ask.parsed.before = found.history, found.before
    again = _ask(ask.parsed, ask.body, ask.declared, short=True, named=ask.model)
    return replace(again, language=found.language, held_tokens=found.tokens), found.session, found.thread


def resolve(ask: Ask, found: Mapping[str, bytes]) -> Ask:
    """The request with items in the place of their references, for our eyes: it is sent on as it came."""
    if not isinstance(ask.parsed, Body):
        return ask
    history = ask.parsed.history
    items = [_meant(item, found) for item in history.items]
    ask.parsed.history = History(items, history.instructions, before=history.before, last=history.last)
    again = _ask(ask.parsed, ask.body, ask.declared, short=True, named=ask.model)
    return replace(again, language=ask.language, held_tokens=ask.held_tokens)


def _meant(item: Mapping[str, object], found: Mapping[str, bytes]) -> Mapping[str, object]:
    raw = found.get(str(item.get("id"))) if item.get("type") == "item_reference" else None
    meant = peek(raw) if raw is not None else None
    return meant if isinstance(meant, dict) else item


def _head(history: History) -> tuple[Message, ...]:
    """The leading system messages and the first one of the user; of what was before nothing but the instructions."""
    if not history.before:
        return _messages.head(history)
    return (Message("system", history.instructions),) if history.instructions else ()


def _tail(history: History, *, short: bool = False) -> tuple[tuple[Message, ...], int]:
    """The last messages that can be looked at, and the index of the first of them."""
    known = history.known
    last, start = _messages.tail(history[known:] if known else history, short=short)
    return last, start + known


def widen(ask: Ask) -> Ask:
    """The same ask with the whole window in its tail."""
    last, start = _tail(_history(ask))
    tools = ask.parsed.get("tools") or ()
    defaults = schema_defaults(tools, ask.tools, last) if isinstance(tools, list) else ask.defaults
    return replace(ask, tail=last, tail_start=start, defaults=defaults)


def conversation(ask: Ask) -> Ask:
    """The same ask with all its messages in its tail; the cost grows with the history."""
    history = _history(ask)
    known = history.known
    return replace(ask, tail=tuple([_messages.neutral(one) for one in history[known:]]), tail_start=known)


def first_language(ask: Ask) -> str:
    """The language of the head alone: what is said again on every turn must not change as a conversation goes on."""
    return ask.language if _history(ask).before else _messages.language(ask.head, ())


def long_results(ask: Ask, size: int) -> list[tuple[int, Message]]:
    """Results before the tail that may have more than `size` bytes of text, by index."""
    history = _history(ask)
    found = []
    for at in range(history.known, ask.tail_start):
        place = history.place(at)
        if place is not None and place.kind == "result":
            message = _messages.neutral(history[at])
            if len(message.text) * 4 > size:
                found.append((at, message))
    return found


def schema(ask: Ask, tool: str) -> Mapping[str, object] | None:
    """The JSON schema of a tool's arguments in the request; {} where it has none, None where it is no such function."""
    tools = ask.parsed.get("tools")
    return parameters(tools, tool) if isinstance(tools, list) else None


def message(ask: Ask, index: int) -> Message | None:
    """The message at `index` of the request in neutral form: where our earlier advice is found again."""
    history = _history(ask)
    return _messages.neutral(history[index]) if history.known <= index < len(history) else None


def _history(ask: Ask) -> History:
    return ask.parsed.history if isinstance(ask.parsed, Body) else History(())


def _items(parsed: Mapping[str, object]) -> Sequence[Mapping[str, object]]:
    items = parsed.get("input")
    if isinstance(items, str):
        return [{"role": "user", "content": items}]
    if items is None:
        return ()
    if not isinstance(items, list):
        raise _wrong("input", "a string or a list")
    if items and set(map(type, items)) != {dict}:
        index = next(index for index, item in enumerate(items) if not isinstance(item, dict))
        raise _wrong(f"input[{index}]", "an object")
    return items


def _instructions(parsed: Mapping[str, object]) -> str:
    found = parsed.get("instructions")
    return found if isinstance(found, str) else ""


def _finish_tool(tools: Sequence[object], parsed: Mapping[str, object]) -> tuple[str, str] | None:
    functions = [{"function": one} for one in tools if isinstance(one, dict) and one.get("type") == "function"]
    return finish_tool(functions, parsed) if parsed.get("tool_choice") == "required" else None


def _boolean(parsed: Mapping[str, object], key: str) -> bool:
    value = parsed.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise _wrong(key, "true or false")


def _count(parsed: Mapping[str, object], key: str) -> int | None:
    """A positive integer; what is absent, null or not above zero is None."""
    value = parsed.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise _wrong(key, "an integer")
    return int(value) if value > 0 else None


def _wrong(param: str, kind: str) -> BadAsk:
    return BadAsk(f"`{param}` must be {kind}.", code="invalid_type", param=param)
