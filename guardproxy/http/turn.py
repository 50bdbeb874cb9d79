"""One request, bytes to bytes: the flow and nothing else. Judgement is in `core`, IO in the neighbours."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING

from guardproxy.core import interventions, policy as policies
from guardproxy.core.edit import AppendText, Edit, LimitOutput, PutBack, Reject, Reply, SpliceUsage
from guardproxy.core.model import Ask, Decision, Message, Rung
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.tenant import Tenant
from guardproxy.core.view import View
from guardproxy.errors import BadAsk, GuardError, StoreError
from guardproxy.http import (
    checkpointing,
    deciding,
    guarded,
    heading,
    intake,
    opening,
    own_words,
    preparing,
    relay,
    remembering,
    reporting,
    resuming,
    room,
    settling,
    shaping,
    soft_limits,
    stopping,
)
from guardproxy.http.outcome import Outcome

if TYPE_CHECKING:
    from guardproxy.api.chat import Joint
    from guardproxy.core.budget import Need
    from guardproxy.core.pricing import Rates
    from guardproxy.core.proposals import Inspection
    from guardproxy.core.tenant_budget import Crossed, Due
    from guardproxy.http.app import Proxy
    from guardproxy.http.chosen import Chosen
    from guardproxy.http.look import Look
    from guardproxy.http.request import Request
    from guardproxy.http.route import Target
    from guardproxy.http.streamed import Response, Streamed
    from guardproxy.telemetry.report import TurnReport


class Turn:
    """The state of one request while it is served."""

    rates: Rates  # these two are known once the request is read (`opening`)
    need: Need

    def __init__(self, proxy: Proxy, request: Request, surface: ModuleType, target: Target, tenant: Tenant) -> None:
        self.proxy = proxy
        self.request = request
        self.surface = surface
        self.tenant = tenant
        self.chosen: Chosen = proxy.policies.default
        """The policy that holds for it, once it is read; the default one before."""
        self.pin = ""
        self.path = target.path
        self.route = target.route
        self.deployed = bool(target.model)
        self.started_ns = time.time_ns()
        self.headers = target.noted(request.lower)
        self.offset_ms = proxy.clock_offset(self.headers)
        self.outcome = Outcome()
        self.decision = policies.PASS
        self.dues: tuple[Due, ...] = ()
        self.crossed: tuple[Crossed, ...] = ()
        self.shrunk: tuple[LimitOutput, ...] = ()
        self.edits: tuple[Edit, ...] = ()
        self.new_advice: tuple[Edit, ...] = ()
        self.before: list[str] = []
        """Session and thread of the answer that the request goes on with by its id."""
        self.put_back: tuple[AppendText | PutBack, ...] = ()
        self.kept: list[PutBack] = []
        """What has to stand in later requests at the place of this turn's answer."""
        self.inspection: Inspection | None = None
        self.response: Streamed | None = None
        """The answer, once its head is sent."""
        self.look: Look | None = None
        """What the attempt under way has brought; of those before it, `joint` is what the client was given."""
        self.joint: Joint | None = None
        self.said_action = ""
        self.stopped = ""
        self.stretched = 0
        """Tokens of output that are held beyond `need`, since the answer became so long."""
        self.overrun: Decision | None = None
        """Why the answer was ended in the middle, where a limit did it."""
        self.task = asyncio.current_task()
        self.view: View | None = None
        self.report: TurnReport | None = None
        self.settled = False
        self.taken_back = False

    async def serve(self) -> Response:
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
        self.chosen = proxy.policies.of(self)
        preparing.refuse(self)
        self.opening = opening.opening_of(self)
        begun = time.perf_counter_ns()
        self.view = await opening.begin(self)
        self.outcome.begin_ns = time.perf_counter_ns() - begun
        if self.view.paused == "approval" and self.chosen.policy.approvals.way == "hold":
            await resuming.wait(self)
        if self.seen.short:
            await room.make(self)
        lost = False
        if self.seen.ledger and self.talks:
            self.put_back, lost = proxy.ledger.put_back(self.message, self.seen.ledger, self.surface)
            lost = lost and not self.before  # what was said stands with the provider
        exempt: tuple[ScopedExemption, ...] = ()
        if self.seen.exempt or self.seen.degraded:
            exempt = await proxy.books.exemptions.of(self.ask, self.seen, self.opening.org, proxy.printer)
        tooled = bool(self.ask.tools)
        self.decision = policies.decide(
            self.seen, self.chosen.policy, lost=lost, exempt=exempt, due=self.dues, tooled=tooled
        )
        if self.decision.exempted:
            proxy.books.exemptions.hit(self.opening.org, self.decision.exempted)
        cleaned = preparing.clean(self) if self._cleans and self.seen.admitted and not self.seen.panic else ()
        if self.dues:
            cleaned = (*cleaned, *soft_limits.look(self))
        self.edits = self._edits(cleaned)
        if self.talks and self.chosen.policy.checkpoints.enabled and checkpointing.wanted(self):
            proxy.spawn(checkpointing.keep(self))
        if self.talks and not self.decision.ends and self.seen.admitted:
            self.inspection = preparing.inspection(self, exempt)

    async def begin_again(self) -> None:
        """Begin anew, after what held the run: nothing was held or counted before."""
        self.opening = replace(self.opening, token=self.proxy.token())
        self.view = await opening.begin(self)

    def message(self, index: int) -> Message | None:
        """The message at an index of the request, if there is one."""
        found: Message | None = self.surface.message(self.ask, index)
        return found

    def _edits(self, cleaned: tuple[Edit, ...]) -> tuple[Edit, ...]:
        ask, view, put_back = self.ask, self.seen, self.put_back
        asks = ask.may_splice_usage or (self.dues and room.hides(self))
        splice = (SpliceUsage(),) if asks and self.chosen.policy.splice_usage else ()
        if self.decision.action == "pass" and not (cleaned or put_back):  # most turns
            return (*self.shrunk, *splice)
        if self.decision.ends:
            ask = self.surface.widen(ask)  # the summary speaks of the whole window
        texts = tuple(edit for edit in put_back if isinstance(edit, AppendText))
        status = self.chosen.policy.deny_status
        context = interventions.Context(view, self.language, texts, status, deciding.where(self))
        advice = (*cleaned, *self._carried_out(ask, context))
        self.new_advice = tuple(edit for edit in advice if edit not in put_back)  # another attempt says the same once
        if any(isinstance(edit, Reply | Reject) for edit in self.new_advice):
            return self.new_advice
        return (*put_back, *self.new_advice, *self.shrunk, *splice)

    def _carried_out(self, ask: Ask, context: interventions.Context) -> tuple[Edit, ...]:
        """The intervention's edits. One that raises is never the cause of a failed request: it goes on without."""
        try:
            edits = interventions.carry_out(self.decision, ask, context)
        except Exception as error:  # noqa: BLE001  # said in the docstring
            wrong = f"{self.decision.action}: {type(error).__name__}: {error}"
            errors = (*self.decision.errors, wrong)
            self.decision = replace(self.decision, action="observe", rung=Rung.OBSERVE, episode=None, errors=errors)
            return ()
        self.decision = interventions.unsaid(self.decision, edits)
        return edits

    @property
    def language(self) -> str:
        """The language in which this turn is spoken."""
        wanted = self.chosen.policy.language
        return self.ask.language if wanted == "auto" else wanted

    @property
    def seen(self) -> View:
        """The store's answer, once there is one."""
        if self.view is None:
            message = "the turn was not begun"
            raise StoreError(message)
        return self.view

    @property
    def _cleans(self) -> bool:
        """Whether results are tidied: as the policy says, or as it said when the conversation began."""
        return self.talks and (self.chosen.wants.cleans or shaping.pinned(self.seen))

    @property
    def talks(self) -> bool:
        """Whether anything can be told to a model on this surface: else it is counted, held and priced, no more."""
        return hasattr(self.surface, "feedback")

    @property
    def checks(self) -> bool:
        """Whether final answers are checked."""
        return (
            self.chosen.wants.finals
            and self.talks
            and not self.decision.ends
            and self.seen.main
            and not self.seen.panic
        )

    @property
    def reply_id(self) -> str:
        """The id of an answer of ours."""
        return f"{self.surface.REPLY_ID}{self.opening.token}"

    @property
    def content_type(self) -> str:
        """The media type of an answer of ours."""
        return "text/event-stream" if self.ask.stream else "application/json"

    @property
    def late_action(self) -> bool:
        """Whether something was decided after the headers were sent."""
        return self.response is not None and self.decision.action not in (self.said_action, "observe")

    def stop(self, why: str) -> None:
        """End this turn now: somebody has cut the run. The provider's stream is closed, the client is told."""
        if not self.stopped and not self.settled and self.task is not None:
            self.stopped = why
            self.task.cancel()

    async def _answer(self) -> Response:
        for edit in self.edits:
            if isinstance(edit, Reply):
                return await self.reply(edit.text)
            if isinstance(edit, Reject):
                self.outcome.reject(edit)
                answer = heading.error(self, BadAsk(edit.message, status=edit.status, code=edit.code))
                self.settle()
                return answer
        if self.seen.approval_state and (answered := await resuming.resume(self)) is not None:
            return answered
        if self.inspection is not None or self.checks:
            return await guarded.forward(self)
        return await relay.forward(self)

    async def reply(self, text: str) -> Response:
        """An answer in the model's place, whole: no upstream call."""
        return own_words.reply(self, text)

    def guard_headers(self) -> list[tuple[str, str]]:
        """The `x-guardproxy-*` headers of the answer (DESIGN section 5)."""
        return heading.headers(self)

    def whose(self) -> dict[str, str]:
        """What every line says that is logged on this turn's account."""
        return heading.whose(self)

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
