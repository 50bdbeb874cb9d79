"""Items of a Responses conversation as messages: what one response brought is one assistant message.

Each message is made when it is looked at, in chat's form, so that reading it is chat's. Calls that the provider carries
out by itself (searches, code, MCP) bring their results along: they are steps from the answer on that brought them, and
not again in the history. Unknown items belong to the assistant. Never raises.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, overload

from guardproxy.api._gate import GAP
from guardproxy.api._json import dumps, text_of
from guardproxy.api._tools import qualified
from guardproxy.core.fingerprint import GUARD_MARK

Raw = Mapping[str, object]
Fields = dict[str, object]

CALLS = {
    "function_call": "",
    "custom_tool_call": "",
    "local_shell_call": "local_shell",
    "shell_call": "shell",
    "apply_patch_call": "apply_patch",
    "computer_call": "computer",
}
"""Calls that the client carries out, and the tool's name where the item has none."""

RESULTS = frozenset(f"{kind}_output" for kind in CALLS)
"""What answers them."""

HOSTED = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "code_interpreter",
    "image_generation_call": "image_generation",
    "mcp_call": "mcp",
}
"""Calls that the provider carries out, and the tool's name where the item has none."""

THOUGHT = "reasoning"
"""Thoughts. Providers refuse those that stand there without what came of them."""

OURS = ("msg_resp_guardproxy_", "msg_guardproxy")
"""How ids of messages of ours begin: of one that is an answer of its own, and of one behind what a model said."""

OWN_ID = 24
"""Characters of a response's id that stand in that of a message of ours. Ids of over 64 are refused, and one twice."""

_INPUTS = {
    "local_shell_call": ("action",),
    "shell_call": ("action",),
    "apply_patch_call": ("operation",),
    "computer_call": ("action", "actions"),
    "web_search_call": ("action", "query"),
    "file_search_call": ("queries",),
    "code_interpreter_call": ("code",),
    "image_generation_call": ("revised_prompt",),
}
"""Where an item without `arguments` says what is to be done."""

_OUTPUTS = ("output", "outputs", "results", "result", "error")
_EMPTY: Raw = {}
_made = tuple.__new__
"""Makes a named tuple of all its fields at half the price."""


def kind_of(item: object) -> str:
    """The item's type; a message may go without."""
    found = item.get("type") if isinstance(item, dict) else None
    if isinstance(found, str):
        return found
    return "message" if isinstance(item, dict) and "role" in item else ""


def is_call(item: Raw) -> bool:
    """Whether the client is to carry it out."""
    return kind_of(item) in CALLS


def name_of(item: Raw) -> str:
    """The tool that a call is of, with its namespace or its server."""
    kind = kind_of(item)
    name = item.get("name") or CALLS.get(kind) or HOSTED.get(kind)
    if not isinstance(name, str):
        return ""
    server = item.get("server_label") if kind == "mcp_call" else None
    return qualified(name, f"mcp__{server}" if server and isinstance(server, str) else item.get("namespace"))


def call_of(item: Raw) -> Fields:
    """A call in chat's form. Free text is put into an object: arguments are one."""
    kind = kind_of(item)
    if "arguments" in item:
        arguments = text_of(item["arguments"])
    elif kind == "custom_tool_call":
        arguments = dumps({"input": item.get("input", "")}).decode()
    else:
        said = {key: item[key] for key in _INPUTS.get(kind, ()) if item.get(key) is not None}
        only = next(iter(said.values()), None)
        arguments = dumps(only if isinstance(only, dict) else said).decode()
    call_id = item.get("call_id") or item.get("id") or ""
    return {"id": call_id, "function": {"name": name_of(item), "arguments": arguments}}


def is_ours(item: Raw) -> int:
    """1 where a message of the assistant's is one of ours: an answer ends with it. 2: it is an answer of its own."""
    item_id = item.get("id")
    if isinstance(item_id, str) and item_id.startswith(OURS):
        return 2 if item_id.startswith(OURS[0]) else 1
    content = item.get("content")
    if isinstance(content, list) and len(content) == 1 and isinstance(content[0], dict):  # mostly
        content = content[0].get("text")
        if isinstance(content, str):
            return int(content.startswith(GUARD_MARK))
    return int(text_in(item).startswith(GUARD_MARK))


def own_id(response_id: str) -> str:
    """The id of a message of ours behind what a model said in the response of that id."""
    end = response_id[-OWN_ID:]
    return f"{OURS[1]}_{end}" if end else OURS[1]


def text_in(item: Raw) -> str:
    """The visible text of a message of the assistant's, refusals included."""
    content = item.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    texts = [part.get("text", part.get("refusal")) for part in parts if isinstance(part, dict)]
    return "\n".join([text for text in texts if isinstance(text, str)])


def said(items: Sequence[Raw]) -> Fields:
    """What the items of one response say and call, in chat's form."""
    texts = [text for item in items if kind_of(item) == "message" and (text := text_in(item))]
    message: Fields = {"role": "assistant", "content": GAP.join(texts)}
    calls = [call_of(item) for item in items if is_call(item)]
    return {**message, "tool_calls": calls} if calls else message


