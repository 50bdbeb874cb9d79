"""The low-level aiohttp server: its bounds, and how it speaks of what is no HTTP: one line, never what was sent."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable, Coroutine
from typing import cast

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from guardproxy import api
from guardproxy.errors import BadAsk, GuardError

_log = logging.getLogger(__name__)

MAX_LINE = 64 * 1024
"""Bytes of a request's first line, and of one header: keys and traces of gateways are longer than aiohttp's 8 KB."""

READ = 256 << 10
"""Bytes of a body that may wait to be taken, up to twice as many, before no more are read: as much as comes at once.
With less a connection would be stopped and started again with every part.
"""

SAID = 20
"""Lines that one process writes of malformed requests; all are counted."""


class Server(web.Server):
    """No router and no middleware: there are few routes (a third cheaper). `count` hears of each malformed request."""

    def __init__(self, handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]], count: Count) -> None:
        super().__init__(  # type: ignore[no-untyped-call,unused-ignore]  # typed or not, by aiohttp's build
            handler,
            handler_cancellation=True,
            access_log=None,
            auto_decompress=False,
            logger=Quiet(count),
            max_line_size=MAX_LINE,
            max_field_size=MAX_LINE,
            read_bufsize=READ,
        )

    def __call__(self) -> web.RequestHandler:
        """A new connection."""
        loop = self._loop if BEGINS_AT_ONCE else cast("asyncio.AbstractEventLoop", _Inline(self._loop))
        return _Connection(self, loop=loop, **self._kwargs)


BEGINS_AT_ONCE = sys.version_info >= (3, 12)
"""Whether a task begins with its creation, as aiohttp wants it, and not one turn of the loop later."""


class _Inline:
    """The loop, as aiohttp sees it: what handles a request is awaited by the connection's task, and is no other task.

    Then it begins at once, as with newer versions of Python, and its end is heard at once: two turns of the loop less.
    A task of its own has a copy of the context's variables; we have none.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.create_future, self.call_at, self.time = loop.create_future, loop.call_at, loop.time

    def create_task(self, work: Coroutine[object, object, object]) -> Awaitable[object]:
        return work if getattr(work, "__name__", "") == "_handle_request" else self._loop.create_task(work)

    def __getattr__(self, name: str) -> object:
        return getattr(self._loop, name)


Count = Callable[[], None]


class _Connection(web.RequestHandler):
    """Answers what cannot be read in OpenAI's shape."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,  # may quote what was sent
    ) -> web.StreamResponse:
        self.log_exception("", exc_info=exc)
        if request.writer.output_size > 0:
            broken = "the answer has begun"
            raise ConnectionError(broken)
        error: GuardError
        if status < 500:
            says = f"the request is not well-formed HTTP, or a line of its head is longer than {MAX_LINE} bytes"
            error = BadAsk(says, status=status, code="malformed_http")
        else:
            error = GuardError("guardproxy failed on this request; its log says where", code="internal_error")
        kind = {"Content-Type": "application/json", "x-should-retry": "false"}
        response = web.Response(status=status, body=api.SURFACES["passthrough"].error(error, {}), headers=kind)
        response.force_close()
        return response


class Quiet(logging.Logger):
    """Takes what aiohttp's server would log: the kind of error is said and where it was raised, nothing else.

    It would quote what was sent, a header with a key or a token perhaps.
    """

    said = 0

    def __init__(self, count: Count) -> None:
        super().__init__(__name__, logging.INFO)
        self._count = count

    def handle(self, record: logging.LogRecord) -> None:
        """Count it, and say it in a line of ours."""
        self._count()
        if Quiet.said >= SAID:
            return
        Quiet.said += 1
        error = record.exc_info[1] if record.exc_info else None
        kind = type(error).__name__
        if error is None or isinstance(error, HttpProcessingError):
            _log.warning("a client sent what is not well-formed HTTP (%s)", kind)
            return
        at = error.__traceback__
        while at is not None and at.tb_next is not None:
            at = at.tb_next
        where = f"{at.tb_frame.f_code.co_filename.rpartition('/')[2]}:{at.tb_lineno}" if at is not None else "nowhere"
        _log.error("a connection failed: %s at %s", kind, where)
