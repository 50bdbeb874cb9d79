"""Which calls of a loop are refused, and which are useful in spite of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings as effort, strategies as st

from guardproxy.core import proposals
from guardproxy.core.detectors import RULES, default_settings
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Call, Decision, Episode, Rung, Trail, Triple
from guardproxy.core.policy import Policy
from guardproxy.core.proposals import repeat
from guardproxy.core.scoped_exemption import ScopedExemption
from tests.core.proposals.turns import call, inspection, played, said, steps
from tests.core.talk import PRINTER, ask, called, result, user

FIRM = "a a a a"
END = 1_800_000_000_000
EXEMPT = ScopedExemption("l1", "repeated_call", "session", "s", END)

RUNS = {
    "a nudge only": ("a a a", "a", ""),
    "told to stop": (FIRM, "a", "refuse repeated_call 5"),
    "told to stop, and went on": (f"{FIRM} a", "a", "refuse repeated_call 6"),
    "another call": (FIRM, "b", ""),
    "the same kind of call": (FIRM, "W", ""),
    "failing": ("!a !a !a !a", "a", "refuse repeated_error 5"),
    "failing, then a change": ("!a !a !a !a W", "a", ""),
    "failing, then a change that failed": ("!a !a !a !a !W", "a", "refuse repeated_error 5"),
    "failing, then a pause": ("!a !a !a !a Z", "a", ""),
    "failing, then a command that only sleeps": ("!a !a !a !a S", "a", ""),
    "failing, then a thought": ("!a !a !a !a T", "a", "refuse repeated_error 5"),
    "then a change": (f"{FIRM} W", "a", ""),
    "then the same change as before": (f"W {FIRM} W", "a", ""),
    "then something new": (f"{FIRM} b", "a", ""),
    "then something known": (f"b {FIRM} b", "a", "refuse repeated_call 5"),
    "then something known with a new answer": (f"b {FIRM} b1", "a", ""),
    "then something new that failed": (f"{FIRM} !b", "a", "refuse repeated_call 5"),
    "then a thought": (f"{FIRM} T1 T2", "a", "refuse repeated_call 5"),
    "beside the change": ("a a a a+W", "a", ""),
    "then a word of the user": (f"{FIRM} |", "a", ""),
    "then a word of the user, and once more": (f"{FIRM} | a", "a", ""),
    "then an answer, and a program that asks on": (f'{FIRM} "', "a", "refuse repeated_call 5"),
    "its answer has changed": (f"{FIRM} a1", "a", ""),
    "its answer has changed and comes again": (f"{FIRM} a1 a1", "a", ""),
    "left long ago": (f"{FIRM} b b c c b c b c b c", "a", ""),
    "a cycle": ("a b a b a b a b", "a", "refuse cycle 5"),
    "the other call of the cycle": ("a b a b a b a b", "b", "refuse cycle 5"),
    "a test after an edit": ("W1 a W2 a W3 a W4 a W5 a W6 a W7 a W8", "a", ""),
    "a test after the same edit": ("W a W a W a W a W", "a", ""),
    "not ready yet": (" ".join(["?a"] * 14), "a", ""),
}


@pytest.mark.parametrize("name", RUNS)
def test_what_is_refused(name: str) -> None:
    line, proposed, expected = RUNS[name]
    assert said(played(line), call(proposed)) == ([f"0 {expected}"] if expected else [])


def test_spelling_does_not_save_a_call() -> None:
    assert said(played(FIRM), Call(" A ", ' {"description": null} ')) == ["0 refuse repeated_call 5"]


def test_only_the_forbidden_of_parallel_calls_are_refused_and_equal_ones_count_once() -> None:
    found = played(FIRM)
    assert said(found, call("b"), call("a"), call("c"), call("a")) == [
        "1 refuse repeated_call 5",
        "3 refuse repeated_call 5",
    ]


def test_refused_proposals_of_a_turn_count_on() -> None:
    found = played(FIRM)
    assert said(found, call("a"), refusals=1) == ["0 refuse repeated_call 6"]
    assert said(found, call("a"), refusals=2, repairs=9) == ["0 refuse repeated_call 7"]


def test_only_calls_of_its_tools_are_held_back() -> None:
    found = played(FIRM)
    assert found
    assert found.concerns("a")
    assert found.concerns(" A")
    assert not found.concerns("b")
    assert not found.concerns("")


@pytest.mark.parametrize(
    ("policy", "mode", "expected"),
    [
        (Policy(), "off", []),
        (Policy(), "observe", ["0 observe refuse repeated_call 5"]),
        (Policy(mode="observe"), "enforce", ["0 observe refuse repeated_call 5"]),
        (Policy(modes={"repeated_call": "observe"}), "enforce", ["0 observe refuse repeated_call 5"]),
        (Policy(mode="observe", modes={"repeated_call": "enforce"}), "enforce", ["0 refuse repeated_call 5"]),
    ],
)
def test_modes(policy: Policy, mode: str, expected: list[str]) -> None:
    found = played(FIRM, policy, settings={"repeat": repeat.Settings(mode)})
    assert said(found, call("a")) == expected
    assert found is None or found.concerns("a") is (expected == ["0 refuse repeated_call 5"])


def test_a_shadow_silences_nobody() -> None:
    near = PRINTER.near(call("a"))
    shadow = Episode("cycle", near, (near,), Rung.FIRM, 4, 3, Triple(3, 4, 6))
    real = replace(shadow, rule="repeated_call")
    for episodes in ((shadow, real), (real, shadow)):
        found = inspection(
            run=Trail(steps(FIRM)), episodes=episodes, mode_of=lambda rule: "observe" if rule == "cycle" else "enforce"
        )
        assert said(found, call("a")) == ["0 refuse repeated_call 5"]


@pytest.mark.parametrize(
    ("exempt", "expected"),
    [
        ((EXEMPT,), []),
        ((replace(EXEMPT, tool="a"),), []),
        ((replace(EXEMPT, tool="b"),), ["0 refuse repeated_call 5"]),
        ((replace(EXEMPT, rule="cycle"),), ["0 refuse repeated_call 5"]),
    ],
)
def test_what_a_person_called_a_false_alarm_is_not_refused(
    exempt: tuple[ScopedExemption, ...], expected: list[str]
) -> None:
    near = PRINTER.near(call("a"))
    before = Episode("repeated_call", near, (near,), Rung.FIRM, 4, 3, Triple(3, 4, 6))
    assert said(inspection(run=Trail(steps(FIRM)), episodes=(before,), exempt=exempt), call("a")) == expected
    assert said(played(FIRM, exempt=exempt), call("a")) == expected


@pytest.mark.parametrize("rule", sorted(set(RULES) - repeat.USELESS))
def test_rules_about_something_else_refuse_nothing(rule: str) -> None:
    near = PRINTER.near(call("a"))
    loop = Episode(rule, near, (near,), Rung.FINALIZE, 9, 3, Triple(3, 4, 6))
    assert inspection(run=Trail(steps(FIRM)), episodes=(loop,)) is None


def test_the_rules_are_those_that_there_are() -> None:
    assert set(default_settings()) > repeat.USELESS


@pytest.mark.parametrize(("rung", "at_step", "first"), [(Rung.NUDGE, 3, 0), (Rung.FIRM, 1, 2), (Rung.OBSERVE, 3, 0)])
def test_what_was_not_told_to_stop_in_this_span_is_not_refused(rung: Rung, at_step: int, first: int) -> None:
    near = PRINTER.near(call("a"))
    loop = Episode("repeated_call", near, (near,), rung, 4, at_step, Triple(3, 4, 6))
    assert inspection(run=Trail(steps(FIRM), first), episodes=(loop,)) is None


def test_an_episode_without_steps_in_sight_refuses_nothing() -> None:
    near = PRINTER.near(call("a"))
    loop = Episode("repeated_call", near, (near,), Rung.FIRM, 4, 0, Triple(3, 4, 6))
    assert inspection(run=Trail(()), episodes=(loop,)) is None
    assert inspection(run=Trail(steps("a")), episodes=(loop,)) is None, "one call is no repetition"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("b c d a a a a", ["0 refuse repeated_call 5"]),
        ("b c d a a a a b c d b c d", ["0 refuse repeated_call 5"]),
        ("b c d a a a a b c d b c d b", []),
        ("b c d ?a ?a ?a ?a", []),
    ],
)
def test_a_loop_that_was_left_and_one_that_waits_are_not_refused(line: str, expected: list[str]) -> None:
    near = PRINTER.near(call("a"))
    loop = Episode("repeated_call", near, (near,), Rung.FIRM, 4, 6, Triple(3, 4, 6))
    assert said(inspection(run=Trail(steps(line)), episodes=(loop,)), call("a")) == expected


@pytest.mark.parametrize(("language", "words"), [("en", "was not carried out"), ("zh", "没有执行")])
def test_the_refusal_says_which_call_how_often_and_with_what_result(language: str, words: str) -> None:
    messages = [user("do it")]
    for number in range(4):
        messages += [called(("a", "{}", f"c{number}")), result("40 lines", f"c{number}")]
    found = played(FIRM, asked=ask(*messages), language=language)
    assert found
    (one,) = found.judge([call("a")])
    assert one.text.startswith(GUARD_MARK)
    for part in (words, "`a`", "4", "40 lines"):
        assert part in one.text
    assert one.subject == PRINTER.near(call("a"))
    assert one.members == (one.subject,)
    assert one.reason


WORDS = st.sampled_from("a a a a b b c a1 !a !a !b ?a W W1 !W T Z S | a+b a+W".split())


@effort(max_examples=150, deadline=None)
@given(st.lists(WORDS, min_size=1, max_size=20))
def test_a_refused_call_was_always_made_twice_with_one_answer_and_nothing_came_after(words: list[str]) -> None:
    ring = steps(" ".join(words))
    spoken = max((at for at, word in enumerate(words) if word == "|"), default=-1)
    since = steps(" ".join(words[spoken + 1 :])) if spoken + 1 < len(words) else ()
    for proposed in ("a", "b", "W"):
        near = PRINTER.near(call(proposed))
        if said(played(" ".join(words)), call(proposed)):
            at = [place for place, step in enumerate(since) if step.near == near]
            assert len(at) >= 2
            assert since[at[-1]].masked_result == since[at[-2]].masked_result
            assert not any(
                step.tool == "write_file" and not step.signature.strip(b"\0") for step in since[at[-1] + 1 :]
            )
    assert ring


def test_nothing_is_prepared_where_nothing_is_firm() -> None:
    assert played("a b c d") is None
    assert played("a a a") is None
    assert proposals.default_settings()["repeat"] == repeat.Settings()
    assert inspection(run=Trail(steps("a a")), decision=Decision("pass")) is None


def test_another_mode_is_refused() -> None:
    with pytest.raises(ValueError, match=r"^mode: must be one of off, observe, enforce"):
        repeat.Settings("maybe")
