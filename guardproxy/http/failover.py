"""A turn's call where there are several upstreams: another one is asked where one fails, before the first byte.

The one retry layer there. What may have been carried out is asked again only where the provider itself said that it
failed (429, 5xx), or no connection was made. Each upstream asked is an attempt in the report, under the turn's hold.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from guardproxy.api.passthrough import renamed
from guardproxy.errors import StoreError, UpstreamError
from guardproxy.http import route as routing
from guardproxy.http.exchange import Answer
from guardproxy.http.upstreams import Member, Upstreams, group_name
from guardproxy.telemetry.report import FAILOVER

if TYPE_CHECKING:
    from guardproxy.http.app import Proxy
    from guardproxy.http.turn import Turn

Group = tuple[Member, ...]


class Sent(NamedTuple):
    """What is to be sent. `received`: the client's headers that may go on; `identity`: see `Upstream`."""

    body: bytes
    received: Mapping[str, str]
    identity: bool


async def post(turn: Turn, upstreams: Upstreams, sent: Sent, allowed: Sequence[str] = ()) -> Answer:
    """The beginning of the first answer of an upstream that does not fail, else that of the last one asked.

    `allowed`: names of those that may be asked, nothing = all.
    """
    done = turn.outcome
    group = upstreams.group(turn.ask.model, allowed)
    stay = await _stay(turn, upstreams, group)
    member = upstreams.first(group, stay)
    asked = [member]
    while True:
        try:
            answer = await _ask(turn, upstreams, member, sent)
        except UpstreamError as error:
            upstreams.failed(member, error.code)
            count(turn.proxy, member, done.reason, 0, error.code)
            failed, following = error.code, upstreams.following(group, asked) if error.unsent else None
            if following is None:
                raise
        else:
            count(turn.proxy, member, done.reason, answer.status, "")
            if not upstreams.answered(member, answer.status, answer.header("retry-after")):
                _stays(turn, upstreams, group, member, stay)
                return answer
            failed, following = str(answer.status), upstreams.following(group, asked)
            if following is None:
                return answer
            answer.end()
        done.pass_over(None, failed, moved=True)
        done.reason, member = FAILOVER, following
        asked.append(member)


async def _ask(turn: Turn, upstreams: Upstreams, member: Member, sent: Sent) -> Answer:
    """One upstream's answer: `relay.post` for one of several."""
    done, upstream = turn.outcome, member.upstream
    name, path = member.named(turn.ask.model), turn.path
    body = renamed(sent.body, turn.ask.model, name) if name else sent.body
    if name and turn.deployed:
        path = routing.deployed(path, name)
    untouched = body is turn.ask.body
    headers = upstream.request_headers(sent.received, path, identity=sent.identity, plain=not untouched)
    done.upstream = upstream
    done.sent, done.whole, done.upstream_started_ns = True, not turn.ask.stream, time.time_ns()
    done.background, done.most = turn.ask.background, turn.ask.max_tokens or 0
    done.upstream_status = 0
    with upstreams.trying(member):
        answer = await upstream.post(path, turn.body.raw if untouched else body, headers)
    done.upstream_status = done.status = answer.status
    return answer


def count(proxy: Proxy, member: Member, reason: str, status: int, error_type: str) -> None:
    """Count an attempt. `status` 0: there was no answer."""
    wrong = error_type or (str(status) if status >= 400 else "")
    labels = {"name": member.name, "reason": reason, "status_code": status or "", "error.type": wrong}
    proxy.telemetry.count("upstream.attempts", labels, 1)


async def _stay(turn: Turn, upstreams: Upstreams, group: Group) -> str:
    """The upstream where the turn's session was served; "" where it is new, or nobody knows."""
    if len(group) < 2 or not upstreams.rules.stays:
        return ""
    view, org = turn.seen, turn.opening.org
    known = upstreams.stay(f"{org} {view.session}", group)
    if known is not None:
        return known
    found = ""
    if not (view.new_session or view.degraded):
        with suppress(StoreError):
            found = await turn.proxy.books.stays.get(org, view.session, group_name(group))
    upstreams.stays(f"{org} {view.session}", group, found)
    return found


def _stays(turn: Turn, upstreams: Upstreams, group: Group, member: Member, stay: str) -> None:
    """Note where the session was served. The store is told only of what another worker would not do by itself."""
    if len(group) < 2 or not upstreams.rules.stays or member.name == stay:
        return
    session, org = turn.seen.session, turn.opening.org
    upstreams.stays(f"{org} {session}", group, member.name)
    if member.name != (stay or group[0].name) and not turn.seen.degraded:
        turn.proxy.spawn(_tell(turn, group_name(group), member.name))


async def _tell(turn: Turn, group: str, name: str) -> None:
    with suppress(StoreError):  # the next worker finds out by itself
        await turn.proxy.books.stays.keep(turn.opening.org, turn.seen.session, group, name)
