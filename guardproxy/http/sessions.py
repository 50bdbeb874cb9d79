"""Runs as a person sees and steers them: what they did, how they stand, who changed that and why.

For `guardproxy sessions` and the admin listener alike. Each change is written down in the run's history by the store.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import orjson

from guardproxy.core.budget import DIMENSIONS
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import ended, people, reach, unaccepted
from guardproxy.http.sealed import CHECKPOINT, Sealer
from guardproxy.http.terminal import visible
from guardproxy.http.unaccepted import Unaccepted
from guardproxy.store.audit import Entry
from guardproxy.store.known import Known
from guardproxy.store.redis import Store
from guardproxy.store.runs import Change
from guardproxy.telemetry.record import NAMED, TurnRecord, read_record

STATES = ("active", "paused", "need_human", "waiting", "closed")
"""What a run can be (DESIGN section 2)."""

VERBS = {
    "pause": "is paused: its requests are answered with who paused it and why, until it is resumed",
    "resume": "may go on: its ladder begins anew, its limits stay",
    "cut": "is cut: calls under way are ended within a second, later requests are told so",
    "reset": "begins anew: open again, a new request span, its ladder at the foot; what it has used stays counted",
}
"""What a person can do to a run, and what that means for it. Beside these: extend."""

LISTED = 1000
"""Runs that are looked at for a list: 40 ms for the store and for who asks."""


ORGS = 200
"""Other organisations that are looked at, for whether they have any."""

DIGITS = 8
"""Digits of an agent's digest that are shown: enough to tell one's agents apart."""

_DIGEST = re.compile(rf"[0-9a-f]{{{DIGITS},}}$")

FEW, AT_ONCE = 8, 32
"""Records (a turn may have several), and runs, that are looked at in one go for those of an agent."""


@dataclass(frozen=True, slots=True)
class Run:
    """A session with what its turns left in the store (the newest 256), and with its history where it was asked for.

    `opened_ms`: when a person last let it go on, as far as that matters.
    """

    known: Known
    records: Sequence[TurnRecord]
    history: Sequence[Change] = ()
    opened_ms: int = 0
    answer: Unaccepted | None = None  # that did not pass its checks

    @property
    def outcome(self) -> str:
        """How it ended, "" while it goes on. One that was ended and let go on again has not ended."""
        known = self.known
        if known.state == "closed":
            return "denied" if (known.closed or known.by).startswith("budget.") else "cut"
        if self.limit is not None:
            return "denied"
        last = ended.outcome(self.records, known.main)
        return "" if last in ("cut", "denied") else last

    @property
    def limit(self) -> TurnRecord | None:
        """The refusal of a run that is open but for a limit, which nobody has raised since."""
        last = _refused(self.records)
        return last if last and self.known.state == "active" and last["at_ms"] > self.opened_ms else None

    @property
    def rule(self) -> str:
        """The rule that spoke last."""
        return next((one["rule"] for one in reversed(self.records) if one["rule"]), "")

    @property
    def agent(self) -> str:
        """The name that metrics, log and spans have for its agent: what it says of itself, or the client it is."""
        return next((one["of"]["agent"] for one in reversed(self.records) if "of" in one), "")

    @property
    def digest(self) -> str:
        """The agent's digest, where a rule spoke."""
        return next((prompt for one in reversed(self.records) if (prompt := one.get("prompt", ""))), "")


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The messages of a run's last request (JSON), and which generation of them this is."""

    session: str
    generation: int
    at_ms: int
    messages: bytes


