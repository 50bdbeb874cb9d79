"""The admin API, /admin/v1: what is the same for every route. The routes are in `http.objects`, a file an object.

A request is admitted (`gate`: tokens and roles, or the loopback), read into the route's models, carried out, written to
the audit if it changed something, answered. Errors are problem+json (RFC 9457). What changes something asks for a JSON
content type, which no page in a browser can send elsewhere without being asked first.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote

import orjson
from aiohttp import web

from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.core.windows import Budget
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import objects, people
from guardproxy.http.approvals import Desk
from guardproxy.http.auditing import Actor, Notes
from guardproxy.http.gate import Gate, suffices
from guardproxy.http.objects import _read as reading
from guardproxy.http.objects._kinds import Document, Model
from guardproxy.http.objects._openapi import document
from guardproxy.http.objects._route import Call, Route, Told
from guardproxy.http.sealed import Sealer
from guardproxy.http.sessions import Runs
from guardproxy.http.standing import Standing
from guardproxy.http.switch import Switch
from guardproxy.http.tokens import Keyring
from guardproxy.store.redis import Store

BODY = 1 << 19
"""Bytes of a request's body: an answer of `people.ANSWER` characters fits, however it is escaped."""

PROBLEM = "application/problem+json"
"""The content type of errors."""

_log = logging.getLogger(__name__)
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_ETAG = re.compile(r'"([\x21\x23-\x7e]{1,200})"')


@dataclass(frozen=True, slots=True)
class Asked:
    """What came with a request, not yet read into the route's models."""

    path: Mapping[str, str]
    query: Mapping[str, str]
    body: Mapping[str, Any]
    expect: str


class AdminV1:
    """The routes under /admin/v1. `key`: of the ledger, `hash_key`: of secrets, 32 bytes each; `org`: where a request
    names none.

    Without a gate there are no tokens: whoever sits at the same machine may do everything.
    """

    def __init__(
        self,
        store: Store,
        key: bytes,
        org: str = DEFAULT_ORG,
        *,
        gate: Gate | None = None,
        keyring: Keyring | None = None,
        switch: Switch | None = None,
        notes: Notes | None = None,
        hash_key: bytes = b"",
        budgets: Callable[[], tuple[Budget, ...]] = tuple,
        standing: Standing | None = None,
    ) -> None:
        self._standing = standing
        self._store = store
        self._hash_key = hash_key
        self._budgets = budgets
        self._sealer = Sealer(key)
        self._org = org
        self._gate = gate or Gate(keyring)
        self._keyring = keyring
        self._switch = switch
        self._notes = notes or Notes(store)
        itself = Route("GET", "/openapi.json", "viewer", self._document, Document, about="either")
        self.routes = (*objects.ROUTES, itself)
        self._told = b""

    def application(self) -> web.Application:
        """The aiohttp application, to be added to the listener's under its prefix."""
        app = web.Application(middlewares=[_problems])
        for route in self.routes:
            add = app.router.add_get if route.method == "GET" else partial(app.router.add_route, route.method)
            add(route.path, self._handler(route))  # with a GET goes a HEAD
        return app

    def _handler(self, route: Route) -> _Handler:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await self._serve(route, request)

        return handle

    async def _serve(self, route: Route, request: web.Request) -> web.Response:
        actor = await self._gate.admit(request, route.role)
        query = _query(request)
        org = self._org_of(route, query, actor)
        asked = Asked(dict(request.match_info), query, await _body(route, request), _expected(route, request))
        return _answer(await self._carry_out(route, actor, org, asked))

    async def ask(
        self, method: str, path: str, actor: Actor, query: Mapping[str, str], body: Mapping[str, Any]
    ) -> bytes:
        """What a request would be answered, as JSON: for whoever holds the store and needs no listener. `GuardError` as
        where there is one.
        """
        for route in self.routes:
            found = re.fullmatch(re.sub(r"\{(\w+)\}", r"(?P<\1>[^/]+)", route.path), path)
            if route.method == method and found is not None:
                suffices(actor, route.role)
                given = dict(query)
                org = self._org_of(route, given, actor)
                named = {name: unquote(text) for name, text in found.groupdict().items()}
                told = await self._carry_out(route, actor, org, Asked(named, given, body, ""))
                return _json(told)
        raise GuardError(f"there is no {method} {path}", status=404, code="not_found")

    async def _carry_out(self, route: Route, actor: Actor, org: str, asked: Asked) -> Told:
        body = reading.read(route.body, asked.body) if route.body is not None else None
        call = Call(
            actor=_named(actor, body),
            org=org,
            path=asked.path,
            body=body,
            query=reading.read(route.query or Model, asked.query),
            expect=asked.expect,
            store=self._store,
            desk=Desk(self._store, self._sealer, org),
            runs=Runs(self._store, self._sealer, org),
            keyring=self._keyring,
            switch=self._switch,
            hash_key=self._hash_key,
            in_file=self._budgets(),
            standing=self._standing,
        )
        told = await route.work(call)
        if told.entry is not None:
            await self._notes.note(told.entry)
        return told

    def _org_of(self, route: Route, query: dict[str, str], actor: Actor) -> str:
        """The organisation that a request is about. A token for one is never answered about another."""
        if route.about == "whole" and actor.org:
            told = f"this token is for {actor.org} alone; {route.path} is about all organisations"
            raise GuardError(told, status=403, code="other_org")
        if route.about != "org":
            return ""
        org = people.org("org", query.pop("org", actor.org or self._org))
        if actor.org not in ("", org):
            raise GuardError(f"this token is for {actor.org} alone", status=403, code="other_org")
        return org

    async def _document(self, _: Call) -> Told:
        """The API as an OpenAPI 3.1 document."""
        if not self._told:
            self._told = orjson.dumps(document(self.routes))
        return Told(raw=self._told)


