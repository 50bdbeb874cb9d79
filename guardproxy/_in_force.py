"""What a configuration comes to, in lines for whoever wrote it: `guardproxy check`. Only what is in force is told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from guardproxy.core import completion
from guardproxy.core.policy import Policy
from guardproxy.core.tool_rules import ToolRule

if TYPE_CHECKING:
    from guardproxy.config import Config


def lines(config: Config, policy: Policy) -> Iterator[str]:
    """Who may use it, limits, rules of tools, approvals, final checks, hygiene, who else is asked; bad prices."""
    if config.auth.mode != "none":
        yield f"auth: {config.auth.mode}"
    for limit in policy.limits:
        yield f"{limit.scope} {limit.dimension} <= {limit.limit:,}"
    yield from _calls(policy)
    yield from _asked(policy)
    yield from (f"hygiene.{kind}: {_mode(settings)}" for kind, settings in policy.hygiene.items() if _on(settings))
    yield from _finals(config, policy)
    yield from _ends(config, policy)
    yield from _named(config)
    yield from config.price_list().complaints()


def _named(config: Config) -> Iterator[str]:
    """The policies beside the default one: their versions, and for what they are chosen."""
    for name, one in config.policies_in_force().items():
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
            yield f"tools.{name}: {', '.join(map(_rule, rules))}{f' ({mode})' if mode else ''}"
    if tools.deadlines:
        yield f"tools.deadlines: {', '.join(f'{glob} {seconds:g} s' for glob, seconds in tools.deadlines.items())}"


def _asked(policy: Policy) -> Iterator[str]:
    if not (policy.tools.approval or policy.tools.human):
        return
    terms = policy.approvals
    way = f"the request is held for {terms.hold_seconds:g} s" if terms.way == "hold" else "answered at once"
    end = "the run is cut" if terms.on_expiry == "cut" else "the call is denied"
    yield f"approvals: {way}; undecided after {terms.expire_seconds:g} s {end}"


def _finals(config: Config, policy: Policy) -> Iterator[str]:
    checks, verifier = completion.in_use(policy.completion), config.policy.verifier
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


def _ends(config: Config, policy: Policy) -> Iterator[str]:
    yield from (f"{name}: pause" for name in ("on_cut", "on_budget") if getattr(policy, name) == "pause")
    kept = policy.checkpoints
    if kept.enabled:
        yield f"checkpoints: up to {kept.max_kb:,} KB, for {kept.ttl_seconds:g} s"
    if config.webhook.url:
        yield f"webhook: {_origin(config.webhook.url)}"


def _mode(settings: object) -> str:
    return str(getattr(settings, "mode", "off"))


def _on(settings: object) -> bool:
    return _mode(settings) != "off"


def _rule(rule: ToolRule) -> str:
    parts: Mapping[str, str] = {**rule.args, **({"paths": " ".join(rule.paths)} if rule.paths else {})}
    told = ", ".join(f"{name}={glob}" for name, glob in parts.items())
    return f"{rule.tool}({told})" if told else rule.tool


def _origin(url: str) -> str:
    """The address without its path and query, which may hold a secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}"
