"""What a server is told, call by call, with the keys of each and those that its scripts touch."""

from __future__ import annotations

import codecs
import contextlib
import functools
import re
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from redis.crc import key_slot

DOCS = Path(__file__).parents[2] / "docs" / "redis.md"
MANY = {"mget", "del", "unlink", "exists"}
"""All their words are keys."""

KEYLESS = {"ping", "info", "time", "wait", "asking", "cluster|slots", "client|setname", "script|load", "auth", "select"}
KEYLESS |= {"role"}
_WORD = re.compile(rb'"([^"\\]*(?:\\.[^"\\]*)*)"')


def granted() -> str:
    """The rights that the documentation gives the proxy's user, as one line."""
    found = re.search(r"^ACL SETUSER guardproxy on >PASSWORD (.+)$", DOCS.read_text("utf-8"), re.MULTILINE)
    assert found
    return found[1]


@functools.cache
def commands() -> frozenset[str]:
    return frozenset(word[1:] for word in granted().split() if word.startswith("+"))


@functools.cache
def heeded() -> frozenset[bytes]:
    """Commands of the proxy's; the others are a test's own look behind the store's back."""
    return frozenset({b"evalsha", *(one.encode() for one in commands())})


def keys_of(words: list[bytes]) -> list[bytes]:
    """The keys of a command of ours. Any other command is a question that this table must answer first."""
    name = words[0].decode().lower()
    if name == "evalsha":
        return words[3 : 3 + int(words[2])]
    if name in KEYLESS or f"{name}|{words[1].decode().lower() if len(words) > 1 else ''}" in KEYLESS:
        return []
    if name == "scan":
        return []  # what it finds is touched by other commands
    assert name in commands(), f"{name} is not among the rights in docs/redis.md"
    if name in MANY:
        return words[1:]
    return words[1:3] if name == "copy" else words[1:2]


@dataclass
class Call:
    """One command of a client's; with a script, what that did."""

    words: list[bytes]
    inner: list[list[bytes]] = field(default_factory=list)

    def slots(self) -> set[int]:
        return {key_slot(key) for words in (self.words, *self.inner) for key in keys_of(words)}


@dataclass
class Heard:
    """Filled by a thread. `wrong`: calls with keys in several slots; `scripts`: by their hash."""

    calls: int = 0
    wrong: list[str] = field(default_factory=list)
    scripts: set[str] = field(default_factory=set)
    commands: set[str] = field(default_factory=set)
    _last: Call | None = None

    def line(self, raw: bytes) -> None:
        head, _, rest = raw.partition(b"] ")
        words = [codecs.escape_decode(word)[0] if b"\\" in word else word for word in _WORD.findall(rest)]
        if not words:
            return
        if head.endswith(b" lua") and self._last:
            self._last.inner.append(words)
            return
        self.done()
        self._last = Call(words)

    def done(self) -> None:
        """The call before is over."""
        call, self._last = self._last, None
        if call is None or call.words[0].lower() not in heeded():
            return
        self.calls += 1
        self.commands |= {words[0].decode().lower() for words in (call.words, *call.inner)}
        if call.words[0].lower() == b"evalsha":
            self.scripts.add(call.words[1].decode())
        try:
            slots = call.slots()
        except AssertionError as error:
            self.wrong.append(str(error))
            return
        if len(slots) > 1:
            self.wrong.append(repr([call.words[:4], call.inner])[:500])


@contextlib.contextmanager
def heard(socket_path: str) -> Iterator[Heard]:
    """Listen to a server until the end; then everything was heard."""
    found, end = Heard(), b"the end of it"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.connect(socket_path)
        listening.sendall(b"MONITOR\r\n")
        stream = listening.makefile("rb")
        assert stream.readline() == b"+OK\r\n"

        def listen() -> None:
            with contextlib.suppress(ValueError):  # closed, where the end was not heard in time
                for raw in stream:
                    if end in raw:
                        return
                    found.line(raw)

        thread = threading.Thread(target=listen)
        thread.start()
        try:
            yield found
        finally:
            with socket.socket(socket.AF_UNIX) as last:
                last.connect(socket_path)
                last.sendall(b'ECHO "%s"\r\n' % end)
                last.recv(100)
            thread.join(20)
            found.done()
            stream.close()
