"""What commands print for people, and who sits there. Texts of models and clients never steer the terminal."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich.console import Console
from rich.table import Table

WIDE = 200
"""Columns of a table that is not shown on a terminal."""


def me() -> str:
    """Who sits at the terminal, as far as the environment says."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or "unknown"


def visible(text: str, width: int = 0) -> str:
    """A text on one line, with what does not print (escapes, line ends, marks of direction) written out.

    `width` > 0 cuts it there and says how much more there is.
    """
    rest = len(text) - width if width else 0
    kept = text[:width] if rest > 0 else text
    shown = kept if kept.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in kept)
    return f"{shown}… (+{rest:,} characters)" if rest > 0 else shown


def show(heads: Sequence[str], rows: Iterable[Sequence[str]], none: str) -> None:
    """Print a table, or `none` where it has no row."""
    table = Table(*heads, box=None, pad_edge=False)
    for column in table.columns:
        column.overflow = "fold"
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    console.print(table if table.row_count else none)