class Place(NamedTuple):
    """A message of a conversation: its items (`start` to `end`; -1: it stands in none) and what it is.

    `kind`: `said` (the assistant), `result`, `told` (a user's or system message), `given` (instructions).
    """

    kind: str
    start: int
    end: int


class History(Sequence[Raw]):
    """The messages of a request. `before`: how many there were before its items; `last`: the newest of them, if known.

    `instructions` stand in front where nothing was before.
    """

    def __init__(
        self, items: Sequence[Raw], instructions: str = "", *, before: int = 0, last: Raw | None = None
    ) -> None:
        self.items = items
        self.before = before
        self.last = last
        self.instructions = instructions
        first = [Place("given", -1, -1)] if instructions and not before else []
        self.places = [*first, *_places(items)]

    @property
    def known(self) -> int:
        """The index of the first message that can be looked at."""
        return self.before - 1 if self.before and self.last is not None else self.before

    def __len__(self) -> int:
        return self.before + len(self.places)

    @overload
    def __getitem__(self, index: int) -> Raw: ...
    @overload
    def __getitem__(self, index: slice) -> list[Raw]: ...
    def __getitem__(self, index: int | slice) -> Raw | list[Raw]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        at = index + len(self) if index < 0 else index
        if not 0 <= at < len(self):
            raise IndexError(index)
        if at < self.before:
            return self.last if self.last is not None and at == self.before - 1 else _EMPTY
        place = self.places[at - self.before]
        return self._message(place)

    def place(self, index: int) -> Place | None:
        """Where a message stands in the request; None where it does not."""
        at = index - self.before
        return self.places[at] if 0 <= at < len(self.places) else None

    def _message(self, place: Place) -> Raw:
        if place.kind == "given":
            return {"role": "system", "content": self.instructions}
        if place.kind == "said":
            return said(self.items[place.start : place.end])
        item = self.items[place.start]
        if place.kind == "told":
            return item if isinstance(item.get("role"), str) else {**item, "role": "user"}
        return result_of(item)


def result_of(item: Raw) -> Fields:
    """The result of a call that the client has carried out, as a message in chat's form."""
    output = item.get("output")
    if isinstance(output, list) and kind_of(item) == "shell_call_output":
        output = "\n".join(_shell_output(output))
    elif isinstance(output, dict):  # a screenshot
        output = [output]
    wrong = item.get("status") in ("failed", "incomplete")
    call_id = item.get("call_id") or (item.get("id") if kind_of(item) == "local_shell_call_output" else "")
    message: Fields = {"role": "tool", "content": output, "tool_call_id": call_id or ""}
    return {**message, "is_error": True} if wrong else message


def _shell_output(output: Sequence[object]) -> Iterator[str]:
    for one in output:
        if isinstance(one, dict):
            yield from (text for key in ("stdout", "stderr") if isinstance(text := one.get(key), str) and text)
            outcome = one.get("outcome")
            code = outcome.get("exit_code") if isinstance(outcome, dict) else None
            if code is not None:
                yield f"[exit code {code}]"


def found_in(item: Raw) -> Fields:
    """The result that a call of the provider's own brings along."""
    found = next((item[key] for key in _OUTPUTS if item.get(key) is not None), None)
    if kind_of(item) == "image_generation_call":
        found = [{"type": "image", "result": found}]
    message: Fields = {"role": "tool", "content": text_of(found) if not isinstance(found, list) else _listed(found)}
    failed = item.get("status") == "failed" or item.get("error") is not None
    return {**message, "tool_call_id": item.get("id", ""), **({"is_error": True} if failed else {})}


def _listed(found: list[object]) -> object:
    kept = [one for one in found if isinstance(one, dict) and one.get("type") == "image"]
    return kept or dumps(found).decode()


def carried_out(item: Raw) -> tuple[Fields, Fields | None]:
    """A call of the provider's own in chat's form, and its result, if it is told."""
    known = any(item.get(key) is not None for key in _OUTPUTS)
    return {"role": "assistant", "tool_calls": [call_of(item)]}, found_in(item) if known else None


def _places(items: Sequence[Raw]) -> list[Place]:
    """The messages that the items are. Every item of a request is looked at here: its type, and no more."""
    found: list[Place] = []
    add, at, begun = found.append, -1, -1
    for item in items:
        at += 1
        kind = item.get("type") if isinstance(item, dict) else None  # of a dictionary compiled code asks by itself
        if not isinstance(kind, str):
            kind = kind_of(item)
        if kind == "message":
            side = "said" if item.get("role") == "assistant" else "told"
        elif kind == "function_call":
            side = "said"
        elif kind in RESULTS:
            side = "result"
        else:
            side = "told" if kind == "mcp_approval_response" else "said"
        if side == "said":
            begun = at if begun < 0 else begun
            if kind == "message" and (alone := is_ours(item)):
                if alone > 1 and begun < at:
                    add(_made(Place, ("said", begun, at)))
                    begun = at
                add(_made(Place, ("said", begun, at + 1)))
                begun = -1
            continue
        if begun >= 0:
            add(_made(Place, ("said", begun, at)))
            begun = -1
        add(_made(Place, (side, at, at + 1)))
    if begun >= 0:
        add(_made(Place, ("said", begun, at + 1)))
    return found
