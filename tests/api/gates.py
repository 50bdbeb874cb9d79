"""What the tests of gates share: streams of calls in one line, and what a client makes of the bytes it is given."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

from guardproxy.api import chat
from guardproxy.api._sse import Decoder, data_of
from guardproxy.core.model import Call
from tests.api.cases import delta, sse, streamed


def tc(i: Any = None, id: Any = None, n: Any = None, a: Any = None, **more: Any) -> dict[str, Any]:  # noqa: A002
    """One entry of `tool_calls`; what is not given is absent."""
    function = {key: value for key, value in (("name", n), ("arguments", a)) if value is not None}
    entry = {key: value for key, value in (("index", i), ("id", id)) if value is not None}
    return {**entry, "function": function, **more}


def calling(*chunks: list[dict[str, Any]], text: str = "", finish: str | None = "tool_calls", **usage: int) -> bytes:
    """A stream: a role, perhaps text, chunks of call entries, a finish reason, perhaps usage."""
    spoken = [delta(content=text)] if text else []
    ended = [delta(finish)] if finish else []
    counted = [{"id": "r", "model": "p", "choices": [], "usage": usage}] if usage else []
    said = [delta(role="assistant", content=""), *spoken, *[delta(tool_calls=chunk) for chunk in chunks]]
    return sse(*said, *ended, *counted)


def cut(raw: bytes, sizes: Iterable[int]) -> list[bytes]:
    """The bytes in chunks of these sizes, the rest as one."""
    chunks, at = [], 0
    for size in sizes:
        chunks.append(raw[at : at + size])
        at += size
    return [chunk for chunk in (*chunks, raw[at:]) if chunk]


def gated(
    raw: bytes | list[bytes], wants: Callable[[str], bool] = lambda _: True, **options: Any
) -> tuple[bytes, chat.Watcher]:
    """What passes a gate before anything is released, and the watcher."""
    gate = chat.Gate(wants, options.pop("text", False), options.pop("calls", True), firm=options.pop("firm", True))
    watcher = chat.watch(streamed(), gate=gate, **options)
    out = b"".join([watcher.feed(chunk) for chunk in (raw if isinstance(raw, list) else [raw])])
    return out + watcher.finish(), watcher


def events(raw: bytes) -> list[bytes]:
    """The events of a stream."""
    decoder = Decoder()
    return [event for event in (*decoder.feed(raw), decoder.rest()) if event]


def payloads(raw: bytes) -> list[dict[str, Any]]:
    """The chunks of a stream."""
    found = [data_of(event) for event in events(raw)]
    return [json.loads(data) for data in found if data and data != b"[DONE]"]


class Client:
    """What a client that trusts in the letter of the API makes of a stream: calls by index, pieces put together."""

    def __init__(self, raw: bytes) -> None:
        self.roles: list[str] = []
        self.text = ""
        self.finishes: list[str] = []
        self.ids: set[Any] = set()
        self.usages: list[Any] = []
        self.by_index: dict[int, list[str]] = {}
        self.dones = sum(data_of(event) == b"[DONE]" for event in events(raw))
        for payload in payloads(raw):
            self.ids.add((payload.get("id"), payload.get("model"), payload.get("created")))
            self.usages += [payload["usage"]] if payload.get("usage") else []
            for choice in payload.get("choices") or []:
                self._take(choice)

    def _take(self, choice: dict[str, Any]) -> None:
        said = choice.get("delta") or {}
        self.roles += [said["role"]] if said.get("role") else []
        self.text += said.get("content") or ""
        self.finishes += [choice["finish_reason"]] if choice.get("finish_reason") else []
        for entry in said.get("tool_calls") or []:
            call = self.by_index.setdefault(entry["index"], ["", "", ""])
            call[0] = call[0] or entry["function"].get("name") or ""
            call[1] += entry["function"].get("arguments") or ""
            call[2] = call[2] or entry.get("id") or ""
            assert not self.finishes, "a call after the end"

    @property
    def calls(self) -> list[Call]:
        """The calls, whose indices count from 0 on."""
        assert sorted(self.by_index) == list(range(len(self.by_index)))
        return [Call(*self.by_index[index]) for index in sorted(self.by_index)]
