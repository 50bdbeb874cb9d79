"""Who pays: org > team > key (> user), and what the key may use. Pure; `http.tenancy` finds it out for a request.

Everything that is kept of a key's runs is bound to the key: names of sessions begin with its id, digests are made with
it. Another key, of the same org too, cannot read, continue or steer them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import translate
from functools import lru_cache
from urllib.parse import quote

from guardproxy.core.model import value
from guardproxy.core.windows import Budget
from guardproxy.errors import BadAsk

DEFAULT_ORG = "default"
"""The org of a proxy that asks for no keys, and of keys that name none."""

LISTING = ("/v1/models", "/v1/models/*")
"""Routes that a virtual key may read, whatever it says: which models there are."""

SEPARATOR = ":"
"""Stands between the id of a key, which has none, and what a client calls its session."""


@value
class Tenant:
    """Who pays for a request. `key` is the id of the key, never its secret; "" where no keys are asked for.

    `models`, `routes` (globs) and `upstreams`: what may be used; no models, no upstreams = all of them. `routes` are
    those that guardproxy passes on unread.
    """

    org: str = DEFAULT_ORG
    team: str = ""
    key: str = ""
    user: str = ""
    policy: str = ""
    models: tuple[str, ...] = ()
    upstreams: tuple[str, ...] = ()
    budgets: tuple[Budget, ...] = ()
    routes: tuple[str, ...] = ("*",)

    @property
    def scope(self) -> str:
        """What digests of this tenant's conversations are made with."""
        return f"{self.org}/{self.key}" if self.key else self.org

    @property
    def owner(self) -> str:
        """What names of this tenant's sessions begin with; "" where no keys are asked for."""
        return f"{self.key}{SEPARATOR}" if self.key else ""

    def may_ask(self, model: str) -> None:
        """`BadAsk` for a model that the key is not for: 404, as providers say it of a model one has no access to; and
        for a key in its place, which would be logged and counted as one.
        """
        if masked(model) != model:
            said = "a key stands in `model`, from where it would be passed on and logged; name the model there"
            raise BadAsk(said, code="misplaced_api_key", param="model")
        if self.models and not matches(model, self.models):
            said = f"the model {model[:200]!r} does not exist for this key; it may use {', '.join(self.models)}"
            raise BadAsk(said, status=404, code="model_not_found", param="model")

    def may_reach(self, upstream: str) -> None:
        """`BadAsk` for the only upstream that there is, where the key is for others."""
        if self.upstreams and upstream not in self.upstreams:
            said = f"this key is for the upstreams {', '.join(self.upstreams)}, and there is none of them here"
            raise BadAsk(said, status=403, code="upstream_not_allowed")

    def may_pass(self, method: str, route: str) -> None:
        """`BadAsk` for a route that is passed on unread, where the key is not for it."""
        if self.routes == ("*",) or matches(route, self.routes):
            return
        if method in ("GET", "HEAD") and matches(route, LISTING):
            return
        said = f"{method} {route[:200]} is not open to this key: guardproxy would pass it on unread and unmetered. "
        said += self._opened(route)
        raise BadAsk(said, status=403, code="route_not_allowed", param="url")

    def _opened(self, route: str) -> str:
        """How such a route is opened. It is a client's word: only a plain one stands in a command."""
        shown = route if _ROUTE.fullmatch(route) else "ROUTE"
        if self.models:
            return (
                "A key for certain models has no such routes; an owner of all organisations makes another one for "
                f"them: guardproxy keys create --route {shown}"
            )
        had = f", and one --route for each that it has ({', '.join(self.routes)})" if self.routes else ""
        return f"An owner of all organisations opens it: guardproxy keys update {self.key} --route {shown}{had}"


_ROUTE = re.compile(r"/[\w./-]{1,100}", re.ASCII)

NOBODY = Tenant()
"""The tenant of every request where no keys are asked for."""


def matches(name: str, globs: Sequence[str]) -> bool:
    """Whether one of the globs (`*`, `?`, `[…]`) matches the whole name. Case matters, as it does to providers."""
    return any(_pattern(glob).fullmatch(name) for glob in globs)


@lru_cache(maxsize=1024)
def _pattern(glob: str) -> re.Pattern[str]:
    return re.compile(translate(glob))


SECRET = re.compile(r"gp-[0-9A-Za-z]{42}")
"""What a virtual key looks like (`http.virtual_key` makes them)."""


_SECRETS = re.compile(r"(gp-)[0-9A-Za-z]{42}|(gpa-)[0-9A-Za-z_-]{43}")


def masked(text: str) -> str:
    """A text without any virtual key or operator's token in it: what clients call their runs and users, and what people
    say of a change, is stored and logged.
    """
    return _SECRETS.sub(r"\1\2", text) if "gp-" in text or "gpa-" in text else text


_PLAIN = re.compile(r"[\x21-\x7e]+")


def named(name: str) -> str:
    """A client's name in plain characters; other ones are written as percent codes, so that no two names meet."""
    return name if not name or _PLAIN.fullmatch(name) else quote(name, safe="!#$&'()*+,/:;=?@[]~", errors="replace")


def owned(owner: str, session: str) -> str:
    """A session's name as it is kept: under its owner, without any key in it.

    What has its owner in front already is the id that we gave.
    """
    session = masked(session)
    if not owner or not session or session.startswith(owner):
        return session
    return owner + session
