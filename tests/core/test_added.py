"""What a request adds to its thread: the rounds that the ring does not have yet, and their counters."""

from __future__ import annotations

import pytest

from guardproxy.core.added import new_facts
from guardproxy.core.lineage import Session, Thread
from guardproxy.core.view import RoundFact, TurnFact


def fact(*digests: str) -> TurnFact:
    rounds = [RoundFact(made, 2 + 2 * n, (made.encode(),), {f"call {made}": 1}) for n, made in enumerate(digests)]
    return TurnFact("conversation", 2 + 2 * len(rounds), tuple(rounds), "", b"boundary", b"blank")


@pytest.mark.parametrize(
    ("delivered", "taken", "count", "added"),
    [
        ("c", False, 6, [b"c"]),  # the answer, appended
        ("b", False, 6, [b"b", b"c"]),  # from the one delivered last on
        ("gone", False, 6, [b"c"]),  # rewritten by the client: what stands behind the last request
        ("c", True, 8, []),  # it was taken up before
    ],
)
def test_what_the_ring_does_not_have(delivered: str, taken: bool, count: int, added: list[bytes]) -> None:
    thread = Thread(Session("s", 0), "main", turn=1, delivered=delivered, taken=taken, count=count)
    assert new_facts(thread, fact("a", "b", "c")) == added
    assert thread.session.counts == {f"call {made.decode()}": 1 for made in added}
    assert thread.names == tuple(thread.session.counts)
    assert thread.taken is (taken or delivered != "gone")


def test_a_first_request_adds_all_that_it_has() -> None:
    assert new_facts(Thread(Session("s", 0), "main"), fact("a", "b")) == [b"a", b"b"]
