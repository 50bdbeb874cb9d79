"""The admin API, /admin/v1: approvals and sessions, as JSON. Errors are problem+json (RFC 9457).

It has no log-in yet, so it answers on the loopback only: whoever can reach the listener could approve calls, the agent
that asked for one too. A page in the operator's browser must not be able to either: what changes something asks for a
JSON content type, which no page can send elsewhere without being asked first; and only names of the loopback are
answered, so that a page cannot have a name of its own pointed here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from aiohttp import web

from guardproxy.core.tool_rules import ToolRule
from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import approvals, people, sessions
from guardproxy.http.app import Proxy
from guardproxy.http.approvals import Desk
from guardproxy.http.sealed import Sealer
from guardproxy.http.sessions import VERBS, Runs
from guardproxy.store.redis import Store

MOST, USUAL = 200, 50
"""Items of a page, at most and unless told."""

FAR = sessions.LISTED
"""Items from the start that a cursor may point to: nothing is listed that is farther."""

BODY = 1 << 19
"""Bytes of a request's body: an answer of `people.ANSWER` characters fits, however it is escaped."""

PROBLEM = "application/problem+json"
"""The content type of errors."""

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminV1:
    """The routes under /admin/v1. `key`: of the ledger, 32 bytes. `forbidden`: as of `Desk`."""

    def __init__(
        self,
        store: Store,
        key: bytes,
        org: str = Proxy.org,
        forbidden: Callable[[], tuple[ToolRule, ...]] = tuple,
    ) -> None:
        sealer = Sealer(key)
        self._desk = Desk(store, sealer, org, forbidden)
        self._runs = Runs(store, sealer, org)

    def application(self) -> web.Application:
        """The aiohttp application, to be added to the listener's under its prefix."""
        app = web.Application(middlewares=[_problems, _no_strangers])
        get, post = app.router.add_get, app.router.add_post
        get("/approvals", self._approvals)
        get("/approvals/{id}", self._approval)
        post("/approvals/{id}/{verdict:approve|deny|answer}", self._decide)
        get("/sessions", self._sessions)
        get("/sessions/{id}", self._session)
        post(f"/sessions/{{id}}/{{verb:{'|'.join(VERBS)}}}", self._steer)
        post("/sessions/{id}/extend", self._extend)
        get("/sessions/{id}/checkpoint", self._checkpoint)
        post("/sessions/{id}/checkpoint/take", self._take)
        return app

    async def _approvals(self, request: web.Request) -> web.Response:
        """GET with `state` (pending unless told; any = all), `session`, `limit`, `cursor`."""
        query = _query(request, "state", "session", "limit", "cursor")
        state = query.get("state", "pending")
        found = await self._desk.listed("" if state == "any" else state)
        found = [one for one in found if query.get("session", one.approval.session) == one.approval.session]
        limit, skip = _page(query)
        return _paged([approvals.as_json(one, whole=False) for one in found[skip : skip + limit + 1]], limit, skip)

    async def _approval(self, request: web.Request) -> web.Response:
        return _json(approvals.as_json(await self._desk.shown(request.match_info["id"]), whole=True))

    async def _decide(self, request: web.Request) -> web.Response:
        """POST approve {"arguments": {…}}, deny {"why": "…"}, answer {"text": "…"}; each may say `by` whom."""
        one, verdict = request.match_info["id"], request.match_info["verdict"]
        own = {"approve": ("why", "arguments"), "deny": ("why",), "answer": ("text",)}[verdict]
        body = await _body(request, "by", *own)
        by, why = _text(body, "by", "admin"), _text(body, "why")
        if verdict == "approve":
            shown = await self._desk.approve(one, by, why, _arguments(body))
        elif verdict == "deny":
            shown = await self._desk.deny(one, by, why)
        else:
            shown = await self._desk.answer(one, by, _text(body, "text"))
        return _json(approvals.as_json(shown, whole=True))

    async def _sessions(self, request: web.Request) -> web.Response:
        """GET with `state`, `limit`, `cursor`."""
        query = _query(request, "state", "limit", "cursor")
        limit, skip = _page(query)
        found = await self._runs.listed(query.get("state", ""), limit + 1, skip)
        return _paged([sessions.as_json(one) for one in found], limit, skip)

    async def _session(self, request: web.Request) -> web.Response:
        return _json(sessions.whole_json(await self._runs.shown(request.match_info["id"])))

    async def _steer(self, request: web.Request) -> web.Response:
        """POST pause, resume, cut, reset: {"why": "…", "by": "…"}."""
        body = await _body(request, "by", "why")
        by, why = _text(body, "by", "admin"), _text(body, "why")
        run = await self._runs.act(request.match_info["verb"], request.match_info["id"], by, why)
        return _json(sessions.whole_json(run))

    async def _extend(self, request: web.Request) -> web.Response:
        """POST {"turns": 50, "cost_usd": 5, "why": "…"}: by how much to raise which limit."""
        body = await _body(request, "by", "why", *people.EXTENDABLE)
        amounts = {name: _number(body, name) for name in people.EXTENDABLE if name in body}
        by, why = _text(body, "by", "admin"), _text(body, "why")
        return _json(sessions.whole_json(await self._runs.extend(request.match_info["id"], by, why, amounts)))

    async def _checkpoint(self, request: web.Request) -> web.Response:
        return _kept(await self._runs.checkpoint(request.match_info["id"]))

    async def _take(self, request: web.Request) -> web.Response:
        """POST {"generation": 3}: go on from it. A second one to do so gets 409."""
        body = await _body(request, "by", "generation")
        generation = body.get("generation")
        if type(generation) is not int:
            raise BadAsk("must be the number that the checkpoint has", param="generation")
        return _kept(await self._runs.take(request.match_info["id"], generation, _text(body, "by", "admin")))


