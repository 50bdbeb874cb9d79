"""The table of instruments: name, type, unit, labels, buckets, help. Dashboards and exporters read only this.

No session, user or key is ever a label. Buckets of `gen_ai.*` are those the GenAI conventions advise.
"""

from __future__ import annotations

from dataclasses import dataclass

from guardproxy.telemetry import semconv as s

D = tuple(0.01 * 2**power for power in range(14))
"""Seconds, 10 ms doubling to 82 s: GenAI conventions for client durations."""
T = tuple(float(4**power) for power in range(14))
"""Tokens, 1 to 67 M by fours: GenAI conventions."""
HTTP = (0.005, 0.01, 0.025, 0.05, 0.075, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 30, 60, 120, 300)
"""Seconds; the HTTP conventions' buckets, with a tail for long model answers."""
RUN = (1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600)
"""Seconds that a run lasts, to 6 hours."""
COUNTS = tuple(float(2**power) for power in range(10))
"""Turns or calls, 1 doubling to 512: the shipped coding profile ends at 200 turns and 500 calls."""
CALLS = tuple(float(2**power) for power in range(8))
"""Calls, 1 doubling to 128: as the GenAI conventions advise for `invoke_agent.*`."""
USD = (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1, 2, 5, 10, 25, 50, 100)
"""Dollars; the shipped coding profile ends at 20."""
FAST = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25)
"""Seconds of our own work: the bar is one millisecond."""
STORE = (*FAST, 0.5, 1.0)
"""Seconds of a trip to the store, to where it has long been given up."""
DETECT = (0.00001, 0.000025, 0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01)
"""Seconds of one detector: all of them together should take 0.12 ms."""
AGENT = tuple(0.1 * 2**power for power in range(13))
"""Seconds, 0.1 doubling to 409.6: as the GenAI conventions advise for `invoke_agent.duration`."""


@dataclass(frozen=True, slots=True)
class Instrument:
    """One metric. `kind`: counter, histogram, gauge; gauges of several workers are merged by `merge`: sum or max."""

    name: str
    kind: str
    unit: str
    labels: tuple[str, ...]
    help: str
    buckets: tuple[float, ...] = ()
    merge: str = "sum"

    @property
    def width(self) -> int:
        """How many numbers a series of it has."""
        return len(self.buckets) + 2 if self.kind == "histogram" else 1

    @property
    def samples(self) -> int:
        """How many time series a series of it is in a scrape: buckets, the one above them, sum and count."""
        return len(self.buckets) + 3 if self.kind == "histogram" else 1

    @property
    def prometheus(self) -> str:
        """Its name in a scrape: dots become underscores, seconds are spelled out, counters end in `_total`."""
        return self.family + "_total" if self.kind == "counter" else self.family

    @property
    def family(self) -> str:
        """The same without `_total`: what OpenMetrics calls a family."""
        return self.name.replace(".", "_") + ("_seconds" if self.unit == "s" else "")


_CLIENT = (s.GEN_AI_OPERATION, s.GEN_AI_PROVIDER, s.GEN_AI_REQUEST_MODEL, s.GEN_AI_RESPONSE_MODEL, s.SERVER_ADDRESS)


def _counter(name: str, unit: str, labels: tuple[str, ...], text: str) -> Instrument:
    return Instrument(name, "counter", unit, labels, text)


def _histogram(name: str, unit: str, labels: tuple[str, ...], buckets: tuple[float, ...], text: str) -> Instrument:
    return Instrument(name, "histogram", unit, labels, text, buckets)


def _gauge(name: str, unit: str, labels: tuple[str, ...], text: str, merge: str = "sum") -> Instrument:
    return Instrument(name, "gauge", unit, labels, text, (), merge)


BUDGET = (s.ORG, s.TEAM, s.SCOPE_OF_BUDGET, s.DIMENSION, s.WINDOW)
"""What names a budget: never a key or a user."""

_SPENT = (*_CLIENT, s.GEN_AI_TOKEN_MODALITY)
_LATEST: tuple[Instrument, ...] = (
    _histogram("gen_ai.client.inference.duration", "s", (*_CLIENT, s.ERROR_TYPE), D, "Time of one inference."),
    _histogram("gen_ai.client.inference.time_to_first_chunk", "s", _CLIENT, D, "Time to the first streamed chunk."),
    _histogram("gen_ai.client.inference.operation.input_tokens", "{token}", _CLIENT, T, "Input tokens of one."),
    _histogram("gen_ai.client.inference.operation.output_tokens", "{token}", _CLIENT, T, "Output tokens of one."),
    _counter("gen_ai.client.inference.usage.input_tokens", "{token}", _SPENT, "Input tokens, cached ones included."),
    _counter("gen_ai.client.inference.usage.output_tokens", "{token}", _SPENT, "Output tokens, reasoning included."),
    _counter("gen_ai.client.inference.usage.cache_read.input_tokens", "{token}", _SPENT, "Input read from a cache."),
    _counter("gen_ai.client.inference.usage.cache_write.input_tokens", "{token}", _SPENT, "Input put into a cache."),
    _counter("gen_ai.client.inference.usage.reasoning.output_tokens", "{token}", _SPENT, "Output for reasoning."),
    _histogram("gen_ai.invoke_agent.duration", "s", (s.GEN_AI_AGENT,), AGENT, "Time of one run."),
)

