"""The configuration: one frozen tree, assembled from the Settings that stand beside the code that uses them.

The only module that knows pydantic. Unknown keys are refused with their path and the nearest known name; all errors of
a document are reported at once. A running turn keeps the tree it began with: reload swaps the whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, model_validator

from guardproxy import _document, _hosts, _policies, _regular, _sections, _upstreams, _vain, price_file
from guardproxy._budgets import Budgets
from guardproxy._policies import InForce, Policies, PolicySection
from guardproxy._prices import Prices
from guardproxy._settings import (
    Admin,
    Auth,
    Listen,
    Outgoing,
    Overload,
    Section,
    StoreSection,
    Upstream,
    UsageSection,
    Webhook,
)
from guardproxy._telemetry import TelemetrySection
from guardproxy._upstreams import Failover, NamedUpstream
from guardproxy.api.chat import Options
from guardproxy.core.fingerprint import Rules
from guardproxy.core.policy import Policy
from guardproxy.core.pricing import Rates
from guardproxy.core.tool_rules import ToolRules
from guardproxy.core.windows import Budget
from guardproxy.errors import ConfigError

Tools = _sections.section(Section, "Tools", Rules, ToolRules)
"""Knowledge about tools (the fields of `core.fingerprint.Rules`) and rules of single calls (`core.tool_rules`)."""

Chat = _sections.section(Section, "Chat", Options)
"""What may be done to answers of /v1/chat/completions: the fields of `api.chat.Options`."""


NEWEST = "gen_ai_latest_experimental"
"""In OpenTelemetry's variable for such wishes: the names of the newest GenAI conventions, too."""


class Config(Section):
    """The whole. Get one from `load`."""

    listen: Listen = Listen()
    auth: Auth = Auth()
    admin: Admin = Admin()
    upstream: Upstream = Upstream()
    upstreams: tuple[NamedUpstream, ...] = ()
    failover: Failover = Failover()
    store: StoreSection = StoreSection()
    policy: PolicySection = Field(default_factory=PolicySection)
    policies: Policies = Field(default_factory=dict)
    prices: Prices = Prices()
    budgets: Budgets = ()
    usage: UsageSection = UsageSection()
    overload: Overload = Overload()
    webhook: Webhook = Webhook()
    outgoing: Outgoing = Outgoing()
    telemetry: TelemetrySection = TelemetrySection()
    tools: Tools = Field(default_factory=Tools)  # type: ignore[valid-type]  # a model made at import
    chat: Chat = Field(default_factory=Chat)  # type: ignore[valid-type]  # a model made at import

    @model_validator(mode="before")
    @classmethod
    def _inherited(cls, document: object) -> object:
        return _policies.inherited(document)

    @model_validator(mode="after")
    def _closed(self) -> Config:
        """Nobody serves the world by mistake, has keys that are not used, or asks a server inside by its address."""
        urls = {"webhook.url": self.webhook.url, "policy.verifier.url": self.policy.verifier.url}
        urls |= {f"policies.{name}.verifier.url": one.verifier.url for name, one in self.policies.items()}
        _hosts.check(urls, self.outgoing.private_hosts)
        if self.auth.opens(self.listen.host):
            raise ValueError(
                f"auth: listen.host is {self.listen.host}, where others can reach this proxy, and auth is none: "
                "whoever does may spend your money and read your runs. Set auth: keys (or passthrough). "
                "If that is meant, write auth: {mode: none, anyone: true}"
            )
        ours = self.has_keys or any("@" in urlsplit(url).netloc for url in (self.upstream.url, *self._urls))
        if self.auth.mode == "passthrough" and ours:
            raise ValueError(
                "auth: passthrough sends on the client's own key; the upstream has one here. Set auth: keys"
            )
        return self

    def refuse_itself(self) -> None:
        """Raise ConfigError where the upstream is this very proxy: requests would go round in a circle.

        It happens when the printed OPENAI_BASE_URL is pasted into the shell that starts the proxy next time.
        """
        ours = {self.listen.host, "127.0.0.1", "localhost", "::1", "0.0.0.0"}  # noqa: S104 - compared, not bound
        for name, url in self.addresses.items():
            parts = urlsplit(url)
            if self.listen.port and parts.port == self.listen.port and parts.hostname in ours:
                setting = f"upstreams.{name}.url" if name and name != _upstreams.RESERVED else "upstream.url"
                raise ConfigError(
                    f"{setting}: {url} is this proxy itself; give the provider's address "
                    "with --upstream or in the file (is OPENAI_BASE_URL set in this shell?)",
                    param=setting,
                )

    @model_validator(mode="after")
    def _told_apart(self) -> Config:
        if name := _upstreams.twice(self.upstreams):
            raise ValueError(f"upstreams: {name!r} is the name of two of them")
        return self

    @property
    def has_default(self) -> bool:
        """Whether requests may go to `upstream`: beside others only if its address is given."""
        return not self.upstreams or "url" in self.upstream.model_fields_set

    @property
    def has_keys(self) -> bool:
        """Whether any upstream has a key of ours."""
        return bool(self.upstream.api_key) or any(one.api_key for one in self.upstreams)

    @property
    def _urls(self) -> list[str]:
        return [one.url for one in self.upstreams]

    @property
    def addresses(self) -> dict[str, str]:
        """Where requests may go, by name, without passwords; the name of the only one is "default", too."""
        found = {_upstreams.RESERVED: self.upstream.url} if self.has_default else {}
        found |= {one.name: one.url for one in self.upstreams}
        return {name: _upstreams.without_password(url) for name, url in found.items()}

    def warnings(self) -> list[str]:
        """What the document says in vain, and what it lacks without being wrong, in sentences."""
        default = self.has_default and bool(self.upstreams)
        keyless = {one.name: one.url for one in self.upstreams if not one.api_key}
        unpaid: list[str] = []
        if self.auth.mode == "keys":  # then no client's key goes anywhere
            sole = {"": self.upstream.url} if self.has_default and not self.upstream.api_key else {}
            unpaid, keyless = [*_upstreams.unpaid(sole | keyless)], {}
        elif default and not self.upstream.api_key:
            keyless[_upstreams.RESERVED] = self.upstream.url
        found = list(_upstreams.warnings(self.upstreams, self.prices.models, default=default, keyless=keyless))
        if self.telemetry.capture_content in ("event_only", "span_and_event"):
            found.append("telemetry.capture_content: events are not sent; span_only puts the texts on spans")
        return found + unpaid + list(self._vain())

    def _vain(self) -> Iterator[str]:
        """Rules of policies, tools and budgets that can never match."""
        yield from _vain.policies(self.policies)
        for name, one in self.in_force.items():
            yield from _vain.tools("" if name == _policies.DEFAULT else f"policies.{name}.", one.policy)
        yield from _vain.open_to_clients(self.in_force, self.policies)
        if self.has_default:
            return  # it serves all models
        served = [glob for one in self.upstreams for glob in one.models]
        for name, named in self.policies.items():
            yield from _vain.models(f"policies.{name}.models", named.models, served)
        yield from _vain.models("budgets", [one.match for one in self.budgets if one.scope == "model"], served)

    @property
    def data_dir(self) -> Path:
        """Where the embedded store and the secret live."""
        return Path(self.store.data_dir).expanduser()

    def policy_value(self) -> Policy:
        """The default policy as `core` takes it."""
        return _policies.value(self.policy, self._tool_rules)

    @cached_property
    def in_force(self) -> dict[str, InForce]:
        """All policies by name, the default one first. Some milliseconds each, the first time."""
        every = {_policies.DEFAULT: self.policy, **self.policies}
        return {name: _policies.in_force(name, one, self._tool_rules) for name, one in every.items()}

    @property
    def _tool_rules(self) -> ToolRules:
        return _sections.value(self.tools, ToolRules)

    def budget_values(self) -> tuple[Budget, ...]:
        """The budgets of the default org as `core` takes them."""
        return tuple(one.value() for one in self.budgets)

    def rules_value(self) -> Rules:
        """The knowledge about tools as `core` takes it."""
        return _sections.value(self.tools, Rules)

    def price_table(self) -> tuple[dict[str, Rates], Rates]:
        """Rates by model glob, and those of models that nobody knows."""
        table = {glob: price.rates(known=True) for glob, price in self.prices.models.items()}
        return table, self.prices.default.rates(known=False)

    def price_list(self) -> price_file.PriceList:
        """What `prices.file` says. Raises ConfigError where it cannot be read; bad entries are named in it."""
        return price_file.read(self.prices.file) if self.prices.file else price_file.NOTHING


