"""Answers that the provider makes in the background: what they used is said to whoever fetches them, later.

Such an answer is held with all the output that it may have, and charged so when it comes back unfinished, or its client
leaves. Its id is remembered for its tenant; `fetching` settles the difference, once. What is never fetched stays
charged. Chat has such answers as well (xAI's `deferred`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from guardproxy.api import SPREAD, said_twice, served
from guardproxy.core import pricing
from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.model import Usage
from guardproxy.core.usage import Charge
from guardproxy.core.windows import CONCURRENT
from guardproxy.errors import BadAsk, StoreError

if TYPE_CHECKING:
    from guardproxy.core.fingerprint import Fingerprinter
    from guardproxy.core.tenant import Tenant
    from guardproxy.http.look import Look
    from guardproxy.http.turn import Turn
    from guardproxy.store.background import Background as Stored
    from guardproxy.telemetry.report import TurnReport

BOUND = {"responses": "max_output_tokens"}
"""What bounds an answer's output, by surface; on the others `ELSE`."""

ELSE = "max_completion_tokens"

FREE = frozenset({"requests", CONCURRENT, "input_tokens"})
"""Dimensions of which an answer's length uses nothing."""

OWED = 10_000
"""What the store is to be told of answers while it is away; the oldest fall out first: they stay charged in full."""


class About(msgspec.Struct, frozen=True, omit_defaults=True):
    """How an answer is priced once somebody says what it used. Kept beside its name in the store.

    `given`: estimated tokens of its input. `before`, `paid`: what earlier attempts of its turn used (as the first
    figures of `core.model.Usage`), and cost. `charged`: what the turn was charged, in micro-dollars.
    """

    surface: str
    model: str
    tier: str = ""
    team: str = ""
    given: int = 0
    before: tuple[int, int, int, int, int] = (0, 0, 0, 0, 0)
    paid: int = 0
    charged: int = -1
    upstream: str = ""


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(About).decode


def read(about: str) -> About | None:
    """What stands beside a name; None where another version wrote it."""
    try:
        return _decode(about)
    except msgspec.DecodeError:
        return None


def name_of(printer: Fingerprinter, tenant: Tenant, answer: str) -> str:
    """The name of a tenant's answer in the store: nobody else's look at it finds it. Case is not told apart."""
    return printer.hash16("later", tenant.scope, answer.lower()).hex()


def refuse(turn: Turn) -> None:
    """Raise BadAsk for an answer in the background that nothing bounds, where money or tokens of the tenant are
    limited: nobody could say before it is fetched what it costs, and it may never be.
    """
    if not (turn.dues and turn.proxy.policies.budgets_hold):
        return
    bound = BOUND.get(turn.ask.surface, ELSE)
    limited = next((one for one in turn.dues if one.budget.dimension not in FREE), None)
    if limited is None:
        return
    keys = ("background", "deferred", bound)
    if twice := said_twice(turn.body.plain, keys):
        raise BadAsk(f"`{twice}` is given twice; which one holds is not plain.", code="invalid_json", param=twice)
    spread = turn.ask.parsed.get(SPREAD)
    if isinstance(spread, dict) and not {*map(str.casefold, spread)}.isdisjoint(keys):
        told = f"`{SPREAD}` is not where to ask for an answer in the background, or to bound it: do so beside it."
        raise BadAsk(told, code="unsupported_value", param=SPREAD)
    if turn.ask.background and turn.ask.max_tokens is None:
        said, kind = DIMENSIONS[limited.budget.dimension].setting, limited.budget
        told = (
            f"`{bound}` is missing: what an answer made in the background uses is known only once it is fetched, so "
            f"all that it may use is held before, and there is a budget here: {kind.scope}, {said}, {kind.window}. "
            f"Set `{bound}`, or ask without `{'deferred' if bound == ELSE else 'background'}`."
        )
        raise BadAsk(told, code="missing_required_parameter", param=bound)


def heard(turn: Turn, look: Look) -> Callable[[bytes], bytes]:
    """`look.feed` of a stream that is made in the background: the store hears its id before the client does."""
    feed, watcher, known = look.feed, look.watcher, False

    def hear(chunk: bytes) -> bytes:
        nonlocal known
        out = feed(chunk)
        if not known and (answer := watcher.response_id):
            known = True
            turn.proxy.books.background.early(turn, answer, _about(turn, answer))
        return out

    return hear


