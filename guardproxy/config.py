"""The configuration: one frozen tree, assembled from the Settings that stand beside the code that uses them.

The only module that knows pydantic. Unknown keys are refused with their path and the nearest known name; all errors of
a document are reported at once. A running turn keeps the tree it began with: reload swaps the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from guardproxy import _document, _kinds as kinds, _sections
from guardproxy._kinds import Amount, Count, HttpUrl, Number, Port, Seconds, Text
from guardproxy.api.chat import Options
from guardproxy.core import detectors, presets
from guardproxy.core.budget import DIMENSIONS, Limit
from guardproxy.core.fingerprint import Rules
from guardproxy.core.policy import PROFILES, Policy
from guardproxy.core.pricing import Rates
from guardproxy.errors import ConfigError

DEFAULT_UPSTREAM = "https://api.openai.com/v1"
"""Where requests go when neither the file nor `OPENAI_BASE_URL` says."""


class Section(BaseModel):
    """A mapping in the file: frozen, no unknown keys, no infinite numbers."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, hide_input_in_errors=True)

    @model_validator(mode="before")
    @classmethod
    def _empty(cls, value: object) -> object:
        """A section whose keys are all commented out is nothing in YAML."""
        return {} if value is None else value


class Listen(Section):
    """Where agents connect. `port` 0 = any free one. `workers` are processes that share it."""

    host: Text = "127.0.0.1"
    port: Port = 8787
    workers: Annotated[Number, Field(ge=1, le=256)] = 1


class Admin(Section):
    """Where operators connect: /healthz, /readyz, /metrics, /panic. Keep it off the public net."""

    host: Text = "127.0.0.1"
    port: Port = 8788


class Upstream(Section):
    """The provider. Without `api_key` the client's own Authorization passes through.

    `first_byte_seconds` is long because reasoning models think first; `idle_seconds` is between two chunks.
    """

    url: HttpUrl = DEFAULT_UPSTREAM
    api_key: kinds.OptionalText = Field(default=None, repr=False)
    connect_seconds: Seconds = 10.0
    first_byte_seconds: Seconds = 600.0
    idle_seconds: Seconds = 300.0
    retries: Annotated[Number, Field(ge=0, le=5)] = 0


class StoreSection(Section):
    """Redis by `url`, else an embedded Valkey in `data_dir`. `on_failure` says what a request does without it.

    `lease_seconds`: how long a hold outlives the worker that took it; renewed while its call runs. `labels_days`: how
    long a false alarm is remembered.
    """

    url: kinds.OptionalRedisUrl = Field(default=None, repr=False)
    data_dir: Text = "~/.local/share/guardproxy"
    on_failure: Literal["open", "closed"] = "open"
    timeout_ms: kinds.StoreMs = 220  # a request may lose 250 in all (DESIGN section 11)
    lease_seconds: kinds.LeaseSeconds = 120.0
    labels_days: kinds.Days = 180.0


class SpanLimits(Section):
    """Limits of a request span: what follows one genuine user message. Absent = the profile's, null = none."""

    turns: Count | None = None
    tool_calls: Count | None = None
    wall_seconds: Seconds | None = None
    consecutive_failures: Count | None = None
    same_call: Count | None = None
    calls_per_tool: Count | None = None


class SessionLimits(Section):
    """Limits of a whole session, sub-agents included. Absent = the profile's, null = none."""

    turns: Count | None = None
    tool_calls: Count | None = None
    wall_seconds: Seconds | None = None
    input_tokens: Count | None = None
    output_tokens: Count | None = None
    total_tokens: Count | None = None
    cost_usd: kinds.LimitUsd | None = None


class Limits(Section):
    """Limits by scope."""

    span: SpanLimits = SpanLimits()
    session: SessionLimits = SessionLimits()


Detectors = _sections.detectors(Section, detectors.RULES)
"""One section a rule: `enabled`, `mode`, and the fields of its Settings (a triple is written [nudge, firm, cut])."""


class PolicySection(Section):
    """What is done about loops and budgets. `mode: observe` reports and does nothing. `detectors` over `preset`."""

    mode: Literal["enforce", "observe"] = "enforce"
    language: Literal["auto", "en", "zh"] = "auto"
    profile: Literal["coding", "qa", "cross_system", "none"] = "coding"
    preset: Literal["strict", "balanced", "patient"] = "balanced"
    limits: Limits = Limits()
    detectors: Detectors = Field(default_factory=Detectors)  # type: ignore[valid-type]  # a model made at import
    usage: Literal["splice", "estimate"] = "splice"
    default_output_hold: kinds.Hold = 4096


class Price(Section):
    """Dollars per million tokens. Cached tokens and cache writes cost what input does, unless said otherwise."""

    input: kinds.Price
    output: kinds.Price
    cached_input: kinds.Price | None = None
    cache_write: kinds.Price | None = None

    def rates(self, *, known: bool) -> Rates:
        """The same as core's value."""
        cached = -1.0 if self.cached_input is None else self.cached_input
        written = -1.0 if self.cache_write is None else self.cache_write
        return Rates(self.input, self.output, cached, written, known)


class Prices(Section):
    """`models` (globs, the first match wins) come before the published prices, `default` after them.

    The default is the price of a large model: an unknown one should rather be stopped early than run for free.
    """

    default: Price = Price(input=3.0, output=15.0)
    models: dict[str, Price] = Field(default_factory=dict)


class Overload(Section):
    """Bounds of one worker; what is above is refused before any budget is held. Megabytes are 1024 x 1024 bytes."""

    max_in_flight: kinds.InFlight = 1024
    max_body_mb: kinds.Megabytes = 64
    max_expanded_mb: kinds.Megabytes = 64


