"""The ledger of usage as files: a day a file, a row a line (JSON). Then Redis need not keep history.

At least once: a file is written whole, beside its place, and moved there. The running day's is `.part.jsonl`, written
anew every few minutes; a day that is over gets its last file once, and again where an answer of that day that was made
in the background is settled later. A line's `id` is the same each time: who reads twice counts the later one.
Several proxies may write to one folder: they write the same.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from pathlib import Path
from urllib.parse import quote

import orjson

from guardproxy._settings import UsageSection
from guardproxy.core.usage import BY, FIELDS, Row, day_of, days, payer
from guardproxy.core.windows import DAY_MS
from guardproxy.store.redis import Store

EVERY_S = 300.0
"""Seconds between two looks: what a store that is lost for good takes with it is at most so new."""

KEPT_DAYS = 400
"""Days after which the store forgets by itself (`account.lua`)."""

GRACE_MS = 60_000
"""Milliseconds for which a day that is over is not yet taken for whole: no script is under way for so long."""

_log = logging.getLogger(__name__)


class Exporter:
    """Writes files to the section's `folder`, and takes days out of the store that are older than `keep_days`."""

    def __init__(self, store: Store, section: Callable[[], UsageSection]) -> None:
        self._store = store
        self._section = section
        self._next_s = 0.0
        self._swept = ""
        self._failing = False
        self._looked: dict[Path, int] = {}

    async def step(self) -> None:
        """Called often; does something once in a while. `StoreError` without the store."""
        if time.monotonic() < self._next_s:
            return
        await self.round()
        self._next_s = time.monotonic() + EVERY_S

    async def round(self) -> None:
        """Write what is new, forget what is old."""
        now_ms, section = await self._store.usages.now_ms(), self._section()
        orgs, today = await self._store.orgs(), day_of(now_ms)
        if section.folder and not await self._export(section.folder, orgs, now_ms):
            return
        if section.keep_days < KEPT_DAYS and self._swept != today:
            await self._forget(orgs, section.keep_days, now_ms)
            self._swept = today

    async def _export(self, where: str, orgs: Iterable[str], now_ms: int) -> bool:
        """Whether all is on the disk."""
        folder = await asyncio.to_thread(Path(where).expanduser)
        try:
            for org in orgs:
                await self._write(folder / quote(org, safe=""), org, now_ms)
        except OSError as error:
            if not self._failing:
                _log.error("usage cannot be written to %s: %s; it stays in the store", folder, error.strerror)
            self._failing = True
            return False
        self._failing = False
        return True

    async def _write(self, folder: Path, org: str, now_ms: int) -> None:
        last, there = day_of(now_ms - GRACE_MS), await asyncio.to_thread(_files, folder)
        since = self._looked.get(folder)
        back = KEPT_DAYS if since is None else 2
        again = await self._store.usages.corrected(org, (since or 0) - GRACE_MS)
        for day in again:
            if f"{day}.jsonl" in there and (rows := await self._store.usages.day(org, day)):
                await asyncio.to_thread(_write, folder, day, lines(rows), over=True)
        for day in days(day_of(now_ms - back * DAY_MS), day_of(now_ms)):
            over = day < last
            if f"{day}.jsonl" in there:
                continue
            rows = await self._store.usages.day(org, day)
            if rows:
                await asyncio.to_thread(_write, folder, day, lines(rows), over=over)
        self._looked[folder] = now_ms

    async def _forget(self, orgs: Iterable[str], keep: int, now_ms: int) -> None:
        for org in orgs:
            for day in days(day_of(now_ms - KEPT_DAYS * DAY_MS), day_of(now_ms - (keep + 1) * DAY_MS)):
                await self._store.usages.forget(org, day)


def lines(rows: Iterable[Row]) -> bytes:
    """Rows as JSON lines, in an order that stays."""
    return b"".join([orjson.dumps(_line(row)) + b"\n" for row in sorted(rows, key=lambda row: row.by)])


def _line(row: Row) -> dict[str, object]:
    said = f"{row.org}\n{row.day}\n{payer(row.by)}"
    name = blake2b(said.encode("utf-8", "replace"), digest_size=12).hexdigest()
    told = {"id": name, "org": row.org, "day": row.day}
    return told | dict(zip(BY, row.by, strict=True)) | dict(zip(FIELDS, row.sums, strict=True))


def _files(folder: Path) -> frozenset[str]:
    return frozenset(one.name for one in folder.iterdir()) if folder.is_dir() else frozenset()


def _write(folder: Path, day: str, content: bytes, *, over: bool) -> None:
    """Whole or not at all, and on the disk before it is seen there."""
    folder.mkdir(parents=True, exist_ok=True)
    part, beside = folder / f"{day}.part.jsonl", folder / f".{day}.{os.getpid()}.tmp"
    with beside.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    beside.replace(folder / f"{day}.jsonl" if over else part)
    if over:
        part.unlink(missing_ok=True)
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