class Runs:
    """The runs of an organisation."""

    def __init__(self, store: Store, sealer: Sealer, org: str) -> None:
        self._store = store
        self._sealer = sealer
        self._org = org

    async def listed(self, state: str = "", limit: int = 50, skip: int = 0, agent: str = "") -> list[Run]:
        """Runs of the last day in a state ("" = any), and those that wait for people; the newest first. `agent`: of
        this one alone, by its name or by its digest, from eight digits on.
        """
        if state and state not in STATES:
            raise BadAsk(f"must be one of {', '.join(STATES)}", param="state")
        known = await self._store.list_sessions(self._org, LISTED)
        wanted = sorted((one for one in known if state in ("", one.state)), key=lambda one: (-one.at_ms, one.session))
        if not agent:
            return [await self.of(one) for one in wanted[skip : skip + limit]]
        found, digest = list[Run](), _DIGEST.match(agent)
        for at in range(0, len(wanted), AT_ONCE):
            some = wanted[at : at + AT_ONCE]
            maybe = await asyncio.gather(*(self._may_be(one, agent) for one in some))
            runs = [await self.of(one) for one, may in zip(some, maybe, strict=True) if may]
            found += [one for one in runs if agent == one.agent or (digest and one.digest.startswith(agent))]
            if len(found) >= skip + limit:
                break
        return found[skip : skip + limit]

    async def _may_be(self, known: Known, agent: str) -> bool:
        """Whether a run may be one of an agent's, by few records: among them is the newest that says whose it is."""
        back = (known.turn - 1) % NAMED + 1
        records = _records(await self._store.records(self._org, known.session, -back - FEW, -back))
        named = next((one["of"]["agent"] for one in reversed(records) if "of" in one), None)
        if named is None and known.turn <= NAMED and any(one["turn"] == 1 for one in records):
            named = ""
        return named in (None, agent) or _DIGEST.match(agent) is not None

    async def elsewhere(self) -> list[str]:
        """Other organisations that have runs."""
        orgs = [one for one in await self._store.orgs() if one != self._org]
        return [one for one in orgs[:ORGS] if await self._store.list_sessions(one, 1)]

    async def panic(self) -> bool:
        """Whether every intervention is switched off."""
        return await self._store.panic()

    async def shown(self, session: str) -> Run:
        """One run with its history. `GuardError` 404 names some that there are."""
        session = _text(session)
        known = await self._store.session_state(self._org, session)
        if known is None:
            raise await reach.unknown(self._store, self._org, session)
        run, history, answer = await asyncio.gather(
            self.of(known, told=True),
            self._store.runs.history(self._org, session),
            unaccepted.kept(self._store.checkpoints, self._sealer, self._org, session),
        )
        return replace(run, history=history, answer=answer)

    async def act(self, verb: str, session: str, by: str, why: str = "", expect: str = "") -> Run:
        """Do one of `VERBS`, or change nothing and say why not. `expect`: the version that the caller saw."""
        by, why = people.line("by", by), people.line("why", why)
        session = (await self.shown(session)).known.session
        runs = self._store.runs
        deeds: Mapping[str, Callable[..., Awaitable[Known]]]
        deeds = {"pause": runs.pause, "resume": runs.resume, "cut": runs.cut, "reset": runs.reset}
        await deeds[verb](self._org, session, by, why, expect=expect)
        return await self.shown(session)

    async def extend(self, session: str, by: str, why: str, amounts: Mapping[str, float], expect: str = "") -> Run:
        """Raise the run's limits, by the names and in the units of the configuration; it goes on if one stopped it."""
        by, why, more = people.line("by", by), people.line("why", why), people.amounts(amounts)
        session = (await self.shown(session)).known.session
        await self._store.runs.extend(self._org, session, more, by, why, expect=expect)
        return await self.shown(session)

    async def checkpoint(self, session: str) -> Checkpoint:
        """The conversation as it was last sent. `GuardError` 404 where none is kept."""
        session = (await self.shown(session)).known.session
        found = await self._store.checkpoints.get(self._org, session)
        if found is None:
            told = (
                f"session {visible(session)} has no checkpoint; they are kept where policy.checkpoints.enabled is true"
            )
            raise GuardError(told, status=404, code="no_checkpoint")
        generation, sealed, at_ms = found
        messages = self._sealer.open(CHECKPOINT, session, sealed)
        if messages is None:
            told = f"the checkpoint of session {visible(session)} cannot be opened: it was sealed under another secret"
            raise GuardError(told, status=409, code="cannot_open")
        return Checkpoint(session, generation, at_ms, messages)

    async def take(self, session: str, generation: int, by: str) -> Checkpoint:
        """Go on from a checkpoint. A second one who does, or one who read an older one, gets `GuardError` 409."""
        by = people.line("by", by)
        found = await self.checkpoint(session)
        await self._store.checkpoints.take(self._org, found.session, generation, by)
        return found

    async def note(self, entry: Entry, why: str = "") -> None:
        """Write into the audit what was done to one of them."""
        await self._store.audit.note(replace(entry, org=self._org, why=why))

    async def of(self, known: Known, *, told: bool = False) -> Run:
        """The run of a session, without its history. `told`: with what the model was told, where it can be opened."""
        opened = partial(self._sealer.open_told, known.session) if told else None
        records = _records(await self._store.records(self._org, known.session), opened)
        changes = await self._store.runs.history(self._org, known.session) if _stopped(records) else ()
        return Run(known, records, opened_ms=max((one.at_ms for one in changes if _opens(one.what)), default=0))


