"""Answers and messages of our own, made of blocks: whole, or the events of a stream.

Ids are given by the caller. Usage is that of the attempts, else zero: no model ran.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guardproxy.api._blocks_answer import calls_of
from guardproxy.api._gate import GAP, Joint
from guardproxy.api._json import dumps, peek
from guardproxy.core.model import Ask

JSON = "application/json"
SSE = "text/event-stream"
NO_USAGE: Mapping[str, object] = {"input_tokens": 0, "output_tokens": 0}
PING = b'event: ping\ndata: {"type":"ping"}\n\n'

Fields = dict[str, object]
Finish = tuple[str, str, str]  # tool, argument, call id


def event(kind: str, **fields: object) -> bytes:
    """One event."""
    return b"event: " + kind.encode() + b"\ndata: " + dumps({"type": kind, **fields}) + b"\n\n"


def begun(base: Mapping[str, object], usage: Mapping[str, object] = NO_USAGE) -> bytes:
    """The event that begins an answer."""
    head: Fields = {"type": "message", "role": "assistant", "content": [], "stop_reason": None, "stop_sequence": None}
    return event("message_start", message={**head, **base, "usage": usage})


def block_events(index: int, block: Fields) -> bytes:
    """A whole block, as events."""
    kind = block.get("type")
    if kind == "text":
        empty, pieces = {**block, "text": ""}, [{"type": "text_delta", "text": block.get("text", "")}]
    elif kind == "tool_use":
        written = dumps(block.get("input") or {}).decode()
        empty, pieces = {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]
    elif kind == "thinking":
        empty = {**block, "thinking": "", "signature": ""}
        pieces = [{"type": "thinking_delta", "thinking": block.get("thinking", "")}]
        pieces.append({"type": "signature_delta", "signature": block.get("signature", "")})
    else:
        empty, pieces = block, []
    made = [event("content_block_delta", index=index, delta=piece) for piece in pieces]
    start = event("content_block_start", index=index, content_block=empty)
    return b"".join((start, *made, event("content_block_stop", index=index)))


def ended(reason: str, usage: Mapping[str, object]) -> bytes:
    """The events that end an answer."""
    delta = {"stop_reason": reason, "stop_sequence": None}
    return event("message_delta", delta=delta, usage=usage) + event("message_stop")


def reply(ask: Ask, text: str, *, reply_id: str, created: int, finish: Finish | None = None) -> tuple[str, bytes]:
    """(content type, body) of a well-formed answer; `finish` makes it a call of that tool with `text` as argument."""
    block = _text(text)
    if finish:
        tool, argument, call_id = finish
        block = {"type": "tool_use", "id": call_id, "name": tool, "input": {argument: text}}
    return _answer(ask, reply_id, [block], Joint())


def _answer(ask: Ask, reply_id: str, blocks: Sequence[Fields], joint: Joint) -> tuple[str, bytes]:
    """An answer of these blocks, behind those that a stream was given."""
    called = any(block.get("type") == "tool_use" for block in blocks) or joint.calls
    reason = "max_tokens" if joint.half else "tool_use" if called else "end_turn"
    base = {"id": reply_id, "model": ask.model, **joint.base}
    usage = joint.usage or NO_USAGE
    if not ask.stream:
        head = {"type": "message", "role": "assistant", **base, "content": blocks}
        return JSON, dumps({**head, "stop_reason": reason, "stop_sequence": None, "usage": usage})
    out = [b"" if joint.role else begun(base)]
    if joint.open:
        out.append(event("content_block_stop", index=joint.blocks - 1))
    out += [block_events(joint.blocks + at, block) for at, block in enumerate(blocks)]
    return SSE, b"".join((*out, ended(reason, usage)))


def results(calls_raw: Sequence[bytes], texts: Sequence[str]) -> tuple[bytes, ...]:
    """The one message that answers these calls (as `raw_calls` gave them), a text each."""
    blocks = []
    for raw, text in zip(calls_raw, texts, strict=True):
        call = peek(raw)
        call_id = call.get("id", "") if isinstance(call, dict) else ""
        blocks.append({"type": "tool_result", "tool_use_id": call_id, "content": text})
    return (dumps({"role": "user", "content": blocks}),) if blocks else ()


def feedback(text: str) -> bytes:
    """The message that tells the model what is wrong with its answer."""
    return dumps({"role": "user", "content": text})


def keep_alive() -> bytes:
    """What may be sent while a stream is held, so that nobody between here and the client gives it up."""
    return PING


def closing(ask: Ask, joint: Joint | None, text: str, *, reply_id: str, created: int) -> bytes:
    """The end of an answer in our words, behind what the client was given of it; `reply_id`: where nothing was."""
    joint = joint or Joint()
    if ask.stream and (joint.streamed or joint.role):
        return _answer(ask, reply_id, [_text(GAP + text if joint.text else text)], joint)[1]
    said = GAP.join([part for part in (joint.text, text) if part])
    return _answer(ask, reply_id, [_text(said)], Joint(joint.base, usage=joint.usage))[1]


def replay_message(
    ask: Ask, raw_message: bytes, *, reply_id: str, created: int, joint: Joint | None = None
) -> tuple[str, bytes]:
    """(content type, body) of an answer that is a stored assistant message.

    `joint`: what the client was given of this very answer and those before it; its text is not said again.
    """
    parsed = peek(raw_message)
    content = parsed.get("content") if isinstance(parsed, dict) else None
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    if isinstance(content, str):
        blocks = [_text(content)]
    if joint is None:
        return _answer(ask, reply_id, blocks, Joint())
    calls = calls_of(blocks)
    if ask.stream and (joint.streamed or joint.role):
        return _answer(ask, reply_id, calls or blocks, joint)
    if joint.text:
        blocks = [*[one for one in blocks if one.get("type") not in ("text", "tool_use")], _text(joint.text), *calls]
    return _answer(ask, reply_id, blocks, Joint(joint.base, usage=joint.usage))


def _text(text: str) -> Fields:
    return {"type": "text", "text": text}
