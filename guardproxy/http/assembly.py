"""A worker's proxy, put together as a configuration says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from guardproxy import _sections
from guardproxy.api.chat import OFF, Options
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.http.app import Bounds, Proxy
from guardproxy.http.books import TurnStore
from guardproxy.http.prices import Prices
from guardproxy.http.room import Budgets
from guardproxy.http.signed import Receiver
from guardproxy.http.upstream import Upstream
from guardproxy.http.verifier import Verifier
from guardproxy.http.webhook import Webhook

if TYPE_CHECKING:
    from guardproxy._settings import Verifier as VerifierSection, Webhook as WebhookSection
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
) -> Proxy:
    """A worker's proxy for a configuration; call `start` on it inside the running loop."""
    table, fallback = config.price_table()
    upstream = Upstream(
        config.upstream.url,
        api_key=config.upstream.api_key or "",
        connect_s=config.upstream.connect_seconds,
        first_byte_s=config.upstream.first_byte_seconds,
        idle_s=config.upstream.idle_seconds,
        retries=config.upstream.retries,
    )
    verifier = config.policy.verifier
    return Proxy(
        verifier=_verifier(verifier) if verifier.url else None,
        verifier_mode=verifier.mode if config.policy.mode == "enforce" else "observe",
        webhook=_webhook(config.webhook, telemetry) if config.webhook.url else None,
        policy=config.policy_value(),
        upstream=upstream,
        store=store,
        telemetry=telemetry,
        budgets=Budgets(config.budget_values()),
        printer=Fingerprinter(keys.fingerprint, config.rules_value()),
        prices=Prices(table, fallback),
        ledger_key=keys.ledger,
        limits=Bounds(
            max_body=config.overload.max_body_mb << 20,
            max_expanded=config.overload.max_expanded_mb << 20,
            max_in_flight=config.overload.max_in_flight,
        ),
        options=_sections.value(config.chat, Options) if config.policy.mode == "enforce" else OFF,
        lease_ms=round(config.store.lease_seconds * 1000),
        fail_closed=config.store.on_failure == "closed",
        clock_offset=clock_offset,
    )


def _verifier(section: VerifierSection) -> Verifier:
    receiver = Receiver(section.url or "", section.secret, section.timeout_seconds)
    return Verifier(receiver, fail=section.fail)


def _webhook(section: WebhookSection, telemetry: Telemetry) -> Webhook:
    receiver = Receiver(section.url or "", section.secret, section.timeout_seconds)
    return Webhook(receiver, ended=lambda outcome: telemetry.count("webhook.events", {"outcome": outcome}, 1))
