"""The series that the turns of one kind go to, found once and then written to without a look-up."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Final

from guardproxy.telemetry import semconv as s
from guardproxy.telemetry.report import TurnReport

Cell = list[float]
"""The numbers of a series, as in a snapshot."""
Labels = tuple[object, ...]
Key = tuple[object, ...]


class Row:
    """An attribute is the series itself, None until `open` has looked it up, so that none is there without a value."""

    __slots__ = (
        "after",
        "before",
        "begin",
        "cost",
        "duration",
        "find",
        "first_chunk",
        "input",
        "input_size",
        "output",
        "output_size",
        "request",
        "settle",
        "turns",
        "where",
    )

    def __init__(self, key: Key, find: Callable[[str, Labels], Cell]) -> None:
        method, route, status, error, org, team, agent, surface, *rest = key
        client = (s.OPERATIONS.get(str(surface), ""), *rest)
        model = rest[1]
        self.find = find
        self.where: dict[str, tuple[str, Labels]] = {
            "request": ("http.server.request.duration", (method, route, status, error)),
            "turns": ("guardproxy.turns", (org, agent)),
            "before": ("guardproxy.overhead.duration", ("request",)),
            "after": ("guardproxy.overhead.duration", ("response",)),
            "begin": ("guardproxy.store.operation.duration", ("begin", "")),
            "settle": ("guardproxy.store.operation.duration", ("settle", "")),
            "duration": ("gen_ai.client.operation.duration", (*client, "")),
            "first_chunk": ("gen_ai.client.operation.time_to_first_chunk", client),
            "input_size": ("gen_ai.client.token.usage", (*client, "input")),
            "output_size": ("gen_ai.client.token.usage", (*client, "output")),
            "input": ("guardproxy.tokens", (org, model, "input")),
            "output": ("guardproxy.tokens", (org, model, "output")),
            "cost": ("guardproxy.cost.usd", (org, team, model)),
        }
        self.request: Cell | None = None
        self.turns: Cell | None = None
        self.before: Cell | None = None
        self.after: Cell | None = None
        self.begin: Cell | None = None
        self.settle: Cell | None = None
        self.duration: Cell | None = None
        self.first_chunk: Cell | None = None
        self.input_size: Cell | None = None
        self.output_size: Cell | None = None
        self.input: Cell | None = None
        self.output: Cell | None = None
        self.cost: Cell | None = None

    def open(self, name: str) -> Cell:
        """The series of an attribute that has none yet. (A `__getattr__` for it would make every look-up slow.)"""
        cell = self.find(*self.where[name])
        setattr(self, name, cell)
        return cell


def key_of(report: TurnReport) -> Key:
    """What all turns of a row have in common."""
    return (
        report.method,
        report.route,
        report.status,
        report.error_type,
        report.org,
        report.team,
        report.agent,
        report.surface,
        report.provider,
        report.model,
        report.response_model,
        report.server_address,
    )


MAX_ROWS: Final = 4096
"""Rows kept; they are only a shortcut, so that all are forgotten when there are more."""


def put(cell: Cell, buckets: tuple[float, ...], value: float) -> None:
    """Put `value` into a histogram's series."""
    cell[0] += value
    cell[1 + bisect_left(buckets, value)] += 1.0
