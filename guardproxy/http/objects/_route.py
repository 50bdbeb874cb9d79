"""What a route is, what it gets, and what it answers. `http.admin_v1` does all that is the same for every one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from guardproxy.core.windows import Budget
from guardproxy.errors import GuardError
from guardproxy.http.approvals import Desk
from guardproxy.http.auditing import Actor
from guardproxy.http.budgeting import Budgeting
from guardproxy.http.keyring import Keyring as Tenants
from guardproxy.http.objects._kinds import Model
from guardproxy.http.sessions import Runs
from guardproxy.http.standing import Standing
from guardproxy.http.switch import Switch
from guardproxy.http.tokens import Keyring
from guardproxy.store.audit import Entry
from guardproxy.store.redis import Store


@dataclass(slots=True)
class Call:
    """One request that was admitted. `body` and `query` are of the route's models; `org` is the one that it is about.

    `expect`: the etag of If-Match, "" = any. `hash_key`: `secrets.Keys.key_hash`. `standing`: the configuration of the
    proxy that is asked; None where none runs. `in_file`: the budgets of the configuration.
    """

    actor: Actor
    org: str
    path: Mapping[str, str]
    body: Any
    query: Any
    expect: str
    store: Store
    desk: Desk
    runs: Runs
    keyring: Keyring | None
    switch: Switch | None
    hash_key: bytes
    standing: Standing | None
    in_file: tuple[Budget, ...] = ()

    def budgets(self) -> Budgeting:
        """The budgets of the organisation that the request is about."""
        return Budgeting(self.store, self.org, self.in_file)

    def tenants(self) -> Tenants:
        """Orgs, teams and keys, to be changed in the name of who asks."""
        return Tenants(self.store.registry, self.hash_key, self.by())

    def only(self, org: str) -> None:
        """`GuardError` 403 where the token is for another organisation than `org`, whether there is one or not."""
        if self.actor.org not in ("", org):
            raise GuardError(f"this token is for {self.actor.org} alone", status=403, code="other_org")

    def by(self) -> str:
        """Whose name is kept with a change. A token's name is never left out: the request may say anything."""
        said = str(getattr(self.body, "by", None) or "")
        if self.actor.kind != "token":
            return said or self.actor.name
        return f"{said} (token {self.actor.name})" if said else self.actor.name

    def why(self) -> str:
        """The reason that was given."""
        return str(getattr(self.body, "why", None) or "")

    def unchanged(self, etag: str) -> None:
        """`GuardError` 412 where the caller saw another state than the one that `etag` stands for."""
        if self.expect not in ("", etag):
            raise GuardError("it is not as you saw it: get it again", status=412, code="stale")


@dataclass(frozen=True, slots=True)
class Told:
    """An answer. `raw` instead of `body`: JSON as it is. `entry`: for the audit; every change has one.

    `noted`: the store wrote it with the change, in one step.
    """

    body: Model | None = None
    raw: bytes = b""
    status: int = 200
    etag: str = ""
    entry: Entry | None = None
    noted: bool = False


Work = Callable[[Call], Awaitable[Told]]


@dataclass(frozen=True, slots=True)
class Route:
    """One route. Its `work` says in its docstring what it does; that is in the document.

    `about`: org (its objects belong to an organisation, ?org= says which), whole (to none: a token for one organisation
    is refused), either (the route sees to it). `etag`: its object has a state, which answers say; changes take
    If-Match. `errors`: statuses beside those that every such route has. `example`: of a body.
    """

    method: str
    path: str
    role: str
    work: Work
    out: type[Any]
    body: type[Model] | None = None
    query: type[Model] | None = None
    about: str = "org"
    etag: bool = False
    status: int = 200
    also: tuple[int, ...] = ()
    errors: tuple[int, ...] = ()
    example: Mapping[str, Any] | None = None

    @property
    def changes(self) -> bool:
        """Whether it changes something."""
        return self.method != "GET"

    @property
    def name(self) -> str:
        """How it is known in a document: `post_sessions_id_pause`."""
        words = self.path.replace("{", "").replace("}", "").replace(".", "_").strip("/").split("/")
        return "_".join([self.method.lower(), *words])

    def statuses(self) -> list[int]:
        """All that it may answer with but 200 and its like."""
        usual = {400, 401, 403, 503, *self.errors}
        usual |= {404} if "{" in self.path else set()
        usual |= {409, 412} if self.changes and self.etag else set()
        usual |= {413, 415} if self.body is not None else set()
        return sorted(usual)
