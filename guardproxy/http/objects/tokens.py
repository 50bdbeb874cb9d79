"""Admin tokens: who may ask this API what. For owners alone."""

from __future__ import annotations

import time
from typing import Annotated, Literal

from pydantic import Field

from guardproxy.errors import GuardError
from guardproxy.http import tokens
from guardproxy.http.objects._kinds import WHOLE, Line, Milliseconds, Model, Page, listing, paged
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.http.tokens import Keyring
from guardproxy.store import tokens as kept


class Token(Model):
    """What is known of a token; the token itself is not. `org`: the only one that it is for, null = all."""

    id: str
    name: str
    role: Literal["viewer", "operator", "owner"]
    org: str | None
    last: Annotated[str, Field(description="Its last four characters")]
    by: Annotated[str, Field(description="Who made it")]
    at_ms: Milliseconds
    expires_ms: Milliseconds | None
    revoked_ms: Milliseconds | None
    revoked_by: str | None
    live: bool


class NewToken(Token):
    """A new token. `secret` is the token itself: it is shown once and kept nowhere."""

    secret: str


class Make(Model):
    """Whose it is, what it may do, for which organisation (null = all), and for how long (null = without end)."""

    name: Annotated[str, Field(min_length=1, max_length=tokens.LONGEST_NAME)]
    role: Literal["viewer", "operator", "owner"]
    org: Annotated[str | None, Field(min_length=1, max_length=200)] = None
    for_seconds: Annotated[int, Field(ge=1, le=tokens.LONGEST_MS // 1000), WHOLE] | None = None


class Revoke(Model):
    """Why, perhaps."""

    why: Line | None = None


Tokens = listing(Token)


def _keyring(call: Call) -> Keyring:
    if call.keyring is None:
        raise GuardError("this listener has no tokens", status=404, code="not_found")
    return call.keyring


def _facts(one: kept.Token) -> dict[str, object]:
    now_ms = time.time_ns() // 1_000_000
    return {
        "id": one.id,
        "name": one.name,
        "role": one.role,
        "org": one.org or None,
        "last": one.last,
        "by": one.by,
        "at_ms": one.at_ms,
        "expires_ms": one.expires_ms or None,
        "revoked_ms": one.revoked_ms or None,
        "revoked_by": one.revoked_by or None,
        "live": tokens.state(one, now_ms) == "live",
    }


async def _list(call: Call) -> Told:
    """List all tokens that were ever made, the newest first."""
    asked: Page = call.query
    found = (await call.store.tokens.every())[asked.cursor : asked.cursor + asked.limit + 1]
    return Told(paged(Tokens, [Token.model_validate(_facts(one)) for one in found], asked))


async def _show(call: Call) -> Told:
    """One token."""
    one = next((one for one in await call.store.tokens.every() if one.id == call.path["id"]), None)
    if one is None:
        raise GuardError(f"there is no token {call.path['id'][:80]!r}", status=404, code="not_found")
    return Told(Token.model_validate(_facts(one)), etag=one.version)


async def _make(call: Call) -> Told:
    """Make a token. It is in this answer and nowhere else. With the first one, the log-in begins."""
    asked: Make = call.body
    for_ms = (asked.for_seconds or 0) * 1000
    made, secret = await _keyring(call).create(asked.name, asked.role, call.actor, org=asked.org or "", for_ms=for_ms)
    return Told(NewToken.model_validate(_facts(made) | {"secret": secret}), status=201, etag=made.version, noted=True)


async def _revoke(call: Call) -> Told:
    """Take a token back, everywhere and at once. The last owner's cannot be."""
    done = await _keyring(call).revoke(call.path["id"], call.actor, why=call.why(), expect=call.expect)
    return Told(Token.model_validate(_facts(done)), etag=done.version, noted=True)


ROUTES = (
    Route("GET", "/tokens", "owner", _list, Tokens, query=Page, about="whole"),
    Route("GET", "/tokens/{id}", "owner", _show, Token, about="whole", etag=True),
    Route(
        "POST",
        "/tokens",
        "owner",
        _make,
        NewToken,
        body=Make,
        example={"name": "on call", "role": "operator"},
        about="whole",
        status=201,
        errors=(404, 409),
    ),
    Route(
        "POST",
        "/tokens/{id}/revoke",
        "owner",
        _revoke,
        Token,
        body=Revoke,
        example={"why": "left the team"},
        about="whole",
        etag=True,
    ),
)
