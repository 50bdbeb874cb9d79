"""The configuration's section about what is told to the outside: spans, metrics, the log."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from guardproxy import _kinds as kinds
from guardproxy._kinds import Amount, Text
from guardproxy._settings import Section


class TelemetrySection(Section):
    """Metrics and spans over OTLP/HTTP when there is an endpoint; /metrics and the log are always there.

    `log_format: auto` is text on a terminal and JSON elsewhere. `incoming`: what becomes of a client's `traceparent`.
    `auto`: the trace of a session's first request is the session's, others are linked; where anybody may ask (no keys,
    and not on the loopback alone) all are linked. `link`, `ignore`: always. `genai_metrics: both` adds the metric names
    of the GenAI conventions v0.1.0.
    """

    otlp_endpoint: kinds.OptionalHttpUrl = None
    service_name: Text = "guardproxy"
    sample_ratio: Annotated[Amount, Field(ge=0, le=1)] = 1.0
    incoming: Literal["auto", "link", "ignore"] = "auto"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "text", "json"] = "auto"
    genai_metrics: Literal["usual", "both"] = "usual"
