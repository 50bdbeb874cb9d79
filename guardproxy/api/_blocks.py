"""The messages of a request whose content is made of blocks (Anthropic's), each result as a message of its own.

A message of the user that holds results of calls is several messages to us: each result, then what the user says. An
assistant message whose tools the provider ran itself is a round of those calls in front of the rest. The system prompt
is the first message. What is given is what `_messages` reads, made only of what is looked at; the walk through the
history looks at the kinds of blocks and no more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from typing import NamedTuple, overload

from guardproxy.api._json import dumps
from guardproxy.api._messages import role_of
from guardproxy.api._prefix import Messages

Raw = Mapping[str, object]
Fields = dict[str, object]

SERVED = frozenset(("server_tool_use", "mcp_tool_use"))
"""Calls that the provider carries out itself, within its answer."""

THOUGHTS = frozenset(("thinking", "redacted_thinking"))
"""Blocks that are for the model alone."""

_RESULT = "_tool_result"
SPREAD = "guardproxy.messages"
"""Under this key `Ask.parsed` keeps the messages spread out: they are walked through once."""

SYSTEM = -1
"""The place of the system prompt."""

GAP = "\n\n"
MOST = 4
"""Bytes that a character takes at most."""


class Place(NamedTuple):
    """Where a message of ours stands: the message of the request, and which of its parts.

    `part`: of a result its block; None for all that is none. `served`: the calls that the provider ran, or the block of
    a result of them.
    """

    message: int
    part: int | None = None
    served: bool = False


class Spread(Sequence[Raw]):
    """The messages, spread out; each is made when it is looked at."""

    def __init__(self, parsed: Raw) -> None:
        found = parsed.get("messages")
        self._messages: Sequence[Raw] = found if isinstance(found, list | Messages) else ()
        self._system = parsed.get("system")
        self._lead = 1 if self._system else 0
        self._from, before = found.reach if isinstance(found, Messages) else (0, 0)
        """The first message that is counted; of those before it, their number is known."""
        self._firsts, self._count = _counted(self._messages[self._from :], self._lead + before)
        heads = found.heads if isinstance(found, Messages) else 0
        self._heads, self._headed = _counted([self._messages[at] for at in range(heads)], self._lead)
        self._known: dict[int, Raw] = {}

    def __len__(self) -> int:
        return self._count

    @overload
    def __getitem__(self, index: int) -> Raw: ...
    @overload
    def __getitem__(self, index: slice) -> list[Raw]: ...
    def __getitem__(self, index: int | slice) -> Raw | list[Raw]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + self._count if index < 0 else index
        found = self._known.get(at)
        if found is None:
            found = self._known[at] = self._made(self.place(at))
        return found

    def place(self, at: int) -> Place:
        """Where the message at an index of ours stands."""
        if not 0 <= at < self._count:
            raise IndexError(at)
        if at < self._lead:
            return Place(SYSTEM)
        firsts, start = self._heads, 0
        if at >= self._headed:
            while self._from and at < self._firsts[0]:
                self._go_back()
            firsts, start = self._firsts, self._from
        number = bisect_right(firsts, at) - 1
        return _places(start + number, self._messages[start + number])[at - firsts[number]]

    def answer(self, at: int) -> Raw:
        """The message at an index; the whole of an answer where its calls that the provider ran stand."""
        place = self.place(at)
        if place.served and place.part is None:
            return assistant(self._messages[place.message].get("content"))
        return self[at]

    def longer(self, size: int, before: int) -> list[tuple[int, Raw]]:
        """The results in front of a place that may have more than so many bytes of text, by index."""
        while self._from:
            self._go_back()
        found = []
        for message, first in enumerate(self._firsts):
            raw = self._messages[message]
            if first >= before:
                break
            if isinstance(raw.get("content"), list):
                places = enumerate(_places(message, raw), first)
                found += [(at, self[at]) for at, place in places if at < before and _size(raw, place) * MOST > size]
        return found

    def _go_back(self) -> None:
        """Count what lies between the first message that is counted and the place before it."""
        messages, upto = self._messages, self._from
        self._from = 0
        before = 0
        if isinstance(messages, Messages):
            messages.go_back()
            self._from, before = messages.reach
        firsts, _ = _counted(messages[self._from : upto], self._lead + before)
        self._firsts = [*firsts, *self._firsts]

    def _made(self, place: Place) -> Raw:
        if place.message == SYSTEM:
            return {"role": "system", "content": self._system}
        message = self._messages[place.message]
        content = message.get("content")
        if not isinstance(content, list):
            return message
        if place.part is not None:
            return _result(content[place.part])
        if place.served:
            calls = [_call(block) for block in content if _kind(block) in SERVED]
            return {"role": "assistant", "content": None, "tool_calls": calls}
        return assistant(content) if role_of(message) == "assistant" else _user(message, content)


def _counted(messages: Sequence[Raw], total: int) -> tuple[list[int], int]:
    """The index of ours of each message, and how many there are in all. The walk through the history: no call in it."""
    firsts = []
    for at, message in enumerate(messages):
        firsts.append(total)
        content = message.get("content")
        total += 1
        if type(content) is not list:
            continue
        many = 0
        for block in content:
            kind = block.get("type") if type(block) is dict else None
            if kind == "tool_result" or kind == "server_tool_use" or kind == "mcp_tool_use":  # noqa: PLR1714  # quicker, and a kind may be anything
                many += 1
        if many and (many > 1 or len(content) > 1):
            total += len(_places(at, message)) - 1
    return firsts, total


def count(message: Raw) -> int:
    """How many messages of ours a message of the request is."""
    return _counted((message,), 0)[1]


def _places(at: int, message: Raw) -> list[Place]:
    """The messages of ours that a message of the request is."""
    content = message.get("content")
    if not isinstance(content, list):
        return [Place(at)]
    kinds = [_kind(block) for block in content]
    if role_of(message) != "assistant":
        results = [Place(at, number) for number, kind in enumerate(kinds) if kind == "tool_result"]
        return results if results and len(results) == len(kinds) else [*results, Place(at)]
    if SERVED.isdisjoint(kinds):
        return [Place(at)]
    found = [Place(at, number, served=True) for number, kind in enumerate(kinds) if kind.endswith(_RESULT)]
    own = [Place(at)] if "tool_use" in kinds or "text" in kinds else []
    return [Place(at, served=True), *found, *own]


def _size(message: Raw, place: Place) -> int:
    """Characters of a result's text; 0 of what is none."""
    content = message.get("content")
    block = content[place.part] if isinstance(content, list) and place.part is not None else None
    found = block.get("content") if isinstance(block, dict) else None
    parts = [part.get("text") for part in found if isinstance(part, dict)] if isinstance(found, list) else [found]
    return sum(len(part) for part in parts if isinstance(part, str))


