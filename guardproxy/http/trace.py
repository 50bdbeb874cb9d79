"""`guardproxy trace`: what a session did, read from the store; with the embedded one also while no proxy runs."""

from __future__ import annotations

from rich.console import Console

from guardproxy.config import Config
from guardproxy.http import reach
from guardproxy.store.redis import Store
from guardproxy.telemetry.looptable import loop_table
from guardproxy.telemetry.record import TurnRecord, read_record


def show(config: Config, org: str, session: str) -> None:
    """Print the loop table of `session`. Raises GuardError when there is none, naming some that there are."""
    records = reach.ask(config, lambda store: read(store, org, session))
    Console().print(loop_table(records, title=session))


async def read(store: Store, org: str, session: str) -> list[TurnRecord]:
    """The turns of a session. Raises GuardError when there is none, naming some that there are."""
    session = session.encode("utf-8", "replace").decode()  # a terminal may pass bytes that are no text
    raw = await store.records(org, session)
    if not raw:
        raise await reach.unknown(store, org, session)
    return [read_record(one) for one in raw]
