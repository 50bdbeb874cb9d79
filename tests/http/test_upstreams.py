"""Which upstream serves a model, in what order, and how long one is put aside. Over HTTP: `test_failover`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from guardproxy.errors import BadAsk
from guardproxy.http.upstream import Upstream
from guardproxy.http.upstreams import LONGEST, LONGEST_ASIDE_S, Member, Rules, Upstreams, group_name, seconds_of

RULES = Rules()
NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


class Clocked(Upstreams):
    """Three upstreams and a default, with a clock that stands still."""

    def __init__(self, rules: Rules = RULES, *, default: bool = True) -> None:
        self.now = 100.0
        self.asides: list[tuple[str, str]] = []
        members = [
            Member(Upstream("http://a/v1", name="a"), ("gpt-*", "o[13]")),
            Member(Upstream("http://b/v1", name="b"), ("gpt-4*", "claude-*")),
            Member(Upstream("http://c/v1", name="c"), ("*-mini",)),
        ]
        super().__init__(
            members,
            Upstream("http://d/v1", name="default") if default else None,
            rules,
            clock=lambda: self.now,
            on_aside=lambda name, reason: self.asides.append((name, reason)),
        )


GROUPS = {
    "gpt-4o-mini": "a,b,c",
    "gpt-4o": "a,b",
    "gpt-5": "a",
    "o3": "a",
    "o2": "default",
    "claude-x": "b",
    "x-mini": "c",
    "GPT-4o": "default",
    "": "default",
    "llama": "default",
}


@pytest.mark.parametrize("model", GROUPS)
def test_who_serves_a_model(model: str) -> None:
    upstreams = Clocked()

    assert group_name(upstreams.group(model)) == GROUPS[model]
    assert upstreams.group(model) is upstreams.group(model)


def test_names_that_are_none_are_not_remembered() -> None:
    upstreams = Clocked()
    member = Member(Upstream("http://a/v1"), ("*",), {"gpt-*": "x"})
    for number in range(3):
        name = f"gpt-{number}" * LONGEST
        assert group_name(upstreams.group(name)) == "a"
        assert member.named(name) == "x"

    assert (len(upstreams._groups), len(member._names)) == (0, 0)


def test_without_a_default() -> None:
    upstreams = Clocked(default=False)

    assert group_name(upstreams.group("")) == "a"
    assert [one.name for one in upstreams] == ["a", "b", "c"]
    for _ in range(2):  # remembered, too
        with pytest.raises(BadAsk, match="no upstream serves the model 'llama'") as wrong:
            upstreams.group("llama")
        assert wrong.value.status == 404


ALLOWED = {
    # model, what a key may use: who serves it
    "all": ("gpt-4o-mini", (), "a,b,c"),
    "some": ("gpt-4o-mini", ("c", "a", "gone"), "a,c"),
    "one": ("gpt-4o", ("b",), "b"),
    "none of them": ("gpt-4o", ("c",), ""),
    "not the default": ("llama", ("a",), ""),
    "the default": ("llama", ("default",), "default"),
    "without a model": ("", ("c", "b"), "b"),
    "without a model, the default": ("", ("default", "b"), "default"),
    "without a model, none": ("", ("gone",), ""),
}


@pytest.mark.parametrize("name", ALLOWED)
def test_who_may_be_used(name: str) -> None:
    model, allowed, served = ALLOWED[name]
    upstreams = Clocked()
    if served:
        assert group_name(upstreams.group(model, allowed)) == served
    else:
        with pytest.raises(BadAsk, match="no upstream serves "):
            upstreams.group(model, allowed)
    assert group_name(upstreams.group(model)), "nothing of it is remembered for others"


WAITS = {
    "20": 20,
    "0.5": 0.5,
    "0": 0,
    "-5": 0,
    "": 0,
    "soon": 0,
    "nan": 0,
    "inf": 0,
    "1e400": 0,
    "Mon, 30 Nov 2026 12:00:30 GMT": 30,
    "Mon, 30 Nov 2026 12:00:30": 30,
    "Mon, 30 Nov 2026 13:00:30 +0100": 30,
    "Mon, 30 Nov 2026 11:00:00 GMT": 0,
    "Mon, 99 Nov 2026 12:00:30 GMT": 0,
    "Mon, 30 Nov 99999999999999 12:00:30 GMT": 0,
}


@pytest.mark.parametrize("said", WAITS)
def test_retry_after(said: str) -> None:
    assert seconds_of(said, NOON) == WAITS[said]


ASIDE = {
    # status, Retry-After: seconds aside after one such answer, and whether another one is asked
    "429 for a time": (429, "20", 20, True),
    "429 for a year": (429, "31536000", LONGEST_ASIDE_S, True),
    "429": (429, "", 0, True),
    "503 for a time": (503, "7", 7, True),
    "500 for a time": (500, "7", 0, True),
    "200": (200, "20", 0, False),
    "404": (404, "20", 0, False),
    "499": (499, "", 0, False),
}


@pytest.mark.parametrize("name", ASIDE)
def test_put_aside_by_an_answer(name: str) -> None:
    status, said, seconds, another = ASIDE[name]
    upstreams = Clocked()
    group = upstreams.group("gpt-4o")

    assert upstreams.answered(group[0], status, said, NOON) is another
    assert upstreams.first(group) is group[bool(seconds)]
    upstreams.now += seconds
    assert upstreams.first(group) is group[0]
    assert upstreams.asides == ([("a", "busy")] if seconds else [])


def test_failures_in_a_row() -> None:
    upstreams = Clocked(Rules(failures=3, aside_s=30))
    group = upstreams.group("gpt-4o")
    first = group[0]
    for _ in range(2):
        upstreams.failed(first, "503")
    upstreams.answered(first, 200, "")
    for _ in range(2):
        upstreams.failed(first, "503")
    assert upstreams.first(group) is first, "they were not in a row"
    upstreams.answered(first, 429, "")
    assert upstreams.first(group) is group[1]
    assert upstreams.asides == [("a", "failures")]
    upstreams.failed(first, "503")  # of a request that was under way
    assert upstreams.asides == [("a", "failures")], "told once"
    upstreams.now += 30
    assert upstreams.first(group) is first
    with upstreams.trying(first):
        assert upstreams.first(group) is group[1], "one request tries it"
        with upstreams.trying(first):
            pass
        assert upstreams.first(group) is group[1], "still that one"
    upstreams.failed(first, "503")
    assert upstreams.first(group) is group[1]
    upstreams.now += 30
    with upstreams.trying(first):
        upstreams.answered(first, 404, "")
    assert upstreams.first(group) is first
    upstreams.failed(first, "503")
    assert upstreams.first(group) is first, "the count begins anew"


def test_an_answer_that_was_under_way_does_not_bring_it_back() -> None:
    upstreams = Clocked()
    group = upstreams.group("gpt-4o")
    upstreams.answered(group[0], 429, "20", NOON)
    upstreams.answered(group[0], 200, "")
    assert upstreams.first(group) is group[1]
    upstreams.answered(group[0], 429, "5", NOON)
    upstreams.now += 19
    assert upstreams.first(group) is group[1], "nor does a shorter time"


def test_the_next_ones() -> None:
    upstreams = Clocked(Rules(most=2))
    a, b, c = group = upstreams.group("gpt-4o-mini")
    assert upstreams.first(group, "c") is c
    assert upstreams.first(group, "gone") is a
    assert upstreams.following(group, [a]) is b
    assert upstreams.following(group, [c]) is a
    assert upstreams.following(group, [a, b]) is None
    upstreams.answered(b, 429, "20", NOON)
    assert upstreams.following(group, [a]) is c
    upstreams.answered(c, 429, "10", NOON)
    assert upstreams.following(group, [a]) is None
    upstreams.answered(a, 429, "30", NOON)
    assert upstreams.first(group) is c, "all are aside: the one that is due first"


def test_names_of_models() -> None:
    member = Member(Upstream("http://a/v1", name="a"), ("*",), {"gpt-4o": "x", "gpt-*": "y"})

    assert [member.named(model) for model in ("gpt-4o", "gpt-5", "o3", "gpt-4o")] == ["x", "y", "", "x"]
    assert Member(Upstream("http://a/v1"), ("*",)).named("gpt-4o") == ""


def test_where_a_session_stays() -> None:
    upstreams = Clocked()
    group, other = upstreams.group("gpt-4o"), upstreams.group("gpt-4o-mini")
    assert upstreams.stay("s", group) is None
    upstreams.stays("s", group, "b")
    assert (upstreams.stay("s", group), upstreams.stay("s", other), upstreams.stay("t", group)) == ("b", None, None)


@given(
    st.lists(
        st.tuples(
            st.floats(0, 40),
            st.lists(st.sampled_from([200, 404, 429, 500, 503, 0]), min_size=3, max_size=3),
            st.text("05"),
        ),
        max_size=30,
    ),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_whatever_happens_one_turn_asks_few_and_each_once(
    turns: list[tuple[float, list[int], str]], most: int, failures: int
) -> None:
    """0 stands for a connection that was not made. Nobody is asked who is aside, but for the first if all are."""
    upstreams = Clocked(Rules(most=most, failures=failures, aside_s=10))
    group = upstreams.group("gpt-4o-mini")
    for pause, statuses, retry_after in turns:
        upstreams.now += pause
        member: Member | None = upstreams.first(group)
        asked: list[Member] = []
        while member is not None:
            free = [one for one in group if one.free(upstreams.now)]
            assert member in free or not (free or asked)
            assert member not in asked
            asked.append(member)
            status = statuses[group.index(member)]
            with upstreams.trying(member):
                pass
            if status:
                another = upstreams.answered(member, status, retry_after, NOON)
                assert another is (status in (429, 500, 503))
            else:
                upstreams.failed(member, "upstream_unreachable")
                another = True
            member = upstreams.following(group, asked) if another else None
        assert 1 <= len(asked) <= most
        assert not any(one.tried for one in group)
