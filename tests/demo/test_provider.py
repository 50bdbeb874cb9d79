"""The scripted provider through the official client: what a model of its kind does when nobody stops it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from guardproxy.demo.provider import CALLS, SCRIPTS, Provider


@pytest.fixture(scope="module")
def client() -> Iterator[openai.OpenAI]:
    with Provider() as url, openai.OpenAI(base_url=url, api_key="x", max_retries=0) as made:
        yield made


def history(name: str, calls: int) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "go"}]
    for number in range(calls):
        function = {"name": "f", "arguments": "{}"}
        calls = [{"id": str(number), "type": "function", "function": function}]
        messages.append({"role": "assistant", "tool_calls": calls})
        messages.append({"role": "tool", "tool_call_id": str(number), "content": "x"})
    return messages


@pytest.mark.parametrize("name", SCRIPTS)
def test_goes_on_until_its_own_end(client: openai.OpenAI, name: str) -> None:
    script = SCRIPTS[name]
    length = next(n for n in range(CALLS + 1) if script.call(n) is None)
    last, end = (client.chat.completions.create(model=name, messages=history(name, n)) for n in (length - 1, length))

    assert last.choices[0].finish_reason == "tool_calls"
    assert (end.choices[0].finish_reason, end.choices[0].message.content) == ("stop", script.answer)
    assert (length == CALLS) is not script.healthy


@pytest.mark.parametrize("name", SCRIPTS)
def test_heeds_tool_choice_none(client: openai.OpenAI, name: str) -> None:
    answer = client.chat.completions.create(model=name, messages=history(name, 2), tool_choice="none")

    assert answer.choices[0].message.tool_calls is None
    assert answer.choices[0].message.content == SCRIPTS[name].answer


@pytest.mark.parametrize("usage", [True, False])
def test_streams_the_same(client: openai.OpenAI, usage: bool) -> None:
    whole = client.chat.completions.create(model="repeats", messages=history("repeats", 1))
    options = {"stream_options": {"include_usage": True}} if usage else {}
    ask: dict[str, Any] = {"model": "repeats", "messages": history("repeats", 1), **options}
    chunks = list(client.chat.completions.create(stream=True, **ask))
    pieces = [p for c in chunks for ch in c.choices for p in ch.delta.tool_calls or ()]

    assert whole.choices[0].message.tool_calls
    call = whole.choices[0].message.tool_calls[0]
    assert "".join(p.function.arguments or "" for p in pieces) == call.function.arguments
    assert (pieces[0].id, pieces[0].function.name) == (call.id, call.function.name)
    assert json.loads(call.function.arguments)
    assert [c.usage is not None for c in chunks].count(True) == usage


def test_unknown_model(client: openai.OpenAI) -> None:
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="nobody", messages=[{"role": "user", "content": "x"}])


def test_counts_how_often_a_model_was_asked() -> None:
    provider = Provider()
    with provider as url, openai.OpenAI(base_url=url, api_key="x", max_retries=0) as asking:
        for made in range(3):
            asking.chat.completions.create(model="repeats", messages=history("repeats", made))

    assert provider.asked == {"repeats": 3}


def test_a_model_of_new_calls_makes_none_twice() -> None:
    for script in SCRIPTS.values():
        calls = [json.dumps(call) for n in range(CALLS) if (call := script.call(n))]
        assert (len(set(calls)) == len(calls)) is script.fresh
