"""One request, bytes to bytes: the flow and nothing else. Judgement is in `core`, IO in the neighbours."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

from aiohttp import web

from guardproxy.core import budget, interventions, policy as policies, pricing, session
from guardproxy.core.edit import AppendText, Edit, PutBack, Reject, Reply, SpliceUsage
from guardproxy.core.model import Ask, Decision, Line, Message, Rung
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.tenant import Tenant
from guardproxy.core.view import Opening, TurnFact, View
from guardproxy.errors import BadAsk, GuardError, StoreError
from guardproxy.http import (
    approving,
    checkpointing,
    guarded,
    heading,
    intake,
    preparing,
    relay,
    remembering,
    reporting,
    settling,
    stopping,
)
from guardproxy.http.outcome import Outcome
from guardproxy.http.whole import whole

if TYPE_CHECKING:
    from guardproxy.api.chat import Joint
    from guardproxy.core.proposals import Inspection
    from guardproxy.http.app import Proxy
    from guardproxy.http.look import Look
    from guardproxy.telemetry.report import TurnReport


class Turn:
    """The state of one request while it is served."""

    def __init__(
        self, proxy: Proxy, request: web.BaseRequest, surface: ModuleType, path: str, in_path: str, tenant: Tenant
    ) -> None:
        self.proxy = proxy
        self.request = request
        self.surface = surface
        self.tenant = tenant
        self.path = path
        self.route = path.partition("?")[0]
        self.started_ns = time.time_ns()
        self.headers = intake.lower(request.headers)
        if in_path:
            self.headers["x-guardproxy-path-session"] = in_path
        self.offset_ms = proxy.clock_offset(self.headers)
        self.outcome = Outcome()
        self.decision = Decision("pass")
        self.edits: tuple[Edit, ...] = ()
        self.new_advice: tuple[Edit, ...] = ()
        self.before: list[str] = []
        """Session and thread of the answer that the request goes on with by its id."""
        self.put_back: tuple[AppendText | PutBack, ...] = ()
        self.kept: list[PutBack] = []
        """What has to stand in later requests at the place of this turn's answer."""
        self.inspection: Inspection | None = None
        self.response: web.StreamResponse | None = None
        """The answer, once its head is sent."""
        self.look: Look | None = None
        """What the attempt under way has brought; of those before it, `joint` is what the client was given."""
        self.joint: Joint | None = None
        self.said_action = ""
        self.stopped = ""
        self.task = asyncio.current_task()
        self.view: View | None = None
        self.report: TurnReport | None = None
        self.settled = False
        self.taken_back = False

    async def serve(self) -> web.StreamResponse:
        """Answer the request. Every path ends in `settle`, also when the client leaves; nobody waits for its reply."""
        try:
            await self._open()
            return await self._answer()
        except GuardError as error:
            self.outcome.fail(error)
            answer = heading.error(self, error)
            self.settle()
            return answer
        except asyncio.CancelledError:
            if not self.stopped or self.task is None or self.task.uncancel():
                raise
            return await stopping.end(self)
        finally:
            if not self.taken_back:
                self.settle()

    async def _open(self) -> None:
        proxy, limits = self.proxy, self.proxy.limits
        self.body = await intake.take(self.request, max_body=limits.max_body, max_expanded=limits.max_expanded)
        self.ask = self.surface.read(self.body.plain, self.headers, short=True, prefixes=proxy.prefixes)
        await remembering.recall(self)
        preparing.refuse(self)
        self.opening = self._opening()
        begun = time.perf_counter_ns()
        self.view = await self._begin()
        self.outcome.begin_ns = time.perf_counter_ns() - begun
        if self.view.paused == "approval" and proxy.policy.approvals.way == "hold":
            await approving.wait(self)
        lost = False
        if self.view.ledger:
            self.put_back, lost = proxy.ledger.put_back(self.message, self.view.ledger)
        exempt: tuple[ScopedExemption, ...] = ()
        if self.view.exempt or self.view.degraded:
            exempt = await proxy.books.exemptions.of(self.ask, self.view, self.opening.org, proxy.printer)
        self.decision = policies.decide(self.view, proxy.policy, lost=lost and not self.before, exempt=exempt)
        if self.decision.exempted:
            proxy.books.exemptions.hit(self.opening.org, self.decision.exempted)
        cleaned = preparing.clean(self) if proxy.wants.cleans and self.seen.admitted and not self.seen.panic else ()
        self.edits = self._edits(cleaned)
        if proxy.policy.checkpoints.enabled and checkpointing.wanted(self):
            proxy.spawn(checkpointing.keep(self))
        if not self.decision.ends and self.view.admitted:
            self.inspection = preparing.inspection(self, exempt)

    def _opening(self) -> Opening:
        proxy, ask = self.proxy, self.ask
        identity = remembering.identity(self)
        if not identity.fresh and not proxy.knows(identity):
            ask = self.ask = self.surface.widen(ask)
        self.rates = proxy.prices.rates(ask.model, ask.parsed.get("service_tier"))
        estimate = pricing.estimate_input(len(self.body.plain), proxy.factor(ask.model))
        most = min(ask.max_tokens or proxy.policy.default_output_hold, proxy.policy.default_output_hold)
        most *= max(1, ask.choices)
        self.need = budget.Need(estimate, most, pricing.hold(self.rates, estimate, most))
        return Opening(
            token=proxy.token(),
            org=self.tenant.org,
            identity=identity,
            fact=self._observed(ask),
            lines=budget.price(proxy.policy.stored, self.need),
            lease_ms=proxy.lease_ms,
            tooled=bool(ask.tools),
            offset_ms=self.offset_ms,
            traceparent=self.headers.get("traceparent", ""),
        )

    def _observed(self, ask: Ask) -> TurnFact:
        now_ms, tenant = self.started_ns // 1_000_000 + self.offset_ms, self.tenant
        return session.observe(ask, self.proxy.printer, now_ms, tenant.scope if tenant.key else "")

    def _whole(self) -> Opening:
        """The opening with all facts of the window, for a memory that has none of them."""
        return replace(self.opening, fact=self._observed(self.surface.widen(self.ask)))

    async def _begin(self) -> View:
        """Trip 1. A client that leaves meanwhile must not leave a hold behind."""
        try:
            return await self.proxy.books.begin(self.opening, self._whole)
        except asyncio.CancelledError:
            self.taken_back = True
            self.proxy.spawn(self._take_back())
            raise

    async def begin_again(self) -> None:
        """Begin anew, after what held the run: nothing was held or counted before."""
        self.opening = replace(self.opening, token=self.proxy.token())
        self.view = await self._begin()

    async def _take_back(self) -> None:
        """Give back what an interrupted `begin` may hold: asked again by its token, the store answers the same."""
        self.outcome.outcome = "abandoned"
        try:
            self.view = await self.proxy.books.begin(self.opening, self._whole)
        except StoreError:
            return  # the lease ends by itself
        self.settle()

    def message(self, index: int) -> Message | None:
        """The message at an index of the request, if there is one."""
        found: Message | None = self.surface.message(self.ask, index)
        return found

    def _edits(self, cleaned: tuple[Edit, ...]) -> tuple[Edit, ...]:
        proxy, ask, view, put_back = self.proxy, self.ask, self.seen, self.put_back
        if self.decision.ends:
            ask = self.surface.widen(ask)  # the summary speaks of the whole window
        texts = tuple(edit for edit in put_back if isinstance(edit, AppendText))
        context = interventions.Context(view, self.language, texts)
        advice = (*cleaned, *self._carried_out(ask, context))
        self.new_advice = tuple(edit for edit in advice if edit not in put_back)  # another attempt says the same once
        if any(isinstance(edit, Reply | Reject) for edit in self.new_advice):
            return self.new_advice
        splice = (SpliceUsage(),) if ask.may_splice_usage and proxy.policy.splice_usage else ()
        return (*put_back, *self.new_advice, *splice)

    def _carried_out(self, ask: Ask, context: interventions.Context) -> tuple[Edit, ...]:
        """The intervention's edits. One that raises is never the cause of a failed request: it goes on without."""
        try:
            return interventions.carry_out(self.decision, ask, context)
        except Exception as error:  # noqa: BLE001  # said in the docstring
            wrong = f"{self.decision.action}: {type(error).__name__}: {error}"
            errors = (*self.decision.errors, wrong)
            self.decision = replace(self.decision, action="observe", rung=Rung.OBSERVE, episode=None, errors=errors)
            return ()

    @property
    def language(self) -> str:
        """The language in which this turn is spoken."""
        wanted = self.proxy.policy.language
        return self.ask.language if wanted == "auto" else wanted

    @property
    def seen(self) -> View:
        """The store's answer, once there is one."""
        if self.view is None:
            message = "the turn was not begun"
            raise StoreError(message)
        return self.view

    @property
    def checks(self) -> bool:
        """Whether final answers are checked."""
        return self.proxy.wants.finals and not self.decision.ends and self.seen.main and not self.seen.panic

    @property
    def reply_id(self) -> str:
        """The id of an answer of ours."""
        return str(self.surface.reply_id(self.opening.token))

    @property
    def late_action(self) -> bool:
        """Whether something was decided after the headers were sent."""
        return self.response is not None and self.decision.action not in (self.said_action, "observe")

    def need_more(self, size: int) -> tuple[Line, ...]:
        """The lines to hold for one more attempt, whose request is `size` bytes longer."""
        proxy = self.proxy
        estimate = pricing.estimate_input(len(self.body.plain) + size, proxy.factor(self.ask.model))
        most = self.need.output_tokens
        need = budget.Need(estimate, most, pricing.hold(self.rates, estimate, most))
        return budget.price(proxy.policy.stored, need)

    def stop(self, why: str) -> None:
        """End this turn now: somebody has cut the run. The provider's stream is closed, the client is told."""
        if not self.stopped and not self.settled and self.task is not None:
            self.stopped = why
            self.task.cancel()

    async def _answer(self) -> web.StreamResponse:
        for edit in self.edits:
            if isinstance(edit, Reply):
                return await self.reply(edit.text)
            if isinstance(edit, Reject):
                self.outcome.reject(edit)
                answer = heading.error(self, BadAsk(edit.message, status=edit.status, code=edit.code))
                self.settle()
                return answer
        if self.seen.approval_state and (answered := await approving.resume(self)) is not None:
            return answered
        if self.inspection is not None or self.checks:
            return await guarded.forward(self)
        return await relay.forward(self)

    async def reply(self, text: str) -> web.StreamResponse:
        """An answer in the model's place, whole: no upstream call."""
        finish = None
        if self.ask.finish_tool:
            tool, argument = self.ask.finish_tool
            finish = (tool, argument, os.urandom(8).hex()[:9])
        kind, body = self.surface.reply(
            self.ask, text, reply_id=self.reply_id, created=self.started_ns // 10**9, finish=finish
        )
        self.outcome.own(text)
        self.settle()
        return whole(200, [("Content-Type", kind), *self.guard_headers()], body)

    def guard_headers(self) -> list[tuple[str, str]]:
        """The `x-guardproxy-*` headers of the answer (DESIGN section 5)."""
        return heading.headers(self)

    def settle(self) -> None:
        """Trip 2 and the report, once; nobody waits for them but `Proxy.close`.

        Called before the end of the answer is written: so it leaves before it, and the client's next request finds it
        done.
        """
        settling.settle(self)

    def final_report(self) -> TurnReport:
        """The report with the times that were not known when the turn was settled."""
        report: TurnReport = self.report  # type: ignore[assignment]  # `done` is called only with a report
        return reporting.finish(report, self.outcome)
