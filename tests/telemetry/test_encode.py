"""Our encoder of spans against the SDK's."""

from __future__ import annotations

import pytest
from hypothesis import given, settings as effort, strategies as st
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans as reference
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import Link, SpanContext, SpanKind, TraceFlags
from opentelemetry.trace.status import Status, StatusCode

from guardproxy.telemetry._encode import _MAX_KNOWN, _known, encode_spans

RESOURCE = Resource({"service.name": "guardproxy", "service.instance.id": "ü"})
SCOPE = InstrumentationScope("guardproxy")

texts = st.text(st.characters(codec="utf-8"), max_size=200)
values = st.one_of(
    texts, st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False), st.lists(texts, max_size=3)
)
contexts = st.builds(
    SpanContext,
    st.integers(1, 2**128 - 1),
    st.integers(1, 2**64 - 1),
    st.booleans(),
    st.just(TraceFlags(TraceFlags.SAMPLED)),
)
attributes = st.dictionaries(st.text(st.characters(codec="ascii"), min_size=1), values, max_size=8)
spans = st.builds(
    ReadableSpan,
    name=texts,
    context=contexts,
    parent=st.none() | contexts,
    resource=st.just(RESOURCE),
    attributes=attributes,
    links=st.lists(st.builds(Link, contexts, attributes), max_size=2),
    kind=st.sampled_from(SpanKind),
    status=st.sampled_from([Status(code) for code in StatusCode]),
    start_time=st.integers(1, 2**63),
    end_time=st.integers(1, 2**63),
    instrumentation_scope=st.just(SCOPE),
)


@given(st.lists(spans, min_size=1, max_size=4))
@effort(max_examples=200, deadline=None)
def test_the_bytes_mean_what_the_sdk_would_have_sent(batch):
    expected = reference(batch)

    assert type(expected).FromString(encode_spans(batch)) == expected


def test_long_texts_need_longer_lengths():
    context = SpanContext(1, 1, False, TraceFlags(1))
    batch = [
        ReadableSpan("n" * size, context, resource=RESOURCE, attributes={"a": "v" * size}, instrumentation_scope=SCOPE)
        for size in (0, 127, 128, 2047, 2048, 70_000)
    ]
    for span in batch:
        span._start_time = span._end_time = 5
    expected = reference(batch)

    assert type(expected).FromString(encode_spans(batch)) == expected


def test_what_is_remembered_is_bounded():
    context = SpanContext(1, 1, False, TraceFlags(1))
    for number in range(_MAX_KNOWN + 10):
        encode_spans([ReadableSpan("n", context, resource=RESOURCE, attributes={"a": f"v{number}"})])

    assert len(_known) <= _MAX_KNOWN


def test_a_value_of_another_type_is_refused():
    span = ReadableSpan("n", SpanContext(1, 1, False), resource=RESOURCE, attributes={"a": object()})

    with pytest.raises(TypeError, match="an attribute cannot be a object"):
        encode_spans([span])
