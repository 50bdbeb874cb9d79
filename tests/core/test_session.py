"""Whose turn it is and what it adds: pairing, rounds, links, boundaries, digests, the window."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from guardproxy.core import rounds, session
from guardproxy.core.fingerprint import Fingerprinter, unpack
from guardproxy.core.model import Ask, Call, Flag, Kind
from guardproxy.core.view import Identity, TurnFact
from tests.as_written import as_written
from tests.core.talk import PRINTER, Json, ask, called, result, said, steps, system, user, view_of

TASK = user("Do it.")
LONG = "This is a summary of what was done. " * 8


A, B = Call("f", '{"x": 1}', "call_aaaaaaaaa"), Call("g", "{}", "call_bbbbbbbbb")
LINKS: dict[str, tuple[list[Call], str, int]] = {
    # how many links; the last column of comments: with the head / without
    "calls with ids": ([A, B], "", 3),  # ids, round / ids
    "short ids": ([Call("f", "{}", "call_1")], "", 2),
    "the same id twice": ([A, Call("g", "{}", A.id)], "", 2),
    "no ids": ([Call("f", "{}"), Call("g", "{}")], "", 1),
    "a text": ([], "Yes.", 1),
    "a long text": ([], LONG, 2),
    "nothing": ([], " ", 0),
}


@pytest.mark.parametrize("name", LINKS)
def test_links(name: str) -> None:
    calls, text, amount = LINKS[name]
    head, theirs = (identity(TASK, tenant=tenant).head for tenant in ("org", "other org"))
    found = session.links(PRINTER, "org", head, calls, text)
    shared = set(found) & set(session.links(PRINTER, "org", "other head", calls, text))

    assert len(set(found)) == len(found) == amount
    assert shared == set(found[1 if not calls else 2 :]), "only what is specific by itself counts under another head"
    assert not set(found) & set(session.links(PRINTER, "other org", theirs, calls, text))


SAME_ROUND: dict[str, tuple[list[Call], str, list[Call], str, bool]] = {
    "another order": ([A, B], "", [B, A], "", True),
    "other ids": ([A], "", [A._replace(id="z")], "", True),
    "spelled otherwise": ([A], "", [A._replace(arguments='{ "x":1 }')], "", True),
    "text beside calls": ([A], "Now.", [A], "", True),
    "other arguments": ([A], "", [A._replace(arguments='{"x": 2}')], "", False),
    "one more": ([A], "", [A, A], "", False),
    "a text": ([], "Yes.", [], "yes.", True),
    "another text": ([], "Yes.", [], "No.", False),
    "a text, a call": ([], "f", [Call("f", "")], "", False),
}


@pytest.mark.parametrize("name", SAME_ROUND)
def test_round_digest(name: str) -> None:
    calls, text, others, words, same = SAME_ROUND[name]

    assert (session.round_digest(PRINTER, calls, text) == session.round_digest(PRINTER, others, words)) is same


def identity(*messages: Json, tenant: str = "org", **more: str) -> Identity:
    return session.identify(ask(*messages, **more), PRINTER, tenant)


IDENTITIES: dict[str, Callable[[], bool]] = {
    "the same head": lambda: identity(TASK).head == identity(TASK, said("x"), user("y")).head,
    "another task": lambda: identity(TASK).head != identity(user("Other.")).head,
    "another system text": lambda: identity(system("a"), TASK).head != identity(system("b"), TASK).head,
    "another tenant": lambda: identity(TASK).head != identity(TASK, tenant="x").head,
    "fresh": lambda: identity(system("a"), TASK).fresh and not identity(TASK).links,
    "not fresh": lambda: not identity(TASK, called(("f", "{}", "a"))).fresh,
    "links are those of the newest round": lambda: (
        identity(TASK, called(("f", "{}", "a")), result("1", "a"), said("Done."), user("Go on.")).links
        == session.links(PRINTER, "org", identity(TASK).head, (), "Done.")
    ),
    "an empty answer is known by what it stands behind": lambda: all(
        identity(*before, nothing, user("Well?")).links
        == session.unanswered(ask(*before), PRINTER, identity(TASK).head)
        != identity(*before, user("x"), nothing, user("Well?")).links
        for before in ([TASK], [TASK, called(("f", "{}", "a")), result("1", "a")], [TASK, said("x"), user("y")])
        for nothing in (said(""), said(" "), {"role": "assistant", "content": None})
    ),
    "an empty answer to another tenant": lambda: (
        identity(TASK, said(""), user("Well?")).links != identity(TASK, said(""), user("Well?"), tenant="x").links
    ),
    "an empty answer is not spoken": lambda: not identity(TASK, said(""), user("Mine.")).spoken,
    "spoken": lambda: identity(TASK, said("Shown."), user("Mine.")).spoken,
    "not spoken": lambda: (
        not any(
            identity(TASK, *more).spoken
            for more in (
                (),
                (said("Shown."),),
                (said("Shown."), user(" ")),
                (said("Shown."), HARNESS),
                (said("[guardproxy] This run was ended."), user("Go on.")),
                (called(("f", "{}", "a")), result("1", "a"), user("Go on.")),
            )
        )
    ),
    "a declared id": lambda: identity(TASK, session="run-1", thread="t").session == "run-1",
    "an id that could break a key": lambda: (
        identity(TASK, session="a\x1fb é", thread="x y").session == "a%1Fb%20%C3%A9"
        and identity(TASK, session="a", thread="x y").thread == "x%20y"
        and identity(TASK, session="会话一").session != identity(TASK, session="项目二").session
    ),
}


@pytest.mark.parametrize("name", IDENTITIES)
def test_identify(name: str) -> None:
    assert IDENTITIES[name]()


def observe(*messages: Json, at_ms: int = 5) -> TurnFact:
    return session.observe(ask(*messages), PRINTER, at_ms)


def kinds(fact: TurnFact) -> str:
    return " ".join(unpack(one).kind.name for part in fact.rounds for one in part.facts)


AGAIN = user("You have tools available, use them.")
HARNESS = user("Observation: 3 files")
BOUNDARIES = {
    # a boundary stands in front of the answer that new words from the user followed (case B18)
    "calls alone": ((called(("f", "{}", "a")), result("1", "a")), "CALL"),
    "words after a text": ((said("Done."), user("Go on.")), "BOUNDARY TEXT"),
    "a text without words after it": ((said("Done."),), ""),
    "a harness's form": ((said("Done."), HARNESS), "TEXT"),
    "the same words again": ((said("x"), AGAIN, said("y"), AGAIN), "BOUNDARY TEXT TEXT"),
    "the task's own words again": ((said("x"), TASK), "TEXT"),
    "words after a call": ((called(("f", "{}", "a")), result("1", "a"), user("Well?")), "CALL"),
    "words after our own text": ((said("[guardproxy] This run was ended."), user("Go on.")), "TEXT"),
    "words after nothing": ((said(" "), user("Well?")), "EMPTY"),
    "an unanswered call": ((called(("f", "{}", "a")),), "CALL"),
}


@pytest.mark.parametrize("name", BOUNDARIES)
def test_boundaries_inline(name: str) -> None:
    messages, expected = BOUNDARIES[name]

    assert kinds(observe(TASK, *messages)) == expected


def test_what_a_round_counts() -> None:
    (part,) = observe(TASK, called(("f", "{}", "a"), ("f", "{}", "b"), ("f", '{"x":1}', "c"))).rounds
    plain, other = (PRINTER.call(Call("f", arguments)).hex() for arguments in ("{}", '{"x":1}'))

    assert part.counts == {"tool:f": 3, f"call:{plain}": 1, f"call:{other}": 1}, "twins of a round are one call"
    assert [bool(unpack(fact).flags & Flag.ROUND_START) for fact in part.facts] == [True, False, False]
    assert [bool(unpack(fact).flags & Flag.UNANSWERED) for fact in part.facts] == [True, True, True]


def test_facts_carry_the_time_of_their_turn() -> None:
    """The memo keeps facts without it: the same round an hour later must not come with the old time."""
    messages = (TASK, called(("f", "{}", "a")), result("1", "a"))
    times = [[unpack(one).at_ms for part in observe(*messages, at_ms=at).rounds for one in part.facts] for at in (5, 9)]

    assert times == [[5], [9]]
    fact = observe(*messages, at_ms=7)
    assert [unpack(one).at_ms for one in (fact.boundary, fact.blank)] == [7, 7]
    assert [unpack(one).kind for one in (fact.boundary, fact.blank)] == [Kind.BOUNDARY, Kind.EMPTY]


def test_other_results_are_other_facts() -> None:
    one, two = (observe(TASK, called(("f", "{}", "a")), result(text, "a")).rounds[0] for text in ("1", "2"))

    assert one.digest == two.digest
    assert one.facts != two.facts


DIGESTS: dict[str, tuple[tuple[Json, ...], bool]] = {
    "the same": ((TASK, called(("f", "{}", "a")), result("1", "a")), True),
    "another result": ((TASK, called(("f", "{}", "a")), result("2", "a")), False),
    "another id": ((TASK, called(("f", "{}", "b")), result("1", "b")), False),
    "other arguments": ((TASK, called(("f", '{"x":1}', "a")), result("1", "a")), False),
    "one message more": ((TASK, called(("f", "{}", "a")), result("1", "a"), user("Well?")), False),
    "another task": ((user("Other."), called(("f", "{}", "a")), result("1", "a")), False),
}


@pytest.mark.parametrize("name", DIGESTS)
def test_conversation_digest(name: str) -> None:
    messages, same = DIGESTS[name]
    base = observe(TASK, called(("f", "{}", "a")), result("1", "a"))

    assert (observe(*messages, at_ms=99).conversation == base.conversation) is same


def test_conversation_digest_is_the_same_from_a_short_tail() -> None:
    """A worker that knows the run reads less of it; a retry on another worker must still be one."""
    history = [part for n in range(30) for part in (called(("f", f'{{"n":{n}}}', f"i{n}")), result(f"r{n}", f"i{n}"))]
    short, whole = (session.observe(ask(TASK, *history, short=s), PRINTER, 0) for s in (True, False))

    assert short.conversation == whole.conversation
    assert short.rounds == whole.rounds[-len(short.rounds) :]
    assert len(short.rounds) < len(whole.rounds)


USERS = {
    "the task": ((), "Do it."),
    "words after an answer": ((said("Done."), user("Go on.")), "Go on."),
    "two messages": ((said("Done."), user("Go"), user("on.")), "Go\non."),
    "none since the model spoke": ((called(("f", "{}", "a")), result("1", "a")), None),
    "a harness's form": ((said("Done."), HARNESS), None),
    "blank": ((said("Done."), user(" \n")), None),
}


@pytest.mark.parametrize("name", USERS)
def test_last_user_text(name: str) -> None:
    messages, expected = USERS[name]

    assert observe(TASK, *messages).user == ("" if expected is None else PRINTER.text(expected).hex())


@pytest.mark.parametrize("a_round", [1, 3, 40])
def test_window_is_bounded(a_round: int) -> None:
    """The window is whole rounds, the newest of them, as many as reach its size and not one more."""
    history: list[Json] = []
    for n in range(60):
        ids = [f"i{n}.{k}" for k in range(a_round)]
        history += [
            called(*(("f", f'{{"n":{n},"k":{k}}}', i) for k, i in enumerate(ids))),
            *(result("r", i) for i in ids),
        ]
    fact = observe(TASK, *history)
    sizes = [len(part.facts) for part in fact.rounds]

    assert sum(sizes) >= session.WINDOW
    assert sum(sizes[1:]) < session.WINDOW
    assert fact.rounds[-1].index == 1 + 59 * (1 + a_round)
    assert fact.count == 1 + 60 * (1 + a_round)


@as_written
def test_cost_does_not_grow_with_the_history() -> None:
    """Counted in steps: a fresh printer that sees 40 or 400 rounds makes as many."""

    class Counting(Fingerprinter):
        made = 0

        def step(self, *args: object, **more: object) -> object:  # type: ignore[override]
            self.made += 1
            return super().step(*args, **more)  # type: ignore[arg-type]

    made = []
    for amount in (40, 400):
        printer = Counting(b"k")
        history = [p for n in range(amount) for p in (called(("f", f'{{"n":{n}}}', f"i{n}")), result(f"r{n}", f"i{n}"))]
        session.observe(ask(TASK, *history), printer, 0)
        made.append(printer.made)

    assert made[0] == made[1] > 0


TRAILS = {
    "": ("", 0),
    "a b c": ("a b c", 0),
    "a | b c": ("b c", 2),
    "a | b | c": ("c", 4),
    "a b |": ("", 3),
    "a | | b": ("b", 3),
}


@pytest.mark.parametrize("ring", TRAILS, ids=lambda ring: ring or "nothing")
@pytest.mark.parametrize("lost", [0, 100])
def test_trail_begins_at_the_last_boundary(ring: str, lost: int) -> None:
    expected, first = TRAILS[ring]
    kept = steps(ring)
    trail = session.trail(view_of(kept, steps=len(kept) + lost))

    assert [one.tool for one in trail.steps] == expected.split()
    assert trail.first == first + lost
    assert trail.last == len(kept) + lost - 1


def test_an_ask_without_messages_of_its_own_is_no_trouble() -> None:
    """All roles mixed up: nothing raises, nothing is paired that does not belong together."""
    odd: Ask = ask(result("1", "a"), called(("f", "{}", "a")), result("2", "a"), result("3", "b"))

    assert [turn.results[0] and turn.results[0].text for turn in rounds.rounds(odd)] == ["2"]
    assert session.identify(odd, PRINTER, "org").head
    assert kinds(session.observe(odd, PRINTER, 0)) == "CALL"


SHELL = system("You interact with a shell. Give exactly one command in a code block; it is executed.")
LS = "I look.\n```bash\nls\n```"
FINISH = "Action: Finish[42]"
REPR = "Calling tools:\n[{{'id': '{0}', 'function': {{'name': 'read', 'arguments': {{'path': 'a'}}}}}}]"
BLOB = "Thought: x\n<code>\nf()\n"


def bare(*messages: Json) -> Ask:
    """A request without tools."""
    return replace(ask(*messages), tools=())


def test_a_call_in_a_text_is_the_step_of_the_same_call() -> None:
    written = session.observe(bare(SHELL, TASK, said(LS), user("a b")), PRINTER, 5)
    messages = (SHELL, TASK, called(("bash", '{"command": "ls"}', "c1")), result("a b", "c1"))
    native = session.observe(ask(*messages), PRINTER, 5)

    assert written.rounds[0].facts == native.rounds[0].facts
    assert written.rounds[0].counts == native.rounds[0].counts
    assert written.rounds[0].digest == session.round_digest(PRINTER, (), LS)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([SHELL, TASK, said(LS), user("a b")], ""),
        ([TASK, said(LS), user("a b")], "a b"),
        ([TASK, said(LS), user("Observation: a b")], ""),
        ([TASK, said(FINISH), user("Observation: ok"), user("And why?")], "And why?"),
        ([SHELL, TASK, said("Done."), user("And b?")], "And b?"),
        ([TASK, said(BLOB), user("Observation: ok"), user("hurry")], ""),
    ],
)
def test_results_in_user_texts_are_nobodys_words(messages: list[Json], words: str) -> None:
    fact = session.observe(bare(*messages), PRINTER, 0)

    assert fact.user == (PRINTER.text(words).hex() if words else "")
    assert session.identify(bare(*messages), PRINTER, "org").spoken is bool(words)


def test_words_after_an_answer_in_a_call_begin_a_span() -> None:
    fact = session.observe(bare(TASK, said(FINISH), user("Observation: ok"), user("And why?")), PRINTER, 0)

    assert kinds(fact) == "CALL BOUNDARY"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ((), (BLOB, BLOB + "</code>\n" + REPR.format("call_123456"))),
        ((), (BLOB + "</code>", BLOB + "</code>\n" + REPR.format("call_123456"))),
        ((Call("read", '{"path":"a"}', "call_123456"),), ("", REPR.format("call_123456"))),
    ],
    ids=["code", "code with its end", "a call"],
)
def test_an_answer_is_found_in_what_smolagents_made_of_it(given: tuple[Call, ...], kept: tuple[str, str]) -> None:
    links = session.links(PRINTER, "org", session.identify(bare(TASK), PRINTER, "org").head, given, kept[0])
    found = session.identify(bare(TASK, said(kept[1]), user("Observation: x")), PRINTER, "org").links

    assert links
    assert links == found
