"""The store for a command: that of the URL, else the embedded one, which a command may start and stop by itself."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

from guardproxy._upstreams import without_password
from guardproxy.config import Config
from guardproxy.core import commands
from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.errors import ConfigError, GuardError
from guardproxy.http.terminal import visible
from guardproxy.store import embedded
from guardproxy.store._scripts import Retention
from guardproxy.store.redis import Store

T = TypeVar("T")

PATIENCE_MS = 5000
"""A person waits longer than a request may."""


ELSEWHERE = "that of another proxy is reached with its --config FILE or --data-dir DIR"
"""Said where a store has not what was looked for: it may be the wrong one."""


def store_of(config: Config, org: str = DEFAULT_ORG) -> str:
    """Which store a command asks, in words: passwords left out."""
    whose = "" if org == DEFAULT_ORG else f", organisation {org}"
    if not config.store.url:
        return f"the store in {config.data_dir}{whose}"
    shown, _, _ = without_password(config.store.url).partition("?")  # options may hold another password
    return f"the store at {shown}{whose}"


def options(file: Path | None, data_dir: str | None, org: str = DEFAULT_ORG) -> str:
    """The options with which other commands reach the store of this one, from any folder, and what is of `org` there;
    with a blank in front.
    """
    given = {"--config": file, "--data-dir": data_dir}
    paths = {option: Path(path).expanduser().absolute() for option, path in given.items() if path}
    return "".join(f" {option} {shlex.quote(str(path))}" for option, path in paths.items()) + commands.of(org)


def retention(config: Config) -> Retention:
    """For how long the store is to keep runs, and what waits for people."""
    return Retention(config.store.runs_hours, config.store.people_days)


def nothing(told: str, config: Config, org: str = DEFAULT_ORG) -> str:
    """What a list says that is empty: of which store, and how another one is asked."""
    return f"{told} in {store_of(config, org)}; {ELSEWHERE}"


NAMED = 5
"""Organisations that are named; of more it is said how many."""


def others(what: str, orgs: Sequence[str]) -> str:
    """Below a list of one organisation's: which others have any; "" = none has."""
    more = f" and {len(orgs) - NAMED} more" if len(orgs) > NAMED else ""
    return f"{what}: {', '.join(map(visible, orgs[:NAMED]))}{more} (--org NAME)" if orgs else ""


def more(cursor: int | str) -> str:
    """Below a list that is not all there is: how to go on."""
    return f"there are more: --cursor {cursor} lists those behind these, --limit N more at once"


def ask(config: Config, work: Callable[[Store], Awaitable[T]], *, fresh: bool = False) -> T:
    """Do `work` with the store, a running proxy's too. Raises StoreError when it does not answer, and ConfigError for
    a data directory on which no proxy ever ran, unless a `fresh` one will do.
    """
    with ExitStack() as stack:
        path = None
        if not config.store.url:
            if not fresh:
                _was_served(config.data_dir)
            running = embedded.start(config.data_dir)
            stack.callback(running.stop)
            path = running.socket_path
        try:
            return asyncio.run(_ask(config, path, work))
        except GuardError as error:
            if error.code != "not_found":
                raise
            told = f"{error.message} ({store_of(config)} was asked; {ELSEWHERE})"
            raise GuardError(told, status=error.status, code=error.code, param=error.param) from error


def _was_served(data_dir: Path) -> None:
    """A command looks at what a proxy left, or leaves behind; it makes no store where none ever was."""
    if not (data_dir / embedded.LOCK).exists():
        missing = "holds no guardproxy store" if data_dir.is_dir() else "does not exist"
        message = f"the data directory {data_dir} {missing}: no proxy has run on it; give its --data-dir or --config"
        raise ConfigError(message, param="store.data_dir")


async def _ask(config: Config, path: str | None, work: Callable[[Store], Awaitable[T]]) -> T:
    section = config.store
    store = await Store.connect(
        section.url,
        socket_path=path,
        timeout_ms=PATIENCE_MS,
        files=section.tls,
        replicas=section.wait_replicas,
        kept=retention(config),
    )
    try:
        await store.check_schema()
        return await work(store)
    finally:
        await store.close()


async def unknown(store: Store, org: str, session: str) -> GuardError:
    """What to say of a session that is not there, naming some that are."""
    known = [one.session for one in await store.list_sessions(org, 5)]
    newest = f"; the newest are {', '.join(known)}" if known else "; it has none at all"
    told = f"the store has no session {session!r}{newest}; {commands.whose(visible(org))}"
    return GuardError(told, status=404, code="not_found")
