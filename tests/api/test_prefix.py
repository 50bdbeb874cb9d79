"""A body read from where it goes on is the body read whole: the same Ask, whatever came before it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import Prefixes, _prefix, chat
from guardproxy.api._prefix import GRID, READ
from guardproxy.core.model import Ask
from guardproxy.errors import BadAsk
from tests.as_written import as_written

Body = dict[str, Any]
TOOL = {"type": "function", "function": {"name": "read", "parameters": {"type": "object", "properties": {}}}}


def turn(number: int, size: int) -> list[Body]:
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "read", "arguments": f'{{"n":{number}}}'}}
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"{number} " + "é x" * (size // 4)},
    ]


def talk(turns: int, size: int = 5000, *, head: tuple[Body, ...] = ()) -> list[Body]:
    found = [*head, {"role": "system", "content": "s" * 900}, {"role": "user", "content": "Do it, 请."}]
    return found + [message for number in range(turns) for message in turn(number, size)]


def asks(prefixes: Prefixes, body: bytes) -> tuple[Ask, Ask]:
    """The two readings of a body, and of all its window; without what they were parsed into."""
    here = [chat.read(body, {}, short=True, prefixes=known) for known in (prefixes, None)]
    for ask in here:
        assert chat.widen(ask).tail == chat.widen(here[1]).tail
        assert [chat.message(ask, n) for n in (0, 1, ask.count - 1)] == [
            chat.message(here[1], n) for n in (0, 1, ask.count - 1)
        ]
    kept = [{key: value for key, value in ask.parsed.items() if key in READ} for ask in here]
    return replace(here[0], parsed=kept[0]), replace(here[1], parsed=kept[1])


def spelled(body: Body, order: list[str], separators: tuple[str, str], *, ascii_only: bool) -> bytes:
    return json.dumps({key: body[key] for key in order}, separators=separators, ensure_ascii=ascii_only).encode()


@settings(max_examples=60, deadline=None)
@given(
    order=st.permutations(["model", "messages", "tools", "stream", "seed", "stream_options", "tool_choice"]),
    separators=st.sampled_from([(",", ":"), (", ", ": "), (" ,\n\t", " : ")]),
    ascii_only=st.booleans(),
    sizes=st.lists(st.integers(0, 40_000), min_size=1, max_size=5),
    steps=st.lists(st.integers(0, 4), min_size=2, max_size=6),
)
def test_every_turn_reads_the_same(
    order: list[str], separators: tuple[str, str], ascii_only: bool, sizes: list[int], steps: list[int]
) -> None:
    prefixes = Prefixes(7)
    messages = talk(0)
    number = 0
    for step in steps:
        for _ in range(step):
            messages += turn(number, sizes[number % len(sizes)])
            number += 1
        body = {
            "model": "m",
            "messages": messages,
            "tools": [TOOL],
            "stream": True,
            "seed": number,
            "stream_options": None,
            "tool_choice": "required",
        }
        short, whole = asks(prefixes, spelled(body, order, separators, ascii_only=ascii_only))
        assert short == whole


def test_only_the_end_is_parsed() -> None:
    """The second turn of a long conversation decodes its newest messages alone."""
    prefixes = Prefixes(7)
    first, second = (json.dumps({"model": "m", "messages": talk(n)}).encode() for n in (40, 41))
    prefixes.read(first)
    found = prefixes.read(second)

    assert found is not None
    messages = found[0]
    assert (len(messages), messages[len(messages) - 1]["tool_call_id"]) == (84, "call_40")
    assert len(messages._later) * 3000 < 2 * GRID
    assert messages[50]["role"] == "assistant"
    assert len(messages._later) < 50


def test_another_conversation_with_the_same_beginning() -> None:
    prefixes = Prefixes(7)
    one, two = talk(30), talk(30)
    two[20]["content"] = "another"
    for messages in (one, two, one[:40], two[:50], one):
        short, whole = asks(prefixes, json.dumps({"model": "m", "messages": messages}).encode())
        assert short == whole


def test_the_word_may_stand_in_the_messages() -> None:
    """Only what lies outside the list could be another list of messages."""
    prefixes = Prefixes(7)
    said = [{"role": "user", "content": [{"type": "text", "text": "messages"}, {"messages": [{"role": "user"}]}]}]
    for turns in (30, 31):
        body = json.dumps({"model": "m", "messages": [*talk(20), *said, *talk(turns)]}).encode()
        short, whole = asks(prefixes, body)
        assert short == whole
        assert prefixes.read(body) is not None


PAD = "p" * (5 * GRID)
USER = {"role": "user", "content": PAD}
ODD: Mapping[str, bytes] = {
    "short": json.dumps({"model": "m", "messages": talk(1, 10)}).encode(),
    "no messages": json.dumps({"model": "m", "messages": [], "user": PAD}).encode(),
    "messages twice": b'{"messages":[{"role":"user","content":"a"}],'
    + json.dumps({"model": "m", "messages": [USER]})[1:].encode(),
    "messages alike": b'{"messages":%b,"messages":%b}' % ((json.dumps([USER]).encode(),) * 2),
    "messages in a tool": json.dumps({"model": "m", "messages": [USER], "tools": [{"messages": 1}]}).encode(),
    "no user in front": json.dumps({"model": "m", "messages": [{"role": "assistant", "content": PAD}]}).encode(),
    "NaN": json.dumps({"model": "m", "messages": [USER], "temperature": float("nan")}).encode(),
    "a lone surrogate": json.dumps({"model": "m", "messages": [USER, {"role": "user", "content": "\ud800"}]}).encode(),
    "a mark in front": b"\xef\xbb\xbf" + json.dumps({"model": "m", "messages": [USER]}).encode(),
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_read_whole(name: str) -> None:
    prefixes = Prefixes(7)

    assert prefixes.read(ODD[name]) is None
    assert not prefixes._places


def cases() -> Iterator[tuple[str, Callable[[bytes], bytes]]]:
    yield "not an object", lambda body: body.replace(b'{"role": "tool", "tool_call_id": "call_9"', b'5, {"x": "9"')
    yield "cut off", lambda body: body[:-30]
    yield "not UTF-8", lambda body: body.replace(b'"9 ', b'"\xff')
    yield "bad escape", lambda body: body.replace(b'"9 ', b'"\\q')
    yield "messages twice", lambda body: body[:-1] + b', "messages": 7}'
    yield "no model", lambda body: body.replace(b'"model": "m"', b'"model": 7')


@pytest.mark.parametrize(("name", "spoil"), list(cases()))
@pytest.mark.parametrize("known", [False, True])
def test_what_is_wrong_is_told_as_ever(name: str, spoil: Callable[[bytes], bytes], known: bool) -> None:
    """Also in a body whose beginning is known."""
    body = json.dumps({"messages": talk(15), "model": "m"}, ensure_ascii=False).encode()
    prefixes = Prefixes(7)
    if known:
        prefixes.read(body)
    wrong = spoil(body)
    assert wrong != body, name
    with pytest.raises(BadAsk) as whole:
        chat.read(wrong, {}, short=True)
    with pytest.raises(BadAsk) as short:
        chat.read(wrong, {}, short=True, prefixes=prefixes)

    assert (short.value.param, short.value.code) == (whole.value.param, whole.value.code)


def test_the_memo_is_bounded() -> None:
    prefixes = Prefixes(7, kept=10)
    for number in range(30):
        prefixes.read(
            json.dumps({"model": "m", "messages": [*talk(0), *turn(number, 40_000), *turn(1, 30_000)]}).encode()
        )

    assert 0 < len(prefixes._places) + len(prefixes._places._older) <= 20


class Recorder(dict[str, Any]):
    """A body that notes which of its keys are looked at."""

    def __init__(self, body: Body) -> None:
        super().__init__(body)
        self.seen: set[str] = set()

    def get(self, key: str, default: object = None) -> Any:
        self.seen.add(key)
        return super().get(key, default)

    def __getitem__(self, key: str) -> Any:
        self.seen.add(key)
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self.seen.add(str(key))
        return super().__contains__(key)


@as_written
@pytest.mark.parametrize("more", [{}, {"tools": [TOOL], "tool_choice": "required", "stream": True, "metadata": {}}])
def test_every_key_that_is_read_is_known(more: Body, monkeypatch: pytest.MonkeyPatch) -> None:
    body = Recorder({"model": "m", "messages": talk(1), **more})
    monkeypatch.setattr(chat, "read_object", lambda _: body)
    for headers in ({}, {"user-agent": "codex/1"}):
        chat.read(b"", headers)

    assert body.seen - {"messages"} <= set(READ)


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.sampled_from([10, 3_000, 9_000, 20_000, 45_000, 90_000]), min_size=12, max_size=30),
    steps=st.lists(st.integers(1, 6), min_size=1, max_size=4),
    least=st.sampled_from([1_000, 8_000, 40_000, 10**6]),
    known=st.booleans(),
)
def test_long_results_are_those_of_the_whole(sizes: list[int], steps: list[int], least: int, known: bool) -> None:
    prefixes = Prefixes() if known else None
    messages = talk(0) + [message for number, size in enumerate(sizes) for message in turn(number, size)]
    ends = [len(messages) - 2 * sum(steps[at:]) for at in range(len(steps))]
    for end in [*(end for end in ends if end > 4), len(messages)]:
        ask = chat.read(
            json.dumps({"model": "m", "messages": messages[:end]}).encode(), {}, short=True, prefixes=prefixes
        )
        found = chat.long_results(ask, least)
        every = list(enumerate(chat.conversation(ask).tail))[: ask.tail_start]

        assert {at for at, one in every if one.role == "tool" and len(one.text.encode()) > least} <= {
            at for at, _ in found
        }
        assert all(every[at] == (at, one) and one.role == "tool" for at, one in found)
        assert [at for at, _ in found] == sorted({at for at, _ in found})


def test_long_results_are_found_without_reading_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    prefixes = Prefixes()
    messages = talk(60) + turn(60, 60_000) + [message for number in range(61, 120) for message in turn(number, 5_000)]
    for end in (len(messages) - 2, len(messages)):
        body = json.dumps({"model": "m", "messages": messages[:end]}).encode()
        ask = chat.read(body, {}, short=True, prefixes=prefixes)
    read: list[int] = []
    decode = _prefix.decode_list
    monkeypatch.setattr(_prefix, "decode_list", lambda part: read.append(len(part)) or decode(part))

    assert [at for at, _ in chat.long_results(ask, 40_000)] == [123]
    assert sum(read) < 200_000 < len(body) / 4