def later(turn: Turn, report: TurnReport) -> tuple[str, ...]:
    """What `settle` is told of an answer made in the background: its name, and while it is owed how it is priced."""
    done = turn.outcome
    answer = done.response_id if done.goes_on else next((one.goes_on for one in done.earlier if one.goes_on), "")
    if not (answer or (turn.ask.background and done.response_id)):
        return ()
    name = name_of(turn.proxy.printer, turn.tenant, answer or done.response_id)
    if not answer:
        return (name,)
    telemetry, org = turn.proxy.telemetry, turn.opening.org
    telemetry.count("guardproxy.background", {"guardproxy.org.id": org, "guardproxy.state": "charged"})
    return name, _about(turn, answer, report.cost_microusd or 0)


def _about(turn: Turn, answer: str, charged: int = -1) -> str:
    """How the answer is priced. What the other attempts of its turn used is known, or stays as it was charged."""
    done = turn.outcome
    others = [one.used(turn.need) for one in done.earlier if one.goes_on != answer]
    if done.earlier and not done.goes_on and charged >= 0:
        others.append(done.usage_or_estimate(turn.need))
    sum_ = pricing.together(others)
    about = About(
        surface=turn.ask.surface,
        model=turn.ask.model,
        tier=served(turn.ask.parsed),
        team=turn.tenant.team,
        given=turn.need.input_tokens,
        before=(sum_.input, sum_.output, sum_.cached, sum_.cache_write, sum_.reasoning),
        paid=sum(pricing.cost(turn.rates, one) for one in others),
        charged=charged,
        upstream=done.upstream.name if done.upstream else "",
    )
    return _encode(about).decode()


@dataclass(frozen=True, slots=True)
class Settled:
    """What an answer used after all, as the store is told it. `cost` is that of its whole turn."""

    org: str
    name: str
    spent: Mapping[str, int]
    charge: tuple[int, ...]
    cost: int
    offset_ms: int


def settled(org: str, name: str, about: About, usage: Usage, rates: pricing.Rates, offset_ms: int) -> Settled:
    """The same for an answer that used so much."""
    cost = about.paid + pricing.cost(rates, usage)
    whole = pricing.together([Usage(*about.before), usage])
    return Settled(org, name, spent(whole, cost), Charge(1, whole, cost).numbers(), cost, offset_ms)


def spent(usage: Usage, cost: int) -> dict[str, int]:
    """By dimension."""
    total = usage.input + usage.output
    used = {"input_tokens": usage.input, "output_tokens": usage.output, "total_tokens": total}
    return {**used, "cost_microusd": cost}


class Background:
    """What is told to the store of answers in the background. What it cannot hear now waits for `pay`."""

    def __init__(self, store: Callable[[], Stored | None]) -> None:
        self._store = store
        self._owed: deque[tuple[Settled, Callable[[], None]]] = deque(maxlen=OWED)
        self.under_way = 0

    async def look(self, org: str, name: str) -> tuple[str, str] | None:
        """See `store.background`; None without the store, too: then the answer stays charged in full."""
        try:
            store = self._store()
            return await store.look(org, name) if store is not None else None
        except StoreError:
            return None

    def early(self, turn: Turn, answer: str, about: str) -> None:
        """Note an answer that is on its way. One that local memory admitted is noted when it is settled."""
        store = self._store()
        if store is not None:
            name = name_of(turn.proxy.printer, turn.tenant, answer)
            store.early_soon(turn.opening.org, name, turn.opening.token, about)

    def known(self, token: str, one: Settled) -> None:
        """What a turn has used that is not over, under its token's name: for whoever settles it in its place."""
        store = self._store()
        if store is not None:
            store.early_soon(one.org, one.name, token, "")
            store.settle_soon(one.org, one.name, one.spent, one.charge, _let_be, one.offset_ms)

    def settle(self, one: Settled, done: Callable[[], None]) -> None:
        """What an answer used. Sent at once, in front of whatever is sent later. `done` hears that something was owed,
        and that it is settled now.
        """
        store = self._store()
        if store is None or not store.settle_soon(
            one.org, one.name, one.spent, one.charge, partial(self._told, one, done), one.offset_ms
        ):
            self._owed.append((one, done))
            return
        self.under_way += 1

    def _told(self, one: Settled, done: Callable[[], None], owed: bool | None) -> None:  # noqa: FBT001  # a callback's argument
        self.under_way -= 1
        if owed is None:
            self._owed.append((one, done))
        elif owed:
            done()

    async def pay(self) -> None:
        """Tell the store what it missed. `StoreError` without it."""
        while self._owed and (store := self._store()) is not None:
            one, done = self._owed[0]
            owed = await store.settle(one.org, one.name, one.spent, one.charge, one.offset_ms)
            self._owed.popleft()
            if owed:
                done()


def _let_be(_told: bool | None) -> None:  # noqa: FBT001  # a callback's argument
    """What could not be told is charged as it was held, if it comes to that."""
