"""What passes for an id that a client gives a session, a thread or a user. Shared by all surfaces."""

from __future__ import annotations

MAX_ID = 200
"""Longest id taken, in characters: UUIDs have 36, the longest seen on the wire 64."""

PLACEHOLDERS = frozenset(
    (
        "null",
        "none",
        "undefined",
        "nan",
        "nil",
        "unknown",
        "default",
        "session",
        "session_id",
        "session-id",
        "id",
        "true",
        "false",
        "0",
        "-",
        "n/a",
        "anonymous",
    )
)
"""What programs send when they have no id: one bucket for all of them would mix strangers' runs."""


def clean(value: object) -> str:
    """A usable id, or ""."""
    if not isinstance(value, str):
        return ""
    text = value.strip()
    if not text or len(text) > MAX_ID or not text.isprintable() or text.lower() in PLACEHOLDERS:
        return ""
    return text
