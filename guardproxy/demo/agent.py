"""A plain agent loop on the official `openai` client. It knows nothing of the proxy but the address it is given."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import openai

from guardproxy.demo.tools import Toolbox
from guardproxy.telemetry.record import CallRecord, TurnRecord

MOST_TURNS = 40
"""Where the loop gives up by itself; agents in the field have 10 to 100."""


@dataclass(slots=True)
class Run:
    """What became of one task. `ended`: finished, refused (an HTTP error) or gave up; `text`: the last words.

    `session`: what the proxy calls the run, "" without a proxy.
    """

    task: str
    session: str = ""
    ended: str = "gave up"
    text: str = ""
    executed: int = 0
    records: list[TurnRecord] = field(default_factory=list)

    @property
    def actions(self) -> list[str]:
        """What the proxy did, turn by turn, where it did something; for a stream, as far as its headers could say."""
        return [record["action"] for record in self.records if record["action"] not in ("", "pass", "observe")]


class Agent:
    """Runs tasks with one client. `tools` are the schemas sent; `extra` goes into every request as it is."""

    def __init__(
        self, base_url: str, tools: Sequence[Mapping[str, Any]], *, timeout: float = 30, extra: Mapping[str, Any] = {}
    ) -> None:
        self._client = openai.OpenAI(base_url=base_url, api_key="demo", max_retries=0, timeout=timeout)
        self._tools = list(tools)
        self._extra = dict(extra)

    def run(self, model: str, task: str, toolbox: Toolbox, *, stream: bool, most_turns: int = MOST_TURNS) -> Run:
        """Ask, execute what was called, ask again, until there is a text without a call."""
        run = Run(task)
        messages: list[dict[str, Any]] = [{"role": "user", "content": task}]
        for turn in range(1, most_turns + 1):
            began = time.monotonic()
            try:
                message, headers, tokens = self._ask(model, messages, stream=stream)
            except openai.APIStatusError as error:
                run.ended, run.text = "refused", str(error.body or error)
                run.records.append(_record(turn, began, (), error.response.headers, 0, error.status_code))
                break
            run.session = headers.get("x-guardproxy-session-id", "")
            messages.append(message)
            calls = [_executed(call, toolbox) for call in message.get("tool_calls") or ()]
            run.records.append(_record(turn, began, calls, headers, tokens, 200))
            if not calls:
                run.ended, run.text = "finished", str(message.get("content") or "")
                break
            for call, done in zip(message["tool_calls"], calls, strict=True):
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": done["result"]})
        run.executed = toolbox.executed.total()
        return run

    def _ask(
        self, model: str, messages: list[dict[str, Any]], *, stream: bool
    ) -> tuple[dict[str, Any], Mapping[str, str], int]:
        """The assistant's message, the answer's headers and the tokens used."""
        create: Any = self._client.chat.completions.with_raw_response.create
        raw = create(model=model, messages=messages, tools=self._tools, stream=stream, **self._extra)
        if stream:
            return _joined(raw.parse()), raw.headers, 0
        answer = raw.parse()
        message = answer.choices[0].message.model_dump(exclude_none=True)
        return message, raw.headers, answer.usage.total_tokens if answer.usage else 0


def _joined(stream: Any) -> dict[str, Any]:
    """A streamed message put together."""
    text = ""
    calls: dict[int, dict[str, str]] = {}
    for chunk in stream:
        for choice in chunk.choices:
            text += choice.delta.content or ""
            for piece in choice.delta.tool_calls or ():
                call = calls.setdefault(piece.index, {"id": "", "type": "function", "name": "", "arguments": ""})
                call["id"] += piece.id or ""
                call["name"] += (piece.function.name if piece.function else "") or ""
                call["arguments"] += (piece.function.arguments if piece.function else "") or ""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": c["id"], "type": "function", "function": {"name": c["name"], "arguments": c["arguments"]}}
            for c in calls.values()
        ]
    return message


def _executed(call: Mapping[str, Any], toolbox: Toolbox) -> CallRecord:
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    return CallRecord(tool=name, arguments=arguments, result=toolbox.execute(name, arguments))


def _record(
    turn: int, began: float, calls: Sequence[CallRecord], headers: Mapping[str, str], tokens: int, status: int
) -> TurnRecord:
    took_ms = int((time.monotonic() - began) * 1000)
    return TurnRecord(
        turn=turn,
        at_ms=int(time.time() * 1000) - took_ms,
        thread="main",
        calls=list(calls),
        results=[],
        latency_ms=took_ms,
        input_tokens=tokens,
        output_tokens=0,
        cost_microusd=0,
        action=headers.get("x-guardproxy-verdict", ""),
        would="",
        rule=headers.get("x-guardproxy-rule", ""),
        count=0,
        status=status,
        outcome="",
        spared=[],
    )