def assistant(content: object) -> Fields:
    """What an assistant message says and calls for; what the provider ran itself is left out."""
    blocks = content if isinstance(content, list) else []
    calls = [_call(block) for block in blocks if _kind(block) == "tool_use"]
    text = text_of(blocks) if isinstance(content, list) else content
    return {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}


def text_of(blocks: Sequence[object]) -> str:
    """The words of an assistant's blocks. Those that follow each other are one text, cut where it cites something."""
    parts: list[str] = []
    joined = False
    for block in blocks:
        text = block.get("text") if isinstance(block, dict) and block.get("type") == "text" else None
        if isinstance(text, str) and text:
            parts += (text,) if joined or not parts else (GAP, text)
            joined = True
        else:
            joined = False
    return "".join(parts)


def _user(message: Raw, content: Sequence[object]) -> Fields:
    rest = [_bare(block) for block in content if _kind(block) != "tool_result"]
    return {**message, "content": rest}


def _result(block: object) -> Fields:
    found = block if isinstance(block, dict) else {}
    content = found.get("content")
    failed = found.get("is_error")
    if found.get("type") not in ("tool_result", "mcp_tool_result"):
        failed = _kind(content).endswith("_error")
        content = dumps(_plain(content)).decode()
    elif isinstance(content, list):
        content = [_bare(part) for part in content]
    made: Fields = {"role": "tool", "tool_call_id": found.get("tool_use_id"), "content": content}
    return {**made, "is_error": failed} if isinstance(failed, bool) else made


def _plain(value: object) -> object:
    """What a provider found, without what is enciphered anew each time."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items() if not str(key).startswith("encrypted")}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _call(block: object) -> Fields:
    found = block if isinstance(block, dict) else {}
    given = found.get("input")
    arguments = given if isinstance(given, str) else dumps({} if given is None else given).decode()
    return {"id": found.get("id"), "function": {"name": found.get("name"), "arguments": arguments}}


def _bare(block: object) -> object:
    """A block without its mark for the cache: that wanders from block to block."""
    if isinstance(block, dict) and "cache_control" in block:
        return {key: value for key, value in block.items() if key != "cache_control"}
    return block


def _kind(block: object) -> str:
    kind = block.get("type") if isinstance(block, dict) else ""
    return kind if isinstance(kind, str) else ""
