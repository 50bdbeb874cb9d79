"""Erasing what is kept of a run, of a user or of an organisation. For owners; it cannot be undone."""

from __future__ import annotations

from hashlib import blake2b
from typing import Annotated

from pydantic import Field

from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import erasing, people
from guardproxy.http.erasing import Erased as Done
from guardproxy.http.objects._kinds import Model, Signed
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.http.tokens import state

Name = Annotated[str, Field(min_length=1, max_length=people.LONGEST)]


class Erase(Signed):
    """One of the three. An organisation is named here and by `?org=`, so that no slip erases one."""

    session: Name | None = None
    user: Name | None = None
    org: Name | None = None


class Erased(Model):
    """How much there was: runs; entries of the store; rows of usage that lost a name; virtual keys."""

    runs: int
    entries: int
    usage_rows: int
    virtual_keys: int


async def _erase(call: Call) -> Told:
    """Erase what is kept of a run, of a user or of an organisation; what runs is ended first. What was spent stays."""
    body: Erase = call.body
    said = {what: text for what in ("session", "user", "org") if (text := getattr(body, what)) is not None}
    if len(said) != 1:
        raise BadAsk("say one of session, user and org", param="session")
    ((what, text),) = said.items()
    text = text.encode("utf-8", "replace").decode()
    if what == "session":
        done, subject = await erasing.session(call.store, call.org, text), text
    elif what == "user":
        done, subject = await erasing.user(call.store, call.org, text), _nobody(call, text)
    else:
        done, subject = await _whole(call, text), call.org
    diff = {name: (number, 0) for name, number in _numbers(done).items() if number}
    entry = call.actor.did(f"erase.{what}", subject, org=call.org, why=call.why(), diff=diff or {"org": (text, None)})
    return Told(Erased(**_numbers(done)), entry=entry)


async def _whole(call: Call, name: str) -> Done:
    if call.actor.org:
        raise GuardError(
            f"this token is for {call.actor.org} alone, and would go with it", status=403, code="other_org"
        )
    if name != call.org:
        raise BadAsk(f"is {name!r}, and ?org= says {call.org!r}: name the same one twice", param="org")
    now_ms = await call.store.usages.now_ms()
    every = await call.store.tokens.every()
    if one := next((one for one in every if one.org == name and state(one, now_ms) == "live"), None):
        told = f"the token {one.id} ({one.name}) is for {name} alone, and would be for another one of that name"
        raise GuardError(f"{told}: revoke it first", status=409, code="in_use")
    return await erasing.organisation(call.store, name)


def _numbers(done: Done) -> dict[str, int]:
    return {name: getattr(done, name) for name in Erased.model_fields}


def _nobody(call: Call, user: str) -> str:
    """The audit is kept for ever: a user is named there by a keyed hash, which only says whether two are the same."""
    digest = blake2b(f"{call.org}\n{user}".encode(), key=call.hash_key[:64], digest_size=8).hexdigest()
    return f"user {digest}"


ROUTES = (
    Route(
        "POST",
        "/erase",
        "owner",
        _erase,
        Erased,
        body=Erase,
        example={"session": "run-1", "why": "asked to"},
        errors=(404, 409),
    ),
)
