"""The scripts that the store runs, each made of files beside this one."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources

SCRIPTS = {
    "begin": ("state.lua", "resolve.lua", "begin.lua"),
    "settle": ("state.lua", "account.lua", "settle.lua", "handover.lua", "handed.lua"),
    "extend": ("state.lua", "extend.lua"),
    "note": ("state.lua", "note.lua"),
    "meter": ("state.lua", "meter.lua"),
    "charge": ("state.lua", "account.lua", "charge.lua"),
    "sweep": ("sweep.lua",),
    "orphan": ("orphan.lua",),
    "stay": ("stay.lua",),
    "renew": ("renew.lua",),
    "idle": ("state.lua", "look.lua", "idle.lua"),
    "known": ("state.lua", "look.lua", "known.lua"),
    "label": ("state.lua", "label.lua"),
    "approval": ("state.lua", "handover.lua", "approval.lua"),
    "checkpoint": ("state.lua", "checkpoint.lua"),
    "registry": ("registry.lua",),
    "policy": ("policy.lua",),
    "run": ("state.lua", "handover.lua", "look.lua", "run.lua"),
    "admin": ("state.lua", "admin.lua"),
    "erase": ("state.lua", "account.lua", "erase.lua"),
    "schema": ("schema.lua",),
}
"""Scripts by name, and the files each is made of."""


def sources() -> Mapping[str, str]:
    """Their text by name."""
    folder = resources.files("guardproxy.store")
    return {name: "".join(folder.joinpath(f).read_text("utf-8") for f in files) for name, files in SCRIPTS.items()}
