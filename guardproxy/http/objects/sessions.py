"""Sessions: runs as they stand, and what people do to them."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Literal

from pydantic import Field, create_model

from guardproxy.core import commands
from guardproxy.http import in_words, people, sessions
from guardproxy.http.auditing import changed
from guardproxy.http.objects._kinds import WHOLE, Line, Milliseconds, Model, Page, Signed, listing, paged
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.http.sessions import STATES, VERBS, Run

State = Literal["active", "paused", "need_human", "waiting", "closed"]


class Change(Model):
    """A line of a session's history."""

    at_ms: Milliseconds
    by: str
    what: str
    why: str


class Session(Model):
    """A run as it stands. `used`: by the names and in the units of `policy.limits` (turns, tokens, dollars)."""

    session: str
    state: State
    by: Annotated[str | None, Field(description="Who paused or closed it: a person, a rule, loop, budget, check, tool")]
    why: str | None
    closed_by_rule: str | None
    outcome: str | None
    turns: int
    used: dict[str, int | float]
    agent: Annotated[str | None, Field(description="Its name as in metrics and log; without one a digest, see below")]
    agent_digest: Annotated[str | None, Field(description="Of its instructions, where a rule spoke")]
    last_rule: str | None
    threads: list[str]
    started_ms: Milliseconds
    at_ms: Milliseconds


class FinalCall(Model):
    """A call that hands the final answer over."""

    tool: str
    arguments: str


class UnacceptedAnswer(Model):
    """An answer that did not pass its checks and was not handed on (`policy.final.on_failure: cut` or `pause`)."""

    at_ms: Milliseconds
    text: str
    calls: list[FinalCall]
    not_passed: Annotated[list[str], Field(description="What each check found, as the model was told")]


class WholeSession(Session):
    """A run with who changed it, when, how and why, the newest last."""

    history: list[Change]
    to_go_on: Annotated[str | None, Field(description="What lets it go on, where it does not by itself: a command")]
    unaccepted_answer: Annotated[UnacceptedAnswer | None, Field(description="Not for viewers: it is content")]


class Checkpoint(Model):
    """The messages of a run's last request, as they were sent."""

    session: str
    generation: int
    at_ms: Milliseconds
    messages: list[Any]


CONTENT = ("advice",)
"""Of a turn's record, what the model was told: not for viewers."""


class Turns(Model):
    """What a run did, turn by turn: the newest 256, the oldest first. A viewer sees no content."""

    session: str
    turns: Annotated[list[dict[str, Any]], Field(description="As `guardproxy trace` shows them")]


class SessionQuery(Page):
    """Which runs: of the last day, and those that wait for people; the newest first."""

    state: Annotated[str, Field(json_schema_extra={"enum": ["", *STATES]})] = ""
    agent: Annotated[str, Field(max_length=200, description="Of this agent alone, by name or digest")] = ""


class Take(Model):
    """Which generation of the messages was read."""

    generation: Annotated[int, Field(ge=-(2**53), le=2**53), WHOLE]
    by: Line | None = None


def _amount(row: Any) -> Any:
    if row.scale == 1:
        return (Annotated[int, Field(ge=1, le=people.MOST), WHOLE] | None, None)
    return (Annotated[float, Field(gt=0, le=people.MOST)] | None, None)


More = create_model(
    "More",
    __base__=Signed,
    __doc__="By how much to raise which limit, by the names and in the units of `policy.limits`; at least one.",
    **{name: _amount(row) for name, row in people.EXTENDABLE.items()},
)
Sessions = listing(Session)


def _told(call: Call, run: Run, what: str, before: Run, **more: object) -> Told:
    """The run as it stands now, with the entry for what was done to it."""
    diff = dict(changed(sessions.facts(before), sessions.facts(run)))
    diff |= {name: (None, value) for name, value in more.items()}
    entry = call.actor.did(f"session.{what}", run.known.session, org=call.org, why=call.why(), diff=diff)
    return Told(_whole(call, run), etag=run.known.version, entry=entry)


def _whole(call: Call, run: Run) -> WholeSession:
    told = sessions.whole_json(run, content=call.actor.role != "viewer")
    return WholeSession.model_validate(told | {"to_go_on": in_words.goes_on(run, commands.of(call.org)) or None})


async def _list(call: Call) -> Told:
    """List runs of the last day, and those that wait for people; the newest first."""
    asked: SessionQuery = call.query
    found = await call.runs.listed(asked.state, asked.limit + 1, asked.cursor, asked.agent)
    return Told(paged(Sessions, [Session.model_validate(sessions.as_json(one)) for one in found], asked))


async def _show(call: Call) -> Told:
    """A run, and who changed it, when, how and why."""
    run = await call.runs.shown(call.path["id"])
    return Told(_whole(call, run), etag=run.known.version)


async def _turns(call: Call) -> Told:
    """What a run did, turn by turn: calls and results by name and digest, what was decided, what it cost."""
    run = await call.runs.shown(call.path["id"])
    hidden = CONTENT if call.actor.role == "viewer" else ()
    turns = [{name: said for name, said in one.items() if name not in hidden} for one in run.records]
    return Told(Turns(session=run.known.session, turns=turns))


async def _act(call: Call, *, verb: str) -> Told:
    before = await call.runs.shown(call.path["id"])
    run = await call.runs.act(verb, call.path["id"], call.by(), call.why(), call.expect)
    return _told(call, run, verb, before)


async def _extend(call: Call) -> Told:
    """Raise a run's limits; one that a limit had stopped goes on at the same turn."""
    given = call.body.model_dump(exclude_none=True)
    amounts = {name: given[name] for name in people.EXTENDABLE if name in given}
    before = await call.runs.shown(call.path["id"])
    run = await call.runs.extend(call.path["id"], call.by(), call.why(), amounts, call.expect)
    return _told(call, run, "extend", before, **amounts)


async def _checkpoint(call: Call) -> Told:
    """The messages of a run's last request, where checkpoints are kept."""
    return Told(raw=sessions.kept_json(await call.runs.checkpoint(call.path["id"])))


async def _take(call: Call) -> Told:
    """Go on from a checkpoint. A second one to do so, or one who read an older one, gets 409."""
    generation = call.body.generation
    kept = await call.runs.take(call.path["id"], generation, call.by())
    diff = {"taken": (None, generation)}
    entry = call.actor.did("session.checkpoint", kept.session, org=call.org, diff=diff)
    return Told(raw=sessions.kept_json(kept), entry=entry)


def _verb(verb: str) -> Route:
    work = partial(_act, verb=verb)
    work.__doc__ = f"{verb.capitalize()} a run: it {VERBS[verb]}."
    return Route(
        "POST",
        f"/sessions/{{id}}/{verb}",
        "operator",
        work,
        WholeSession,
        body=Signed,
        etag=True,
        example={"why": "looks odd"},
    )


ROUTES = (
    Route("GET", "/sessions", "viewer", _list, Sessions, query=SessionQuery),
    Route("GET", "/sessions/{id}", "viewer", _show, WholeSession, etag=True),
    Route("GET", "/sessions/{id}/turns", "viewer", _turns, Turns),
    *(_verb(verb) for verb in VERBS),
    Route(
        "POST", "/sessions/{id}/extend", "operator", _extend, WholeSession, body=More, etag=True, example={"turns": 50}
    ),
    Route("GET", "/sessions/{id}/checkpoint", "operator", _checkpoint, Checkpoint, errors=(409,)),
    Route(
        "POST",
        "/sessions/{id}/checkpoint/take",
        "operator",
        _take,
        Checkpoint,
        body=Take,
        errors=(409,),
        example={"generation": 1},
    ),
)