TABLE: tuple[Instrument, ...] = (
    _histogram(
        "http.server.request.duration",
        "s",
        (s.HTTP_METHOD, s.HTTP_ROUTE, s.HTTP_STATUS, s.ERROR_TYPE),
        HTTP,
        "Time from the request's first byte to the answer's last.",
    ),
    _histogram("gen_ai.client.operation.duration", "s", (*_CLIENT, s.ERROR_TYPE), D, "Time of one upstream attempt."),
    _histogram(
        "gen_ai.client.operation.time_to_first_chunk", "s", _CLIENT, D, "Time to the first chunk of a streamed answer."
    ),
    _histogram(
        "gen_ai.client.token.usage", "{token}", (*_CLIENT, s.GEN_AI_TOKEN_TYPE), T, "Tokens of one upstream attempt."
    ),
    _histogram(
        "gen_ai.invoke_agent.inference_calls", "{inference_call}", (s.GEN_AI_AGENT,), CALLS, "Model calls of one run."
    ),
    _histogram("gen_ai.invoke_agent.tool_calls", "{tool_call}", (s.GEN_AI_AGENT,), CALLS, "Tool calls of one run."),
    _counter("guardproxy.sessions", "{session}", (s.ORG, s.GEN_AI_AGENT, s.OUTCOME, s.RULE), "Runs that ended."),
    _gauge("guardproxy.sessions.active", "{session}", (s.STATE,), "Runs that have not ended.", "max"),
    _histogram("guardproxy.session.duration", "s", (s.OUTCOME,), RUN, "Time from a run's first request to its end."),
    _histogram("guardproxy.session.turns", "{turn}", (s.OUTCOME,), COUNTS, "Turns of one run."),
    _histogram("guardproxy.session.tool_calls", "{call}", (s.OUTCOME,), COUNTS, "Tool calls of one run."),
    _histogram("guardproxy.session.cost.usd", "{usd}", (s.OUTCOME,), USD, "Cost of one run in dollars."),
    _counter("guardproxy.turns", "{turn}", (s.ORG, s.GEN_AI_AGENT), "Turns served; retries and side requests apart."),
    _counter(
        "guardproxy.interventions",
        "{intervention}",
        (s.ORG, s.ACTION, s.RULE, s.MODE),
        "Interventions carried out (enforce) or only noted (observe).",
    ),
    _counter("guardproxy.reasks", "{attempt}", (s.ORG, s.ATTEMPT_REASON), "Attempts after the first, by their reason."),
    _counter("guardproxy.verifications", "{answer}", (s.ORG, s.VERIFICATION), "Final answers that were checked."),
    _counter("guardproxy.verification.failures", "{check}", (s.ORG, s.CHECK), "Checks that a final answer failed."),
    _counter("guardproxy.hygiene", "{result}", (s.HYGIENE, s.MODE), "Tool results tidied, or noted (observe)."),
    _counter("guardproxy.approvals", "{approval}", (s.ORG, s.APPROVAL_STATE), "Approvals asked for, and decided."),
    _counter("guardproxy.tool.late", "{call}", (s.GEN_AI_TOOL,), "Tool calls without a result before their deadline."),
    _counter("guardproxy.answers.missing", "{turn}", (s.ORG, s.GEN_AI_AGENT), "Turns whose client lost our answer."),
    _counter("guardproxy.tool.calls", "{call}", (s.GEN_AI_TOOL, s.TOOL_OUTCOME), "Tool calls whose result was seen."),
    _counter("guardproxy.tool.repeats", "{call}", (s.GEN_AI_TOOL, s.RULE), "Tool calls that a finding counts."),
    _histogram(
        "guardproxy.tool.roundtrip.duration",
        "s",
        (s.GEN_AI_TOOL, s.TOOL_OUTCOME),
        (*D, 300.0, 1800.0),
        "Time from a call's last byte to its result, the agent's own time included.",
    ),
    _counter("guardproxy.tokens", "{token}", (s.ORG, s.GEN_AI_REQUEST_MODEL, s.TOKEN_TYPE), "Tokens used."),
    _counter("guardproxy.cost.usd", "{usd}", (s.ORG, s.TEAM, s.GEN_AI_REQUEST_MODEL), "Cost in dollars."),
    _counter(
        "guardproxy.background",
        "{answer}",
        (s.ORG, s.STATE),
        "Answers made in the background: charged as they were held, and settled once they were fetched.",
    ),
    _counter(
        "guardproxy.background.returned.usd",
        "{usd}",
        (s.ORG, s.TEAM, s.GEN_AI_REQUEST_MODEL),
        "Dollars of guardproxy.cost.usd that such answers were charged and did not cost.",
    ),
    _counter(
        "guardproxy.saved.usd",
        "{usd}",
        (s.ORG, s.MODE),
        "Dollars that requests answered here would have cost at least; observe: that would not have been spent.",
    ),
    _counter("guardproxy.prices.unknown", "{request}", (s.GEN_AI_REQUEST_MODEL,), "Requests whose price nobody knows."),
    _counter("guardproxy.budget.rejections", "{request}", (s.SCOPE_OF_BUDGET, s.DIMENSION), "Requests denied."),
    _gauge("guardproxy.budget.limit", "{unit}", BUDGET, "Limit of an org's or team's budget, in its own unit.", "max"),
    _gauge("guardproxy.budget.used", "{unit}", BUDGET, "What is used of it now, holds left out.", "max"),
    _gauge("guardproxy.budget.window.end", "s", BUDGET, "When it ends, seconds since 1970; 0: never.", "max"),
    _histogram("guardproxy.overhead.duration", "s", (s.PHASE,), FAST, "Our own work on a turn, store included."),
    _histogram("guardproxy.store.operation.duration", "s", (s.STORE_OP, s.ERROR_TYPE), STORE, "Trips to the store."),
    _counter(
        "guardproxy.store.fallbacks",
        "{fallback}",
        (s.STORE_MODE,),
        "Turns decided without the store (open), or refused (closed).",
    ),
    _counter("guardproxy.store.changes", "{change}", (s.STATE,), "Times the store went away or came back."),
    _counter("guardproxy.upstream.retries", "{retry}", (s.GEN_AI_PROVIDER, s.ERROR_TYPE), "Attempts made again."),
    _counter(
        "guardproxy.upstream.attempts",
        "{attempt}",
        (s.UPSTREAM, s.ATTEMPT_REASON, s.HTTP_STATUS, s.ERROR_TYPE),
        "Attempts by upstream, where there are several.",
    ),
    _counter("guardproxy.upstream.asides", "{time}", (s.UPSTREAM, s.REASON), "Times an upstream was put aside."),
    _histogram("guardproxy.detector.duration", "s", (s.RULE,), DETECT, "Time of one detector, on one turn in 256."),
    _counter("guardproxy.detector.errors", "{error}", (s.RULE,), "Detectors that raised; the turn went on."),
    _counter("guardproxy.shed", "{request}", (s.REASON,), "Requests turned away because of load."),
    _counter("guardproxy.auth.refused", "{request}", (s.REASON,), "Requests turned away because of their key."),
    _counter("guardproxy.webhook.events", "{event}", (s.OUTCOME,), "Events for the webhook, by what became of them."),
    _counter("guardproxy.passthrough", "{request}", (s.HTTP_METHOD,), "Requests passed through without being read."),
    _counter("guardproxy.faults", "{request}", (), "Requests that ended in an error of our own making."),
    _gauge("guardproxy.requests.in_flight", "{request}", (), "Requests being served."),
    _counter("guardproxy.telemetry.spans", "{span}", (s.RESULT,), "Spans queued, exported or failed to be exported."),
    _counter("guardproxy.telemetry.errors", "{error}", (s.REASON,), "Errors inside telemetry; nothing else noticed."),
    _gauge("guardproxy.build_info", "{info}", (s.VERSION, s.SEMCONV), "1, labelled with what is running.", "max"),
    *_LATEST,
)
"""Every instrument, in the order of exposition."""

LATEST = frozenset(instrument.name for instrument in _LATEST)
"""Names of those that are only there with `telemetry.genai_metrics: both`."""

BY_NAME = {instrument.name: instrument for instrument in TABLE}
"""Instrument by its dotted name."""

GAUGES = frozenset(instrument.name for instrument in TABLE if instrument.kind == "gauge")
"""Names of those that say how things are now, not how often something was."""

FROM_THE_START: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("guardproxy.faults", ()),
    ("guardproxy.store.fallbacks", ("open",)),
    ("guardproxy.store.fallbacks", ("closed",)),
    ("guardproxy.store.changes", ("down",)),
    ("guardproxy.store.changes", ("up",)),
    ("guardproxy.shed", ("in_flight",)),
)
"""Counters that are there at 0: one that comes up with its first event shows no rise, and no alert sees it."""

OF_SPANS = ("queued", "exported", "failed", "dropped")
"""What becomes of spans; those are there, too, where any are sent."""
