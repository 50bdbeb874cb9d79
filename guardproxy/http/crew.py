"""The parent's view of its workers: spawns them, starts dead ones anew, asks them, drains them.

A worker that dies costs its own connections and nothing else; its holds are settled by the sweeper.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import socket
import sys
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from guardproxy.errors import GuardError
from guardproxy.http.control import Channel
from guardproxy.http.worker import DRAIN_SECONDS
from guardproxy.telemetry import Fleet, Snapshot

START_SECONDS = 30.0
"""A worker needs about a second to import and connect; on a loaded machine ten times that."""

ANSWER_SECONDS = 2.0
"""How long a worker may take to answer; /metrics must answer within a scrape's time-out."""

SHORTEST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""Seconds before a dead worker is started anew; doubled each time, so that a crash loop does not burn the machine."""

_HEALTHY_SECONDS = 30.0  # one that lived so long is not in a crash loop

_log = logging.getLogger(__name__)


class Member:
    """One worker process. `name` differs between any two; `document` is the configuration that it serves."""

    def __init__(self, start: Mapping[str, object], process: asyncio.subprocess.Process, channel: Channel) -> None:
        self.name = str(start["name"])
        self.document = start.get("document")
        self.process = process
        self.channel = channel
        self.is_ready = False
        self.marks: set[str] = set()  # begin the names of its attempts in the store: one more with each reload
        self._answers: dict[str, asyncio.Future[Mapping[str, Any]]] = {}

    @classmethod
    async def spawn(cls, start: Mapping[str, object]) -> Member:
        """Start a process and tell it what it is to serve (the fields of `worker.Start`)."""
        ours, theirs = socket.socketpair()
        channel = await Channel.over(ours)
        try:
            with theirs:
                command = (sys.executable, "-m", "guardproxy.http.worker", str(theirs.fileno()))
                process = await asyncio.create_subprocess_exec(
                    *command, pass_fds=(theirs.fileno(),), stdin=asyncio.subprocess.DEVNULL
                )
        except BaseException:
            channel.close()
            raise
        try:
            await channel.send("start", **start)
        except BaseException:
            channel.close()
            process.kill()
            await process.wait()
            raise
        return cls(start, process, channel)

    async def ask(self, do: str, answer: str, seconds: float, **fields: object) -> Mapping[str, Any] | None:
        """Send a message and wait for the one that answers it; None when it does not come in time."""
        future = self._answers.get(answer)
        if future is None:
            future = self._answers[answer] = asyncio.get_running_loop().create_future()
            await self.channel.send(do, **fields)
        try:
            return await asyncio.wait_for(asyncio.shield(future), seconds)
        except TimeoutError:
            self._answers.pop(answer, None)
            return None

    async def swap(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Have it serve another configuration: None where it does not answer, else `wrong` says why it cannot."""
        answer = await self.ask("reload", "reloaded", START_SECONDS, document=document)
        if answer is not None and not answer["wrong"]:
            self.document = document
        return answer

    async def listen(self, told: Callable[[Member, Mapping[str, Any]], None]) -> None:
        """Hand on what the worker says until it is gone."""
        while (message := await self.channel.receive()) is not None:
            told(self, message)
            future = self._answers.pop(str(message.get("do")), None)
            if future is not None and not future.done():
                future.set_result(message)
        self.channel.close()


