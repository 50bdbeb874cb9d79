"""Approvals as a person sees and decides them: what the model wants to do or to know, who decided, what became of it.

For `guardproxy approvals` and the admin listener alike. A decision is made once, in the store; every worker sees it
with the next request of the run. The content is opened here, for the person who is to decide on it, and never logged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from guardproxy.core import commands
from guardproxy.core.budget import duration
from guardproxy.core.model import Call
from guardproxy.core.scoped_exemption import moment
from guardproxy.core.tool_rules import ToolRule, first
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import people
from guardproxy.http.sealed import EDITED, Held, Sealer
from guardproxy.http.terminal import visible
from guardproxy.store.approvals import STATES, Approval
from guardproxy.store.audit import Entry
from guardproxy.store.redis import Store

CELL, SHORT = 120, 2000
"""Characters of content in a row of a table; in an item of a list of the admin API."""

ORGS = 200
"""Other organisations that are looked at, for whether they have any."""

NOT_OURS = "its content cannot be opened: GUARDPROXY_SECRET is not the one that the proxy had when it was asked"
"""What is said where the secret was changed, or a command has another one."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An approval with its content. None: there is none, or it cannot be opened with this secret."""

    approval: Approval
    held: Held | None
    edited: Held | None = None


class Desk:
    """Where approvals of an organisation are decided."""

    def __init__(
        self, store: Store, sealer: Sealer, org: str, forbidden: Callable[[], tuple[ToolRule, ...]] = tuple
    ) -> None:
        """`forbidden`: the rules for calls that nobody can allow, as they are now."""
        self._store = store
        self._forbidden = forbidden
        self._sealer = sealer
        self._org = org

    async def listed(self, state: str = "pending") -> list[Shown]:
        """All of a state ("" = of any), the newest first."""
        if state and state not in STATES:
            raise BadAsk(f"must be one of {', '.join(STATES)}", param="state")
        found = await self._store.approvals.list(self._org, state)
        return [self._open(one) for one in sorted(found, key=lambda one: (one.asked_ms, one.id), reverse=True)]

    async def elsewhere(self, state: str = "pending") -> list[str]:
        """Other organisations that have some of that state."""
        orgs = [one for one in await self._store.orgs() if one != self._org]
        return [one for one in orgs[:ORGS] if await self._store.approvals.list(one, state)]

    async def shown(self, approval: str) -> Shown:
        """One of them. `GuardError` 404 where there is none."""
        approval = approval.encode("utf-8", "replace").decode()  # a terminal may pass bytes that are no text
        found = await self._store.approvals.get(self._org, approval)
        if found is None:
            raise await self._unknown(approval)
        return self._open(found)

    async def approve(self, approval: str, by: str, why: str = "", arguments: str | None = None) -> Shown:
        """Let the call be made, with other `arguments` (JSON) perhaps. Once only; not what a rule forbids (409)."""
        asked, held = await self._asked(approval)
        if held.question:
            raise GuardError(f"approval {asked.id} is a question: answer it", status=409, code="is_a_question")
        edit = None if arguments is None else Held(asked.tool, people.arguments("arguments", arguments))
        call = Call(asked.tool, held.arguments if edit is None else edit.arguments)
        rule = first(self._forbidden(), call)
        if rule is not None:
            reason = f": {visible(rule.reason)}" if rule.reason else ""
            told = f"a rule of tools.deny ({visible(rule.tool)}) forbids this call of {visible(asked.tool)}{reason}"
            raise GuardError(f"{told}; approve it with other arguments, or deny it", status=409, code="forbidden")
        return await self._decide(asked, "approve", by, why, edit)

    async def deny(self, approval: str, by: str, why: str = "") -> Shown:
        """Refuse the call; the model is told so, with the reason. Needs no look at the content."""
        return await self._decide((await self.shown(approval)).approval, "deny", by, why)

    async def answer(self, approval: str, by: str, text: str) -> Shown:
        """Answer a question of the model's; the text is what the call brings it."""
        text = people.answer("text", text)
        asked, held = await self._asked(approval)
        if not held.question:
            raise GuardError(f"approval {asked.id} asks nothing: approve or deny it", status=409, code="is_no_question")
        return await self._decide(asked, "answer", by, "", Held(asked.tool, answer=text))

    async def note(self, entry: Entry, why: str = "") -> None:
        """Write into the audit what was decided of one of them."""
        await self._store.audit.note(replace(entry, org=self._org, why=why))

    async def _asked(self, approval: str) -> tuple[Approval, Held]:
        """One that can be looked at: nobody lets through what they cannot read."""
        found = await self.shown(approval)
        if found.held is None:
            raise GuardError(f"approval {found.approval.id}: {NOT_OURS}", status=409, code="cannot_open")
        return found.approval, found.held

    async def _decide(self, asked: Approval, verdict: str, by: str, why: str, edit: Held | None = None) -> Shown:
        by, why = people.line("by", by), people.line("why", why)
        sealed = b"" if edit is None else self._sealer.seal_held(asked.id, edit, EDITED)
        try:
            await self._store.approvals.decide(self._org, asked.id, verdict, by, why, sealed)
        except GuardError as error:
            if error.status != 409:
                raise
            raise too_late((await self.shown(asked.id)).approval) from error
        return await self.shown(asked.id)

    async def _unknown(self, approval: str) -> GuardError:
        waiting = [one.approval.id for one in await self.listed()][:5]
        told = f"; waiting are {', '.join(waiting)}" if waiting else "; none is waiting"
        told = f"there is no approval {approval[:CELL]!r}{told}; {commands.whose(visible(self._org))}"
        return GuardError(told, status=404, code="not_found")

    def _open(self, one: Approval) -> Shown:
        edited = self._sealer.open_held(one.id, one.edited, EDITED) if one.edited else None
        return Shown(one, self._sealer.open_held(one.id, one.sealed), edited)


