"""What commands print for people, and who sits there. Texts of models and clients never steer the terminal."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from guardproxy.errors import ConfigError

WIDE = 200
"""Columns of a table that is not shown on a terminal."""


def me() -> str:
    """Who sits at the terminal: as the environment says, else as the system knows whose process this is."""
    return os.environ.get("USER") or os.environ.get("LOGNAME") or _account()


def _account() -> str:
    number = os.getuid()
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:  # in a container, a number that nobody has named
        return f"uid {number}"


def visible(text: str, width: int = 0) -> str:
    """A text on one line, with what does not print (escapes, line ends, marks of direction) written out.

    `width` > 0 cuts it there and says how much more there is.
    """
    rest = len(text) - width if width else 0
    kept = text[:width] if rest > 0 else text
    shown = kept if kept.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in kept)
    return f"{shown}… (+{rest:,} characters)" if rest > 0 else shown


def keep(file: Path, raw: bytes) -> None:
    """Write a conversation, for its owner's eyes only. ConfigError where that cannot be done."""
    try:
        file.unlink(missing_ok=True)
        with os.fdopen(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as opened:
            opened.write(raw)
    except OSError as error:
        raise ConfigError(f"cannot write {file}: {error.strerror or error}") from error


def show(heads: Sequence[str], rows: Iterable[Sequence[str]], none: str) -> None:
    """Print a table, or `none` where it has no row."""
    table = Table(*heads, box=None, pad_edge=False)
    for number, column in enumerate(table.columns):
        column.overflow = "fold"
        column.no_wrap = number == 0  # what is copied from there
    for row in rows:
        table.add_row(*row)
    console = Console(markup=False, highlight=False)
    if not console.is_terminal:
        console.width = WIDE
    if table.row_count:
        console.print(table)
    else:
        console.print(none, soft_wrap=True)  # a command in it must not be broken into lines
