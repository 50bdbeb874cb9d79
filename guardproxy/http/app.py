"""The worker: its parts, its routes and its bounds. Judgement is in `core`, the flow of a turn in `turn`."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import os
import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

from guardproxy import api
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.memo import Memo
from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.core.view import Identity
from guardproxy.errors import BadAsk, GuardError, Overloaded
from guardproxy.http import _turn_store, intake, passing, route as routing, timing, unread, watching
from guardproxy.http.books import Books
from guardproxy.http.chosen import Policies
from guardproxy.http.heading import plain_error as _error
from guardproxy.http.ledger import Ledger
from guardproxy.http.prices import Prices
from guardproxy.http.room import Budgets, weighed
from guardproxy.http.route import Target
from guardproxy.http.sealed import Sealer
from guardproxy.http.server import Server
from guardproxy.http.tenancy import Tenancy
from guardproxy.http.turn import Turn
from guardproxy.http.upstream import Upstream
from guardproxy.http.upstreams import Upstreams
from guardproxy.http.webhook import Event, Webhook
from guardproxy.http.whole import said
from guardproxy.telemetry.log import WHOSE

if TYPE_CHECKING:
    from guardproxy.http.request import Request
    from guardproxy.http.streamed import Response
    from guardproxy.telemetry import Telemetry

CHAT = api.SURFACES["chat"]
T = TypeVar("T")
_log = logging.getLogger(__name__)

SMOOTH = 0.2
"""Weight of the newest turn in the correction of token estimates."""

PAY_S, SETTLING_S = 1.5, 0.002
"""Seconds between two looks: what a store that was away has missed, what budgets there are; closings on their way."""

DELIVERED = 16_000
"""Links of delivered rounds that a worker keeps in mind, up to twice as many; some 4 MB."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one worker takes on: bytes of a body, bytes it may expand to, requests under way at once."""

    max_body: int = 64 << 20
    max_expanded: int = 64 << 20
    max_in_flight: int = 1024


