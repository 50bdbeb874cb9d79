"""The configuration's section about what is told to the outside: spans, metrics, the log."""

from __future__ import annotations

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from guardproxy import _kinds as kinds
from guardproxy._kinds import Amount, Text
from guardproxy._settings import Section


def _lower(value: object) -> object:
    """The variable of OpenTelemetry is written in capitals; older programs know true and false."""
    said = value.lower() if isinstance(value, str) else value
    return {True: "span_only", "true": "span_only", False: "no_content", "false": "no_content"}.get(said, said)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        raise ValueError(f"is no regular expression: {error}") from error
    return text


class TelemetrySection(Section):
    """Metrics and spans over OTLP/HTTP when there is an endpoint; /metrics and the log are always there.

    `log_format: auto` is text on a terminal and JSON elsewhere. `incoming`: what becomes of a client's `traceparent`.
    `auto`: the trace of a session's first request is the session's, others are linked; where anybody may ask (no keys,
    and not on the loopback alone) all are linked. `link`, `ignore`: always. `capture_content: span_only` puts texts on
    spans, without what looks like a secret or matches a pattern of `redact`; events are not sent.
    `genai_metrics: both` adds the metric names of the GenAI conventions v0.1.0.
    """

    otlp_endpoint: kinds.OptionalHttpUrl = None
    service_name: Text = "guardproxy"
    sample_ratio: Annotated[Amount, Field(ge=0, le=1)] = 1.0
    incoming: Literal["auto", "link", "ignore"] = "auto"
    capture_content: Annotated[
        Literal["no_content", "span_only", "event_only", "span_and_event"], BeforeValidator(_lower)
    ] = "no_content"
    redact: tuple[Annotated[Text, AfterValidator(_pattern)], ...] = ()
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "text", "json"] = "auto"
    genai_metrics: Literal["usual", "both"] = "usual"

    @property
    def captures(self) -> bool:
        """Whether texts are put on spans."""
        return self.capture_content in ("span_only", "span_and_event")
