"""What a turn adds to the ledger of usage, and to whose row. No IO: it goes with `settle`, or with the next `pay`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from guardproxy.core import pricing, usage
from guardproxy.core.model import Usage
from guardproxy.core.usage import Charge

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn
    from guardproxy.telemetry.report import TurnReport

ENDS = frozenset({"cut", "deny"})
"""Actions after which nothing is sent."""


def payer(turn: Turn) -> str:
    """Whose row a turn belongs to."""
    tenant, ask = turn.tenant, turn.ask
    return usage.payer((tenant.team, tenant.key, tenant.user, ask.model, ask.declared.agent))


def charge(turn: Turn, report: TurnReport) -> Charge:
    """What it used, and what was done about it. A request that may be sent again in a moment has saved nothing.

    What is saved is put into the report, too.
    """
    done, decision = turn.outcome, turn.decision
    if done.asked and not report.interventions and not decision.would:  # as most turns are
        return Charge(1, report.usage, report.cost_microusd or 0, int(done.outcome == "failed"))
    cost, denied = report.cost_microusd or 0, decision.action == "deny" and not done.asked
    soon = decision.rule.startswith("rate.")
    saved = 0 if done.asked or soon or not decision.ends else pricing.cost(turn.rates, _input(turn))
    report.saved_microusd = (saved, cost if decision.would in ENDS else 0)
    return Charge(
        requests=int(done.asked),
        usage=report.usage,
        cost=cost,
        failed=int(done.outcome == "failed" and done.asked),
        interventions=report.interventions,
        denied=int(denied),
        saved=saved,
        saveable=report.saved_microusd[1],
    )


def _input(turn: Turn) -> Usage:
    """The least that a call would have used."""
    return Usage(input=turn.need.input_tokens)
