"""Derived ids, `traceparent`, sampling."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st
from opentelemetry.sdk.trace.sampling import TraceIdRatioBased

from guardproxy.telemetry._ids import Caller, Segment, adoptable, read_segment, read_traceparent, run_ids, sampled

T, S = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"00-{T}-{S}-01", Caller(int(T, 16), int(S, 16), True)),
        (f"00-{T}-{S}-00", Caller(int(T, 16), int(S, 16), False)),
        (f"01-{T}-{S}-03-more", Caller(int(T, 16), int(S, 16), True)),
        (f"00-{T}-{S}-01-more", None),
        (f"00-{T}-{S}-01-", None),
        (f"ff-{T}-{S}-01", None),
        (f"00-{T.upper()}-{S}-01", None),
        (f"00-{'0' * 32}-{S}-01", None),
        (f"00-{T}-{'0' * 16}-01", None),
        (f"00-{T}-{S}", None),
        (f"00-{T}-{S}-01\n", None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_traceparent(text, expected):
    assert read_traceparent(text) == expected


@given(st.text(), st.text(), st.integers(0, 2**53))
def test_ids_are_stable_and_in_range(org, session, started):
    trace, root = run_ids(b"k", org, session, started)

    assert (trace, root) == run_ids(b"k", org, session, started)
    assert 0 < trace < 2**128
    assert 0 < root < 2**64


def test_ids_depend_on_every_part():
    parts = [(b"k", "a", "b", 1), (b"x", "a", "b", 1), (b"k", "ab", "", 1), (b"k", "a", "c", 1), (b"k", "a", "b", 2)]

    assert len({run_ids(*each) for each in parts}) == len(parts)


@given(st.integers(1, 2**128 - 1), st.floats(0, 1))
def test_sampling_agrees_with_the_sdk(trace_id, ratio):
    assert sampled(trace_id, ratio) == TraceIdRatioBased(ratio).should_sample(None, trace_id, "").decision.is_sampled()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Segment()),
        (f"00-{T}-{S}-01", Segment(f"00-{T}-{S}-01")),
        (f"00-{T}-{S}-01;2;5000;7;o", Segment(f"00-{T}-{S}-01", 2, 5000, 8)),
        (";1;5000;7;s;token", Segment("", 1, 5000, 8)),
        (";1;5000;7;r;10;20", Segment("", 1, 5000, 8, (10, 20))),
        (";1;5000;7;r;10", Segment("")),
        (";x;y;z;o", Segment("")),
    ],
)
def test_what_the_store_says_of_a_trace(text, expected):
    assert read_segment(text) == expected


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (f"00-{T}-{S}-01", f"00-{T}-{S}-01"),
        (f"01-{T}-{S}-03-more;5;0;0;s", f"01-{T}-{S}-03"),
        (f"00-{T}-{S};5;0;0;s", ""),
        (";5;0;0;s", ""),
    ],
)
def test_a_client_cannot_write_what_the_store_writes(text, kept):
    assert adoptable(text) == kept


def test_segments_have_ids_of_their_own():
    assert len({run_ids(b"k", "o", "s", 1, segment) for segment in range(5)}) == 5
