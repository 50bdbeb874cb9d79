"""Which policy holds for a request: the key's, else the first whose models and agents match, else the default one.

A client may name another one in a header, if it is as tight in everything: what it names is its own wish, and no way
out of what an operator has set.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from guardproxy.api.chat import OFF, Options
from guardproxy.core.memo import Memo
from guardproxy.core.policy import Policy
from guardproxy.core.tightness import looser
from guardproxy.errors import BadAsk
from guardproxy.http.preparing import Wants

if TYPE_CHECKING:
    from guardproxy.core.tenant import Tenant
    from guardproxy.http.turn import Turn
    from guardproxy.http.verifier import Verifier

HEADER = "x-guardproxy-policy"
"""In which a client names a policy that is to hold for its request."""

AGENT = "x-guardproxy-agent"
"""In which a client says which agent it is; without it what is known of its program (codex, claude-code, …) counts."""

KEPT, LONGEST = 1000, 200
"""Models and agents whose policy is remembered, up to twice as many; characters of both that are."""

SAID = 8
"""Settings that are named to a client whose policy is looser."""


@dataclass(frozen=True, slots=True, eq=False)
class Chosen:
    """A policy in force, with what is made of it once. `name@version` is `label`: it stands with every decision.

    `verifier_mode`: of the verifier; `options`: what may be done to answers; `shape`: `http.shaping`.
    """

    label: str
    policy: Policy
    wants: Wants
    options: Options = OFF
    verifier: Verifier | None = None
    verifier_mode: str = "enforce"
    shape: str = ""


@dataclass(frozen=True, slots=True)
class Match:
    """For which requests a named policy is chosen: those whose model and agent match; of no globs any does."""

    name: str
    models: tuple[str, ...]
    agents: tuple[str, ...]

    def takes(self, model: str, agent: str) -> bool:
        """Whether it is for such a request."""
        return _any(model, self.models) and _any(agent, self.agents)


class Policies:
    """The policies of a worker, by name. `default` is among them; `matches` are tried in their order."""

    def __init__(self, every: Mapping[str, Chosen], default: str, matches: Sequence[Match] = ()) -> None:
        self._every = every
        self.default = every[default]
        self._matches = tuple(matches)
        self._known = Memo[tuple[str, str], Chosen](KEPT)
        self._looser: dict[tuple[str, str], tuple[str, ...]] = {}

    @property
    def budgets_hold(self) -> bool:
        """Whether budgets of tenants are held to, or counted alone: as the default policy says, whichever is chosen.

        What an org may spend is no matter of how its agents are watched, and least of what a client says it is.
        """
        return self.default.policy.mode == "enforce"

    def of(self, turn: Turn) -> Chosen:
        """The policy of a request that is read. `BadAsk` where the client's own wish is none, or is looser."""
        asked = turn.headers.get(HEADER)
        if asked is None and not turn.tenant.policy and not self._matches:
            return self.default
        agent = turn.headers.get(AGENT, "").strip() or turn.ask.declared.agent
        found = self.at(turn.tenant, turn.ask.model, agent)
        return found if asked is None else self._tighter(found, asked.strip())

    def at(self, tenant: Tenant, model: str = "", agent: str = "") -> Chosen:
        """The policy of a tenant for a model and an agent. `BadAsk` where its key names one that is not there."""
        if tenant.policy:
            return self._named(tenant.policy)
        if not self._matches:
            return self.default
        known = self._known[model, agent]
        if known is not None:
            return known
        name = next((one.name for one in self._matches if one.takes(model, agent)), "")
        found = self._every[name] if name else self.default
        return self._known.keep((model, agent), found) if len(model) + len(agent) <= LONGEST else found

    async def close(self) -> None:
        """Close what was opened for them."""
        for verifier in {one.verifier for one in self._every.values() if one.verifier is not None}:
            await verifier.close()

    def _named(self, name: str) -> Chosen:
        found = self._every.get(name)
        if found is None:
            said = f"this key is for the policy {name!r}, which is not here; whoever gave it to you can put that right"
            raise BadAsk(said, status=403, code="policy_not_found")
        return found

    def _tighter(self, found: Chosen, asked: str) -> Chosen:
        wanted = self._every.get(asked)
        if wanted is None:
            raise BadAsk(f"there is no policy {asked[:80]!r}", code="policy_not_found", param=HEADER)
        pair = (found.label, wanted.label)
        wrong = self._looser.get(pair)
        if wrong is None:
            wrong = self._looser[pair] = _differences(wanted, found)
        if wrong:
            more = f" and {len(wrong) - SAID} more" if len(wrong) > SAID else ""
            said = f"a client may only tighten: {asked} is looser here in {', '.join(wrong[:SAID])}{more}"
            raise BadAsk(said, code="policy_not_tighter", param=HEADER)
        return wanted


def _differences(wanted: Chosen, found: Chosen) -> tuple[str, ...]:
    """In what one policy is looser than another."""
    wrong = looser(wanted.policy, found.policy)
    if found.verifier is None:
        return wrong
    weaker = found.verifier_mode == "enforce" and wanted.verifier_mode != "enforce"
    return (*wrong, "verifier") if wanted.verifier is not found.verifier or weaker else wrong


def _any(name: str, globs: Sequence[str]) -> bool:
    """Whether a name fits; in whichever letters, as there are providers (Azure) who do not tell them apart."""
    return not globs or any(fnmatchcase(name.lower(), glob.lower()) for glob in globs)