class TelemetrySection(Section):
    """Metrics and spans over OTLP/HTTP when there is an endpoint; /metrics and the log are always there.

    `log_format: auto` is text on a terminal and JSON elsewhere.
    """

    otlp_endpoint: kinds.OptionalHttpUrl = None
    service_name: Text = "guardproxy"
    sample_ratio: Annotated[Amount, Field(ge=0, le=1)] = 1.0
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    log_format: Literal["auto", "text", "json"] = "auto"


Tools = _sections.section(Section, "Tools", Rules)
"""Knowledge about tools: the fields of `core.fingerprint.Rules`."""


Chat = _sections.section(Section, "Chat", Options)
"""What may be done to answers of /v1/chat/completions: the fields of `api.chat.Options`."""


class Config(Section):
    """The whole. Get one from `load`."""

    listen: Listen = Listen()
    admin: Admin = Admin()
    upstream: Upstream = Upstream()
    store: StoreSection = StoreSection()
    policy: PolicySection = Field(default_factory=PolicySection)
    prices: Prices = Prices()
    overload: Overload = Overload()
    telemetry: TelemetrySection = TelemetrySection()
    tools: Tools = Field(default_factory=Tools)  # type: ignore[valid-type]  # a model made at import
    chat: Chat = Field(default_factory=Chat)  # type: ignore[valid-type]  # a model made at import

    def refuse_itself(self) -> None:
        """Raise ConfigError where the upstream is this very proxy: requests would go round in a circle.

        It happens when the printed OPENAI_BASE_URL is pasted into the shell that starts the proxy next time.
        """
        parts = urlsplit(self.upstream.url)
        ours = {self.listen.host, "127.0.0.1", "localhost", "::1", "0.0.0.0"}  # noqa: S104 - compared, not bound
        if self.listen.port and parts.port == self.listen.port and parts.hostname in ours:
            raise ConfigError(
                f"upstream.url: {self.upstream.url} is this proxy itself; give the provider's address "
                "with --upstream or in the file (is OPENAI_BASE_URL set in this shell?)",
                param="upstream.url",
            )

    @property
    def data_dir(self) -> Path:
        """Where the embedded store and the secret live."""
        return Path(self.store.data_dir).expanduser()

    def policy_value(self) -> Policy:
        """The policy as `core` takes it."""
        policy = self.policy
        settings, modes = _sections.chosen(policy.detectors, presets.preset_settings(policy.preset))
        return Policy(
            mode=policy.mode,
            language=policy.language,
            detectors=settings,
            modes=modes,
            limits=_limits(policy),
            default_output_hold=policy.default_output_hold,
            splice_usage=policy.usage == "splice",
        )

    def rules_value(self) -> Rules:
        """The knowledge about tools as `core` takes it."""
        return _sections.value(self.tools, Rules)

    def price_table(self) -> tuple[dict[str, Rates], Rates]:
        """Rates by model glob, and those of models that nobody knows."""
        table = {glob: price.rates(known=True) for glob, price in self.prices.models.items()}
        return table, self.prices.default.rates(known=False)


def _limits(policy: PolicySection) -> tuple[Limit, ...]:
    """The profile's limits, overridden by what the file says; null takes one away."""
    wanted: dict[tuple[str, str], float | None] = {}
    for setting, amount in PROFILES[policy.profile].items():
        wanted["session" if setting == "cost_usd" else "span", setting] = amount
    for scope, given in (("span", policy.limits.span), ("session", policy.limits.session)):
        wanted |= {(scope, setting): getattr(given, setting) for setting in given.model_fields_set}
    rows = {row.setting: row for row in DIMENSIONS.values()}
    return tuple(
        Limit(scope, rows[setting].name, max(1, round(amount * rows[setting].scale)))
        for (scope, setting), amount in wanted.items()
        if amount is not None
    )


def load(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> tuple[Config, _document.Document]:
    """The configuration in `path` (None: defaults) under `env`, and its plain document, from which `build` makes an
    equal one in another process. `overrides` are values by dotted path. Raises ConfigError naming every error.
    """
    name = str(path) if path else "configuration"
    written = _document.parse(_document.read(path), name) if path else {}
    document, problems = _document.fill(written, env)
    for dotted, value in (overrides or {}).items():
        _document.put(document, dotted, value)
    _defaults(document, env)
    return build(document, name, problems), document


def _defaults(document: _document.Document, env: Mapping[str, str]) -> None:
    """What the environment says by convention, where the file says nothing."""
    home = env.get("XDG_DATA_HOME") or "~/.local/share"
    for dotted, value in (
        ("upstream.url", env.get("OPENAI_BASE_URL")),
        ("telemetry.otlp_endpoint", env.get("OTEL_EXPORTER_OTLP_ENDPOINT")),
        ("store.data_dir", f"{home}/guardproxy"),
    ):
        if value and _document.get(document, dotted) is None:
            _document.put(document, dotted, value)


def build(
    document: Mapping[str, Any], name: str = "configuration", problems: Mapping[str, str] | None = None
) -> Config:
    """The tree of a plain document. `problems` are errors already known by path. Raises ConfigError."""
    lines = {**_document.unprintable(document), **(problems or {})}
    try:
        config = Config.model_validate(document)
    except ValidationError as error:
        for dotted, wrong in _sections.explain(error, Config):
            lines.setdefault(dotted, wrong)
    if lines:
        said = "\n".join(f"  {f'{dotted}: ' if dotted else ''}{wrong}" for dotted, wrong in lines.items())
        raise ConfigError(f"{name} cannot be used:\n{said}", param=next(iter(lines)))
    return config