class Proxy:
    """The parts of one worker. Assembled by `guardproxy.http.worker` from the configuration, and by tests."""

    org = DEFAULT_ORG
    where = ""  # options with which commands reach its store
    incoming = "adopt"  # what becomes of a client's `traceparent`
    captures = False  # whether texts are put on spans

    def __init__(
        self,
        *,
        policies: Policies,
        upstream: Upstream,
        upstreams: Upstreams | None = None,
        store: _turn_store.TurnStore,
        telemetry: Telemetry,
        printer: Fingerprinter,
        prices: Prices,
        ledger_key: bytes,
        limits: Bounds = Bounds(),
        provider: str = "openai",
        webhook: Webhook | None = None,
        tenancy: Tenancy | None = None,
        budgets: Budgets | None = None,
        lease_ms: int = 120_000,
        on_failure: str = "open",
        clock_offset: Callable[[Mapping[str, str]], int] | None = None,
    ) -> None:
        self.policies = policies
        self.upstream = upstream
        self.upstreams = upstreams  # of several; then `upstream` is only what stands in where no model says
        self.telemetry = telemetry
        self.printer = printer
        self.prices = prices
        self.ledger = Ledger(ledger_key, printer)
        self.prefixes = api.Prefixes(int.from_bytes(os.urandom(8)))
        self.limits = limits
        self.provider = provider
        self.lease_ms = lease_ms
        self.clock_offset = clock_offset or (lambda _headers: 0)
        self.books = Books(store, on_failure=on_failure, now_ms=lambda: time.time_ns() // 1_000_000)
        self.sealer = Sealer(ledger_key)
        self.webhook = webhook
        self.tenancy = tenancy
        self.budgets = budgets or Budgets()
        self.timing = timing.Timing(telemetry)
        self.turns: set[Turn] = set()
        self.in_flight = self.arriving = 0  # requests that are here, and whose body is still coming
        self.draining = False
        self._delivered = Memo[str, bool](DELIVERED)
        self._raised: set[str] = set()
        self._factors = Memo[str, float](2048)
        self._tasks: set[asyncio.Task[object]] = set()
        self._beside: list[asyncio.Task[None]] = []
        self.mark, self._numbers = os.urandom(9).hex(), itertools.count()

    async def start(self) -> None:
        """Open the upstream pool and begin to renew the holds of running calls."""
        await self.budgets.look(self.books)
        for upstream in self.upstreams or (self.upstream,):
            upstream.on_retry = self._retried
            await upstream.start()
        self._beside = [self.spawn(self._renew()), self.spawn(watching.watch(self))]

    async def close(self) -> None:
        """Wait for what is under way (holds are settled), then close the pool."""
        for task in self._beside:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.quiet(), 30)
        await self.books.pay()
        if self.webhook is not None:
            await self.webhook.close()
        await self.policies.close()
        for upstream in self.upstreams or (self.upstream,):
            await upstream.close()

    def server(self) -> Server:
        """The server of one proxy, for tests; a worker's outlives its proxies."""
        return Server(self.handle, self.malformed)

    def malformed(self) -> None:
        """Somebody sent what is no HTTP."""
        self.telemetry.count("shed", {"reason": "malformed"}, 1)

    async def handle(self, request: Request) -> Response:
        """Answer one request. Nothing a client sends ends in a traceback."""
        try:
            target = routing.resolve(request.raw_path)
        except BadAsk as error:
            return _error(CHAT, error)
        route, spoken = target.route, target.surface or CHAT
        if route in ("/healthz", "/readyz") or (request.method == "HEAD" and route in ("/", "", "/v1", "/v1/")):
            return await self._health(route)
        if self._full():
            return self._shed(spoken)
        if self.tenancy is not None and (refused := await self.tenancy.meet(request, spoken)) is not None:
            return refused
        read = target.surface is not None and request.method == "POST"
        if read and not request.arrived and await self._arrival(request) and self._full():
            return self._shed(spoken)
        self.in_flight += 1
        try:
            return await self._route(request, target)
        except GuardError as error:
            return _error(spoken, error)
        except Exception as error:  # a fault of ours: logged once with its place, never shown to a client
            if request.gone and isinstance(error, ConnectionError):  # it left, and its answer came the next moment
                raise
            self.fault(f"a request to {route[:80]}")
            fault = GuardError("guardproxy failed on this request; its log says where", code="internal_error")
            return _error(spoken, fault)
        finally:
            self.in_flight -= 1

    def _full(self) -> bool:
        return self.in_flight >= self.limits.max_in_flight or self.draining

    async def _arrival(self, request: Request) -> bool:
        """A body may take its time; only a request that is there is under way. Whether it is, and is as it should."""
        self.arriving += 1
        try:
            return await intake.arrive(request, max_body=self.limits.max_body)
        finally:
            self.arriving -= 1

    async def _route(self, request: Request, target: Target) -> Response:
        tenant, surface = request.tenant, target.surface
        if surface is None or request.method == "OPTIONS" or passing.websocket(request):
            return await unread.timed(self, request.method, passing.forward(self, request, target, tenant))
        if request.method != "POST":
            message = f"{request.method} is not a method of {target.route}; use POST"
            return _error(surface, BadAsk(message, status=405, code="method_not_allowed"), [("Allow", "POST")])
        turn = Turn(self, request, surface, target, tenant)
        self.turns.add(turn)
        WHOSE.set(turn.whose)
        try:
            response = await turn.serve()
        finally:
            WHOSE.set(None)
            self.turns.discard(turn)
        if response.status == 408 and not request.arrived:
            response.force_close()  # what comes of the body later must not be read as a request
        return response

    async def _health(self, route: str) -> Response:
        return said(503, "draining\n") if route == "/readyz" and self.draining else said(200, "ok\n")

    def _shed(self, surface: ModuleType) -> Response:
        self.telemetry.count("shed", {"reason": "draining" if self.draining else "in_flight"}, 1)
        message = "guardproxy is at its bound of requests under way (overload.max_in_flight); try again in a moment"
        return _error(surface, Overloaded(message), [("Retry-After", "1")])

    def fault(self, what: str) -> None:
        """A fault of ours: logged with its place, counted. Called where it was caught."""
        _log.exception("%s failed inside guardproxy", what)
        self.telemetry.count("guardproxy.faults", {}, 1)

    async def quiet(self) -> None:
        """Wait until the turns that were answered are settled and reported."""
        while (pending := [task for task in self._tasks if task not in self._beside]) or self.books.settling:
            await (asyncio.wait(pending) if pending else asyncio.sleep(SETTLING_S))

    def _retried(self, error_type: str) -> None:
        self.telemetry.count("upstream.retries", {"gen_ai.provider.name": self.provider, "error.type": error_type})

    def knows(self, who: Identity) -> bool:
        """Whether this worker delivered the newest round of a conversation: then the store knows what came before."""
        for link in who.named(who.links):  # noqa: SIM110  # a generator costs more than the answer
            if self._delivered[link]:
                return True
        return False

    def remember(self, who: Identity, links: tuple[str, ...]) -> None:
        """Note a delivered round by its links, the newest `DELIVERED` of them. Only a shortcut, never a truth."""
        for link in who.named(links):
            self._delivered.keep(link, True)

    def token(self) -> str:
        """A name for an attempt that no other one has, of this worker or another."""
        return f"{self.mark}{next(self._numbers):06x}"

    def factor(self, weighed: str) -> float:
        """How much larger the provider's count of input tokens is than our estimate, for such requests (`room`)."""
        return self._factors[weighed] or 1.0

    def learn(self, weighed: str, estimated: int, actual: int) -> None:
        """Correct the estimate for them by what the provider said."""
        if estimated <= 0 or actual <= 0:
            return
        old = self.factor(weighed)
        seen = min(8.0, max(0.125, old * actual / estimated))
        self._factors.keep(weighed, old + SMOOTH * (seen - old))

    def done(self, turn: Turn) -> None:
        """A turn is over and settled: learn from it and report it."""
        usage = turn.outcome.usage
        if usage is not None:
            self.learn(weighed(turn), turn.need.input_tokens, usage.input)
        for error in turn.decision.errors:
            rule = error.partition(":")[0]
            self.telemetry.count("detector.errors", {"rule": rule}, 1)
            if rule not in self._raised:  # the first says why; the rest are counted
                self._raised.add(rule)
                _log.error("a detector failed, its turns go on without it: %s", error)
        if turn.report is not None:
            self.telemetry.report(turn.final_report())
            self.timing.turn(turn.seen, turn.chosen.policy)

    def tell(self, kind: str, org: str, session: str, about: str, data: Mapping[str, object]) -> None:
        """Tell the webhook, if there is one. `about` and the kind name the event: it is told once."""
        if self.webhook is not None:
            self.webhook.tell(Event(f"{kind}:{about}", kind, time.time_ns() // 1_000_000, org, session, data))

    def spawn(self, work: Coroutine[object, object, T]) -> asyncio.Task[T]:
        """Run `work` beside the caller. The one place that makes tasks: a task nobody holds may be collected."""
        task: asyncio.Task[T] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _renew(self) -> None:
        """Tell the store what it missed, soon after it is back; lengthen the holds thrice a lease."""
        third_s, gone_s = self.lease_ms / 3000, 0.0
        while True:
            await asyncio.sleep(min(PAY_S, third_s))
            gone_s += min(PAY_S, third_s)
            await self.books.pay()
            await self.budgets.look(self.books)
            if gone_s >= third_s:
                gone_s = 0.0
                await self.books.renew(self.lease_ms)
