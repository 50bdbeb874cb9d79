"""Policies as people write them: the section `policy`, which is the default one, and those of `policies`, by name.

A named policy says only what differs from the default one; a list in it takes the place of the default's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import fields, replace
from hashlib import sha256
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, Field

from guardproxy import _kinds as kinds, _policy, _sections
from guardproxy._kinds import Text
from guardproxy._settings import Limits, Section, Verifier
from guardproxy.core import completion, detectors, hygiene, presets, proposals
from guardproxy.core.policy import Policy
from guardproxy.core.terms import Approvals, Checkpoints, Final
from guardproxy.core.tightness import looser
from guardproxy.core.tool_rules import ToolRules

DEFAULT = "default"
"""The name of the section `policy`."""

NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,62}")
"""What a policy may be called, whole: it stands in headers and on every decision line."""

NAMED = "must be 1 to 63 of a-z, 0-9, dot, dash and underscore, and begin with a letter or a digit"
"""The same in words."""

MOST = 100
"""Policies: each is a tree of settings in every worker."""

OWN = ("tools", "models", "agents")
"""What a named policy says beside the fields of the section `policy`."""

Detectors = _sections.detectors(Section, detectors.RULES)
"""One section a rule: `enabled`, `mode`, and the fields of its Settings (a triple is written [nudge, firm, cut])."""

Hygiene = _sections.parts(Section, "Hygiene", hygiene.KINDS)
"""One section a kind of hygiene of tool results."""

Completion = _sections.parts(Section, "Completion", completion.CHECKS)
"""One section a check of final answers."""

Arguments = _sections.section(Section, "Arguments", proposals.CHECKS["arguments"].Settings)
FinalSection = _sections.section(Section, "FinalSection", Final)
ApprovalsSection = _sections.section(Section, "ApprovalsSection", Approvals)
CheckpointsSection = _sections.section(Section, "CheckpointsSection", Checkpoints)


class PolicySection(Section):
    """What is done about loops and budgets. `mode: observe` reports and does nothing. `detectors` over `preset`.

    `on_overrun`: a stream that passes its hold and the limit goes on, or ends; `deny_status` of `budget_exceeded`;
    `shrink_to_fit`: what has no room asks for less output; `unmetered`: what becomes of routes whose cost is not known.

    `refuse`: what becomes of a call that repeats a loop, or that is forbidden (`tools.deny`). `on_cut`, `on_budget`:
    `pause` hands the run to a person in place of its end.
    """

    mode: Literal["enforce", "observe"] = "enforce"
    language: Literal["auto", "en", "zh"] = "auto"
    profile: Literal["coding", "qa", "cross_system", "none"] = "coding"
    preset: Literal["strict", "balanced", "patient"] = "balanced"
    limits: Limits = Limits()
    detectors: Detectors = Field(default_factory=Detectors)  # type: ignore[valid-type]  # a model made at import
    usage: Literal["splice", "estimate"] = "splice"
    default_output_hold: kinds.Hold = 4096
    refuse: kinds.Mode = "enforce"
    arguments: Arguments = Field(default_factory=Arguments)  # type: ignore[valid-type]  # models made at import
    hygiene: Hygiene = Field(default_factory=Hygiene)  # type: ignore[valid-type]
    completion: Completion = Field(default_factory=Completion)  # type: ignore[valid-type]
    final: FinalSection = Field(default_factory=FinalSection)  # type: ignore[valid-type]
    approvals: ApprovalsSection = Field(default_factory=ApprovalsSection)  # type: ignore[valid-type]
    checkpoints: CheckpointsSection = Field(default_factory=CheckpointsSection)  # type: ignore[valid-type]
    verifier: Verifier = Verifier()
    on_cut: Literal["cut", "pause"] = "cut"
    on_budget: Literal["deny", "pause"] = "deny"
    on_overrun: Literal["finish", "end"] = "finish"
    deny_status: kinds.DenyStatus = 400
    shrink_to_fit: bool = False
    unmetered: Literal["refuse", "pass"] = "refuse"


RulesSection = _sections.section(Section, "RulesSection", ToolRules)
"""Rules of single calls, without the knowledge about tools, which is one for all."""


class NamedPolicy(PolicySection):
    """A policy beside the default one. What is absent is as there.

    It holds for keys that name it, and where `models` or `agents` (globs) match: the model that is asked for, the agent
    that the client names (`x-guardproxy-agent`). `tools`: deny, approval, human, later, final, deadlines.
    """

    tools: RulesSection = Field(default_factory=RulesSection)  # type: ignore[valid-type]  # a model made at import
    models: tuple[Text, ...] = ()
    agents: tuple[Text, ...] = ()


def _few(named: dict[str, NamedPolicy]) -> dict[str, NamedPolicy]:
    if DEFAULT in named:
        raise ValueError(f"{DEFAULT!r} is the section `policy`; take another name")
    if wrong := next((name for name in named if not NAME.fullmatch(name)), None):
        raise ValueError(f"{wrong[:80]!r} is no name: it {NAMED}")
    if len(named) > MOST:
        raise ValueError(f"must be at most {MOST}")
    return named


Policies = Annotated[dict[str, NamedPolicy], AfterValidator(_few)]
"""Named policies, in the order in which `models` and `agents` are tried."""


class InForce(NamedTuple):
    """A policy as it works: its name, what tells it from what it was before, and the same as core's value."""

    name: str
    version: str
    policy: Policy
    section: PolicySection

    def looser(self, than: InForce) -> tuple[str, ...]:
        """In what it is looser than another one; a verifier has to be the same."""
        own, other = self.section.verifier, than.section.verifier
        weaker = bool(other.url) and (own != other or self.policy.mode != than.policy.mode == "enforce")
        return (*looser(self.policy, than.policy), *(["verifier"] if weaker else []))


