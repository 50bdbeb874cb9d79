"""The plain sections of the configuration: where to listen, where to send, what may be spent.

Sections made of Settings that stand beside the code that uses them are put together in `config`.
"""

from __future__ import annotations

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from guardproxy import _kinds as kinds
from guardproxy._kinds import Count, HttpUrl, Number, Port, Seconds, Text


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


class Tls(Section):
    """A certificate (with its chain) and its key, as PEM files. Read again when the configuration is."""

    cert: kinds.OptionalText = None
    key: kinds.OptionalText = None

    @model_validator(mode="after")
    def _both(self) -> Tls:
        if bool(self.cert) != bool(self.key):
            raise ValueError(f"{'cert' if self.key else 'key'}: is missing: a certificate and its key go together")
        return self


class StoreTls(Tls):
    """For `rediss` URLs; `ca` is who is trusted, by default whom the system trusts."""

    ca: kinds.OptionalText = None


class Auth(Section):
    """Who may use the proxy. May be written as one word.

    `none`: everybody, so only on the loopback, unless `anyone: true` stands beside a `mode: none` that was written out.
    `keys`: virtual keys (`guardproxy keys create`). `passthrough`: the provider's own keys, which go on to it.
    """

    mode: Literal["none", "keys", "passthrough"] = "none"
    anyone: bool = False

    @model_validator(mode="before")
    @classmethod
    def _word(cls, value: object) -> object:
        return {"mode": value} if isinstance(value, str) else value

    def opens(self, host: str) -> bool:
        """Whether listening on a host would let in whoever can reach it, and nobody has said so twice."""
        return (
            self.mode == "none"
            and not (self.anyone and "mode" in self.model_fields_set)
            and not kinds.is_loopback(host)
        )


class Admin(Section):
    """Where operators connect: /healthz, /readyz, /metrics, /panic, /admin/v1. Keep it off the public net.

    `trusted_proxies`: networks of reverse proxies whose X-Forwarded-For the audit believes.
    """

    host: Text = "127.0.0.1"
    port: Port = 8788
    tls: Tls = Tls()
    trusted_proxies: tuple[kinds.Network, ...] = ()


class Outgoing(Section):
    """Where webhooks and verifiers may be. Private, loopback and link-local addresses are refused, but for these hosts.

    An exact name or address of a URL each: what a URL makes the proxy ask is then what its operator meant.
    """

    private_hosts: tuple[kinds.Host, ...] = ()


class Upstream(Section):
    """The provider. Without `api_key` the client's own Authorization passes through.

    `first_byte_seconds` is long because reasoning models think first; `idle_seconds` is between two chunks.
    """

    url: HttpUrl = kinds.DEFAULT_UPSTREAM
    api_key: kinds.OptionalText = Field(default=None, repr=False)
    connect_seconds: Seconds = 10.0
    first_byte_seconds: Seconds = 600.0
    idle_seconds: Seconds = 300.0
    retries: Annotated[Number, Field(ge=0, le=5)] = 0


class StoreSection(Section):
    """Redis by `url`, else an embedded Valkey in `data_dir`. `on_failure`: what happens without it (`http.books`).

    `lease_seconds`: how long a hold outlives the worker that took it; renewed while its call runs. `labels_days`: how
    long a false alarm is remembered; `runs_hours`: a run after its last turn; `people_days`: what waits for people, and
    what they did to a run (docs/data.md). `wait_replicas`: how many must have a hold first (docs/redis.md).
    """

    url: kinds.OptionalRedisUrl = Field(default=None, repr=False)
    data_dir: Text = "~/.local/share/guardproxy"
    on_failure: Literal["by_budget", "open", "closed"] = "by_budget"
    timeout_ms: kinds.StoreMs = 220  # a request may lose 250 in all (DESIGN section 11)
    lease_seconds: kinds.LeaseSeconds = 120.0
    labels_days: kinds.Days = 180.0
    runs_hours: kinds.KeptHours = 24.0
    people_days: kinds.KeptDays = 8.0
    tls: StoreTls = StoreTls()
    wait_replicas: Annotated[Number, Field(ge=0, le=5)] = 0


class UsageSection(Section):
    """The ledger of usage. `folder`: each day as a file of JSON lines, "" = none; `keep_days` in the store."""

    folder: Annotated[Text, Field(min_length=0)] = ""
    keep_days: Annotated[Number, Field(ge=1, le=400)] = 400


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


class Webhook(Section):
    """A server of yours that is told of events: approvals, runs paused and cut, soft limits passed. `secret` signs.

    Without a `url` nobody is told.
    """

    url: kinds.OptionalHttpUrl = Field(default=None, repr=False)
    secret: str = Field(default="", repr=False)
    timeout_seconds: Seconds = 5.0

    @model_validator(mode="after")
    def _signed(self) -> Webhook:
        return _signs(self)


class Verifier(Section):
    """A server of yours that is asked whether a final answer passes. `fail`: what counts when it gives no verdict."""

    url: kinds.OptionalHttpUrl = Field(default=None, repr=False)
    secret: str = Field(default="", repr=False)
    timeout_seconds: Annotated[Seconds, Field(le=60)] = 10.0
    fail: Literal["open", "closed"] = "open"
    mode: Literal["observe", "enforce"] = "enforce"

    @model_validator(mode="after")
    def _signed(self) -> Verifier:
        return _signs(self)


Signing = TypeVar("Signing", Webhook, Verifier)


def _signs(section: Signing) -> Signing:
    if section.url and len(section.secret) < kinds.SHORTEST_SECRET:
        raise ValueError(
            f"secret: must have at least {kinds.SHORTEST_SECRET} characters: it signs what the server gets"
        )
    return section


class Overload(Section):
    """Bounds of one worker; what is above is refused before any budget is held. Megabytes are 1024 x 1024 bytes."""

    max_in_flight: kinds.InFlight = 1024
    max_body_mb: kinds.Megabytes = 64
    max_expanded_mb: kinds.Megabytes = 64
