"""Spans as the bytes of an OTLP request. Written by hand because of its price: the SDK builds two protobuf objects an
attribute and needs about 100 µs a span, this about 10. The tests compare it with the SDK's own encoder.

Field numbers: opentelemetry/proto/trace/v1/trace.proto and common/v1/common.proto. Only what our spans have is written:
no events, no trace state, no dropped counts.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import Link, SpanContext, SpanKind
from opentelemetry.trace.status import StatusCode

from guardproxy.telemetry import semconv as s

_KINDS = {kind: bytes((0x30, kind.value + 1)) for kind in SpanKind}  # it counts from 0, the protocol from 1
_STATUS = {code: bytes((0x7A, 2, 0x18, code.value)) if code.value else b"\x7a\0" for code in StatusCode}
_HAS_REMOTE, _IS_REMOTE = 0x100, 0x200
_TIMES = struct.Struct("<cQcQ").pack
_FLAGS = struct.Struct("<I").pack
_DOUBLE = struct.Struct("<d").pack
_U64 = (1 << 64) - 1


def encode_spans(spans: Sequence[ReadableSpan]) -> bytes:
    """An ExportTraceServiceRequest. All spans must have the resource and the scope of the first."""
    first = spans[0]
    scope = first.instrumentation_scope
    named = _bytes(b"\x0a", _text(b"\x0a", scope.name)) if scope is not None else b""
    inside = named + b"".join([_bytes(b"\x12", _span(span)) for span in spans])
    return _bytes(b"\x0a", _resource(first.resource) + _bytes(b"\x12", inside))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


_LENGTHS = [_varint(number) for number in range(2048)]


def _bytes(tag: bytes, data: bytes) -> bytes:
    size = len(data)
    return tag + (_LENGTHS[size] if size < 2048 else _varint(size)) + data


def _text(tag: bytes, text: str) -> bytes:
    return _bytes(tag, text.encode()) if text else b""


def _resource(resource: Resource) -> bytes:
    return _bytes(b"\x0a", _attributes(b"\x0a", resource.attributes))


def _span(span: ReadableSpan) -> bytes:
    context, parent = span.context, span.parent
    parts = [_bytes(b"\x0a", context.trace_id.to_bytes(16, "big")), _bytes(b"\x12", context.span_id.to_bytes(8, "big"))]
    if parent is not None:
        parts.append(b"\x22\x08" + parent.span_id.to_bytes(8, "big"))
    parts += (
        _text(b"\x2a", span.name),
        _KINDS[span.kind],
        _TIMES(b"\x39", span.start_time or 0, b"\x41", span.end_time or 0),
        _attributes(b"\x4a", span.attributes or {}),
        *[_bytes(b"\x6a", _link(link)) for link in span.links],
        _STATUS[span.status.status_code],
        b"\x85\x01" + _remote(parent),
    )
    return b"".join(parts)


def _link(link: Link) -> bytes:
    context = link.context
    ids = b"\x0a\x10" + context.trace_id.to_bytes(16, "big") + b"\x12\x08" + context.span_id.to_bytes(8, "big")
    return ids + _attributes(b"\x22", link.attributes or {}) + b"\x35" + _remote(context)


def _remote(context: SpanContext | None) -> bytes:
    return _FLAGS(_HAS_REMOTE | _IS_REMOTE if context is not None and context.is_remote else _HAS_REMOTE)


def _attributes(tag: bytes, attributes: Mapping[str, object]) -> bytes:
    if not attributes:
        return b""
    parts: list[bytes] = []
    for pair in attributes.items():
        table = _TABLES.get(type(pair[1]))  # most come again and again: model, tool, session, action
        known = table.get(pair) if table is not None else None
        parts.append(known if known is not None else _remember(pair, table))
    return tag + tag.join(parts)


_known: dict[tuple[str, object], bytes] = {}
_MAX_KNOWN = 8192
# A table a type, since True, 1 and 1.0 are one key.
_TABLES: dict[type, dict[tuple[str, object], bytes]] = {str: _known, int: {}, bool: {}, tuple: {}}
_ONCE = s.CONTENT_ATTRIBUTES | frozenset(
    {s.APPROVAL, s.OVERHEAD, s.GEN_AI_RESPONSE_ID, s.GEN_AI_TOOL_CALL_ID, s.FP_CALL, s.FP_RESULT}
)
"""Attributes whose values hardly come twice."""


def _remember(pair: tuple[str, object], table: dict[tuple[str, object], bytes] | None) -> bytes:
    key, value = pair
    found = _pair(key, _value(value))
    if table is not None and key not in _ONCE:
        if len(table) >= _MAX_KNOWN:
            table.clear()
        table[pair] = found
    return found


@lru_cache(maxsize=1024)
def _key(key: str) -> bytes:
    return _bytes(b"\x0a", key.encode())


def _pair(key: str, value: bytes) -> bytes:
    return _bytes(b"", _key(key) + _bytes(b"\x12", value))


def _value(value: object) -> bytes:
    if type(value) is str:
        return _bytes(b"\x0a", value.encode())
    if isinstance(value, bool):
        return b"\x10\x01" if value else b"\x10\x00"
    if isinstance(value, int):
        return b"\x18" + (_LENGTHS[value] if 0 <= value < 2048 else _varint(value & _U64))
    if isinstance(value, float):
        return b"\x21" + _DOUBLE(value)
    if isinstance(value, str):
        return _bytes(b"\x0a", value.encode())
    if isinstance(value, Iterable):
        return _bytes(b"\x2a", b"".join([_bytes(b"\x0a", _value(item)) for item in value]))
    raise TypeError(f"an attribute cannot be a {type(value).__name__}")
