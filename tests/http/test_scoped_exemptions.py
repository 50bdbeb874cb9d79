"""What a worker knows of the exemptions: read once a version, kept while the store is away, hits told later."""

from __future__ import annotations

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.scoped_exemption import ScopedExemption
from guardproxy.core.view import View
from guardproxy.errors import StoreError
from guardproxy.http.scoped_exemptions import ScopedExemptions
from tests.core.talk import ask, user

ONE = ScopedExemption("l1", "cycle", "session", "s", 1000)
PRINTER = Fingerprinter(b"k")
ASK = ask(user("go"))


class FakeLabels:
    def __init__(self) -> None:
        self.version = 7
        self.away = False
        self.reads = 0
        self.told: list[tuple[str, str, int]] = []

    async def standing(self, org: str) -> tuple[int, tuple[ScopedExemption, ...]]:
        self.reads += 1
        if self.away:
            raise StoreError("gone")
        return self.version, (ONE,) if self.version else ()

    async def hit(self, org: str, label: str, hits: int) -> None:
        if self.away:
            raise StoreError("gone")
        self.told.append((org, label, hits))


def view(exempt: int, *, session: str = "s", now_ms: int = 0, degraded: bool = False) -> View:
    return View(session, "main", 1, now_ms, exempt=exempt, degraded=degraded)


async def test_a_version_is_read_once() -> None:
    known = ScopedExemptions(lambda: labels)  # type: ignore[arg-type, return-value]
    labels = FakeLabels()

    assert [await known.of(ASK, view(7), "o", PRINTER) for _ in range(3)] == [(ONE,)] * 3
    assert labels.reads == 1
    assert await known.of(ASK, view(7, session="t"), "o", PRINTER) == ()
    assert await known.of(ASK, view(7, now_ms=1000), "o", PRINTER) == ()
    labels.version = 8
    assert await known.of(ASK, view(8), "o", PRINTER) == (ONE,)
    assert labels.reads == 2
    assert await known.of(ASK, view(8), "another org", PRINTER) == (ONE,)
    assert labels.reads == 3


async def test_those_known_hold_while_the_store_is_away() -> None:
    known = ScopedExemptions(lambda: labels)  # type: ignore[arg-type, return-value]
    labels = FakeLabels()
    await known.of(ASK, view(7), "o", PRINTER)
    labels.away = True

    assert await known.of(ASK, view(0, degraded=True), "o", PRINTER) == (ONE,)
    assert labels.reads == 1
    assert await known.of(ASK, view(9), "o", PRINTER) == (ONE,)  # a new version that cannot be read
    labels.away, labels.version = False, 9
    await known.of(ASK, view(9), "o", PRINTER)
    assert labels.reads == 3


async def test_hits_are_told_together_and_not_lost() -> None:
    known = ScopedExemptions(lambda: labels)  # type: ignore[arg-type, return-value]
    labels = FakeLabels()
    for _ in range(3):
        known.hit("o", ("l1",))
    labels.away = True
    await known.pay()
    known.hit("o", ("l1", "l2"))
    labels.away = False
    await known.pay()
    await known.pay()

    assert labels.told == [("o", "l1", 4), ("o", "l2", 1)]
