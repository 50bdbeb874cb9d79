"""Recorded spans: attributes of every kind, spans of others, and what is broken is passed over."""

from __future__ import annotations

import pytest

from guardproxy.telemetry import recorded


def line(*spans, scope="guardproxy"):
    return {"resourceSpans": [{"scopeSpans": [{"scope": {"name": scope}, "spans": list(spans)}]}]}


def span(name, parent="", at=0, end=0, links=(), **told):
    attributes = [{"key": key.replace("__", "."), "value": value} for key, value in told.items()]
    times = {"startTimeUnixNano": str(at * 10**6), "endTimeUnixNano": str(end * 10**6)}
    return {"name": name, "spanId": name, "parentSpanId": parent, "attributes": attributes, **times, "links": links}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"stringValue": "a"}, "a"),
        ({"intValue": "7"}, 7),
        ({"doubleValue": 0.5}, 0.5),
        ({"boolValue": True}, True),
        ({"arrayValue": {"values": [{"stringValue": "a"}]}}, ["a"]),
        ({}, ""),
        (None, ""),
    ],
)
def test_values(value, expected):
    (found,) = recorded.spans(line({"attributes": [{"key": "k", "value": value}]}))

    assert found["attributes"] == {"k": expected}


@pytest.mark.parametrize("told", [{}, {"resourceSpans": None}, {"resourceSpans": ["x", {}]}, line(scope="other")])
def test_what_is_not_ours(told):
    assert recorded.spans(told) == []


def test_a_call_belongs_to_the_turn_that_made_it():
    """By its link; without one to the newest turn that was over when its result came."""
    of = {"guardproxy__session__id": {"stringValue": "s"}}
    turns = [span(f"t{n}", at=n * 10, end=n * 10 + 5, guardproxy__turn={"intValue": str(n)}, **of) for n in (1, 2)]
    chat = span("chat", "t1", **of)
    tool = {"gen_ai__operation__name": {"stringValue": "execute_tool"}, **of}
    named = [{"key": "gen_ai.tool.name", "value": {"stringValue": name}} for name in ("linked", "late", "early")]
    linked = span("a", at=15, end=20, links=[{"spanId": "chat"}], **tool)
    late, early = span("b", at=25, end=30, **tool), span("c", at=1, end=2, **tool)
    for one, name in zip((linked, late, early), named, strict=True):
        one["attributes"].append(name)
    records = recorded.runs(recorded.spans(line(*turns, chat, linked, late, early)))["s"]

    assert [[call["tool"] for call in one["calls"]] for one in records] == [["linked"], ["late"]]