class Crew:
    """`size` workers. `start(name)` says what a new one is to serve.

    `died(mark)` is told of one that ended by itself.
    """

    def __init__(
        self,
        size: int,
        start: Callable[[str], Mapping[str, object]],
        fleet: Fleet,
        died: Callable[[str], Coroutine[object, object, None]] | None = None,
    ) -> None:
        self._died = died
        self.fleet = fleet
        self._start = start
        self._size = size
        self._members: dict[int, Member] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._first: list[asyncio.Future[str]] = []
        self._stopping = False
        self._document: Mapping[str, Any] | None = None

    @property
    def ready(self) -> int:
        """How many workers serve."""
        return sum(member.is_ready for member in self._members.values())

    async def open(self) -> None:
        """Start all of them; returns when all serve. Raises GuardError with the words of the first that cannot."""
        loop = asyncio.get_running_loop()
        self._first = [loop.create_future() for _ in range(self._size)]
        for slot in range(self._size):
            self._spawn_task(self._keep(slot))
        try:
            for first in asyncio.as_completed(self._first, timeout=START_SECONDS):
                if wrong := await first:
                    raise GuardError(wrong)
        except TimeoutError as error:
            raise GuardError(f"a worker did not start within {START_SECONDS:.0f} s") from error

    async def collect(self) -> None:
        """Bring `fleet` up to date; a worker that does not answer keeps its last snapshot."""
        members = [member for member in self._members.values() if member.is_ready]
        await asyncio.gather(*(member.ask("snapshot", "snapshot", ANSWER_SECONDS) for member in members))

    async def reload(self, document: Mapping[str, Any], before: Mapping[str, Any]) -> str:
        """Swap the configuration in every worker, or in none; what was wrong, or nothing."""
        members = [member for member in self._members.values() if member.is_ready]
        answers = await asyncio.gather(*(member.swap(document) for member in members))
        wrong = [str(answer["wrong"]) if answer else "a worker did not answer" for answer in answers]
        said = next((text for text in wrong if text), "")
        if said:
            for member in members:
                await member.swap(before)
            return said
        self._document = document
        for member in self._members.values():
            self._bring_up(member)
        return ""

    def _bring_up(self, member: Member) -> None:
        """A worker that was about to start when the configuration was swapped has the one before."""
        if member.is_ready and self._document is not None and member.document != self._document:
            _log.info("worker %s is told of the configuration that was swapped in meanwhile", member.name)
            self._spawn_task(_swapped(member, self._document))

    async def drain(self) -> None:
        """Have all of them finish what they do and exit; kill what is left after that."""
        self._stopping = True
        members = list(self._members.values())
        for member in members:
            await member.channel.send("drain")
        ends = [asyncio.get_running_loop().create_task(member.process.wait()) for member in members]
        if ends:
            _, late = await asyncio.wait(ends, timeout=DRAIN_SECONDS + 10)
            if late:
                _log.warning("%d workers did not end in time and are killed", len(late))
        self.kill()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=5)

    def renew(self) -> None:
        """Have every worker drain; new ones take over as they end."""
        for member in self._members.values():
            if member.process.returncode is None:
                member.process.terminate()

    def kill(self) -> None:
        """End all of them at once."""
        self._stopping = True
        for member in self._members.values():
            if member.process.returncode is None:
                member.process.kill()

    async def _keep(self, slot: int) -> None:
        pause = SHORTEST_PAUSE
        for generation in itertools.count():
            began = time.monotonic()
            try:
                await self._live(slot, f"w{slot}.{generation}")
            except Exception as error:  # noqa: BLE001 - no memory, no descriptors: it is said and tried again
                self._cannot(slot, f"a worker cannot be started: {type(error).__name__}: {error}")
            if self._stopping:
                return
            pause = SHORTEST_PAUSE if time.monotonic() - began > _HEALTHY_SECONDS else min(2 * pause, LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _live(self, slot: int, name: str) -> None:
        """One worker from its start to its end."""
        member = await Member.spawn(self._start(name))
        self._members[slot] = member
        listening = self._spawn_task(member.listen(self._told))
        code = await member.process.wait()
        await asyncio.wait({listening}, timeout=ANSWER_SECONDS)  # its last words: the final snapshot
        member.is_ready = False
        self.fleet.retire(name)
        self._tell_first(slot, f"a worker ended with code {code} before it served")
        if not self._stopping:
            _log.warning("worker %s (pid %d) ended with code %d", name, member.process.pid, code)
            if self._died is not None:
                for mark in member.marks:
                    self._spawn_task(self._died(mark))

    def _told(self, member: Member, message: Mapping[str, Any]) -> None:
        slot = next((slot for slot, known in self._members.items() if known is member), None)
        if mark := str(message.get("mark", "")):
            member.marks.add(mark)
        match message.get("do"):
            case "ready":
                member.is_ready = True
                self._bring_up(member)
                self._tell_first(slot, "")
            case "failed":
                self._cannot(slot, str(message["wrong"]))
            case "snapshot":
                self.fleet.put(member.name, Snapshot.from_json(str(message["snapshot"]).encode()))

    def _cannot(self, slot: int | None, wrong: str) -> None:
        """At the start whoever waits for it says so; later the log does."""
        if slot is not None and not self._first[slot].done():
            self._first[slot].set_result(wrong)
        elif not self._stopping:
            _log.warning("%s", wrong)

    def _tell_first(self, slot: int | None, wrong: str) -> None:
        if slot is not None and not self._first[slot].done():
            self._first[slot].set_result(wrong)

    def _spawn_task(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


async def _swapped(member: Member, document: Mapping[str, Any]) -> None:
    await member.swap(document)
