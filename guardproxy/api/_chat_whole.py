"""A completion in one piece: see `_whole`."""

from __future__ import annotations

from guardproxy.api import _clear
from guardproxy.api._answer import Answer, Choice
from guardproxy.api._chat_cut import CALL_REASONS, mend
from guardproxy.api._gate import GAP, META, Joint, summed, torn
from guardproxy.api._gathered import CALLS, Fields, Gathered, choices, said
from guardproxy.api._joined import Joined, add_usage
from guardproxy.api._json import dumps
from guardproxy.api._kinds import usage_in
from guardproxy.api._messages import neutral
from guardproxy.api._reply import event


class Completion:
    """`Form` of chat."""

    clear = staticmethod(_clear.whole)

    def __init__(self, answer: Answer, *, usage: bool) -> None:
        self._answer = answer
        self._usage = usage  # the client wants it at the end of a stream
        self._payload: Fields = {}  # as it was read

    @property
    def sound(self) -> bool:
        return bool(self._answer.choices)

    def take(self, payload: Fields) -> None:
        self._payload = payload
        self._answer.take(payload)

    def gathered(self) -> Gathered:
        """Its message."""
        return Gathered().whole(self._payload)

    def holds(self, payload: Fields) -> bool:
        return bool(choices(payload))

    def failed(self, payload: Fields) -> bool:
        return bool(payload.get("error"))

    def cut(self, payload: Fields, text: str) -> bool:
        if self.failed(payload):
            return False
        changed = [_cut(entry, text) for entry in choices(payload)]
        return any(changed)

    def mend(self, payload: Fields) -> bool:
        return not self._answer.first.call_count and mend(payload)

    def leave_out(self, payload: Fields, keep: frozenset[int]) -> bool:
        if all(place in keep for place in range(self.count(payload))):
            return False
        choice = choices(payload)[0]
        message = said(choice)
        entries = message.get("tool_calls")
        if isinstance(entries, list) and entries:
            found = [entry for entry in entries if isinstance(entry, dict)]
            left = [entry for place, entry in enumerate(found) if place in keep]
            for place, entry in enumerate(left):
                if "index" in entry:
                    entry["index"] = place
            message["tool_calls"] = left
            message.pop("function_call", None)  # the same said for old clients
        if not message.get("tool_calls"):
            for key in CALLS:
                message.pop(key, None)
            message["content"] = message.get("content") or ""
            if not torn(self._answer.first.built(), self._answer.first.finish):
                choice["finish_reason"] = "stop"
        return True

    def count(self, payload: Fields) -> int:
        return len(Gathered().whole(payload).calls)

    def joined(self, payload: Fields, joint: Joint) -> bytes:
        choice = choices(payload)[0]
        if joint.streamed:
            return _as_stream(payload, choice, joint, usage=self._usage)
        _join(payload, choice, joint)
        return dumps(payload)

    def joint(self, before: Joint, calls: int, *, shown: bool) -> Joint:
        text, payload = self._answer.first.text if shown else "", self._payload
        return Joint(
            base=before.base or {key: payload[key] for key in META if payload.get(key) is not None},
            text=GAP.join([part for part in (before.text, text) if part]),
            calls=before.calls + calls,
            usage=summed(before.usage, usage_in(payload)),
        )


def _cut(entry: Fields, text: str) -> bool:
    """Take the calls out of a choice; whether it had to change."""
    found = entry.get("message")
    message: Fields = found if isinstance(found, dict) else {"role": "assistant"}
    taken = [key for key in CALLS if message.get(key)]
    for key in taken:
        del message[key]
    probe = Choice()
    probe.take_message(message)
    if not probe.spoken:
        message["content"] = text
    changed = bool(taken) or not probe.spoken
    if changed or entry.get("finish_reason") in CALL_REASONS:
        entry["finish_reason"] = "stop"
        entry["message"] = message
        return True
    return False


def _as_stream(payload: Fields, choice: Fields, joint: Joint, *, usage: bool) -> bytes:
    """The end of a stream, from a provider that answered this attempt as a whole."""
    joined = Joined(joint)
    message = said(choice)
    fields = {key: value for key, value in message.items() if key not in CALLS and value}
    total = usage_in(payload)
    delta = {"index": 0, "delta": fields, "finish_reason": None}
    out = joined.give(event({"object": "chat.completion.chunk", "choices": [delta]}))
    out += joined.calls(Gathered().whole(payload).calls)
    finish = {**delta, "delta": {}, "finish_reason": choice.get("finish_reason") or "stop"}
    out += joined.give(event({"object": "chat.completion.chunk", "choices": [finish]}))
    if usage and total:
        out += joined.give(event({"object": "chat.completion.chunk", "choices": [], "usage": total}))
    return out + joined.end("stop")


def _join(payload: Fields, choice: Fields, joint: Joint) -> None:
    """Put what was said before in front, under the first response's id."""
    payload |= joint.base
    for holder in (payload, choice, payload.get("x_groq")):
        add_usage(holder, joint.usage)
    if not joint.text:
        return
    message = said(choice)
    content = message.get("content")
    if isinstance(content, list):
        message["content"] = [{"type": "text", "text": joint.text + GAP}, *content]
    else:
        text = neutral({"role": "assistant", "content": content}).text
        message["content"] = joint.text + (GAP + text if text else "")
