"""A turn whose answer is judged before the client has all of it: refusals, repairs, approvals, final checks.

Text flows as it comes; calls wait until they are judged. What was objected to goes back to the model as the call's
result, in one more attempt with a hold of its own; the client sees one answer. DESIGN sections 4 and 7.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from guardproxy.api.chat import GAP, Gate, torn
from guardproxy.core.edit import DropCalls, PutBack
from guardproxy.core.proposals import Objection
from guardproxy.errors import UpstreamError
from guardproxy.http import approving, attempt, checking, deciding, own_words, relay, room
from guardproxy.http.look import Look, left, take_over
from guardproxy.http.outlet import Outlet
from guardproxy.http.streamed import Response

if TYPE_CHECKING:
    from guardproxy.http.turn import Turn


async def forward(turn: Turn) -> Response:
    """The answer to the turn's request, as far as the client is to have it."""
    return await Guarded(turn).serve()


class Guarded:
    """The attempts of one turn."""

    def __init__(self, turn: Turn) -> None:
        self.turn = turn
        self.rounds: list[bytes] = []
        """Messages that stand behind the client's from now on: what was refused, with what it was told."""
        self.told = 0  # so many of them the provider has
        self.rest: tuple[bytes, ...] = ()
        """What calls of the answer get that nobody asks about, nor sends back."""
        self._reasks = self._repairs = self.retries = 0
        self.drop: DropCalls | None = None
        self.passing = b""  # of a whole answer: what nobody wants to judge
        self._said = ""  # of the rounds, what the client was given
        self.outlet = Outlet(turn)

    @property
    def first(self) -> bool:
        """Whether nothing was sent back yet."""
        return not self.turn.outcome.asked_back

    async def serve(self) -> Response:
        """Ask until there is an answer to hand on. A client that leaves pays for what was produced."""
        turn = self.turn
        try:
            return await self._serve()
        except (ConnectionResetError, asyncio.CancelledError) as gone:
            if turn.look is not None:
                left(turn, turn.look)
            if turn.response is None or isinstance(gone, asyncio.CancelledError):
                raise
            return turn.response

    async def _serve(self) -> Response:
        while True:
            answer = await attempt.ask(self)
            if answer is None:
                return await self.close(deciding.summary(self.turn))
            try:
                if answer.status >= 400 and self.first:
                    return await relay.whole_answer(self.turn, answer)
                look = await attempt.listen(self, answer)
            except UpstreamError as error:
                if self.first:
                    raise
                self.turn.outcome.lose(error)
                return await attempt.give_up(self, error.code)
            finally:
                answer.end()
            if isinstance(look, Response):
                return look
            found = await self._judge(look)
            if found is not None:
                return found

    def gate(self) -> Gate | None:
        """What has to wait. A client that asked for several choices gets them as they are."""
        turn = self.turn
        text = turn.chosen.wants.holds and turn.checks
        calls = turn.inspection is not None and self.drop is None
        if turn.ask.choices > 1 or not (text or calls):
            return None
        firm = bool(text) or (turn.inspection is not None and turn.inspection.enforces)
        every = calls and turn.chosen.wants.people
        return Gate(partial(_wanted, turn, calls, text), text=text, every=every, firm=firm)

    # -------------------------------------------------------------------------------------------- what we say to it

    async def _judge(self, look: Look) -> Response | None:
        """The response, or None where the model is to be asked again."""
        turn = self.turn
        attempt.note_unread(turn, look)
        if look.encoded or self.gate() is None:
            take_over(turn, look, dropped=look.drop is not None)
            await checking.report(self, look)
            self._remember(look, ())
            return await self.outlet.finish(self.passing)
        seen = look.watcher.seen()
        found = deciding.judged(turn, seen.calls, repairs=self._repairs, refusals=self._reasks)
        acted = [one for one in found if one.mode == "enforce"]
        if seen.failed and acted:
            return await self.fail(look, {one.position for one in acted})
        half = self._half(look, acted)
        out = {one.position for one in acted if one.action != "pause"}
        keep = frozenset(range(len(seen.calls))) - out - half
        if out and not keep:
            return await self.refuse(look, [one for one in acted if one.action != "pause"])
        if any(one.action == "pause" and one.position not in half for one in acted):
            return await approving.ask(self, look, sorted(acted, key=lambda one: one.position in half))
        if half:
            return await self.deliver(look, [one for one in acted if one.action != "pause"], half)
        if not seen.calls or checking.ends(turn, seen.calls):
            done, response = await checking.check(self, look)
            if done:
                return response
        return await self.deliver(look, [one for one in acted if one.action != "pause"])

    def _half(self, look: Look, acted: Sequence[Objection]) -> frozenset[int]:
        """Calls for a person of which there is a half alone, as the answer was cut short: nobody is asked about those,
        and nobody gets them. What becomes of such an answer is the agent's own matter.
        """
        turn, seen = self.turn, look.watcher.seen()
        read = turn.ask.surface == "messages" and not turn.ask.stream
        half = torn(seen.calls, seen.finish_reason, read=read)
        half &= {one.position for one in acted if one.action == "pause"}
        if half:
            done, attempt_ = turn.outcome, len(turn.outcome.earlier) + 1
            done.objected = tuple(
                told
                for told in done.objected
                if not (told[0].action == "pause" and told[0].position in half and told[2] == attempt_)
            )
        return half

    async def fail(self, look: Look, out: set[int]) -> Response:
        """Hand on the provider's error without these calls: they may be half, and nobody is asked about such a one."""
        take_over(self.turn, look, dropped=False)
        keep = frozenset(range(len(look.watcher.calls))) - out
        return await self.outlet.finish(look.watcher.release(keep) if look.watcher.holding else self.passing)

    async def refuse(self, look: Look, objections: Sequence[Objection]) -> Response | None:
        """Tell the model what it gets for calls that nobody carries out, and ask again; at most so often."""
        turn, worst = self.turn, deciding.worst(objections)
        over = deciding.refused(turn, worst, asked=self._reasks, alone=True)
        if worst.action == "repair":
            self._repairs += 1
        else:
            self._reasks += 1
        texts = deciding.texts(len(look.watcher.raw_calls()), objections)
        last = self.drop is None and over == "finalize"
        if last:
            text, self.drop = deciding.finalize(turn)
            texts[-1] = f"{texts[-1]}\n\n{text}"
        self.passed(look)
        self.add(look, turn.surface.results(look.watcher.raw_calls(), texts))
        if over == "cut" or not await self.extend():
            return await self.close(deciding.summary(turn))
        turn.outcome.reason = "finalize" if last else "repair" if worst.action == "repair" else "reask"
        return None

    def add(self, look: Look, after: Sequence[bytes]) -> None:
        """The answer that the client does not get stands in the conversation from now on, with what it is told."""
        self.rounds += [self.turn.surface.sound(look.watcher.raw_message()), *after]
        self.rest = ()
        self._said = look.watcher.joint().text

    def passed(self, look: Look | None, error_type: str = "") -> None:
        """An attempt is over that is not the last. What of it flowed stays with the client."""
        turn = self.turn
        turn.outcome.pass_over(look.watcher.seen() if look else None, error_type)
        turn.look = None
        if look is not None:
            turn.joint = look.watcher.joint()

    def leave(self, look: Look) -> None:
        """The answer is not handed on, and nobody is asked again: our words go behind what flowed of it."""
        self.passed(look)

    async def again(self, look: Look, after: Sequence[bytes], reason: str) -> bool:
        """Send an answer back with `after` behind it; False where there is no room: then it is as it was."""
        if not await self.extend((look.watcher.raw_message(), *after)):
            return False
        self.passed(look)
        self.add(look, after)
        self.turn.outcome.reason = reason
        return True

    async def extend(self, more: Sequence[bytes] = ()) -> bool:
        """Hold what one more attempt may cost, under the same token; with `more` messages than stand there now."""
        turn = self.turn
        return await turn.proxy.books.extend(turn.opening, room.more(turn, sum(map(len, (*self.rounds, *more)))))

    # --------------------------------------------------------------------------------------- what the client is told

    async def deliver(
        self, look: Look, objections: Sequence[Objection] = (), half: frozenset[int] = frozenset()
    ) -> Response:
        """Hand on what was held: as it came, or without the calls that were objected to, or are `half`."""
        turn, watcher = self.turn, look.watcher
        out = {one.position for one in objections} | half
        seen = watcher.seen()
        none = bool(half) and len(out) == len(seen.calls)
        take_over(turn, look, dropped=none)
        if none and turn.outcome.answer == "own":  # no word of it is ours
            turn.outcome.answer = "empty"
        keep: frozenset[int] | None = None
        if refused := [one for one in objections if one.action != "answer"]:
            deciding.refused(turn, deciding.worst(refused))
        if out or (turn.chosen.wants.guards and seen.call_count > len(seen.calls)):
            keep = frozenset(range(len(seen.calls))) - out  # of more than can be judged, the rest is left out
            turn.outcome.calls = tuple(call for at, call in enumerate(seen.calls) if at in keep)
            turn.outcome.call_count = len(keep)
        self._remember(look, objections)
        return await self.outlet.finish(watcher.release(keep) if watcher.holding else self.passing)

    def _remember(self, look: Look, objections: Sequence[Objection]) -> None:
        """What has to stand in later requests at the place of this answer."""
        turn = self.turn
        calls: Sequence[tuple[int, bytes]] = ()
        after: Sequence[bytes] = ()
        if objections:
            raw = look.watcher.raw_calls()
            texts = {one.position: one.text for one in objections}
            whole = look.watcher.raw_message()
            calls = [(at, turn.surface.placed(whole, at, turn.surface.sound(raw[at]))) for at in sorted(texts)]
            after = turn.surface.results([raw[at] for at in sorted(texts)], [texts[at] for at in sorted(texts)])
        said = self._said
        turn.outcome.text = GAP.join(part for part in (said, turn.outcome.text) if part)
        if said and turn.outcome.answer == "empty":  # the last attempt was, the answer is not
            turn.outcome.answer = "text"
        if turn.outcome.stands:
            turn.outcome.stands = GAP.join(part for part in (said, turn.outcome.stands) if part)
            own_words.keep(turn, flowed=said, before=tuple(self.rounds), said=said)
            return
        if self.rounds or calls:
            kept = PutBack(turn.ask.count, tuple(self.rounds), tuple(calls), tuple(after), said)
            turn.kept.append(kept)

    async def deliver_message(self, look: Look, message: bytes) -> Response:
        """Hand on an answer made of a message: what was held, with arguments that a person has changed."""
        turn = self.turn
        take_over(turn, look, dropped=False)
        self._remember(look, ())
        turn.outcome.released(turn.surface.read_message(message))
        created, joint = turn.started_ns // 10**9, look.watcher.joint()
        _, body = turn.surface.replay_message(turn.ask, message, reply_id=turn.reply_id, created=created, joint=joint)
        return await self.outlet.finish(body)

    async def close(self, text: str) -> Response:
        """End the answer in our words: the model is not asked any more."""
        turn = self.turn
        joint = turn.joint
        deciding.closed(turn)
        turn.outcome.untold = (*self.rounds[self.told :], *self.rest)
        flowed = joint.text if joint else ""
        turn.outcome.own(GAP.join(part for part in (flowed, text) if part))
        own_words.keep(turn, flowed=flowed, before=tuple(self.rounds), said=self._said)
        created = turn.started_ns // 10**9
        self.outlet.begin()  # ours ends it
        body = turn.surface.closing(turn.ask, joint, text, reply_id=turn.reply_id, created=created)
        if turn.response is None:
            self.outlet.headers = [("Content-Type", turn.content_type), *turn.guard_headers()]
        return await self.outlet.finish(body)


def _wanted(turn: Turn, calls: bool, final: bool, tool: str) -> bool:  # noqa: FBT001  # but for the tool, bound before
    """Whether a call has to wait: it is judged, or it may be the final answer."""
    if calls and turn.inspection is not None and turn.inspection.concerns(tool):
        return True
    return final and any(rule.concerns(tool) for rule in turn.chosen.policy.tools.final)
