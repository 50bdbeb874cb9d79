"""Responses, items and ends of answers that the proxy makes: of its own words, or of what a model said.

Ids and times are given by the caller. Usage is that of the attempts, else zero: no model ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from guardproxy.api._chat_made import _broken
from guardproxy.api._gate import Joint
from guardproxy.api._json import dumps, peek
from guardproxy.api._reply import JSON, SSE, Finish
from guardproxy.api._responses_events import NO_USAGE, begin, event, message_of, response_of
from guardproxy.api._responses_given import Given, Sequel, given_of
from guardproxy.api._responses_items import OURS, Fields, kind_of
from guardproxy.api._too_long import unlike
from guardproxy.core.model import Ask, Call
from guardproxy.errors import GuardError

NOTHING: Mapping[str, object] = MappingProxyType({})

BLANK = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)
"""A picture of one pixel: the screen is answered with pictures only."""


def reply(ask: Ask, text: str, *, reply_id: str, created: int, finish: Finish | None = None) -> tuple[str, bytes]:
    """(content type, body) of a well-formed answer; `finish` makes it a call of that tool with `text` as argument."""
    item = message_of(text, f"msg_{reply_id}")
    if finish:
        tool, argument, call_id = finish
        arguments = dumps({argument: text}).decode()
        item = {"id": f"fc_{reply_id}", "type": "function_call", "status": "completed", "call_id": call_id}
        item |= {"name": tool, "arguments": arguments}
    return _answer(ask, [item], Given(), reply_id, created)


def closing(ask: Ask, joint: Joint | None, text: str, *, reply_id: str, created: int) -> bytes:
    """The end of an answer in our words, behind what the client was given of it; `reply_id`: where nothing was."""
    given = given_of(joint)
    behind = given.items or given.opened
    item_id = f"{OURS[1]}_{reply_id}" if behind else f"msg_{reply_id}"
    return _answer(ask, [message_of(text, item_id)], given, reply_id, created)[1]


def replay_message(
    ask: Ask, raw_message: bytes, *, reply_id: str, created: int, joint: Joint | None = None
) -> tuple[str, bytes]:
    """(content type, body) of an answer that is a stored one.

    `joint`: what the client was given of this very answer and those before it; its items are not said again.
    """
    given = given_of(joint)
    known = {str(item.get("id")) for item in (*given.items, *[item for _, item in given.opened])}
    items = [item for item in items_of(raw_message) if not item.get("id") or str(item["id"]) not in known]
    return _answer(ask, items, given, reply_id, created)


def _answer(ask: Ask, items: Sequence[Fields], given: Given, reply_id: str, created: int) -> tuple[str, bytes]:
    response = {**response_of(ask, reply_id, created), **given.base}
    if not ask.stream:
        output = [*given.items, *items]
        done = {**response, "status": "completed", "output": output, "usage": given.usage or NO_USAGE}
        return JSON, dumps(done)
    sequel = Sequel(given)
    out = b"" if given.role else sequel.made(begin(response))
    if given.items and not (given.streamed or given.role):  # its provider has answered in one piece
        sequel = Sequel(Given(given.base, given.role, usage=given.usage, number=sequel.number))
        items = [*given.items, *items]
    out += sequel.close() + b"".join([sequel.item(item) for item in items])
    return SSE, out + sequel.end(response, given.usage)


def failure(err: GuardError, joint: Joint | None = None) -> bytes:
    """What tells a client in the middle of a stream that it will not be completed."""
    given = given_of(joint)
    wrong: Fields = {"code": err.code, "message": unlike(err.message)}
    failed: Fields = {"object": "response", **given.base, "status": "failed", "error": wrong, "output": [*given.items]}
    return event({"type": "response.failed", "sequence_number": given.number, "response": failed})


# ------------------------------------------------------------------------------------------------- items of a request


def items_of(raw: bytes) -> list[Fields]:
    """The items of a stored answer: a list, or one alone."""
    found = peek(raw)
    listed = found if isinstance(found, list) else [found]
    return [item for item in listed if isinstance(item, dict)]


def results(calls_raw: Sequence[bytes], texts: Sequence[str]) -> tuple[bytes, ...]:
    """The items that answer these calls (as `raw_calls` gave them), a text each."""
    return tuple([dumps(_result(peek(raw), text)) for raw, text in zip(calls_raw, texts, strict=True)])


def _result(call: object, text: str) -> object:
    known: Fields = call if isinstance(call, dict) else {}
    kind, call_id = kind_of(known) or "function_call", known.get("call_id") or known.get("id") or ""
    made: Fields = {"type": f"{kind}_output", "call_id": call_id, "output": text}
    if kind == "local_shell_call":
        return {"type": f"{kind}_output", "id": call_id, "output": text}
    if kind == "shell_call":
        outcome = {"type": "exit", "exit_code": 1}
        return {**made, "output": [{"stdout": "", "stderr": text, "outcome": outcome}]}
    if kind == "apply_patch_call":
        return {**made, "status": "failed"}
    if kind == "computer_call":
        screen = {"type": "computer_screenshot", "image_url": BLANK}
        told = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        return [{**made, "output": screen}, told]
    return made


def unanswered(calls: Sequence[Call], text: str) -> tuple[bytes, ...]:
    """The items that answer calls which the client never saw."""
    raws = [dumps({"type": "function_call", "call_id": call.id}) for call in calls]
    return results(raws, [text] * len(raws))


def feedback(text: str) -> bytes:
    """The item that tells the model what is wrong with its answer."""
    return dumps({"type": "message", "role": "user", "content": text})


def sound(raw: bytes) -> bytes:
    """Items whose arguments are JSON objects, as providers demand of a history they are sent.

    Those that are none stand inside one, as text. Where all is well it is `raw` itself.
    """
    parsed = peek(raw)
    found = [item for item in (parsed if isinstance(parsed, list) else [parsed]) if isinstance(item, dict)]
    broken = [item for item in found if kind_of(item) == "function_call" and _broken(item.get("arguments"))]
    for item in broken:
        text = str(item["arguments"])
        item["arguments"] = dumps({"invalid_arguments": text}).decode() if text.strip() else "{}"
    return dumps(parsed) if broken else raw
