"""The event decoder: any framing, cut anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.api import _sse
from guardproxy.api._sse import Decoder, data_of, end_at, with_data
from tests.api.cases import FUZZ, GOLDEN
from tests.cheap import cheap

STREAMS = sorted(path for path in (GOLDEN / "streams").glob("*.sse") if path.name.count(".") == 1)


def decode(chunks: list[bytes]) -> tuple[list[bytes], bytes]:
    decoder = Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)], decoder.rest()


DATA = [
    (b"data: {}\n\n", b"{}"),
    (b"data:{}\r\n\r\n", b"{}"),
    (b"data:  {} \r\r", b"{}"),
    (b": comment\n\n", b""),
    (b"\n\n", b""),
    (b"event: x\ndata: a\nid: 3\n\n", b"a"),
    (b"data: a\ndata: b\n\n", b"a\nb"),
    (b"data\n\n", b""),
    (b"database: x\n\n", b""),
    (b"\ndata: late\n\n", b"late"),
    (b"data: [DONE]", b"[DONE]"),
]


@pytest.mark.parametrize(("event", "data"), DATA)
def test_data_of(event: bytes, data: bytes) -> None:
    assert data_of(event) == data


def test_with_data_keeps_all_other_lines() -> None:
    event = b": hi\r\nevent: x\r\ndata: {\r\ndata: }\r\nid: 1\r\n\r\n"
    assert with_data(event, b"[]") == b": hi\r\nevent: x\r\ndata: []\r\nid: 1\r\n\r\n"


@pytest.mark.parametrize("event", [b" data: {}\n\n", b"\n\tdata:{}\n\n", b"\r\ndata: {}\n\n"])
def test_what_is_read_is_what_is_replaced(event: bytes) -> None:
    assert data_of(event) == b"{}"
    assert data_of(with_data(event, b"[]")) == b"[]"
    assert b"{}" not in with_data(event, b"[]")


@pytest.mark.parametrize("ending", [b"\n\n", b"\r\n\r\n", b"\r\r", b"\n\r\n", b"\r\n\n"])
def test_events_end_at_blank_lines(ending: bytes) -> None:
    events = [b"data: 1" + ending, b": c" + ending, b"data: 2" + ending]
    assert decode([b"".join(events) + b"data: 3"]) == (events, b"data: 3")


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_cut_at_every_byte(path: Path) -> None:
    raw = path.read_bytes()
    whole, rest = decode([raw])
    for at in range(1, len(raw)):
        assert decode([raw[:at], raw[at:]]) == (whole, rest), at
    assert decode([raw[at : at + 1] for at in range(len(raw))]) == (whole, rest)
    assert b"".join(whole) + rest == raw


pieces = st.lists(
    st.sampled_from([b"data: {}", b"data:x", b": c", b"\n", b"\r", b"\r\n", b"\n\n", b"\xe4\xb8", b"\x96", b""]),
    max_size=25,
)


@settings(max_examples=200 * FUZZ, deadline=None)
@given(pieces)
def test_nothing_is_lost(chunks: list[bytes]) -> None:
    events, rest = decode(chunks)
    assert b"".join(events) + rest == b"".join(chunks)
    # the data does not depend on the cuts (a CR LF cut in two may leave an empty event more)
    whole, end = decode([b"".join(chunks)])
    assert [data for event in (*events, rest) if (data := data_of(event))] == [
        data for event in (*whole, end) if (data := data_of(event))
    ]


@pytest.mark.parametrize("framing", [b"\n\n", b"\r\n\r\n"])
def test_only_new_bytes_are_searched(framing: bytes) -> None:
    """A 10 MB event in 8 KB chunks costs about what it costs in one."""
    chunk = b"x" * 8192
    with cheap(1.0):  # searched anew for each chunk it took 6 s and more
        events, _ = decode([b": first" + framing, b"data: ", *[chunk] * 1280, framing])
    assert len(events[1]) == 1280 * 8192 + len(b"data: ") + len(framing)


def test_an_endless_event_is_handed_out_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_sse, "MAX_EVENT", 100)
    chunks = [b"data: " + b"x" * 60] * 4
    events, rest = decode(chunks)
    assert len(events) == 2
    assert b"".join(events) + rest == b"".join(chunks)


ENDS = {
    b"data: [DONE]\n\n": 0,
    b"data:[DONE]\r\n\r\n": 0,
    b"data: {}\n\ndata: [DONE]\n\n": 10,
    b"data: {}\r\rdata: [DONE]\r\r": 10,
    b": x\n\nevent: message_stop\ndata: {}\n\n": 5,
    b'data: {"type": "message_stop"}\n\n': 0,
    b'data: {}\n\nevent: response.completed\ndata: {"type":"response.completed"}\n\n': 10,
    b"event: response.incomplete\ndata: {}\n\n": 0,
    b'data: {"type":"response.failed"}\n\n': 0,
    b"event: response.completed_soon\ndata: {}\n\n": None,
    b'data: {"content": "data: [DONE]\\nevent: message_stop"}\n\n': None,
    b"event: message_delta\ndata: {}\n\n": None,
    b"": None,
}


@pytest.mark.parametrize(("events", "at"), ENDS.items())
def test_where_a_stream_ends(events: bytes, at: int | None) -> None:
    assert end_at(events) == (len(events) if at is None else at)
