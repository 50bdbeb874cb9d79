"""A completion in one piece behind a gate, or one that goes on with earlier attempts."""

from __future__ import annotations

from collections.abc import Collection

from guardproxy.api import _clear
from guardproxy.api._answer import Answer
from guardproxy.api._chat_cut import MAX_WHOLE
from guardproxy.api._gate import GAP, META, Gate, Joint, summed
from guardproxy.api._gathered import CALLS, Fields, Gathered, choices, said
from guardproxy.api._joined import Joined, add_usage
from guardproxy.api._json import dumps, peek
from guardproxy.api._kinds import usage_in
from guardproxy.api._messages import neutral
from guardproxy.api._reply import event
from guardproxy.api._watcher import Way


class GatedWhole:
    """Held as a whole until it is judged; without a gate it is only joined with what was said before."""

    may_be_over = False

    def __init__(self, way: Way, answer: Answer, gate: Gate | None, joint: Joint | None, *, usage: bool) -> None:
        self._usage = usage  # the client wants it at the end of a stream
        self._way = way
        self._answer = answer
        self._gate = gate
        self._joint = joint
        self._raw: list[bytes] = []  # as the provider sent it
        self._plain = b""  # as it is read
        self._out = b""
        self.unread = 0
        """1: nobody can read it, and nothing of it may be handed on."""
        self._changed = False
        self._given = False
        self._calls = 0  # of those that were given
        self.holding = False

    @property
    def touched(self) -> bool:
        return self._way.touched or self._changed

    @property
    def own_text(self) -> bool:
        return self._way.own_text

    @property
    def repeats(self) -> int:
        return self._way.repeats

    def feed(self, chunk: bytes) -> bytes:
        self._raw.append(chunk)
        return b""

    def finish(self) -> bytes:
        if self._given or self._plain:
            return b""
        raw = b"".join(self._raw)
        firm = self._gate is None or self._gate.firm
        found = _clear.whole(raw, firm=firm)
        self._plain, shown = found or (raw, b"")
        out = self._way.feed(self._plain) + self._way.finish()
        self._out = shown if out == self._plain else out
        self._way.settle()
        too_long = len(raw) > MAX_WHOLE and not self._answer.choices
        self.unread = int(found is None or (firm and too_long))
        self.holding = self._waits()
        return b"" if self.holding else self.release()

    def settle(self) -> None:
        self._way.settle()

    def release(self, keep: frozenset[int] | None = None) -> bytes:
        """The body, once; with `keep` only with the calls at these positions."""
        if self._given:
            return b""
        self.holding = False
        self._given = True
        raw = self._out
        payload = peek(raw if self._way.touched else self._plain)
        entries = choices(payload)
        if not isinstance(payload, dict) or not entries or (payload.get("error") and keep is None):
            told = self._joint is not None and self._joint.streamed and isinstance(payload, dict)
            return event(payload) if told else raw
        count = len(Gathered().whole(payload).calls)
        lacks = keep is not None and any(place not in keep for place in range(count))
        self._calls = sum(keep is None or place in keep for place in range(count))
        if not lacks and self._joint is None:
            return raw
        self._changed = True
        if lacks and keep is not None:
            _take_out(entries[0], keep)
        if self._joint is None:
            return dumps(payload)
        if self._joint.streamed:
            return _as_stream(payload, entries[0], self._joint, usage=self._usage)
        _join(payload, entries[0], self._joint)
        return dumps(payload)

    def raw_message(self) -> Fields:
        """The answer as an assistant message of a request."""
        return self._gathered().message

    def raw_calls(self) -> list[Fields]:
        """Its calls."""
        return self._gathered().calls

    def joint(self) -> Joint:
        """What the client was given so far, or will be with the next attempt's text."""
        before = self._joint or Joint()
        payload = peek(self._plain)
        fields = payload if isinstance(payload, dict) else {}
        shown = self._given or self._gate is None or not self._gate.text
        text = self._answer.first.text if shown else ""
        return Joint(
            base=before.base or {key: fields[key] for key in META if fields.get(key) is not None},
            text=GAP.join([part for part in (before.text, text) if part]),
            calls=before.calls + self._calls,
            usage=summed(before.usage, usage_in(payload)),
        )

    def _gathered(self) -> Gathered:
        return Gathered().whole(peek(self._plain))

    def _waits(self) -> bool:
        """Whether somebody has to judge it."""
        gate = self._gate
        if gate is None or not self._answer.choices:
            return False
        calls = () if self._way.touched else self._answer.first.built()
        if not calls:
            return gate.text and not self._answer.failed
        unseen = self._answer.first.call_count > len(calls)  # so many that not all of them are kept
        return gate.calls and (unseen or gate.every or any(not call.name or gate.wants(call.name) for call in calls))


def _take_out(choice: Fields, keep: Collection[int]) -> None:
    """Leave only the calls at these positions in a choice."""
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
        choice["finish_reason"] = "stop"


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
