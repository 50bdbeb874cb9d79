"""`guardproxy sessions`, `approvals` and `trace` for a proxy on another machine (`--admin URL`), or as JSON: they ask
its admin API, where the commands in `handover` work on the store itself.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import TYPE_CHECKING, Any

from guardproxy import _extending

if TYPE_CHECKING:
    from guardproxy.config import Config
    from guardproxy.http.asking import Admin

ADMIN = "GUARDPROXY_ADMIN"
"""The environment variable with the admin listener's URL; `http.asking` says it, too."""

Query = Mapping[str, str]
Found = Mapping[str, Any]


def options(parser: Any) -> None:
    """Add the options that say so to a command's parser."""
    asked = "the admin listener of a proxy on another machine, whose store is asked (GUARDPROXY_ADMIN)"
    parser.add_argument("--admin", default="", metavar="URL", help=asked)
    parser.add_argument("--json", action="store_true", help="as the admin API answers it, in JSON")


def wanted(given: argparse.Namespace) -> bool:
    """Whether a command is to ask the admin API."""
    return bool(given.json or given.admin or os.environ.get(ADMIN, "").strip())


def part(given: argparse.Namespace) -> tuple[int, int]:
    """Which part of a list is asked for: how many, behind how many."""
    from guardproxy.errors import BadAsk  # noqa: PLC0415 - heavy

    limit, cursor = getattr(given, "limit", 10**6), getattr(given, "cursor", 0)
    if limit < 1:
        raise BadAsk("must be a number above 0", param="limit")
    if cursor < 0:
        raise BadAsk("must be a number, 0 or above", param="cursor")
    return limit, cursor


def run(config: Config, given: argparse.Namespace, kind: str, verb: str) -> None:
    """Carry out `guardproxy <kind> <verb>`. Errors are those of the API."""
    from guardproxy.http import asking  # noqa: PLC0415 - heavy, as all below

    admin = asking.admin(config, given.admin, getattr(given, "by", None) or "")
    if verb == "list":
        _list(admin, given, kind)
        return
    path = f"/{kind}/{asking.named(given.subject)}"
    query = {"org": given.org}
    if kind == "sessions" and verb == "checkpoint":
        _checkpoint(admin, given, path, query)
        return
    if verb == "show":
        found = admin.ask("GET", path, query)
        _print(given, found, lambda: _facts(found))
        return
    found = admin.ask("POST", f"{path}/{verb}", query, _said(given, verb))
    _print(given, found, lambda: _done(found, given, kind, verb))


def trace(config: Config, given: argparse.Namespace) -> None:
    """What a session did, turn by turn, and what people did to it."""
    from guardproxy.http import asking, terminal, trace as tracing  # noqa: PLC0415

    admin, query = asking.admin(config, given.admin), {"org": given.org}
    path = f"/sessions/{asking.named(given.session)}"
    turns, run = admin.ask("GET", f"{path}/turns", query), admin.ask("GET", path, query)
    on = run.get("to_go_on")  # an older proxy does not say
    found = {**turns, "history": run["history"], "state": run["state"], "to_go_on": on}

    def words() -> None:
        people = [(one["at_ms"], _changed(one)) for one in run["history"] if not one["what"].startswith("asked ")]
        stands = [f"state: {_state(run)}"] if on or run["state"] != "active" else []
        stands += [f"to go on: {terminal.visible(on)}"] if on else []
        tracing.table(turns["turns"], given.session, people, stands)

    _print(given, found, words)


def _print(given: argparse.Namespace, found: Any, words: Callable[[], None]) -> None:
    if given.json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
    else:
        words()


def _list(admin: Admin, given: argparse.Namespace, kind: str) -> None:
    from guardproxy.http import asking, reach, terminal  # noqa: PLC0415

    (most, behind), agent = part(given), getattr(given, "agent", "")
    which = {"agent": agent, "cursor": str(behind or "")}
    query = {"org": given.org, "state": given.state} | {name: text for name, text in which.items() if text}
    found = list(islice(asking.pages(admin, f"/{kind}", query), most + 1))
    more = reach.more(behind + most) if len(found) > most else ""
    del found[most:]
    heads, row = HEADS[kind]
    of = f" of agent {terminal.visible(agent)}" if agent else ""
    none = f"no {'further ' if behind else ''}{kind[:-1]}{of} is {given.state or 'there'} in org {given.org}"

    def words() -> None:
        terminal.show(heads, map(row, found), none)
        if more:
            print(more)
        if other := reach.others("other organisations", _others(admin, given.org)):
            print(other)

    _print(given, found, words)
    if more and given.json:  # what goes on to a program stays what it was
        print(more, file=sys.stderr)


