"""Messages and ends of answers that the proxy makes of what a model said: results, feedback, a stored answer.

Ids and times are given by the caller. Usage is that of the attempts, else zero: no model ran.
"""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from guardproxy.api._gate import GAP, Joint
from guardproxy.api._gathered import CALLS, Fields, is_legacy
from guardproxy.api._joined import Joined
from guardproxy.api._json import dumps, peek
from guardproxy.api._reply import DONE, JSON, NO_USAGE, SSE, event
from guardproxy.core.model import Ask

KEEP_ALIVE = b": keep-alive\n\n"
"""A comment: whoever reads server-sent events passes over it."""


def results(calls_raw: Sequence[bytes], texts: Sequence[str]) -> tuple[bytes, ...]:
    """The messages that answer these calls (as `raw_calls` gave them), a text each."""
    return tuple([dumps(_result(peek(raw), text)) for raw, text in zip(calls_raw, texts, strict=True)])


def sound(raw: bytes) -> bytes:
    """A message or a call whose arguments are JSON objects, as providers demand of a history they are sent.

    Those that are none stand inside one, as text. Where all is well it is `raw` itself.
    """
    parsed = peek(raw)
    found: Fields = parsed if isinstance(parsed, dict) else {}
    calls = found.get("tool_calls")
    holders = [call.get("function") for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []
    holders += [found.get("function"), found.get("function_call"), found if is_legacy(found) else None]
    broken = [one for one in holders if isinstance(one, dict) and _broken(one.get("arguments"))]
    for holder in broken:
        text = holder["arguments"]
        holder["arguments"] = dumps({"invalid_arguments": text}).decode() if text.strip() else "{}"
    return dumps(parsed) if broken else raw


def _broken(arguments: object) -> bool:
    """Whether a reader that forgives nothing would not take it for an object."""
    if not isinstance(arguments, str):
        return False
    try:
        return not isinstance(orjson.loads(arguments), dict)
    except ValueError:
        return True


def feedback(text: str) -> bytes:
    """The message that tells the model what is wrong with its answer."""
    return dumps({"role": "user", "content": text})


def keep_alive() -> bytes:
    """What may be sent while a stream is held, so that nobody between here and the client gives it up."""
    return KEEP_ALIVE


def closing(ask: Ask, joint: Joint | None, text: str, *, reply_id: str, created: int) -> bytes:
    """The end of an answer in our words, behind what the client was given of it; `reply_id`: where nothing was."""
    joint = joint or Joint()
    base = {"id": reply_id, "created": created, "model": ask.model, **joint.base}
    if ask.stream:
        joined = Joined(Joint(base, joint.role, joint.text, joint.calls))
        reason = "length" if joint.half else "tool_calls" if joint.calls else "stop"
        said = _unsaid(joined, joint) + joined.text(text) + joined.made({}, reason)
        return said + _usage(ask, base, joint) + DONE
    content = GAP.join([part for part in (joint.text, text) if part])
    message: Fields = {"role": "assistant", "content": content, "refusal": None}
    return _completion(base, message, "stop", joint)


def replay_message(
    ask: Ask, raw_message: bytes, *, reply_id: str, created: int, joint: Joint | None = None
) -> tuple[str, bytes]:
    """(content type, body) of an answer that is a stored assistant message.

    `joint`: what the client was given of this very answer and those before it; its text is not said again.
    """
    parsed = peek(raw_message)
    message: Fields = parsed if isinstance(parsed, dict) else {"role": "assistant", "content": ""}
    reason = next((key for key in CALLS if message.get(key)), "stop")
    given = joint or Joint()
    base = {"id": reply_id, "created": created, "model": ask.model, **given.base}
    if not ask.stream:
        words = {"content": given.text} if given.text else {}
        return JSON, _completion(base, {**message, "role": "assistant", **words}, reason, given)
    joined = Joined(Joint(base, given.role, "", given.calls))
    fields = {key: value for key, value in message.items() if key not in CALLS and key != "role" and value}
    calls = message.get("tool_calls") or ([message["function_call"]] if message.get("function_call") else [])
    said = _unsaid(joined, given)
    said += b"" if joint is not None and calls else joined.made(fields or {"content": None})
    said += joined.calls([call for call in calls if isinstance(call, dict)]) if isinstance(calls, list) else b""
    return SSE, said + joined.made({}, reason) + _usage(ask, base, given) + DONE


def _unsaid(joined: Joined, joint: Joint) -> bytes:
    """Text that a client which asked for a stream has not seen yet: its provider has answered in one piece."""
    return joined.made({"content": joint.text}) if joint.text and not (joint.streamed or joint.role) else b""


def _result(call: object, text: str) -> Fields:
    known: Fields = call if isinstance(call, dict) else {}
    if is_legacy(known) and known:
        return {"role": "function", "name": known.get("name", ""), "content": text}
    return {"role": "tool", "tool_call_id": known.get("id", ""), "content": text}


def _completion(base: Fields, message: Fields, reason: str, joint: Joint) -> bytes:
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
    usage = joint.usage or NO_USAGE
    return dumps({**base, "object": "chat.completion", "choices": [choice], "usage": usage})


def _usage(ask: Ask, base: Fields, joint: Joint) -> bytes:
    if not ask.wants_usage:
        return b""
    return event({"object": "chat.completion.chunk", **base, "choices": [], "usage": joint.usage or NO_USAGE})
