"""What an agent reports of its progress in a header, checked. Shared by all surfaces."""

from __future__ import annotations

from collections.abc import Mapping

from guardproxy.api._json import peek
from guardproxy.core.progress import HEADER, read
from guardproxy.errors import BadAsk


def progress(headers: Mapping[str, str]) -> tuple[int, ...]:
    """The report of a request; () without one. A header that cannot be read is refused with what is wrong with it.

    Refused and not left alone: an agent sets it on purpose, and would otherwise never learn that nothing came of it.
    """
    header = headers.get(HEADER)
    return () if header is None or not header.strip() else report(peek(header))


def report(value: object) -> tuple[int, ...]:
    """The numbers of a report given as a value (a recorded run has it so). Raises BadAsk."""
    try:
        return read(value)
    except ValueError as error:
        raise BadAsk(f"`{HEADER}`: {error}.", code="invalid_value", param=HEADER) from error