def _text(session: str) -> str:
    """A terminal may pass bytes that are no text."""
    return session.encode("utf-8", "replace").decode()


def _records(raw: Sequence[bytes], opened: Callable[[str], str] | None = None) -> list[TurnRecord]:
    """The records that can be read; those of another version are left out."""
    found = []
    for one in raw:
        with contextlib.suppress(ValueError):
            found.append(read_record(one, opened))
    return found


def _refused(records: Sequence[TurnRecord]) -> TurnRecord | None:
    """The newest turn, if a limit refused that request."""
    turns = ended.turns(records)
    return turns[-1] if turns and turns[-1]["outcome"] == "denied" else None


def _stopped(records: Sequence[TurnRecord]) -> bool:
    """Whether the newest turn was the last that a rule let be: what people did since may have changed that."""
    turns = ended.turns(records)
    return bool(turns) and turns[-1]["outcome"] in ("denied", "finalized")


def _opens(what: str) -> bool:
    return what.startswith(("extend", "reset"))


def as_json(run: Run) -> dict[str, object]:
    """For the admin API: a session as it stands."""
    known = run.known
    return {
        "session": known.session,
        "state": known.state,
        "by": known.by or None,
        "why": known.why or None,
        "closed_by_rule": known.closed or None,
        "outcome": run.outcome or None,
        "turns": known.turn,
        "used": used(run),
        "agent": run.agent or run.digest or None,
        "agent_digest": run.digest or None,
        "last_rule": run.rule or None,
        "threads": list(known.threads),
        "started_ms": known.started_ms,
        "at_ms": known.at_ms,
    }


def used(run: Run) -> dict[str, float]:
    """What it has used, by the names and in the units of `policy.limits`."""
    counted = {row: run.known.used.get(row.name) for row in DIMENSIONS.values()}
    return {row.setting: amount / row.scale if row.scale > 1 else amount for row, amount in counted.items() if amount}


def whole_json(run: Run, *, content: bool = True) -> dict[str, object]:
    """One session with who changed it, when, how and why, the newest last. `content` False: it is not for who asks."""
    changes = [{"at_ms": one.at_ms, "by": one.by, "what": one.what, "why": one.why} for one in run.history]
    answer, said = run.answer if content else None, None
    if answer is not None:
        calls = [{"tool": tool, "arguments": given} for tool, given in answer.calls]
        said = {"at_ms": answer.at_ms, "text": answer.text, "calls": calls, "not_passed": list(answer.wrong)}
    return as_json(run) | {"history": changes, "unaccepted_answer": said}


def facts(run: Run) -> dict[str, object]:
    """What the audit compares of a session."""
    known = run.known
    return {"state": known.state, "by": known.by, "why": known.why, "rule": known.closed, "span": known.span}


def kept_json(kept: Checkpoint) -> bytes:
    """A checkpoint, with its messages byte for byte as they were sent."""
    head = {"session": kept.session, "generation": kept.generation, "at_ms": kept.at_ms}
    return orjson.dumps(head | {"messages": orjson.Fragment(kept.messages)})
