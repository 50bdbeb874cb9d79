"""`guardproxy trace`: what a session did, read from the store (with the embedded one also while no proxy runs), or
from a file: a log, or recorded spans.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from rich.console import Console

from guardproxy import secrets
from guardproxy.config import Config
from guardproxy.core.scoped_exemption import moment
from guardproxy.errors import ConfigError
from guardproxy.http import entitled, reach
from guardproxy.http.in_words import standing
from guardproxy.http.sealed import EDITED, Sealer
from guardproxy.http.terminal import visible
from guardproxy.store.redis import Store
from guardproxy.store.runs import Change
from guardproxy.telemetry import reading
from guardproxy.telemetry.looptable import WIDE, loop_table
from guardproxy.telemetry.record import TurnRecord, read_record

SHOWN = 200
"""Characters of edited arguments and of an answer that are shown; `guardproxy approvals show` has them whole."""


def show(config: Config, org: str, session: str, where: str = "") -> None:
    """Print the loop table of `session`. Raises GuardError when there is none, naming some that there are.

    `where`: options with which commands reach its store.
    """
    reads = entitled.typist(config, "viewer", org).role != "viewer"

    async def work(store: Store) -> tuple[list[TurnRecord], list[tuple[int, str]], list[str]]:
        sealer = _sealer(config) if reads else None  # there is a store, and so a secret
        records = await read(store, org, session, sealer)
        people = await _people(store, org, session, sealer)
        return records, people, await standing(store, org, session, where)

    records, people, stands = reach.ask(config, work)
    table(records, session, people, stands)


def show_file(file: Path, session: str, org: str = "") -> None:
    """Print the loop table of `session` from a log with decision lines, or from recorded spans.

    Raises GuardError where it has none, ConfigError where it cannot be read.
    """
    table(reading.run(file, session, org), session)


def table(
    records: Sequence[TurnRecord], session: str, people: Sequence[tuple[int, str]] = (), stands: Sequence[str] = ()
) -> None:
    """Print it. `people`: when somebody did something, and what; `stands`: lines below."""
    console = Console(markup=False, highlight=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDE
    console.print(loop_table(records, title=visible(session), width=console.width, people=people))
    for line in stands:
        console.print(line, soft_wrap=True)


async def read(store: Store, org: str, session: str, sealer: Sealer | None = None) -> list[TurnRecord]:
    """The turns of a session; with `sealer`, what the model was told in them. Raises GuardError when there is none,
    naming some that there are.
    """
    session = session.encode("utf-8", "replace").decode()  # a terminal may pass bytes that are no text
    raw = await store.records(org, session)
    if not raw:
        raise await reach.unknown(store, org, session)
    opened = partial(sealer.open_told, session) if sealer is not None else None
    return [read_record(one, opened) for one in raw]


def _sealer(config: Config) -> Sealer | None:
    """What opens what people wrote, where the secret is known here."""
    try:
        found = secrets.find(os.environ, config.data_dir, shared_store=bool(config.store.url))
    except ConfigError:
        return None
    return Sealer(secrets.derive(found).ledger)


async def _people(store: Store, org: str, session: str, sealer: Sealer | None) -> list[tuple[int, str]]:
    """What was decided of the run beside its turns: when, by whom, why."""
    changes: Sequence[Change] = await store.runs.history(org, session)
    return [(one.at_ms, await _told(store, org, one, sealer)) for one in changes if not one.what.startswith("asked ")]


async def _told(store: Store, org: str, change: Change, sealer: Sealer | None) -> str:
    verb, _, about = change.what.partition(" ")
    what = f"{visible(change.what)} by {visible(change.by) or 'nobody'}"
    if verb in ("approved", "answered", "denied", "expired"):
        what = f"approval {about} {verb} by {visible(change.by) or 'nobody'}{await _edited(store, org, about, sealer)}"
    why = f": {visible(change.why)}" if change.why else ""
    return f"{moment(change.at_ms)}: {what}{why}"


async def _edited(store: Store, org: str, approval: str, sealer: Sealer | None) -> str:
    """What a person wrote in the place of what the model had written."""
    found = await store.approvals.get(org, approval)
    if found is None or not found.edited:
        return ""
    held = sealer.open_held(approval, found.edited, EDITED) if sealer else None
    if held is None:
        return ", with words of their own (sealed under another secret)"
    told = f"the arguments {held.arguments}" if held.arguments else f"the answer {held.answer}"
    return f", with {visible(told, SHOWN)}"
