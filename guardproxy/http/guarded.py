"""A turn whose answer is judged before the client has all of it: refusals, repairs, approvals, final checks.

Text flows as it comes; calls wait until they are judged. What was objected to goes back to the model as the call's
result, in one more attempt with a hold of its own; the client sees one answer. DESIGN sections 4 and 7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiohttp import web

from guardproxy.api.chat import GAP, Gate
from guardproxy.core.edit import DropCalls, Edit, ForbidTools, PutBack
from guardproxy.core.model import Call
from guardproxy.core.proposals import Objection
from guardproxy.errors import UpstreamError
from guardproxy.http import approving, checking, deciding, relay
from guardproxy.http.exchange import Answer
from guardproxy.http.look import Look, left, not_json, take_over
from guardproxy.http.outlet import Outlet

if TYPE_CHECKING:
    from guardproxy.api.chat import Joint
    from guardproxy.http.turn import Turn


async def forward(turn: Turn) -> web.StreamResponse:
    """The answer to the turn's request, as far as the client is to have it."""
    return await Guarded(turn).serve()


class Guarded:
    """The attempts of one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.rounds: list[bytes] = []
        """Messages that stand behind the client's from now on: what was refused, with what it was told."""
        self._joint: Joint | None = None
        self._reasks = self._repairs = self.retries = 0
        self._drop: DropCalls | None = None
        self._passing = b""  # of a whole answer: what nobody wants to judge
        self.outlet = Outlet(turn)

    @property
    def reason(self) -> str:
        """Why the present attempt is made: first, reask, repair, verify, finalize."""
        return self.turn.outcome.reason

    @reason.setter
    def reason(self, why: str) -> None:
        """Set before the attempt."""
        self.turn.outcome.reason = why

    async def serve(self) -> web.StreamResponse:
        """Ask until there is an answer to hand on."""
        while True:
            answer = await self._ask()
            if answer is None:
                return await self.close(deciding.summary(self.turn))
            try:
                if answer.status >= 400 and self.reason == "first":
                    return await relay.whole_answer(self.turn, answer)
                look = await self._listen(answer)
            finally:
                answer.end()
            if isinstance(look, web.StreamResponse):
                return look
            found = await self._judge(look)
            if found is not None:
                return found

    async def _ask(self) -> Answer | None:
        """One attempt; None where a further one fails: what was refused is not handed on for that."""
        try:
            answer = await relay.post(self.turn, self._edits(), judged=True)
        except UpstreamError as error:
            if self.reason == "first":
                raise
            self.turn.outcome.error_type = error.code
            return None
        streamed = self.turn.response is not None
        if self.reason != "first" and (answer.status >= 400 or streamed is not relay.is_stream(answer)):
            answer.end()
            self.turn.outcome.error_type = str(answer.status)
            return None
        return answer

    def _edits(self) -> tuple[Edit, ...]:
        turn = self.turn
        if not self.rounds:
            return turn.edits
        last: tuple[Edit, ...] = (ForbidTools(), self._drop) if self._drop is not None else ()
        return (*turn.edits, PutBack(turn.ask.count, before=tuple(self.rounds)), *last)

    def _gate(self) -> Gate | None:
        """What has to wait. A client that asked for several choices gets them as they are."""
        turn = self.turn
        text = turn.proxy.policy.final.hold and turn.checks
        calls = turn.inspection is not None and self._drop is None
        if turn.ask.choices > 1 or not (text or calls):
            return None
        return Gate(turn.inspection.concerns if calls and turn.inspection else _nothing, text=text, calls=True)

    # ------------------------------------------------------------------------------------------ what the model says

    async def _listen(self, answer: Answer) -> Look | web.StreamResponse:
        """The whole of an answer, what may flow handed on; a response where there is nothing left to judge."""
        turn = self.turn
        if not relay.is_stream(answer):
            return await self._read(answer)
        response = turn.response or await relay.begin_stream(turn, answer)
        look = turn.look = Look(turn, answer, gate=self._gate(), joint=self._joint, drop=self._drop)
        broke: Exception | None = None
        try:
            await self._relay(answer, look)
        except (ConnectionResetError, asyncio.CancelledError) as gone:
            left(turn, look)
            if isinstance(gone, asyncio.CancelledError):
                raise
            return response
        except Exception as error:  # noqa: BLE001  # whatever broke the provider's stream, the client is told
            broke = error
        if not look.seen and (broke is not None or not look.blind):
            if self.reason == "first":
                return await relay.broken(turn, look, response, broke)
            turn.outcome.error_type = "upstream_broken"
            return await self.close(deciding.summary(turn))
        await self.outlet.write(look.finish())
        return look

    async def _relay(self, answer: Answer, look: Look) -> None:
        done = self.turn.outcome
        async for chunk in answer.pieces():
            done.first_chunk()
            out = look.feed(chunk)
            if out:
                await self.outlet.write(out)
            elif look.watcher.holding:
                await self.outlet.alive()
            if look.watcher.ended:
                return

    async def _read(self, answer: Answer) -> Look | web.StreamResponse:
        turn, done = self.turn, self.turn.outcome
        done.whole = True
        data = await answer.read()
        done.first_chunk()
        look = turn.look = Look(turn, answer, gate=self._gate(), joint=self._joint, drop=self._drop)
        self._passing = look.feed(data) + look.finish()
        if not look.readable_json(data):
            if self.reason == "first":
                raise not_json(turn, answer, data)
            return await self.close(deciding.summary(turn))
        self.outlet.headers = relay.headers_of(turn, answer)
        return look

    # -------------------------------------------------------------------------------------------- what we say to it

    async def _judge(self, look: Look) -> web.StreamResponse | None:
        """The response, or None where the model is to be asked again."""
        turn = self.turn
        if look.encoded or self._gate() is None:
            take_over(turn, look, dropped=look.drop is not None)
            await checking.report(self, look)
            self._remember(look, ())
            return await self.outlet.finish(self._passing)
        seen = look.watcher.seen()
        judge = turn.inspection.judge if turn.inspection is not None else _no_objection
        found = judge(seen.calls, repairs=self._repairs, refusals=self._reasks)
        deciding.note(turn, found, seen.calls)
        acted = [one for one in found if one.mode == "enforce"]
        out = {one.position for one in acted if one.action != "pause"}
        keep = frozenset(range(seen.call_count)) - out
        if out and not keep:
            return await self.refuse(look, [one for one in acted if one.action != "pause"])
        if any(one.action == "pause" for one in acted):
            return await approving.ask(self, look, acted)
        if not seen.calls or checking.ends(turn, seen.calls):
            done, response = await checking.check(self, look)
            if done:
                return response
        return await self.deliver(look, [one for one in acted if one.action != "pause"])

    async def refuse(self, look: Look, objections: Sequence[Objection]) -> web.StreamResponse | None:
        """Tell the model what it gets for calls that nobody carries out, and ask again; at most so often."""
        turn, worst = self.turn, deciding.worst(objections)
        over = deciding.refused(turn, worst, asked=self._reasks, alone=True)
        if worst.action == "repair":
            self._repairs += 1
        else:
            self._reasks += 1
        texts = deciding.texts(len(look.watcher.raw_calls()), objections)
        last = self._drop is None and over == "finalize"
        if last:
            text, self._drop = deciding.finalize(turn)
            texts[-1] = f"{texts[-1]}\n\n{text}"
        self._passed(look)
        self.add(look, turn.surface.results(look.watcher.raw_calls(), texts))
        if over == "cut" or not await self.extend():
            return await self.close(deciding.summary(turn))
        self.reason = "finalize" if last else "repair" if worst.action == "repair" else "reask"
        return None

    def add(self, look: Look, after: Sequence[bytes]) -> None:
        """The answer that the client does not get stands in the conversation from now on, with what it is told."""
        self.rounds += [look.watcher.raw_message(), *after]
        self._joint = look.watcher.joint()

    def _passed(self, look: Look) -> None:
        """An attempt is over that is not the last."""
        self.turn.outcome.pass_over(look.watcher.seen())

    def leave(self, look: Look) -> None:
        """The answer is not handed on, and nobody is asked again: what flowed of it stays, our words go behind it."""
        self._passed(look)
        self._joint = look.watcher.joint()

    async def again(self, look: Look, after: Sequence[bytes], reason: str) -> bool:
        """Send an answer back with `after` behind it; False where there is no room for one more attempt."""
        self._passed(look)
        self.add(look, after)
        self.reason = reason
        return await self.extend()

    async def extend(self) -> bool:
        """Hold what one more attempt may cost, under the same token."""
        turn = self.turn
        return await turn.proxy.books.extend(turn.opening, turn.need_more(sum(map(len, self.rounds))))

    # --------------------------------------------------------------------------------------- what the client is told

    async def deliver(self, look: Look, objections: Sequence[Objection] = ()) -> web.StreamResponse:
        """Hand on what was held: as it came, or without the calls that were objected to."""
        turn, watcher = self.turn, look.watcher
        out = {one.position for one in objections}
        seen = watcher.seen()
        take_over(turn, look, dropped=False)
        keep: frozenset[int] | None = None
        if out:
            keep = frozenset(range(seen.call_count)) - out
            deciding.refused(turn, deciding.worst(objections))
            turn.outcome.calls = tuple(call for at, call in enumerate(seen.calls) if at in keep)
            turn.outcome.call_count = len(keep)
        self._remember(look, objections)
        return await self.outlet.finish(watcher.release(keep) if watcher.holding else self._passing)

    def _remember(self, look: Look, objections: Sequence[Objection]) -> None:
        """What has to stand in later requests at the place of this answer."""
        turn = self.turn
        calls, after = [], []
        if objections:
            raw = look.watcher.raw_calls()
            texts = {one.position: one.text for one in objections}
            calls = [(at, raw[at]) for at in sorted(texts)]
            after = turn.surface.results([raw[at] for at in sorted(texts)], [texts[at] for at in sorted(texts)])
        said = self._joint.text if self._joint is not None else ""
        turn.outcome.text = GAP.join(part for part in (said, turn.outcome.text) if part)
        if self.rounds or calls:
            kept = PutBack(turn.ask.count, tuple(self.rounds), tuple(calls), tuple(after), said)
            turn.kept.append(kept)

    async def deliver_message(self, look: Look, message: bytes) -> web.StreamResponse:
        """Hand on an answer made of a message: what was held, with arguments that a person has changed."""
        turn = self.turn
        take_over(turn, look, dropped=False)
        self._remember(look, ())
        turn.outcome.released(turn.surface.read_message(message))
        created, joint = turn.started_ns // 10**9, look.watcher.joint()
        _, body = turn.surface.replay_message(turn.ask, message, reply_id=turn.reply_id, created=created, joint=joint)
        return await self.outlet.finish(body)

    async def close(self, text: str, *, own: bool = True) -> web.StreamResponse:
        """End the answer in our words: the model is not asked any more."""
        turn = self.turn
        joint = self._joint
        said = joint.text if joint is not None else ""
        if own:
            turn.outcome.own(GAP.join(part for part in (said, text) if part))
        if self.rounds:
            turn.kept.append(PutBack(turn.ask.count, before=tuple(self.rounds), said=said))
        created = turn.started_ns // 10**9
        body = turn.surface.closing(turn.ask, joint, text, reply_id=turn.reply_id, created=created)
        if turn.response is None:
            self.outlet.headers = [("Content-Type", turn.content_type), *turn.guard_headers()]
        return await self.outlet.finish(body)


def _nothing(_tool: str) -> bool:
    return False


def _no_objection(_calls: Sequence[Call], *, repairs: int, refusals: int) -> tuple[Objection, ...]:
    return ()
