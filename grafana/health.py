"""*Proxy health*: is guardproxy itself well: requests, its own share of the time, providers, the store, telemetry."""

from __future__ import annotations

from grafana import traces
from grafana._chart import (
    Board,
    Chart,
    figure,
    in_range,
    legend,
    or_zero,
    per_interval,
    per_second,
    quantile,
    quantiles,
    share,
)

REQUESTS, OVERHEAD = "http_server_request_duration_seconds", "guardproxy_overhead_duration_seconds"
CALLS, STORE = "gen_ai_client_operation_duration_seconds", "guardproxy_store_operation_duration_seconds"
OURS = '__name__=~"(guardproxy|gen_ai|http)_.+"'
DETECTORS = (
    "histogram_quantile(0.99, sum by (le, guardproxy_rule) (rate(guardproxy_detector_duration_seconds_bucket[1h])))"
)
SPANS = "guardproxy_telemetry_spans_total"


def _rare(metric: str, by: str, *where: str) -> tuple[tuple[str, str], ...]:
    """Of something that should not happen: by label, and a line at 0 while it does not."""
    return ((f"{per_interval(metric, by, *where)} or vector(0)", legend(*by.split(", "))),)


NOW = (
    figure("Proxies that answer", or_zero('sum(up{job="guardproxy"})'), "Scraped with success."),
    figure(
        "Requests a second", or_zero(f"sum(rate({REQUESTS}_count[$__range]))"), "The mean of the range.", unit="reqps"
    ),
    figure(
        "Failed",
        share(f"{REQUESTS}_count", 'http_response_status_code=~"5.."'),
        "Answers of 500 and above, the provider's own among them.",
        unit="percentunit",
        red=0.05,
    ),
    figure("In flight", or_zero("sum(guardproxy_requests_in_flight)"), "Requests being served."),
    figure(
        "Own time, 99 %",
        or_zero(f"histogram_quantile(0.99, sum by (le) (rate({OVERHEAD}_bucket[$__range])))"),
        "guardproxy's share of a turn, the worse of its two halves.",
        unit="s",
        red=0.05,
    ),
    figure(
        "Without the store",
        in_range("guardproxy_store_fallbacks_total"),
        "Turns decided without Redis, or refused because it was away.",
        red=1,
    ),
)

TRAFFIC = (
    Chart(
        "Requests by route and status",
        "lines",
        (
            (
                per_second(f"{REQUESTS}_count", "http_route, http_response_status_code"),
                legend("http_route", "http_response_status_code"),
            ),
        ),
        "499: the client left.",
        unit="reqps",
    ),
    Chart(
        "Time of a request", "lines", quantiles(REQUESTS), "The model's time is most of it.", unit="s", exemplars=True
    ),
    Chart(
        "Turned away",
        "bars",
        (
            *_rare("guardproxy_shed_total", "guardproxy_reason"),
            *_rare("guardproxy_auth_refused_total", "guardproxy_reason"),
        ),
        "Because of load, of what was no HTTP, of a key.",
    ),
)

OWN = (
    Chart("Own time", "lines", quantiles(OVERHEAD, "guardproxy_phase"), "Store included.", unit="s"),
    Chart(
        "Detectors, 99 %",
        "lines",
        ((DETECTORS, legend("guardproxy_rule")),),
        "Measured on one turn in 256; over an hour, since there are few.",
        unit="s",
    ),
    Chart(
        "Errors inside",
        "bars",
        (
            *_rare("guardproxy_detector_errors_total", "guardproxy_rule"),
            *_rare("guardproxy_telemetry_errors_total", "guardproxy_reason"),
            (or_zero("sum(increase(guardproxy_faults_total[$__rate_interval]))"), "faults"),
        ),
        "Detectors and telemetry that raised (requests went on), and requests that ended in an error of ours. The log "
        "says why.",
    ),
)

