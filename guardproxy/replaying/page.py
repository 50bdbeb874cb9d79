"""One HTML file of recorded runs, for a person who wants to see why: a bar a session, decisions where they were taken.

The page holds its data as JSON text and draws a bar when it is scrolled to. It loads nothing from anywhere, and what
the recording says reaches it as text only. Previews of arguments and results stand in it: it is as private as the file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from heapq import merge
from html import escape
from pathlib import Path
from typing import Any

import orjson

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Flag, Kind
from guardproxy.errors import ConfigError
from guardproxy.replaying import tally
from guardproxy.replaying.cells import Cell, cells, place
from guardproxy.replaying.told import SessionReport, Told

ROOM = 12 << 20
"""Bytes of sessions on a page, so that it opens in a second or two and can be sent to a colleague."""

CELLS = 400
"""Cells of one session that are shown: about four lines of a bar."""

AFTER = 40
"""Cells shown after the last decision where a session is too long to show whole: whether the loop went on."""

ACTS = ("observe", "nudge", "firm", "finalize", "cut", "deny")
"""Actions by their number on the page."""

STARTS, AGAIN, TEXT, ALIKE = 1, 2, 4, 512
"""Bits of a cell beside its step's flags: begins a round, pair seen before, no call, answered like the one before."""

_FLAGS = {Flag.FAILED: 8, Flag.VOID: 16, Flag.PENDING: 32, Flag.INVALID: 64, Flag.UNANSWERED: 128, Flag.THINK: 256}


class Page:
    """Collects sessions, then writes the page. Bounded: sessions without decisions are left out first."""

    def __init__(self, room: int = ROOM) -> None:
        self._room = room
        self._rows: dict[bool, list[tuple[int, bytes]]] = {True: [], False: []}  # with decisions, and without
        self._added = self._size = 0
        self.left_out = 0

    def add(
        self,
        recorded: Mapping[str, Any],
        printer: Fingerprinter,
        report: SessionReport,
        other: SessionReport | None = None,
    ) -> None:
        """Add a session with what was decided, and what another configuration would have."""
        row = _inert(_row(cells(recorded["messages"], printer), report, other))
        decided = bool(report.decisions or (other and other.decisions))
        self._rows[decided].append((self._added, row))
        self._added += 1
        self._size += len(row)
        while self._size > self._room:
            _, dropped = (self._rows[False] or self._rows[True]).pop()
            self._size -= len(dropped)
            self.left_out += 1

    def write(
        self,
        path: Path,
        name: str,
        reports: Sequence[SessionReport],
        other: Sequence[SessionReport] = (),
        there: str = "",
    ) -> None:
        """Write the page about the recording called `name`; `there`: what the other configuration is called.

        Raises ConfigError where the file cannot be written.
        """
        about = {
            "name": name,
            "totals": asdict(tally.totals(reports)),
            "rules": [asdict(one) for one in tally.by_rule(reports)],
            "there": there,
            "other": asdict(tally.totals(other)) if there else None,
            "left_out": self.left_out,
            "acts": ACTS,
        }
        parts = {
            b"{{title}}": [escape(name).encode("utf-8", "replace")],
            b"{{about}}": [_inert(about)],
            b"{{sessions}}": [b"[", b",\n".join(row for _, row in merge(*self._rows.values())), b"]"],
        }
        try:
            with path.open("wb") as file:
                file.writelines(_filled(Path(__file__).with_name("page.html").read_bytes(), parts))
        except OSError as error:
            raise ConfigError(f"cannot write {path}: {error.strerror or error}") from error


def _filled(template: bytes, parts: Mapping[bytes, Iterable[bytes]]) -> Iterable[bytes]:
    """The template with its places filled, once each and in their order: what is filled in is never searched."""
    for mark, part in parts.items():
        before, template = template.split(mark, 1)
        yield before
        yield from part
    yield template


def _inert(data: object) -> bytes:
    """JSON that cannot end the element that holds it, whatever a recording says."""
    return orjson.dumps(data).replace(b"<", b"\\u003c")


def _row(found: Sequence[Cell], report: SessionReport, other: SessionReport | None) -> dict[str, Any]:
    """A session: texts once each, the shown cells as numbers, decisions by the cell that they followed."""
    decisions = [_decision(found, told) for told in report.decisions]
    there = [_decision(found, told) for told in other.decisions] if other else []
    first, last = _window(len(found), [decision[0] for decision in (*decisions, *there)])
    texts: dict[str, int] = {}
    return {
        "id": _clean(report.id),
        "n": report.steps,
        "saved": report.saved,
        "shown": [first, last, len(found)],
        "skipped": sum(cell.step.kind is Kind.CALL for cell in found[:first]),
        "cells": [_numbers(cell, texts) for cell in found[first:last]],
        "decisions": decisions,
        "other": there,
        "compared": None if other is None else other.saved,
        "texts": list(texts),
    }


def _window(count: int, places: Sequence[int]) -> tuple[int, int]:
    """Which cells are shown: all, or those before and a little after the last decision."""
    if count <= CELLS:
        return 0, count
    last = min(count, max(CELLS, max(places, default=0) + 1 + AFTER))
    return last - CELLS, last


def _decision(found: Sequence[Cell], told: Told) -> list[Any]:
    act = ACTS.index(told.act) if told.act in ACTS else 0
    return [place(found, told.message), act, told.rule, told.count, told.call, told.message, _clean(told.reason)]


def _numbers(cell: Cell, texts: dict[str, int]) -> list[int]:
    words = (cell.step.tool, cell.arguments, cell.result)
    bits = STARTS * cell.starts + AGAIN * cell.again + TEXT * (cell.step.kind is not Kind.CALL)
    bits += ALIKE * cell.alike
    bits += sum(bit for flag, bit in _FLAGS.items() if cell.step.flags & flag)
    return [*(texts.setdefault(_clean(word), len(texts)) for word in words), cell.colour, bits, cell.message]


def _clean(text: str) -> str:
    """Text that can be written: a lone surrogate cannot."""
    return text.encode("utf-8", "replace").decode()
