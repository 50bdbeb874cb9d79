"""One recorded run, played through the decisions that the proxy takes, turn by turn, in its own words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from guardproxy.api import chat
from guardproxy.api._messages import neutral
from guardproxy.api._progress import report
from guardproxy.core import budget, policy as policies, pricing, progress, rounds, scoped_exemption, session
from guardproxy.core.episode import pack_episode
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.memory import LocalMemory
from guardproxy.core.model import Ask, Decision, Declared, Message
from guardproxy.core.policy import Policy
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.view import Closing, Opening, View
from guardproxy.replaying.told import ENDS, SessionReport, Told

PAUSE_MS = 30_000
"""Between two turns of a run that was recorded without times (DESIGN section 4)."""

_ORG = "replay"


class Player:
    """One session: the conversation as far as it has come, and the memory of what was decided."""

    def __init__(
        self,
        recorded: Mapping[str, Any],
        policy: Policy,
        printer: Fingerprinter,
        exemptions: tuple[ScopedExemption, ...] = (),
    ) -> None:
        self._exemptions = exemptions
        self._id = str(recorded["id"])
        self._model = str(recorded.get("model") or "")
        self._messages: list[Mapping[str, Any]] = recorded["messages"]
        self._policy, self._printer = policy, printer
        self._memory = LocalMemory()
        self._known: list[Mapping[str, Any]] = []  # grows by one message at a time, so that no prefix is copied
        self._size = 0
        self._calls = 0
        self._acted = False  # whether the newest reply made calls
        self._read = -1  # index of the newest message whose text was found to make calls
        self._now_ms = 0
        self._open: tuple[Ask, View, Decision] | None = None
        self._head = ""
        self._spared: Counter[tuple[str, str]] = Counter()

    def report(self) -> SessionReport:
        """Play the session to its end, or to the end that it would have been given."""
        told: list[Told] = []
        for at, message in enumerate(map(neutral, self._messages)):
            if at and message.role == "assistant" and self._turn(at, told):
                break
            self._append(message)
        else:
            if self._messages and message.role != "assistant":
                self._turn(len(self._messages), told)
        every = tuple(map(neutral, self._messages))
        whole = Ask("chat", "", False, b"", len(every), chat.ask_of(self._messages).head, every, 0)
        return SessionReport(self._id, sum(len(one.calls) for one in rounds.rounds(whole)), tuple(told), self._spared)

    def _append(self, said: Message) -> None:
        self._known.append(self._messages[len(self._known)])
        self._size += len(said.text) + sum(len(call.arguments) for call in said.calls)
        self._calls += len(said.calls)
        if said.role == "assistant":
            self._acted = bool(said.calls)
            self._settle(said)

    def _turn(self, at: int, told: list[Told]) -> bool:
        """Decide; whether the run ends here."""
        self._now_ms += PAUSE_MS
        told_us = self._known[-1].get(progress.HEADER) if self._known else None
        declared = Declared(progress=report(told_us)) if told_us is not None else chat.NOBODY
        ask = chat.ask_of(self._known, model=self._model, short=self._now_ms > PAUSE_MS, declared=declared)
        self._find_written(ask)
        view = self._memory.begin(self._opening(ask), self._now_ms)
        made = policies.decide(view, self._policy, exempt=self._exempt(ask, view.now_ms))
        self._open = (ask, view, made)
        self._spared.update({(str(one.because), one.rule) for one in made.spared})
        if made.action != "pass":
            step = max(0, self._calls - 1) if self._acted else self._calls
            told.append(Told(step, at, made.action, made.rule, made.count, made.reason, made.would))
        return made.action in ENDS

    def _find_written(self, ask: Ask) -> None:
        """Count the calls that the newest reply's text turns out to make, now that their results are there."""
        newest = None if self._acted else rounds.latest(ask)
        if newest is not None and newest.written and newest.index != self._read:
            self._acted, self._read = True, newest.index
            self._calls += len(newest.calls)

    def _exempt(self, ask: Ask, now_ms: int) -> tuple[ScopedExemption, ...]:
        return scoped_exemption.standing(
            self._exemptions, self._id, lambda: scoped_exemption.agent_of(ask, self._printer), now_ms
        )

    def _opening(self, ask: Ask) -> Opening:
        need = budget.Need(pricing.estimate_input(self._size), self._policy.default_output_hold, 0)
        identity = session.identify(ask, self._printer, _ORG)
        self._head = identity.head
        fact = session.observe(ask, self._printer, self._now_ms)
        return Opening(str(self._now_ms), _ORG, identity, fact, budget.price(self._policy.stored, need), PAUSE_MS)

    def _settle(self, said: Message) -> None:
        if self._open is None:  # the recording begins with an answer
            return
        ask, view, made = self._open
        calls = len(said.calls or rounds.calls_in(ask, said.text))
        tokens = pricing.estimate_output(len(said.text) + sum(len(call.arguments) for call in said.calls))
        given = pricing.estimate_input(self._size)
        closing = Closing(
            token=str(self._now_ms),
            org=_ORG,
            session=view.session,
            thread=view.thread,
            outcome="answered",
            answer="calls" if calls else "text" if said.text.strip() else "empty",
            spent={
                "turns": 1,
                "tool_calls": calls,
                "input_tokens": given,
                "output_tokens": tokens,
                "total_tokens": given + tokens,
            },
            delivered=session.round_digest(self._printer, said.calls, said.text),
            links=session.links(self._printer, _ORG, self._head, said.calls, said.text),
            episodes=(pack_episode(made.episode),) if made.episode else (),
            count=len(self._known),
        )
        self._memory.settle(closing, self._now_ms)