def load(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, object] | None = None, needed: Sequence[str] = ()
) -> tuple[Config, _document.Document]:
    """The configuration in `path` (None: defaults) under `env`, and its plain document, from which `build` makes an
    equal one in another process. `overrides` are values by dotted path. `needed`: see `_document.spare`. Raises
    ConfigError naming every error.
    """
    return _loaded(_written(path), path, env, overrides, needed)


def reader(
    path: Path | None, env: Mapping[str, str], overrides: Mapping[str, object] | None = None
) -> Callable[[], tuple[Config, _document.Document]]:
    """`load` for who reads the same file again. Raises ConfigError, too, for what is no regular file, and for a file
    that has become empty: a lost or half written one must not pass for the defaults, where nobody needs a key.
    """
    had = False

    def read() -> tuple[Config, _document.Document]:
        nonlocal had
        if path:
            _regular.check(path)
        written = _written(path)
        if had and not written:
            raise ConfigError(
                f"{path} is empty, and was not before: that does not mean the defaults; restart for these"
            )
        found = _loaded(written, path, env, overrides)
        had = had or bool(written)
        return found

    return read


def _written(path: Path | None) -> _document.Document:
    return _document.parse(_document.read(path), str(path)) if path else {}


def _loaded(
    written: _document.Document,
    path: Path | None,
    env: Mapping[str, str],
    overrides: Mapping[str, object] | None,
    needed: Sequence[str] = (),
) -> tuple[Config, _document.Document]:
    document, problems = _document.spare(*_document.fill(written, env), needed)
    if isinstance(document.get("auth"), str):  # the short form, so that what is given beside it finds its place
        document["auth"] = {"mode": document["auth"]}
    for dotted, value in (overrides or {}).items():
        _document.put(document, dotted, value)
    _defaults(document, env)
    listed = _document.get(document, "prices.file")
    if isinstance(listed, str) and listed and path:  # beside the configuration, wherever we were started
        _document.put(document, "prices.file", str(path.absolute().parent / Path(listed).expanduser()))
    config = build(document, str(path) if path else "configuration", problems)
    config.price_list()
    return config, document


def _defaults(document: _document.Document, env: Mapping[str, str]) -> None:
    """What the environment says by convention, where the file says nothing."""
    home = env.get("XDG_DATA_HOME") or "~/.local/share"
    for dotted, value in (
        ("upstream.url", env.get("OPENAI_BASE_URL")),
        ("telemetry.otlp_endpoint", env.get("OTEL_EXPORTER_OTLP_ENDPOINT")),
        ("telemetry.capture_content", env.get("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT")),
        ("telemetry.genai_metrics", "both" if NEWEST in env.get("OTEL_SEMCONV_STABILITY_OPT_IN", "") else ""),
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
