"""A worker's proxy, put together as a configuration says."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from guardproxy import _kinds as kinds, _sections
from guardproxy._policies import DEFAULT
from guardproxy._upstreams import RESERVED
from guardproxy.api.chat import OFF, Options
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.http import preparing, shaping
from guardproxy.http._turn_store import TurnStore
from guardproxy.http.app import Bounds, Proxy
from guardproxy.http.chosen import Chosen, Match, Policies
from guardproxy.http.prices import Prices
from guardproxy.http.room import Budgets
from guardproxy.http.signed import Receiver
from guardproxy.http.tenancy import Tenancy
from guardproxy.http.upstream import Upstream
from guardproxy.http.upstreams import Member, Rules, Upstreams
from guardproxy.http.verifier import Verifier
from guardproxy.http.webhook import Webhook

if TYPE_CHECKING:
    from guardproxy._settings import (
        Upstream as UpstreamSection,
        Verifier as VerifierSection,
        Webhook as WebhookSection,
    )
    from guardproxy._upstreams import NamedUpstream
    from guardproxy.config import Config
    from guardproxy.secrets import Keys
    from guardproxy.telemetry import Telemetry


def assemble(
    config: Config,
    keys: Keys,
    store: TurnStore,
    telemetry: Telemetry,
    *,
    clock_offset: Callable[[Mapping[str, str]], int] | None = None,
    where: str = "",
) -> Proxy:
    """A worker's proxy for a configuration; call `start` on it inside the running loop.

    `where`: options with which commands reach its store, for whoever sits at this machine.
    """
    upstream, upstreams = _upstreams_of(config, telemetry)
    private = frozenset(config.outgoing.private_hosts)
    closed = config.store.on_failure == "closed"
    proxy = Proxy(
        tenancy=_tenancy(config.auth.mode, keys, store, telemetry, closed=closed),
        webhook=_webhook(config.webhook, private, telemetry) if config.webhook.url else None,
        policies=_policies_of(config, private),
        upstream=upstream,
        upstreams=upstreams,
        store=store,
        telemetry=telemetry,
        budgets=Budgets(config.budget_values()),
        printer=Fingerprinter(keys.fingerprint, config.rules_value()),
        prices=_prices(config, telemetry),
        ledger_key=keys.ledger,
        limits=Bounds(
            max_body=config.overload.max_body_mb << 20,
            max_expanded=config.overload.max_expanded_mb << 20,
            max_in_flight=config.overload.max_in_flight,
        ),
        lease_ms=round(config.store.lease_seconds * 1000),
        on_failure=config.store.on_failure,
        clock_offset=clock_offset,
    )
    # Paths of this machine are nothing for who has a key.
    proxy.where, proxy.incoming = where if config.auth.mode == "none" else "", _incoming(config)
    proxy.captures = config.telemetry.captures
    return proxy


def _incoming(config: Config) -> str:
    """What becomes of a client's `traceparent`: who may be anybody does not write into the traces of others."""
    said = config.telemetry.incoming
    anybody = config.auth.mode == "none" and not kinds.is_loopback(config.listen.host)
    return said if said != "auto" else "link" if anybody else "adopt"


def _policies_of(config: Config, private: frozenset[str]) -> Policies:
    """The policies by name; those that ask the same verifier share it."""
    options = _sections.value(config.chat, Options)
    verifiers: dict[str, Verifier] = {}
    every = {}
    for name, one in config.in_force.items():
        section, policy = one.section.verifier, one.policy
        enforced = policy.mode == "enforce"
        verifier = None
        if section.url:
            key = repr((section.url, section.secret, section.timeout_seconds, section.fail))
            verifier = verifiers.setdefault(key, _verifier(section, private))
        mode = section.mode if enforced else "observe"
        every[name] = Chosen(
            label=f"{name}@{one.version}",
            policy=policy,
            wants=preparing.wants(policy, verifies=mode if verifier is not None else ""),
            options=options if enforced and options.used else OFF,
            verifier=verifier,
            verifier_mode=mode,
            shape=shaping.shape(policy),
        )
    matches = [Match(name, one.models, one.agents) for name, one in config.policies.items() if one.models or one.agents]
    return Policies(every, DEFAULT, matches)


def _tenancy(mode: str, keys: Keys, store: TurnStore, telemetry: Telemetry, *, closed: bool) -> Tenancy | None:
    if mode == "none":
        return None

    def refused(code: str) -> None:
        telemetry.count("guardproxy.auth.refused", {"reason": code}, 1)

    return Tenancy(mode, keys.key_hash, lambda: store.registry, closed=closed, refused=refused)


def _prices(config: Config, telemetry: Telemetry) -> Prices:
    return Prices(
        *config.price_table(),
        config.price_list(),
        unknown=config.prices.unknown,
        url="" if config.upstreams else config.upstream.url,
        alert=lambda model: telemetry.count("guardproxy.prices.unknown", {"model": model}, 1),
    )


def _verifier(section: VerifierSection, private: frozenset[str]) -> Verifier:
    receiver = Receiver(section.url or "", section.secret, section.timeout_seconds, private)
    return Verifier(receiver, fail=section.fail)


def _webhook(section: WebhookSection, private: frozenset[str], telemetry: Telemetry) -> Webhook:
    receiver = Receiver(section.url or "", section.secret, section.timeout_seconds, private)
    return Webhook(receiver, ended=lambda outcome: telemetry.count("webhook.events", {"outcome": outcome}, 1))


def _upstreams_of(config: Config, telemetry: Telemetry) -> tuple[Upstream, Upstreams | None]:
    """The upstream of what names no model, and all of them where there are several."""
    default = None
    if config.has_default:
        name = RESERVED if config.upstreams else ""
        default = _upstream(config.upstream, name, "upstream.url", config.upstream.retries)
    members = [
        Member(_upstream(one, one.name, f"upstreams.{one.name}.url"), one.models, one.rename)
        for one in config.upstreams
    ]
    if not members:
        return default or _upstream(config.upstream, "", "upstream.url"), None
    told = config.failover
    rules = Rules(told.most, told.failures, told.aside_seconds, told.stay == "session")
    asides = partial(telemetry.count, "upstream.asides")
    upstreams = Upstreams(
        members,
        default,
        rules,
        clock=time.monotonic,
        on_aside=lambda name, reason: asides({"name": name, "reason": reason}, 1),
    )
    return default or members[0].upstream, upstreams


def _upstream(section: UpstreamSection | NamedUpstream, name: str, setting: str, retries: int = 0) -> Upstream:
    return Upstream(
        section.url,
        name=name,
        setting=setting,
        api_key=section.api_key or "",
        connect_s=section.connect_seconds,
        first_byte_s=section.first_byte_seconds,
        idle_s=section.idle_seconds,
        retries=retries,
    )
