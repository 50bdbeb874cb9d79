"""A step as bytes: what the ring keeps and the store never looks into. Versioned, compact, no content.

A version byte, a header, the tool's name, the fingerprints that differ, then what the step bears on, where it bears on
anything.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache

from guardproxy.core.bearing import NOTHING, Bearing
from guardproxy.core.model import FLAGS, NO_FP, Fp, Kind, Step
from guardproxy.core.view import RoundFact

TOOL_NAME = 128
"""Bytes of a tool's name that a fact keeps."""


_HEAD = struct.Struct("<BBHQIBBB")
_STAMP = struct.Struct("<QI")
_AT, _AFTER = 4, 16  # where time and place stand in the header
_VERSION = 2
_KINDS = tuple(Kind)
BOUNDARY = bytes((_VERSION, Kind.BOUNDARY))
"""What a packed fact starts with that is the beginning of a request span."""

_EXTENT, _REPORT, _LEFT = struct.Struct("<16sQQ"), struct.Struct("<5I"), struct.Struct("<I")
_REST = _LEFT
_PARTS = (_EXTENT.size, 16, 16, _REPORT.size, _LEFT.size, _REST.size)
_SIZES = tuple(sum(size for bit, size in enumerate(_PARTS) if also >> bit & 1) for also in range(1 << len(_PARTS)))
_FAR = 1 << 62


def pack(step: Step, said: Fp = NO_FP) -> bytes:
    """The compact form. `said`: the words of the assistant message that the step begins."""
    name = step.tool.encode("utf-8", "replace")[:TOOL_NAME]
    call, near, masked = step.call, step.near, step.masked
    result, masked_result, signature = step.result, step.masked_result, step.signature
    present, prints = 0, []
    if call != NO_FP:
        present = 1
        prints.append(call)
    if near != call:
        present |= 2
        prints.append(near)
    if masked != near:
        present |= 4
        prints.append(masked)
    if result != NO_FP:
        present |= 8
        prints.append(result)
    if masked_result != result:
        present |= 16
        prints.append(masked_result)
    if signature != NO_FP:
        present |= 32
        prints.append(signature)
    bearing, also = step.bearing, 0
    if bearing is not NOTHING:
        also, rest = _pack(bearing if said == NO_FP else bearing._replace(said=said))
        prints.append(rest)
    elif said != NO_FP:  # mostly
        also = 4
        prints.append(said)
    head = _HEAD.pack(_VERSION, step.kind, step.flags, max(0, step.at_ms), step.place, present, also, len(name))
    return b"".join((head, name, *prints))


def _pack(bearing: Bearing) -> tuple[int, bytes]:
    also, parts = 0, []
    if bearing.target != NO_FP:
        also |= 1
        parts.append(_EXTENT.pack(bearing.target, min(bearing.start, _FAR), min(bearing.stop, _FAR)))
    for bit, fp in ((2, bearing.shape), (4, bearing.said)):
        if fp != NO_FP:
            also |= bit
            parts.append(fp)
    if bearing.report:
        also |= 8
        parts.append(_REPORT.pack(*bearing.report))
    if bearing.left >= 0:
        also |= 16
        parts.append(_LEFT.pack(bearing.left))
    if bearing.rest_ms:
        also |= 32
        parts.append(_REST.pack(bearing.rest_ms))
    return also, b"".join(parts)


def stamp(fact: bytes, at_ms: int, place: int = 0) -> bytes:
    """The same fact at another time, and at another place of the conversation."""
    return b"".join((fact[:_AT], _STAMP.pack(at_ms, place), fact[_AFTER:]))


def is_boundary(fact: bytes) -> bool:
    """Whether a packed fact is the beginning of a request span; quicker than looking at its step."""
    return fact[:2] == BOUNDARY


@lru_cache(maxsize=32_768)  # a ring comes back with every turn: 500 of them, at 0.4 KB a step
def unpack(fact: bytes) -> Step:
    """The step of a packed fact. Raises ValueError for a fact of another version or a torn one: callers skip it."""
    if len(fact) < _HEAD.size or fact[0] != _VERSION:
        raise ValueError("not a step of this version")
    _, kind, flags, at_ms, place, present, also, length = _HEAD.unpack_from(fact)
    at = _HEAD.size + length
    end = at + 16 * present.bit_count()
    if present > 63 or also >= len(_SIZES) or kind >= len(_KINDS) or len(fact) != end + _SIZES[also]:
        raise ValueError("a torn step")
    name = fact[_HEAD.size : at].decode("utf-8", "replace")
    call = result = signature = NO_FP
    if present & 1:
        call, at = fact[at : at + 16], at + 16
    near = call
    if present & 2:
        near, at = fact[at : at + 16], at + 16
    masked = near
    if present & 4:
        masked, at = fact[at : at + 16], at + 16
    if present & 8:
        result, at = fact[at : at + 16], at + 16
    masked_result = result
    if present & 16:
        masked_result, at = fact[at : at + 16], at + 16
    if present & 32:
        signature = fact[at : at + 16]
    bearing = _unpack(also, fact, end) if also else NOTHING
    kept = _KINDS[kind]
    known_as = FLAGS[flags]
    return Step(kept, name, call, near, masked, result, masked_result, signature, known_as, at_ms, place, bearing)


def unpack_all(facts: Sequence[bytes]) -> list[Step]:
    """Steps of the facts that this version can read; others are left out (a rolling upgrade writes both)."""
    try:
        return [unpack(fact) for fact in facts]
    except ValueError:
        steps = []
    for fact in facts:
        with suppress(ValueError):
            steps.append(unpack(fact))
    return steps


def _unpack(also: int, fact: bytes, at: int) -> Bearing:
    target, start, stop, shape, said, left, rest = NOTHING.target, 0, 0, NO_FP, NO_FP, -1, 0
    report: tuple[int, ...] = ()
    if also & 1:
        target, start, stop = _EXTENT.unpack_from(fact, at)
        at += _EXTENT.size
    if also & 2:
        shape, at = fact[at : at + 16], at + 16
    if also & 4:
        said, at = fact[at : at + 16], at + 16
    if also & 8:
        report, at = _REPORT.unpack_from(fact, at), at + _REPORT.size
    if also & 16:
        (left,), at = _LEFT.unpack_from(fact, at), at + _LEFT.size
    if also & 32:
        (rest,) = _REST.unpack_from(fact, at)
    return Bearing(target, start, stop, shape, said, report, left, rest)


def reported(rounds: tuple[RoundFact, ...], report: Sequence[int]) -> tuple[RoundFact, ...]:
    """The rounds, the newest one's last fact with what the agent reports in this request (nothing: as they are)."""
    if not report or not rounds or not rounds[-1].facts:
        return rounds
    *before, newest = rounds
    *others, last = newest.facts
    step = unpack(last)
    told = replace(step, bearing=step.bearing._replace(report=tuple(report)))
    return (*before, replace(newest, facts=(*others, pack(told))))
