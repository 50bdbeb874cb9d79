"""Recorded runs of other people, as turns to play. They stand beside the repository and are not part of it."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest

Json = dict[str, Any]
SHARED = Path(__file__).parents[3] / "shared"


def shared(*parts: str) -> Path:
    """A file or folder beside the repository; the test is skipped where it is absent."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"../shared/{'/'.join(parts)} is not here: this test plays what others recorded")
    return path


@dataclass(frozen=True, slots=True)
class Recorded:
    """One session. `asks` are the positions at which the agent asked: of each answer, and the end if it had asked."""

    id: str
    group: str
    model: str
    messages: Sequence[Json]
    asks: Sequence[int]
    raw: Json

    @property
    def tools(self) -> list[Json]:
        """Definitions of the tools that the session calls."""
        calls = (call for message in self.messages for call in message.get("tool_calls") or ())
        names = dict.fromkeys(call["function"]["name"] for call in calls)
        return [{"type": "function", "function": {"name": n, "parameters": {"type": "object"}}} for n in names if n]

    def step(self, at: int) -> int:
        """Index of the newest call before message `at`, or of the next one if the agent last spoke without a call."""
        before = [message for message in self.messages[:at] if message["role"] == "assistant"]
        calls = sum(len(message.get("tool_calls") or ()) for message in before)
        return max(0, calls - 1) if before and before[-1].get("tool_calls") else calls


def sessions(most: int, turns: int, length: tuple[int, int]) -> list[Recorded]:
    """At most `most` sessions with `turns` in all, one of each group in turn; `length`: fewest and most of each.

    Within a group the hand-labelled loops come first, so that there is something to decide, then by a hash of the id.
    """
    lines = shared("trajectories", "dev-labels.jsonl").read_text("utf-8").splitlines()
    labels = {row["id"]: row for row in map(json.loads, lines)}
    groups: dict[str, list[tuple[bool, str, Json]]] = defaultdict(list)
    for run in _lines(shared("trajectories", "dev.jsonl.gz")):
        label = labels[run["id"]]
        order = hashlib.sha256(run["id"].encode()).hexdigest()
        if length[0] <= len(_asks(run["messages"])) <= length[1]:
            groups[label["source_group"]].append((label["loop"] != "yes", order, run))
    ordered = [(name, sorted(rows, key=lambda row: row[:2])) for name, rows in sorted(groups.items())]
    columns = [[(name, run) for _, _, run in rows] for name, rows in ordered]
    chosen: list[Recorded] = []
    for name, run in (one for row in zip_longest(*columns) for one in row if one):
        asks = _asks(run["messages"])
        if len(chosen) == most or turns < len(asks):
            break
        turns -= len(asks)
        chosen.append(Recorded(run["id"], name, run["model"] or "unknown", run["messages"], asks, run))
    return chosen


def _lines(path: Path) -> Iterator[Json]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            yield json.loads(line)


def _asks(messages: Sequence[Json]) -> list[int]:
    asks = [at for at, message in enumerate(messages) if message["role"] == "assistant" and at]
    return asks if not messages or messages[-1]["role"] == "assistant" else [*asks, len(messages)]


def healthy() -> list[Recorded]:
    """The runs that their source counts as success and no reader calls a loop."""
    lines = shared("trajectories", "dev-labels.jsonl").read_text("utf-8").splitlines()
    labels = {row["id"]: row for row in map(json.loads, lines)}
    return [
        Recorded(run["id"], labels[run["id"]]["source_group"], run["model"] or "unknown", run["messages"], asks, run)
        for run in _lines(shared("trajectories", "dev.jsonl.gz"))
        if run["success"] is True and labels[run["id"]]["loop"] != "yes" and (asks := _asks(run["messages"]))
    ]
