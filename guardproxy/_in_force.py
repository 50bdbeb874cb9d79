"""What a configuration, or one policy, comes to, in lines for whoever wrote it: `guardproxy check`, `policies show`.

Only what is in force is told.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from guardproxy.core import completion
from guardproxy.core.budget import DIMENSIONS, Limit, duration
from guardproxy.core.detectors import RULES
from guardproxy.core.policy import Policy
from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.core.windows import NOW

if TYPE_CHECKING:
    from guardproxy._policies import InForce, PolicySection
    from guardproxy.config import Config


SCOPES = {"span": "request span", "session": "session"}
"""Scopes of limits in words."""

WRITTEN = "  (calls that an agent writes into its text, such as Thought/Action, are reported, but not held by these)"
"""What rules for single calls do not do: such a call is executed from the very text that the client gets."""


def lines(config: Config, policy: Policy) -> Iterator[str]:
    """Who may use it, limits, budgets, rules of tools, approvals, final checks, hygiene, who else is asked; prices."""
    if config.auth.mode != "none":
        yield f"auth: {config.auth.mode}"
    for limit in policy.limits:
        yield f"limit of a {SCOPES[limit.scope]}: {_amount(limit)}"
    yield from _budgets(config)
    yield from _calls(policy)
    yield from _asked(policy)
    yield from (f"hygiene.{kind}: {_mode(settings)}" for kind, settings in policy.hygiene.items() if _on(settings))
    yield from _finals(config.policy, policy)
    yield from _ends(policy)
    if config.webhook.url:
        yield f"webhook: {_origin(config.webhook.url)}"
    yield from _named(config)
    yield from config.price_list().complaints()


def stands(one: InForce) -> Iterator[str]:
    """One policy: its detectors, limits, rules of tools, approvals, hygiene, final checks."""
    section, policy = one.section, one.policy
    seen = [f"{rule} ({mode})" for rule, mode in sorted(policy.modes.items()) if rule in RULES and mode != policy.mode]
    off = sorted(RULES.keys() - policy.detectors.keys())
    told = {"of another mode": seen, "off": off}
    more = "".join(f"; {what}: {', '.join(rules)}" for what, rules in told.items() if rules)
    yield f"detectors: {len(policy.detectors)}, preset {section.preset}{more}"
    for limit in policy.limits:
        yield f"limit of a {SCOPES[limit.scope]}: {_amount(limit)}"
    yield from _calls(policy)
    yield from _asked(policy)
    yield from (f"hygiene.{kind}: {_mode(settings)}" for kind, settings in policy.hygiene.items() if _on(settings))
    yield from _finals(section, policy)
    yield from _ends(policy)


def _budgets(config: Config) -> Iterator[str]:
    """Whose they are is said: those of other organisations are in the store."""
    for one in config.budget_values():
        row, globs = DIMENSIONS[one.dimension], "" if one.match == "*" else f" {one.match}"
        per = {NOW: "", "total": " for ever"}.get(one.window, f" a {one.window}")
        zone = "" if one.timezone == "UTC" else f" ({one.timezone})"
        yield f"budget of the org {DEFAULT_ORG}: {one.scope}{globs} {row.setting} {row.show(one.limit)}{per}{zone}"


def _named(config: Config) -> Iterator[str]:
    """The policies beside the default one: their versions, and for what they are chosen."""
    for name, one in config.in_force.items():
        section = config.policies.get(name)
        if section is None:
            continue
        told = [f"{field} {', '.join(globs)}" for field in ("models", "agents") if (globs := getattr(section, field))]
        yield f"policy {name}@{one.version}: {one.policy.mode}, for {' and '.join(told) or 'keys that name it'}"


def _calls(policy: Policy) -> Iterator[str]:
    tools, checks = policy.tools, policy.proposals
    yield f"refuse: {_mode(checks.get('repeat'))}"
    arguments = checks.get("arguments")
    if _on(arguments):
        yield f"arguments: {_mode(arguments)}, asked again {getattr(arguments, 'repairs', 0)} times at most"
    for name, rules, mode in (
        ("deny", tools.deny, _mode(checks.get("deny"))),
        ("approval", tools.approval, _mode(checks.get("approval"))),
        ("human", tools.human, _mode(checks.get("human"))),
        ("later", tools.later, ""),
        ("final", tools.final, ""),
    ):
        if rules:
            yield f"tools.{name}: {', '.join(rule.label for rule in rules)}{f' ({mode})' if mode else ''}"
    if tools.deny or tools.approval or tools.human:
        yield WRITTEN
    if tools.deadlines:
        told = (f"{glob} {duration(seconds)}" for glob, seconds in tools.deadlines.items())
        yield f"tools.deadlines: {', '.join(told)}"


def _asked(policy: Policy) -> Iterator[str]:
    if not (policy.tools.approval or policy.tools.human):
        return
    terms = policy.approvals
    way = f"the request is held for {duration(terms.hold_seconds)}" if terms.way == "hold" else "answered at once"
    end = "the run is cut" if terms.on_expiry == "cut" else "the call is denied"
    yield f"approvals: {way}; undecided after {duration(terms.expire_seconds)} {end}"


def _finals(section: PolicySection, policy: Policy) -> Iterator[str]:
    checks, verifier = completion.in_use(policy.completion), section.verifier
    yield from (f"completion.{rule}: {_mode(settings)}" for rule, settings in sorted(checks.items()))
    if verifier.url:
        mode = verifier.mode if policy.mode == "enforce" else "observe"
        yield f"verifier: {_origin(verifier.url)} ({mode}, fails {verifier.fail})"
    if not (checks or verifier.url):
        if policy.final.hold:
            yield "final.hold: nothing is held, since no check is set (policy.completion, policy.verifier)"
        return
    final = policy.final
    held = f"held, sent back {final.retries} times at most, then: {final.on_failure}"
    yield f"final answers: {held if final.hold else 'handed on at once; what fails is reported'}"


def _ends(policy: Policy) -> Iterator[str]:
    yield from (f"{name}: pause" for name in ("on_cut", "on_budget") if getattr(policy, name) == "pause")
    kept = policy.checkpoints
    if kept.enabled:
        yield f"checkpoints: up to {kept.max_kb:,} KB, for {duration(kept.ttl_seconds)}"


def _amount(limit: Limit) -> str:
    """In the unit of the setting; times as people say them."""
    row = DIMENSIONS[limit.dimension]
    shown = duration(limit.limit / row.scale) if row.clock else row.show(limit.limit)
    return f"{row.setting} {shown}"


def _mode(settings: object) -> str:
    return str(getattr(settings, "mode", "off"))


def _on(settings: object) -> bool:
    return _mode(settings) != "off"


def _origin(url: str) -> str:
    """The address without its path and query, which may hold a secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
