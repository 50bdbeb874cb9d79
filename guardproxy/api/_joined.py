"""Events of one attempt so changed that they go on with what the client was given before.

One id, one role delta, indices counted on, one finish reason, one [DONE], usage as the sum of all attempts. Calls are
never passed in pieces here: they are put in whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from guardproxy.api._chat_cut import CALL_REASONS
from guardproxy.api._gate import GAP, Joint, summed
from guardproxy.api._gathered import CALLS, Fields, choices, is_legacy, said
from guardproxy.api._json import dumps, peek
from guardproxy.api._kinds import blocks
from guardproxy.api._reply import DONE, event
from guardproxy.api._sse import data_of, with_data

CHUNK = "chat.completion.chunk"


class Joined:
    """The state of one stream. `joint`: what was given before, by this same answer where it is `own`.

    `given`: calls; `next`: the index of the next one. `stop`: no call is left, so the reason is `stop`.
    """

    def __init__(self, joint: Joint, *, own: bool = False) -> None:
        self.base: Mapping[str, object] = joint.base
        self.role = joint.role
        self.given = self.next = joint.calls
        self.stop = False
        self._named: Mapping[str, object] = {} if own else joint.base
        self._blocks = joint.blocks
        self.finished = False
        self.done = False
        self._before = joint.usage
        self._gap = bool(joint.text)

    def give(self, raw: bytes) -> bytes:
        """An event of the provider's, without calls; empty where nothing is left of it."""
        data = data_of(raw)
        if data == b"[DONE]":
            return self._last(raw)
        payload = peek(data) if data else None
        if not isinstance(payload, dict):
            return raw
        entries = choices(payload)
        if payload.get("error"):
            taken = [said(entry).pop(key) for entry in entries for key in CALLS if said(entry).get(key)]
            return with_data(raw, dumps(payload)) if taken else raw
        kept = [entry for entry in entries if self._choice(entry)]
        if entries and not kept and not payload.get("usage") and not payload.get("x_groq"):
            return b""
        if isinstance(payload.get("choices"), list):
            payload["choices"] = kept
        self._count(payload)
        changed = {**payload, **self._named}
        return raw if changed == peek(data) else with_data(raw, dumps(changed))

    def calls(self, calls: Sequence[Fields]) -> bytes:
        """These calls, in a request's form, as one event; empty without any."""
        if not calls:
            return b""
        if is_legacy(calls[0]):
            delta: Fields = {"function_call": calls[0]}
        else:
            delta = {"tool_calls": [{"index": self.next + at, **call} for at, call in enumerate(calls)]}
        self.given += len(calls)
        self.next += len(calls)
        return self.made(delta)

    def made(self, delta: Fields, reason: str | None = None) -> bytes:
        """An event of ours, in the name of this answer."""
        if delta and not self.role:
            self.role = True
            delta = {"role": "assistant", **delta}
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return event({"object": CHUNK, **self.base, "choices": [choice]})

    def text(self, text: str) -> bytes:
        """Text of ours, as one event."""
        gap, self._gap = GAP if self._gap else "", False
        return self.made({"content": gap + text})

    def end(self, reason: str) -> bytes:
        """What an answer that has ended still lacks: a finish reason, [DONE]."""
        finish = b"" if self.finished else self.made({}, reason)
        done = b"" if self.done else DONE
        self.finished = self.done = True
        return finish + done

    def _last(self, raw: bytes) -> bytes:
        if self.done:
            return b""
        self.done = True
        finish = b"" if self.finished else self.made({}, "tool_calls" if self.given and not self.stop else "stop")
        self.finished = True
        return finish + raw

    def _choice(self, entry: Fields) -> bool:
        """Change a choice; whether anything is left of it."""
        delta = said(entry)
        for key in CALLS:
            delta.pop(key, None)
        if self.role:
            delta.pop("role", None)
        for block, number in blocks(delta) if self._blocks else ():
            block["index"] = number + self._blocks
        content = delta.get("content")
        if content and self._gap:
            self._gap = False
            gap = [{"type": "text", "text": GAP}]
            delta["content"] = GAP + content if isinstance(content, str) else [*gap, *_list(content)]
        self.role = self.role or bool(delta.get("role"))
        add_usage(entry, self._before)
        reason = entry.get("finish_reason")
        if not reason:
            return any(delta.values()) or bool(entry.get("usage"))
        if self.finished:
            entry["finish_reason"] = None
            return any(delta.values()) or bool(entry.get("usage"))
        self.finished = True
        if self.stop or (reason in CALL_REASONS and not self.given):
            entry["finish_reason"] = "stop"
        return True

    def _count(self, payload: Fields) -> None:
        """Make the usage that of all attempts."""
        add_usage(payload, self._before)
        add_usage(payload.get("x_groq"), self._before)


def add_usage(holder: object, before: Mapping[str, object]) -> None:
    """Make the usage of a chunk, a completion or a choice the sum with that of earlier attempts."""
    usage = holder.get("usage") if isinstance(holder, dict) else None
    if isinstance(holder, dict) and isinstance(usage, dict):
        holder["usage"] = summed(before, usage)


def _list(content: object) -> list[object]:
    return content if isinstance(content, list) else [content]