def _others(admin: Admin, org: str) -> list[str]:
    """The other organisations that whoever asks may know of."""
    from guardproxy.core.tenant import DEFAULT_ORG  # noqa: PLC0415
    from guardproxy.http import asking  # noqa: PLC0415

    names = [name for one in asking.pages(admin, "/orgs", {}) if (name := str(one["name"])) not in (org, DEFAULT_ORG)]
    return [*([DEFAULT_ORG] if names and org != DEFAULT_ORG else []), *names]


def _checkpoint(admin: Admin, given: argparse.Namespace, path: str, query: Query) -> None:
    from guardproxy.http import terminal  # noqa: PLC0415

    take = {"generation": given.take}
    found = (
        admin.ask("GET", f"{path}/checkpoint", query)
        if given.take is None
        else admin.ask("POST", f"{path}/checkpoint/take", query, take)
    )
    raw = json.dumps(found, ensure_ascii=False).encode() + b"\n"
    if given.out:
        terminal.keep(given.out, raw)
        print(f"generation {found['generation']} of session {terminal.visible(found['session'])} is in {given.out}")
    else:
        sys.stdout.buffer.write(raw)
        sys.stdout.flush()


def _said(given: argparse.Namespace, verb: str) -> dict[str, Any]:
    """The body of a change."""
    if verb == "answer":
        return {"text": given.text}
    said: dict[str, Any] = {"why": given.why} if given.why else {}
    if verb == "extend":
        said |= _extending.amounts(given)
    if verb == "approve" and given.args is not None:
        said["arguments"] = given.args
    return said


def _done(found: Found, given: argparse.Namespace, kind: str, verb: str) -> None:
    from guardproxy.http import sessions, terminal  # noqa: PLC0415

    if kind == "approvals":
        who = terminal.visible(found["by"] or "nobody")
        print(f"approval {found['id']}: {found['state']} by {who}; {found['next']}")
    elif verb == "extend":
        name = terminal.visible(found["session"])
        print(f"session {name} has more ({_extending.told(given)}); it is {found['state']}")
    else:
        print(f"session {terminal.visible(found['session'])} {sessions.VERBS[verb]}")


def _facts(found: Found) -> None:
    """All that is to know of one, a fact a line; then its history."""
    from guardproxy.http import terminal  # noqa: PLC0415

    for name, value in found.items():
        if value in (None, "", [], {}) or name == "history":
            continue
        shown = _at(value) if name.endswith("_ms") else _text(value)
        print(f"{name.removesuffix('_ms'):<20} {terminal.visible(shown)}")
    for one in found.get("history", ()):
        print(f"{'':<20} {_changed(one)}")


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _changed(one: Found) -> str:
    """A line of a run's history."""
    from guardproxy.http import terminal  # noqa: PLC0415

    why = f": {terminal.visible(one['why'])}" if one["why"] else ""
    return f"{_at(one['at_ms'])}: {terminal.visible(one['what'])} by {terminal.visible(one['by']) or 'nobody'}{why}"


def _state(one: Found) -> str:
    from guardproxy.http import terminal  # noqa: PLC0415

    by = f" by {terminal.visible(one['by'])}" if one["by"] else ""
    why = f": {terminal.visible(one['why'], 60)}" if one["why"] else ""
    return f"{one['state']}{by}{why}"


def _session(one: Found) -> Iterable[str]:
    from guardproxy.http import in_words  # noqa: PLC0415

    return in_words.cells(one)


def _approval(one: Found) -> Iterable[str]:
    from guardproxy.http import approvals, terminal  # noqa: PLC0415

    state = approvals.stands(one["state"], one["by"], one["expires_ms"] - round(time.time() * 1000))
    about = "(not for this token)" if one["withheld"] else one["question"] or one["arguments"] or ""
    names = (terminal.visible(one["session"]), terminal.visible(one["tool"]))
    return (one["id"], _at(one["asked_ms"]), *names, state, terminal.visible(about, 120))


HEADS: Mapping[str, tuple[tuple[str, ...], Callable[[Found], Any]]] = {
    "sessions": (("session", "state", "outcome", "turns", "cost", "agent", "last rule", "last turn"), _session),
    "approvals": (("approval", "asked at", "session", "tool", "state", "wants"), _approval),
}
"""Heads of a list and what makes its rows."""


def _at(at_ms: int) -> str:
    from guardproxy.core.scoped_exemption import moment  # noqa: PLC0415

    return moment(at_ms)