def _named(actor: Actor, body: Any) -> Actor:
    """Who has no log-in is who they say they are, in the audit too."""
    said = people.line("by", str(getattr(body, "by", None) or ""))
    return replace(actor, name=said) if said and actor.kind == "local" else actor


async def _body(route: Route, request: web.Request) -> Mapping[str, Any]:
    """What was sent; nothing is an empty object. Unknown names are refused: a slip must not be left out.

    A DELETE needs no content type: no page in a browser can send one elsewhere without being asked first.
    """
    if route.body is None or (route.method == "DELETE" and not request.can_read_body):
        return {}
    if request.content_type != "application/json":
        raise BadAsk("send Content-Type: application/json", status=415, code="unsupported_media_type")
    raw = await request.clone(client_max_size=BODY).read()
    try:
        body = people.strict(raw) if raw.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadAsk(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadAsk("the body must be a JSON object")
    return body


def _query(request: web.Request) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, text in request.query.items():
        if name in found:
            raise BadAsk("is said twice", param=name)
        found[name] = text
    return found


def _expected(route: Route, request: web.Request) -> str:
    """The etag of If-Match. One that would not be looked at is refused: it would be taken for looked at."""
    sent = request.headers.getall("If-Match", [])
    if not sent:
        return ""
    if not (route.etag and route.changes):
        raise BadAsk("nothing is compared here", param="If-Match")
    found = _ETAG.fullmatch(sent[0].strip()) if len(sent) == 1 else None
    if sent == ["*"]:
        return ""
    if found is None:
        raise BadAsk("must be one etag, as it was answered: in quotes", param="If-Match")
    return found[1]


def _json(told: Told) -> bytes:
    return told.raw if told.body is None else told.body.model_dump_json().encode()


def _answer(told: Told) -> web.Response:
    headers = {"ETag": f'"{told.etag}"'} if told.etag else {}
    return web.Response(body=_json(told) + b"\n", status=told.status, content_type="application/json", headers=headers)


@web.middleware
async def _problems(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GuardError as error:
        return problem(error)
    except web.HTTPException as error:
        detail = f"{request.method} {request.path}: {error.reason.lower()}"
        code = {404: "not_found"}.get(error.status, "invalid_request")
        allowed = {name: text for name, text in error.headers.items() if name == "Allow"}
        return problem(GuardError(detail, status=error.status, code=code), allowed)
    except Exception:  # noqa: BLE001 - a fault of ours: its place is in the log, nothing of it is shown
        _log.exception("a request to the admin API failed inside guardproxy")
        return problem(GuardError("guardproxy failed on this request; its log says where", code="internal_error"))


def problem(error: GuardError, headers: Mapping[str, str] | None = None) -> web.Response:
    """An error as RFC 9457 wants it."""
    title = HTTPStatus(error.status).phrase
    told = {"type": "about:blank", "title": title, "status": error.status, "detail": error.message}
    told |= {"code": error.code} | ({"param": error.param} if error.param is not None else {})
    more = {"WWW-Authenticate": 'Bearer realm="guardproxy"'} if error.status == HTTPStatus.UNAUTHORIZED else {}
    body = orjson.dumps(told) + b"\n"
    return web.Response(body=body, status=error.status, content_type=PROBLEM, headers={**more, **(headers or {})})