async def _body(request: web.Request, *known: str) -> dict[str, Any]:
    """The object that was sent; nothing is an empty one. Unknown names are refused: a slip must not be left out."""
    if request.content_type != "application/json":
        raise BadAsk("send Content-Type: application/json", status=415, code="unsupported_media_type")
    raw = await request.clone(client_max_size=BODY).read()
    try:
        body = people.strict(raw) if raw.strip() else {}
    except (ValueError, RecursionError) as error:
        raise BadAsk(f"the body is no JSON: {error}") from error
    if not isinstance(body, dict):
        raise BadAsk("the body must be a JSON object")
    _known(body, known)
    return body


def _query(request: web.Request, *known: str) -> Mapping[str, str]:
    _known(request.query, known)
    return request.query


def _known(given: Mapping[str, Any], known: Sequence[str]) -> None:
    for name in given:
        if name not in known:
            raise BadAsk(f"is not known here; there are {', '.join(known)}", param=name)


def _text(body: Mapping[str, Any], name: str, default: str = "") -> str:
    text = body.get(name)
    if text is None:
        return default
    if not isinstance(text, str):
        raise BadAsk("must be a text", param=name)
    return text


def _number(body: Mapping[str, Any], name: str) -> float:
    number = body[name]
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise BadAsk("must be a number", param=name)
    return number


def _arguments(body: Mapping[str, Any]) -> str | None:
    """The arguments as JSON text, given so or as an object."""
    given = body.get("arguments")
    return given if given is None or isinstance(given, str) else people.written(given)


def _page(query: Mapping[str, str]) -> tuple[int, int]:
    """How many items, and how many are skipped."""
    found = []
    for name, usual, least, most in (("limit", USUAL, 1, MOST), ("cursor", 0, 0, FAR)):
        text = query.get(name, str(usual))
        if not (text.isascii() and text.isdecimal() and len(text) < 9 and least <= int(text) <= most):
            raise BadAsk(f"must be a whole number from {least} to {most:,}", param=name)
        found.append(int(text))
    return found[0], found[1]


def _paged(items: Sequence[dict[str, object]], limit: int, skip: int) -> web.Response:
    """A page of `items`, of which there is one too many if another page follows."""
    more = len(items) > limit and skip + limit <= FAR
    return _json({"items": items[:limit], "next": str(skip + limit) if more else None})


def _json(value: object, status: int = 200, kind: str = "application/json") -> web.Response:
    return web.Response(body=orjson.dumps(value) + b"\n", status=status, content_type=kind)


def _kept(kept: sessions.Checkpoint) -> web.Response:
    return web.Response(body=sessions.kept_json(kept), content_type="application/json")


@web.middleware
async def _no_strangers(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """Refuse who comes over the network, or by a name that a page had pointed here."""
    local = request.transport.get_extra_info("sockname") if request.transport else None
    if not (local and _loopback(str(local[0]))):
        told = "the admin API has no log-in yet and answers on the loopback only; guardproxy approvals and sessions do"
        raise GuardError(f"{told} the same on the store", status=403, code="not_local")
    host = _name(request.host)
    if not (_loopback(host) or host == "localhost"):
        raise GuardError(f"{host} is no name of this machine; ask for 127.0.0.1", status=403, code="wrong_host")
    return await handler(request)


def _name(host: str) -> str:
    """The host without its port."""
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return name.rstrip(".").lower()


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


@web.middleware
async def _problems(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except GuardError as error:
        return _problem(error.status, error.message, error.code, error.param)
    except web.HTTPException as error:
        detail = f"{request.method} {request.path}: {error.reason.lower()}"
        return _problem(error.status, detail, {404: "not_found"}.get(error.status, "invalid_request"))


def _problem(status: int, detail: str, code: str, param: str | None = None) -> web.Response:
    title = HTTPStatus(status).phrase
    told = {"type": "about:blank", "title": title, "status": status, "detail": detail, "code": code, "param": param}
    return _json({name: value for name, value in told.items() if value is not None}, status, PROBLEM)
