"""`guardproxy trace`: what a session did, read from the store; with the embedded one also while no proxy runs."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from rich.console import Console

from guardproxy.config import Config
from guardproxy.errors import GuardError
from guardproxy.http.app import Proxy
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from guardproxy.telemetry.looptable import loop_table
from guardproxy.telemetry.record import TurnRecord, read_record


def show(config: Config, session: str) -> None:
    """Print the loop table of `session`. Raises GuardError when there is none, naming some that there are."""
    with ExitStack() as stack:
        path = None
        if not config.store.url:
            running = embedded.start(config.data_dir)
            stack.callback(running.stop)
            path = running.socket_path
        records = asyncio.run(_read(config, path, session))
    Console().print(loop_table(records, title=session))


async def _read(config: Config, path: str | None, session: str) -> list[TurnRecord]:
    store = await Store.connect(config.store.url, socket_path=path, timeout_ms=5000)
    try:
        raw = await store.records(Proxy.org, session)
        if not raw:
            known = [one.session for one in await store.list_sessions(Proxy.org, 5)]
            newest = f"; the newest are {', '.join(known)}" if known else "; it has none at all"
            raise GuardError(f"the store has no session {session!r}{newest}")
        return [read_record(one) for one in raw]
    finally:
        await store.close()