def inherited(document: Any) -> Any:
    """The document with what its named policies take from the default one written out."""
    if not isinstance(document, Mapping) or not isinstance(document.get("policies"), Mapping):
        return document
    base = document.get("policy")
    base = base if isinstance(base, Mapping) else {}
    named = {name: _over(base, one) for name, one in document["policies"].items()}
    return {**document, "policies": named}


def _over(base: Mapping[str, Any], given: Any) -> Any:
    """What is given, and the base where it says nothing; an empty section says nothing."""
    if given is None:
        return base
    if not isinstance(given, Mapping):
        return given
    found = {**base, **given}
    inner = [name for name in given if isinstance(base.get(name), Mapping)]
    return {**found, **{name: _over(base[name], given[name]) for name in inner}}


def in_force(name: str, section: PolicySection, tools: ToolRules) -> InForce:
    """A policy of the file. `tools`: the rules of the default one."""
    made = value(section, _replaced(tools, section.tools) if isinstance(section, NamedPolicy) else tools)
    verifier = section.verifier.model_dump(exclude={"secret"})
    return InForce(name, sha256(repr((made, verifier)).encode()).hexdigest()[:8], made, section)


def _replaced(tools: ToolRules, given: Any) -> ToolRules:
    return replace(
        tools, **{one.name: getattr(given, one.name) for one in fields(tools) if one.name in given.model_fields_set}
    )


def value(policy: PolicySection, tools: ToolRules) -> Policy:
    """The policy as `core` takes it."""
    settings, modes = _sections.chosen(policy.detectors, presets.preset_settings(policy.preset))
    observe = policy.mode == "observe"
    return Policy(
        mode=policy.mode,
        language=policy.language,
        detectors=settings,
        modes=modes,
        limits=_policy.limits(policy),
        default_output_hold=policy.default_output_hold,
        splice_usage=policy.usage == "splice",
        tools=tools,
        proposals=_policy.checks(policy),
        hygiene=_sections.values(policy.hygiene, hygiene.KINDS, observe=observe),
        completion=_sections.values(policy.completion, completion.CHECKS, observe=observe),
        final=_sections.value(policy.final, Final),
        approvals=_sections.value(policy.approvals, Approvals),
        checkpoints=_sections.value(policy.checkpoints, Checkpoints),
        on_cut=policy.on_cut,
        on_budget=policy.on_budget,
        on_overrun=policy.on_overrun,
        deny_status=policy.deny_status,
        shrink_to_fit=policy.shrink_to_fit,
        unmetered=policy.unmetered,
    )
