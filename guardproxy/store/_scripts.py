"""The scripts that the store runs, each made of files beside this one."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources

SCRIPTS = {
    "begin": ("state.lua", "resolve.lua", "begin.lua"),
    "settle": ("state.lua", "account.lua", "settle.lua", "handover.lua", "handed.lua"),
    "extend": ("state.lua", "extend.lua"),
    "note": ("state.lua", "note.lua"),
    "meter": ("state.lua", "meter.lua"),
    "charge": ("state.lua", "account.lua", "charge.lua"),
    "background": ("state.lua", "account.lua", "background.lua"),
    "sweep": ("sweep.lua",),
    "orphan": ("orphan.lua",),
    "stay": ("stay.lua",),
    "renew": ("renew.lua",),
    "idle": ("state.lua", "look.lua", "idle.lua"),
    "known": ("state.lua", "look.lua", "known.lua"),
    "tally": ("state.lua", "look.lua", "tally.lua"),
    "label": ("state.lua", "label.lua"),
    "approval": ("state.lua", "handover.lua", "approval.lua"),
    "checkpoint": ("state.lua", "checkpoint.lua"),
    "registry": ("registry.lua",),
    "policy": ("policy.lua",),
    "run": ("state.lua", "handover.lua", "look.lua", "run.lua"),
    "admin": ("state.lua", "admin.lua"),
    "erase": ("state.lua", "account.lua", "erase.lua"),
    "schema": ("schema.lua",),
    "seal": ("state.lua", "seal.lua"),
}
"""Scripts by name, and the files each is made of."""


HOUR_MS = 3_600_000
"""Milliseconds."""


@dataclass(frozen=True, slots=True)
class Retention:
    """For how long the store keeps what has no setting of its own; what is renewed lives an hour longer.

    `runs_hours`: a run, after its last turn. `people_days`: what waits for people, and what they did to a run.
    """

    runs_hours: float = 24
    people_days: float = 8

    @property
    def runs_ms(self) -> int:
        """`RUN_TTL` of the scripts."""
        return round((self.runs_hours + 1) * HOUR_MS)

    @property
    def people_ms(self) -> int:
        """`KEPT_TTL` of the scripts; a run that waits is not kept shorter than one that does not."""
        return max(round(self.people_days * 24 * HOUR_MS), self.runs_ms)


USUAL = Retention()
"""Unless the configuration says otherwise."""

_KEPT = re.compile(r"^local (RUN|KEPT)_TTL = .*? --", re.MULTILINE)


def sources(kept: Retention = USUAL) -> Mapping[str, str]:
    """Their text by name, with the times of `kept` in it."""
    folder = resources.files("guardproxy.store")
    whole = {name: "".join(folder.joinpath(f).read_text("utf-8") for f in files) for name, files in SCRIPTS.items()}
    times = {"RUN": kept.runs_ms, "KEPT": kept.people_ms}
    return {name: _KEPT.sub(lambda m: f"local {m[1]}_TTL = {times[m[1]]} --", text) for name, text in whole.items()}
