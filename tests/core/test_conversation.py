"""How a conversation began and where it stands: what the digests tell apart, and what they do not look at."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from guardproxy.core import conversation
from tests.core.talk import PRINTER, Json, ask, called, result, said, system, user

TASK = user("Do it.")
CALLED = called(("f", "{}", "a"))
DONE = result("1", "a")


def head(*messages: Json) -> str:
    return conversation.head(ask(*messages), PRINTER)


def stands(*messages: Json, upto: int | None = None, short: bool = False) -> str:
    return conversation.standing(ask(*messages, short=short), PRINTER, upto)


DIGESTS: dict[str, Callable[[], bool]] = {
    "a head stays": lambda: head(system("a"), TASK) == head(system("a"), TASK, CALLED, DONE, user("And now?")),
    "another task": lambda: head(TASK) != head(user("Other.")),
    "another system text": lambda: head(system("a"), TASK) != head(system("b"), TASK),
    "of one tenant": lambda: (
        len({conversation.of(tenant, digest, PRINTER) for tenant in "ab" for digest in ("1", "2")}) == 4
    ),
    "it stands where it stood": lambda: stands(TASK, CALLED, DONE) == stands(TASK, CALLED, DONE),
    "another result": lambda: stands(TASK, CALLED, DONE) != stands(TASK, CALLED, result("2", "a")),
    "another id": lambda: stands(TASK, CALLED) != stands(TASK, called(("f", "{}", "b"))),
    "other arguments": lambda: stands(TASK, CALLED) != stands(TASK, called(("f", '{"x":1}', "a"))),
    "one message more before the last four": lambda: (
        stands(TASK, said("x"), *[user("y")] * 4) != stands(TASK, *[user("y")] * 4)
    ),
    "another head before the last four": lambda: (
        stands(TASK, *[user("y")] * 4) != stands(user("Other."), *[user("y")] * 4)
    ),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_digests(name: str) -> None:
    assert DIGESTS[name]()


ROUND = [CALLED, DONE]


@pytest.mark.parametrize("history", [[], ROUND, [said("x"), user("y")], [*ROUND * 9, said("x"), user("y")]])
@pytest.mark.parametrize("more", [[], [user("Well?")], [user("Well?"), user("Hm?")]], ids=["0", "1", "2"])
@pytest.mark.parametrize("short", [False, True], ids=["whole", "short"])
def test_where_it_stood_is_told_from_what_came_later(history: list[Json], more: list[Json], short: bool) -> None:
    """Also where only the newest rounds of a long history are read: of both requests as many as it needs."""
    later = ask(*(before := [system("a"), TASK, *history]), said(""), *more, short=short)
    upto = len(later.tail) - len(more) - 1

    assert conversation.standing(later, PRINTER, upto) == stands(*before, short=short)
    assert conversation.standing(later, PRINTER, upto) != conversation.standing(later, PRINTER)
