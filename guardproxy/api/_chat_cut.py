"""Takes calls out of the events of a chat stream.

An answer left without any text gets the given one. Only what held a call or a wrong finish reason is written anew.
"""

from __future__ import annotations

from guardproxy.api._answer import Answer, Choice
from guardproxy.api._json import dumps
from guardproxy.api._reply import event
from guardproxy.api._sse import with_data

CALLS = ("tool_calls", "function_call")
CALL_REASONS = ("tool_calls", "function_call")
_META = ("id", "object", "created", "model", "system_fingerprint")


class StreamCut:
    """The state of one edited stream. `touched` once anything was changed."""

    def __init__(self, text: str, model: str) -> None:
        self.touched = False
        self.own_text = False  # the given text stands in the place of an answer
        self._text = text
        kind = "chat.completion.chunk"
        self._base: dict[str, object] = {"id": "chatcmpl-guardproxy", "object": kind, "created": 0, "model": model}
        self._seen = False
        self._role = False
        self._dropped = False
        self._finished = False

    def chunk(self, raw: bytes, payload: object, answer: Answer) -> bytes:
        """The event's bytes for the client; `answer` has read it already."""
        if not isinstance(payload, dict) or payload.get("error"):
            return raw
        self._note(payload)
        entries = payload.get("choices")
        choices = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        changed = False
        before = b""
        for entry in choices:
            changed = self._without_calls(entry) or changed
            if entry.get("finish_reason") and isinstance(entry["finish_reason"], str):
                choice = answer.choice(entry.get("index"))
                before += self._speak(choice, entry.get("index", 0))
                changed = self._stop(entry) or changed
        if not changed:
            return before + raw
        self.touched = True
        if not payload.get("usage") and all(self._is_void(entry) for entry in choices):
            return before
        self._role = self._role or any(_role(entry) for entry in choices)
        return before + with_data(raw, dumps(payload))

    def end(self, answer: Answer) -> bytes:
        """What must stand before [DONE] where no finish reason came."""
        if self._finished or answer.failed:
            return b""
        spoken = self._speak(answer.first, 0)
        self.touched = True
        return spoken + event(self._made(0, {}, "stop"))

    def _note(self, payload: dict[str, object]) -> None:
        if not self._seen:
            self._seen = True
            self._base |= {key: payload[key] for key in _META if payload.get(key) is not None}

    def _without_calls(self, entry: dict[str, object]) -> bool:
        parts = [part for key in ("delta", "message") if isinstance(part := entry.get(key), dict)]
        taken = [part.pop(key) for part in parts for key in CALLS if part.get(key)]
        self._dropped = self._dropped or bool(taken)
        if not taken and _role(entry):
            self._role = True
        return bool(taken)

    def _speak(self, choice: Choice, index: object) -> bytes:
        """The text for an answer without one, once."""
        if self._finished or choice.spoken:
            self._finished = True
            return b""
        self._finished = self._dropped = self.touched = self.own_text = True
        delta: dict[str, object] = {"content": self._text}
        if not self._role:
            self._role = True
            delta = {"role": "assistant", **delta}
        return event(self._made(index, delta, None))

    def _stop(self, entry: dict[str, object]) -> bool:
        reason = entry["finish_reason"]
        if reason == "stop" or not (self._dropped or reason in CALL_REASONS):
            return False
        entry["finish_reason"] = "stop"
        return True

    def _is_void(self, entry: dict[str, object]) -> bool:
        held = {key: value for key, value in _said(entry).items() if value}
        if self._role:
            held.pop("role", None)
        return not held and not entry.get("finish_reason")

    def _made(self, index: object, delta: dict[str, object], reason: str | None) -> dict[str, object]:
        choice = {"index": index, "delta": delta, "finish_reason": reason}
        return {**self._base, "choices": [choice]}


def mend(payload: object) -> bool:
    """Whether a finish reason of it, a promise of calls, was made `stop`."""
    entries = payload.get("choices") if isinstance(payload, dict) else None
    mended = False
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("finish_reason") in CALL_REASONS:
            entry["finish_reason"] = "stop"
            mended = True
    return mended


def _said(entry: dict[str, object]) -> dict[str, object]:
    """The delta of a choice, or the message that some providers send in its place."""
    return next((said for key in ("delta", "message") if isinstance(said := entry.get(key), dict)), {})


def _role(entry: dict[str, object]) -> bool:
    return bool(_said(entry).get("role"))
