"""What a configuration says in vain about policies and tools: rules that can never match, in sentences.

Only what is sure is said: a glob that another one surely covers, a tool that is surely forbidden.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from guardproxy._upstreams import covers, meet
from guardproxy.core import completion
from guardproxy.core.policy import Policy
from guardproxy.core.tool_rules import ToolRule

if TYPE_CHECKING:
    from guardproxy._policies import InForce, NamedPolicy

ASKED = ("approval", "human", "later", "final")
"""Lists of rules about calls that are carried out, or handed over."""


def policies(named: Mapping[str, NamedPolicy]) -> Iterator[str]:
    """Named policies behind one that takes all that they would; globs behind others of the same list."""
    before: list[tuple[str, NamedPolicy]] = []
    for name, one in named.items():
        for field in ("models", "agents"):
            globs = getattr(one, field)
            for at, glob in enumerate(globs):
                if other := next((other for other in globs[:at] if covers(other, glob)), ""):
                    yield f"policies.{name}.{field}: {glob!r} can never match: {other!r} stands before it"
        if not (one.models or one.agents):
            continue  # for keys, and clients that ask for it
        taken = next((other for other, earlier in before if _takes_all(earlier, one)), "")
        if taken:
            yield f"policies.{name}: its models and agents can never match: {taken!r} before it takes them all"
        before.append((name, one))


def open_to_clients(force: Mapping[str, InForce], named: Mapping[str, NamedPolicy]) -> Iterator[str]:
    """Policies looser than the default one that whoever says he is such an agent has."""
    default, *_ = force.values()
    for name, one in named.items():
        if one.agents and (wrong := force[name].looser(default)):
            told = f"is looser than the default one ({', '.join(wrong[:3])}), and a client has it by naming itself so"
            yield f"policies.{name}.agents: it {told}"


def _takes_all(earlier: NamedPolicy, one: NamedPolicy) -> bool:
    return _covered(one.models, earlier.models) and _covered(one.agents, earlier.agents)


def _covered(globs: Sequence[str], by: Sequence[str]) -> bool:
    """Whether whatever matches one of the globs matches one of those; no globs match everything."""
    if not by:
        return True
    return bool(globs) and all(any(covers(other, glob) for other in by) for glob in globs)


def models(where: str, globs: Iterable[str], served: Sequence[str]) -> Iterator[str]:
    """Globs of models that no upstream serves (`served`: its globs), so that nobody can ask for one."""
    for glob in globs:
        if not any(covers(one, glob) or covers(glob, one) or meet(one, glob) for one in served):
            yield f"{where}: {glob!r} can never match: no upstream serves such a model"


def tools(where: str, policy: Policy) -> Iterator[str]:
    """Rules of tools behind others, and about tools that are forbidden altogether."""
    listed = {name: getattr(policy.tools, name) for name in ("deny", *ASKED)}
    for name, rules in listed.items():
        for at, rule in enumerate(rules):
            if other := next((one for one in rules[:at] if _swallows(one, rule)), None):
                yield f"{where}tools.{name}: {rule.tool!r} can never match: {other.tool!r} stands before it"
    if getattr(policy.proposals.get("deny"), "mode", "off") != "enforce":
        return
    asked = [(f"tools.{name}", rule.tool) for name in ASKED for rule in listed[name]]
    asked += [("tools.deadlines", glob) for glob in policy.tools.deadlines]
    needed = completion.in_use(policy.completion).get("required_tools")
    asked += [("completion.required_tools", glob) for glob in getattr(needed, "tools", ())]
    for setting, glob in asked:
        if any(_forbids(rule, glob) for rule in listed["deny"]):
            wrong = "no answer can pass" if setting.startswith("completion") else "it can never match"
            yield f"{where}{setting}: {glob!r} is forbidden by tools.deny: {wrong}"


def _swallows(one: ToolRule, rule: ToolRule) -> bool:
    """Whether a rule matches every call that another one does."""
    plain = not one.args and not one.paths
    same = (one.args, one.paths) == (rule.args, rule.paths)
    return (plain or same) and covers(one.tool.casefold(), rule.tool.casefold())


def _forbids(rule: ToolRule, glob: str) -> bool:
    return not rule.args and not rule.paths and covers(rule.tool.casefold(), glob.casefold())
