"""What can go wrong, by who did wrong. The HTTP status and the machine code travel with the error.

Nothing here knows HTTP libraries; `api` renders any of these in the surface's own error format.
"""

from __future__ import annotations


class GuardError(Exception):
    """Base of the kinds. `status` is HTTP, `code` is for machines, `param` names the offending field."""

    status = 500
    code = "guardproxy_error"
    kind = "api_error"

    def __init__(
        self, message: str, *, status: int | None = None, code: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.status = status or self.status
        self.code = code or self.code
        self.param = param


class ConfigError(GuardError):
    """The configuration cannot be used. Raised at start, at reload and by `guardproxy check`."""

    code = "config_error"


class BadAsk(GuardError):
    """The agent's request cannot be served as it is (4xx)."""

    status = 400
    code = "invalid_request"
    kind = "invalid_request_error"


class UpstreamError(GuardError):
    """The provider did not answer, or broke its protocol (502, 504).

    `unsent`: nothing of the request left for it. `made`: there was an answer, which cannot be read: it may be billed.
    """

    status = 502
    code = "upstream_error"
    kind = "upstream_error"
    unsent = made = False

    @classmethod
    def before(cls, message: str, *, code: str, status: int | None = None) -> UpstreamError:
        """The error of a connection that was never made: whatever was to be sent may be sent elsewhere."""
        error = cls(message, code=code, status=status)
        error.unsent = True
        return error


class Overloaded(GuardError):
    """The proxy has too much under way, or drains; nothing was held (503, worth trying again)."""

    status = 503
    code = "overloaded"
    kind = "overloaded_error"


class StoreError(GuardError):
    """Redis did not answer in time. `on_store_failure` decides what follows (open: go on; closed: 503).

    `unsent`: nothing has left for it. Else it may carry out yet what it was told.
    """

    status = 503
    code = "store_unavailable"
    kind = "overloaded_error"
    unsent = False