def too_late(one: Approval) -> GuardError:
    """What to say to the second who decides: who was first, what, when."""
    if one.state == "expired":
        return GuardError(f"approval {one.id} expired at {moment(one.expires_ms)}", status=409, code="expired")
    reason = f" ({visible(one.why)})" if one.why else ""
    told = f"approval {one.id} was {one.state} by {visible(one.by)} at {moment(one.decided_ms)} before{reason}"
    return GuardError(told, status=409, code="already_decided")


def version(shown: Shown) -> str:
    """Changes with what was decided, and when the agent was handed the call."""
    one = shown.approval
    return f"{one.state}-{one.decided_ms}{'-released' if one.token else ''}"


def facts(shown: Shown) -> dict[str, object]:
    """What the audit compares of an approval: that it was edited, not to what."""
    one = shown.approval
    return {"state": one.state, "by": one.by, "edited": bool(one.edited)}


def as_json(shown: Shown, *, whole: bool, content: bool = True) -> dict[str, object]:
    """For the admin API. `whole`: with all of the content, else what is long is cut and `cut` says so.

    `content` False: it is not for who asks.
    """
    one, held, edited = shown.approval, shown.held, shown.edited
    told: dict[str, object] = {
        "id": one.id,
        "session": one.session,
        "thread": one.thread,
        "tool": one.tool,
        "rule": "tools.human" if held and held.question else "tools.approval" if held else None,
        "reason": (held.reason if held else "") or None,
        "state": one.state,
        "next": what_next(one),
        "asked_ms": one.asked_ms,
        "expires_ms": one.expires_ms,
        "decided_ms": one.decided_ms or None,
        "by": one.by or None,
        "why": one.why or None,
        "released": bool(one.token),
        "arrived": {"yes": True, "no": False}.get(one.arrived),
        "readable": content and held is not None,
        "withheld": not content,
    }
    held, edited = (held, edited) if content else (None, None)
    texts = {"arguments": held.arguments if held else "", "question": held.question if held else ""}
    texts |= {"edited_arguments": edited.arguments if edited else "", "answer": edited.answer if edited else ""}
    if whole:
        texts["message"] = held.message.decode() if held else ""
    told |= {name: (text if whole else text[:SHORT]) or None for name, text in texts.items()}
    told["cut"] = not whole and any(len(text) > SHORT for text in texts.values())
    return told


def row(shown: Shown, now_ms: int) -> tuple[str, ...]:
    """For a table of them; its heads are `HEADS`."""
    one = shown.approval
    state = stands(one.state, one.by, one.expires_ms - now_ms)
    return (one.id, moment(one.asked_ms), visible(one.session), visible(one.tool), state, about(shown, CELL))


def stands(state: str, by: str | None, left_ms: int) -> str:
    """In a row: who decided, or for how long somebody still can."""
    if state == "pending" and left_ms >= 0:
        return f"pending, {duration(left_ms / 1000)} left"
    return f"{state} by {visible(by)}" if by else state


def what_next(one: Approval) -> str:
    """What happens from here on, in plain words."""
    if one.state == "pending":
        return "it waits for a person; nothing is carried out meanwhile"
    if one.state != "approved":
        return "the model is told: at once where its request is held, else with the client's next message"
    if not one.token:
        return "the call is handed on: at once where its request is held, else with the client's next message"
    if one.arrived == "no":
        return "the call was handed on once, but the agent does not show it: it may be lost; the model was told so"
    return "the call was handed to the agent" + (", which went on with it" if one.arrived == "yes" else "")


HEADS = ("approval", "asked at", "session", "tool", "state", "wants")
"""Over the rows."""


def about(shown: Shown, width: int = 0) -> str:
    """What it is about on one line: the question, else the arguments."""
    if shown.held is None:
        return "(sealed under another secret)"
    return visible(shown.held.question or shown.held.arguments, width)


def paragraphs(shown: Shown) -> list[str]:
    """All that is to know of one, a fact a line."""
    one, held, edited = shown.approval, shown.held, shown.edited
    facts = {
        "approval": one.id,
        "state": one.state,
        "session": one.session,
        "tool": one.tool,
        "asked at": moment(one.asked_ms),
        "expires at": moment(one.expires_ms) if one.state in ("pending", "expired") else "",
        "decided": f"by {one.by or 'nobody'} at {moment(one.decided_ms)}" if one.decided_ms else "",
        "why": one.why,
        "because": held.reason if held else "",
        "question": held.question if held else "",
        "arguments": held.arguments if held else NOT_OURS,
        "edited to": edited.arguments if edited else "",
        "answer": edited.answer if edited else "",
        "next": what_next(one),
    }
    return [f"{name:<11}{visible(text)}" for name, text in facts.items() if text]
