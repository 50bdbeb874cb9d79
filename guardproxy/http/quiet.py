"""What is written of requests that are no HTTP and of failed connections: one line, never what was sent.

It may be a header with a key or a token.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from aiohttp.http_exceptions import HttpProcessingError

_log = logging.getLogger(__name__)

SAID = 20
"""Lines that one process writes of malformed requests; all are counted."""

Count = Callable[[], None]


class Quiet(logging.Logger):
    """Takes what aiohttp's server would log: the kind of error is said and where it was raised, nothing else."""

    said = 0

    def __init__(self, count: Count) -> None:
        super().__init__(__name__, logging.INFO)
        self._count = count

    def handle(self, record: logging.LogRecord) -> None:
        """Count it, and say it in a line of ours."""
        self._count()
        error = record.exc_info[1] if record.exc_info else None
        if error is None or isinstance(error, HttpProcessingError):
            malformed(type(error).__name__)
        else:
            failed(error)


def malformed(kind: str) -> None:
    """Say that somebody sent what is no HTTP."""
    if _more():
        _log.warning("a client sent what is not well-formed HTTP (%s)", kind)


def failed(error: BaseException) -> None:
    """Say that a fault of ours has ended a connection, and where it is."""
    if not _more():
        return
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    where = f"{at.tb_frame.f_code.co_filename.rpartition('/')[2]}:{at.tb_lineno}" if at is not None else "nowhere"
    _log.error("a connection failed: %s at %s", type(error).__name__, where)


def _more() -> bool:
    Quiet.said += 1
    return Quiet.said <= SAID
