"""Approvals: calls and questions that wait for a person, and deciding them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from guardproxy.http import approvals, people
from guardproxy.http.approvals import Shown
from guardproxy.http.auditing import changed
from guardproxy.http.objects._kinds import Milliseconds, Model, Page, Signed, listing, paged
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.store.approvals import STATES


class Approval(Model):
    """A call, or a question of the model's, and what became of it.

    `withheld`: the content is not for the role that asks. `cut`: texts are longer than a list shows.
    """

    id: str
    session: str
    thread: str
    tool: str
    rule: Annotated[str | None, Field(description="tools.approval, or tools.human for a question")]
    reason: Annotated[str | None, Field(description="Of the rule in the configuration: why it is asked")]
    state: Annotated[str, Field(json_schema_extra={"enum": list(STATES)})]
    next: Annotated[str, Field(description="What happens from here on, in words")]
    asked_ms: Milliseconds
    expires_ms: Milliseconds
    decided_ms: Milliseconds | None
    by: str | None
    why: str | None
    released: Annotated[bool, Field(description="Whether the agent was handed the call")]
    arrived: Annotated[bool | None, Field(description="Whether the agent's next request showed it; null = none yet")]
    readable: Annotated[bool, Field(description="False: sealed under another secret, or withheld")]
    withheld: bool
    arguments: Annotated[str | None, Field(description="As the model wrote them")]
    question: str | None
    edited_arguments: str | None
    answer: str | None
    cut: bool


class WholeApproval(Approval):
    """An approval with all of its content. `message`: the model's message that it is about, as JSON."""

    message: str | None


class ApprovalQuery(Page):
    """Which approvals; pending ones unless told, `any` = all."""

    state: Annotated[str, Field(json_schema_extra={"enum": [*STATES, "any"]})] = "pending"
    session: str | None = None


class Approve(Signed):
    """`arguments`: in place of the model's, as an object or as its JSON text."""

    arguments: dict[str, Any] | str | None = None


class Answer(Model):
    """What the person says to a question."""

    text: Annotated[str, Field(min_length=1, max_length=people.ANSWER)]
    by: Annotated[str | None, Field(max_length=200)] = None


Approvals = listing(Approval)


def _shown(call: Call, one: Shown) -> WholeApproval:
    return WholeApproval.model_validate(approvals.as_json(one, whole=True, content=_reads(call)))


def _reads(call: Call) -> bool:
    """Whether the content is for who asks: what models write and agents read is not for everybody who may look."""
    return call.actor.role != "viewer"


async def _list(call: Call) -> Told:
    """List what waits, or was decided, the newest first. A viewer sees no content."""
    asked: ApprovalQuery = call.query
    found = await call.desk.listed("" if asked.state == "any" else asked.state)
    found = [one for one in found if asked.session in (None, one.approval.session)]
    some = found[asked.cursor : asked.cursor + asked.limit + 1]
    items = [approvals.as_json(one, whole=False, content=_reads(call)) for one in some]
    return Told(paged(Approvals, [Approval.model_validate(one) for one in items], asked))


async def _show(call: Call) -> Told:
    """One with all of its content. A viewer sees none."""
    one = await call.desk.shown(call.path["id"])
    return Told(_shown(call, one), etag=approvals.version(one))


def _decided(call: Call, before: Shown, after: Shown) -> Told:
    """What was decided; whether arguments were edited is in the audit, they are not."""
    one = after.approval
    entry = call.actor.did(
        f"approval.{one.state}",
        one.id,
        org=call.org,
        why=call.why(),
        diff=changed(approvals.facts(before), approvals.facts(after)),
    )
    return Told(_shown(call, after), etag=approvals.version(after), entry=entry)


async def _approve(call: Call) -> Told:
    """Let the call be made, once, with other arguments perhaps."""
    given = call.body.arguments
    edited = given if given is None or isinstance(given, str) else people.written(given)
    before = await _seen(call)
    return _decided(call, before, await call.desk.approve(call.path["id"], call.by(), call.why(), edited))


async def _deny(call: Call) -> Told:
    """Refuse the call; the model is told so, with the reason."""
    before = await _seen(call)
    return _decided(call, before, await call.desk.deny(call.path["id"], call.by(), call.why()))


async def _answer(call: Call) -> Told:
    """Answer a question of the model's; the text is what its call brings."""
    before = await _seen(call)
    return _decided(call, before, await call.desk.answer(call.path["id"], call.by(), call.body.text))


async def _seen(call: Call) -> Shown:
    """As it stands. What is pending can only be decided once, so that nothing comes between this and the decision."""
    one = await call.desk.shown(call.path["id"])
    call.unchanged(approvals.version(one))
    return one


ROUTES = (
    Route("GET", "/approvals", "viewer", _list, Approvals, query=ApprovalQuery),
    Route("GET", "/approvals/{id}", "viewer", _show, WholeApproval, etag=True),
    Route(
        "POST",
        "/approvals/{id}/approve",
        "operator",
        _approve,
        WholeApproval,
        body=Approve,
        etag=True,
        example={"arguments": {"path": "b.txt"}},
    ),
    Route(
        "POST",
        "/approvals/{id}/deny",
        "operator",
        _deny,
        WholeApproval,
        body=Signed,
        etag=True,
        example={"why": "not on a Friday"},
    ),
    Route(
        "POST",
        "/approvals/{id}/answer",
        "operator",
        _answer,
        WholeApproval,
        body=Answer,
        etag=True,
        example={"text": "the second one"},
    ),
)