PROVIDER = (
    Chart(
        "Model calls",
        "lines",
        ((quantile(0.95, CALLS, "gen_ai_request_model"), f"{legend('gen_ai_request_model')} 95 %"),),
        "Time of one upstream attempt.",
        unit="s",
        exemplars=True,
    ),
    Chart(
        "Time to the first chunk",
        "lines",
        (
            (
                quantile(0.95, "gen_ai_client_operation_time_to_first_chunk_seconds", "gen_ai_request_model"),
                f"{legend('gen_ai_request_model')} 95 %",
            ),
        ),
        "Of streamed answers.",
        unit="s",
    ),
    Chart(
        "Model calls that failed",
        "bars",
        _rare(f"{CALLS}_count", "gen_ai_provider_name, error_type", 'error_type!=""'),
        "By the provider's status or ours.",
    ),
    Chart(
        "Failed model calls",
        "traces",
        ((traces.FAILED, ""),),
        "The newest.",
    ),
    Chart(
        "Retries",
        "bars",
        _rare("guardproxy_upstream_retries_total", "gen_ai_provider_name, error_type"),
        "Attempts made again before the first byte.",
    ),
    Chart(
        "Upstreams",
        "bars",
        (
            *_rare("guardproxy_upstream_attempts_total", "guardproxy_upstream_name, http_response_status_code"),
            *_rare("guardproxy_upstream_asides_total", "guardproxy_upstream_name, guardproxy_reason"),
        ),
        "Where there are several: attempts by upstream and status, and times that one was put aside.",
    ),
)

STORED = (
    Chart(
        "Store trips, 99 %",
        "lines",
        ((quantile(0.99, STORE, "guardproxy_store_operation"), legend("guardproxy_store_operation")),),
        "Two a turn.",
        unit="s",
    ),
    Chart(
        "Turns without the store",
        "bars",
        _rare("guardproxy_store_fallbacks_total", "guardproxy_store_mode"),
        "open: loops are seen from the conversation, budgets are counted by each worker; closed: 503.",
    ),
    Chart(
        "The store went and came",
        "bars",
        _rare("guardproxy_store_changes_total", "guardproxy_state"),
        "As workers saw it.",
    ),
)

TELEMETRY = (
    Chart(
        "Spans",
        "bars",
        _rare(SPANS, "guardproxy_result"),
        "Queued, exported, failed (the collector refused or did not answer), dropped (too many waited).",
    ),
    Chart(
        "Webhook events",
        "bars",
        _rare("guardproxy_webhook_events_total", "guardproxy_outcome"),
        "By what became of them.",
    ),
    Chart(
        "Passed through unread",
        "bars",
        _rare("guardproxy_passthrough_total", "http_request_method"),
        "Routes that guardproxy does not read; they are not watched.",
    ),
    Chart(
        "What is running",
        "top",
        (("sum by (instance, guardproxy_version, guardproxy_semconv) (guardproxy_build_info)", ""),),
        "Version, and the conventions that names of attributes follow.",
    ),
    Chart(
        "Time series",
        "lines",
        (('sum(scrape_samples_scraped{job="guardproxy"})', "scraped"), (f"count({{{OURS}}})", "kept")),
        "A proxy shows at most 50,000 (docs/metrics.md). Prometheus keeps those of the last minutes.",
    ),
    Chart(
        "Series without a name of their own",
        "stat",
        ((or_zero('count({__name__=~"(guardproxy|gen_ai|http)_.+",gen_ai_agent_name="_other"})'), ""),),
        "Series of agents over the bound, all counted as _other.",
    ),
)

DIAGNOSTICS = (
    Chart(
        "Series by metric",
        "top",
        ((f"topk(20, count by (__name__) ({{{OURS}}}))", ""),),
        "Which metric has most.",
        width=12,
    ),
    Chart(
        "Time of a scrape",
        "lines",
        (('scrape_duration_seconds{job="guardproxy"}', legend("instance")),),
        "A worker that does not answer costs two seconds.",
        unit="s",
        width=12,
    ),
)

BOARD = Board(
    "guardproxy-health",
    "guardproxy: proxy health",
    "Whether guardproxy itself is well.",
    {
        "Now": NOW,
        "Requests": TRAFFIC,
        "Its own work": OWN,
        "Providers": PROVIDER,
        "Store": STORED,
        "Telemetry and the rest": TELEMETRY,
        "Diagnostics": DIAGNOSTICS,
    },
    folded=frozenset({"Diagnostics"}),
    traces=True,
)
"""The dashboard."""
