"""Edits of a request are splices: nothing else moves by a byte."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import _splice, chat
from guardproxy.core.edit import AppendText, DropCalls, Edit, ForbidTools, LimitOutput, Reply, SpliceUsage
from guardproxy.core.model import Ask
from tests.api.cases import FUZZ, GOLDEN, NOTE, ask, objects, request, values

FILES = sorted(path for path in (GOLDEN / "requests").glob("*.json") if path.name.count(".") == 1)
EDITS = ("append", "forbid", "usage")


def edit(name: str, asked: Ask) -> Edit:
    return {"append": AppendText(asked.count - 1, NOTE), "forbid": ForbidTools(), "usage": SpliceUsage()}[name]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", EDITS)
def test_golden(path: Path, name: str) -> None:
    """An edit gives the file of its name; where there is none, it has nothing to do."""
    asked = chat.read(path.read_bytes(), {})
    expected = path.with_suffix(f".{name}.json")
    assert chat.write(asked, [edit(name, asked)]) == (expected if expected.exists() else path).read_bytes()


def test_golden_files_are_there() -> None:
    assert len(FILES) >= 6
    assert all(any(path.with_suffix(f".{name}.json").exists() for path in FILES) for name in EDITS)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_without_edits_it_is_the_very_object(path: Path) -> None:
    asked = chat.read(path.read_bytes(), {})
    assert chat.write(asked, ()) is asked.body
    assert chat.write(asked, [DropCalls("x"), Reply("y")]) == asked.body


def test_edits_together() -> None:
    asked = ask(stream=True, tools=[{"type": "function", "function": {"name": "f"}}])
    found = json.loads(
        chat.write(
            asked, [AppendText(0, " one"), ForbidTools(), SpliceUsage(), AppendText(0, " two"), AppendText(9, "no")]
        )
    )
    assert found["messages"] == [{"role": "user", "content": "hi one two"}]
    assert (found["tool_choice"], found["stream_options"]) == ("none", {"include_usage": True})


BOUNDS = [
    # model, given, sent
    ("m", {}, {"max_tokens": 9}),
    ("gpt-4.1", {}, {"max_tokens": 9}),
    ("gpt-5-mini", {}, {"max_completion_tokens": 9}),
    ("openai/o3", {}, {"max_completion_tokens": 9}),
    ("m", {"max_tokens": 100}, {"max_tokens": 9}),
    ("m", {"max_completion_tokens": None}, {"max_completion_tokens": 9}),
    ("gpt-5", {"max_tokens": 100}, {"max_tokens": 9}),
    ("m", {"max_tokens": 100, "max_completion_tokens": 50}, {"max_tokens": 9, "max_completion_tokens": 9}),
]


@pytest.mark.parametrize(("model", "given", "sent"), BOUNDS)
@pytest.mark.parametrize(
    "more", [[], [ForbidTools(), SpliceUsage(), AppendText(0, " more")]], ids=["alone", "with others"]
)
def test_an_output_is_bounded_and_all_else_stays(
    model: str, given: dict[str, int | None], sent: dict[str, int], more: list[Edit]
) -> None:
    asked = ask(stream=True, model=model, tools=[{"type": "function", "function": {"name": "f"}}], **given)
    without, found = json.loads(chat.write(asked, more)), json.loads(chat.write(asked, [*more, LimitOutput(9)]))
    assert {name: found.pop(name) for name in sent} == sent
    assert found == {name: one for name, one in without.items() if name not in sent}


@settings(max_examples=300 * FUZZ, deadline=None)
@given(st.text(alphabet='\\"x', max_size=12))
def test_a_mask_has_no_escaped_quotes(text: str) -> None:
    raw = text.encode()
    assert _splice.mask(raw) == re.sub(rb'\\["\\]', b"__", raw)


def test_half_a_surrogate_pair_is_written_as_something_readable() -> None:
    assert json.loads(chat.write(ask(), [AppendText(0, "\ud83d!")]))["messages"][0]["content"] == "hi?!"


@pytest.mark.parametrize("content", [7, {"text": "x"}, True])
def test_content_of_no_known_form_stays(content: object) -> None:
    asked = ask(messages=[{"role": "user", "content": content}])
    assert chat.write(asked, [AppendText(0, "x")]) is asked.body


def test_an_ask_without_bytes_stays_without() -> None:
    assert chat.write(chat.ask_of([{"role": "user", "content": "x"}]), [AppendText(0, "x"), ForbidTools()]) == b""


contents = st.one_of(
    st.none(),
    st.text(max_size=30),
    st.lists(
        st.one_of(st.fixed_dictionaries({"type": st.just("text"), "text": st.text(max_size=9)}), objects), max_size=3
    ),
)
messages = st.lists(
    st.builds(
        lambda extra, role, content, ids: {**extra, "role": role, **content, **ids},
        st.dictionaries(st.text(max_size=6).filter(lambda key: key not in ("role", "content")), values, max_size=3),
        st.sampled_from(["system", "user", "assistant", "tool"]),
        st.one_of(st.just({}), st.fixed_dictionaries({"content": contents})),
        st.one_of(st.just({}), st.fixed_dictionaries({"tool_call_id": st.sampled_from(["a", "", "b"])})),
    ),
    min_size=1,
    max_size=5,
)
layouts = st.sampled_from(
    [{"separators": (",", ":")}, {}, {"indent": 1}, {"ensure_ascii": False}, {"separators": (" ,", " : ")}]
)


def appended(content: object, text: str) -> object:
    return [*content, {"type": "text", "text": text}] if isinstance(content, list) else (content or "") + text


@settings(max_examples=300 * FUZZ, deadline=None)
@given(messages, st.dictionaries(st.text(max_size=8), values, max_size=4), layouts, st.data())
def test_append_changes_that_content_and_nothing_else(
    listed: list[dict[str, object]], extra: dict[str, object], layout: dict[str, object], data: st.DataObject
) -> None:
    fields = {
        **{f"x_{key}": value for key, value in extra.items()},
        **request(messages=listed),
    }
    raw = json.dumps(fields, **layout).encode()  # type: ignore[arg-type]
    asked = chat.read(raw, {})
    index = data.draw(st.integers(0, len(listed) - 1))
    text = data.draw(st.text(max_size=20))
    out = chat.write(asked, [AppendText(index, text)])

    expected = copy.deepcopy(fields)
    expected["messages"][index]["content"] = appended(listed[index].get("content"), text)
    assert json.loads(out) == expected
    # the bytes: one stretch is new (or stands for `null`), all before and after it are as they were
    same = next(
        (at for at, (old, new) in enumerate(zip(raw, out, strict=False)) if old != new), min(len(raw), len(out))
    )
    rest = min(len(raw), len(out)) - same
    end = next((at for at in range(rest) if raw[-1 - at] != out[-1 - at]), rest)
    assert len(raw) - same - end <= len("null")
    ids = [(message.get("role"), message.get("tool_call_id")) for message in json.loads(out)["messages"]]
    assert ids == [(message.get("role"), message.get("tool_call_id")) for message in listed]


@settings(max_examples=200 * FUZZ, deadline=None)
@given(
    st.fixed_dictionaries(
        {},
        optional={
            "tools": st.sampled_from([None, [], [{"type": "function", "function": {"name": "f"}}]]),
            "functions": st.sampled_from([None, [], [{"name": "f"}]]),
            "tool_choice": st.sampled_from(["auto", "required", None, {"type": "function", "function": {"name": "f"}}]),
            "function_call": st.sampled_from(["auto", {"name": "f"}]),
            "stream": st.booleans(),
            "stream_options": st.sampled_from(
                [None, {}, {"include_usage": None}, {"include_usage": True}, {"include_usage": False}, {"x": [1]}]
            ),
        },
    ),
    layouts,
    st.booleans(),
)
def test_forbid_and_usage(fields: dict[str, object], layout: dict[str, object], front: bool) -> None:
    whole = {**fields, **request()} if front else request(**fields)
    asked = chat.read(json.dumps(whole, **layout).encode(), {})  # type: ignore[arg-type]
    edits: list[Edit] = [ForbidTools(), *([SpliceUsage()] if asked.may_splice_usage else [])]
    expected = copy.deepcopy(whole)
    if fields.get("tools"):
        expected["tool_choice"] = "none"
    elif fields.get("functions"):
        expected["function_call"] = "none"
    if asked.may_splice_usage:
        options = expected.get("stream_options")
        expected["stream_options"] = {**(options or {}), "include_usage": True}
    assert json.loads(chat.write(asked, edits)) == expected
