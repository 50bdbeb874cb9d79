"""What differs each time is left out where that has shown, and what moves stays progress."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.core.detectors import default_settings, detect_all
from guardproxy.core.model import NO_FP, Rung, Step, Trail
from guardproxy.core.volatile import TIMES, learned, sketch
from tests.core.steps import step

TOKENS = ("a8f3c091", "7b20de4f", "q1w9e8r7", "7be4102f4a", "m3n8b2v7", "0f9e8d7c6b5a")
BODY = "the first line of the file\nthe second line of the file\n"


def rung(*steps: Step) -> Rung:
    """The highest rung that any rule reaches after the last step."""
    found = detect_all(learned(Trail(steps)), default_settings())
    return max((one.rung for one in found), default=Rung.PASS)


def polls(form: str, times: int = 4, tool: str = "read") -> list[Step]:
    """One call that answers `form`, with another token and number each time."""
    return [step(tool, '{"p":"a"}', form.format(t=TOKENS[n], n=n, d=9 - n)) for n in range(times)]


VOLATILE = {
    "a footer": BODY + "(session token {t})",
    "a header": "[handle {t}] contents follow\n" + BODY,
    "in the middle of a short answer": "these are all the {t} rows that match",
    "in JSON": '{{"rows":["first row","second row"],"handle":"{t}"}}',
    "two of them": BODY + "<{t}> <0{t}>",
    "an epoch": BODY + "rendered at 171{n}000123",
    "epoch in milliseconds": BODY + "rendered 171{n}000123456 by the server",
    "before a long body": "handle {t}\n" + BODY * 40,
    "after a long body": BODY * 40 + "handle {t}",
    "among Chinese words": "当前任务列表没有任何变化，请稍后再试，令牌 {t}",
}
PROGRESS = {
    "a step of nine": "step {n}/9 running on the build machine for you",
    "a board": "task {n}: open and waiting for somebody\ntask {d}: open",
    "a count": "{n} rows have been copied into the new table so far",
    "a percentage": "the upload of the archive has reached {n} % by now",
    "other words": "the handle is {t} and the state of the job is state{n}state{n}",
    "so many of so many": "the handle is {t} and the file is row{n}of9, after img{n}of20",
    "a time to wait": "copying the archive, which will take 1h2{n}m3{n}s",
    "numbered parts": "the job has come to chunk00{n}part00{d} of the big archive",
    "a count beside a token": "{n} rows have been copied so far by worker {t}",
    "the token is the answer": "{t}",
    "little but the token": "Created {t}.",
    "a short token": "the state of the machine that builds is now v{n}a",
    "a number that is no epoch": "a total of 93{n}000123 bytes have been received so far",
    "a token deep inside a long body": BODY * 40 + "{t}" + BODY * 40,
    "a picture of work": "compiled a{n}.c, which leaves {d} of the files to do",
    "it says that it is not ready": "still running, please wait, the handle of the job is {t}",
    "a failure": "Error: no such file as the one that you asked for ({t} in {n})",
}


@pytest.mark.parametrize("form", VOLATILE.values(), ids=VOLATILE.keys())
def test_what_differs_each_time_is_a_repeat(form: str) -> None:
    steps = polls(form, 6)
    assert len({one.result for one in steps}) == 6
    assert [rung(*steps[:n]) for n in range(1, 7)] == [
        *(TIMES - 1) * (Rung.PASS,), Rung.NUDGE, Rung.FIRM, Rung.FINALIZE, Rung.CUT
    ]  # fmt: skip


@pytest.mark.parametrize("form", [form for name, form in PROGRESS.items() if name != "a failure"])
def test_what_moves_is_progress(form: str) -> None:
    steps = polls(form, 6)
    assert len({one.result for one in steps}) == 6
    assert rung(*steps) < Rung.NUDGE


def test_failures_have_their_own_signature() -> None:
    steps = polls(PROGRESS["a failure"])
    assert all(NO_FP not in (one.signature, one.result) for one in steps)
    assert learned(Trail(tuple(steps))).steps == tuple(steps)


FORM = VOLATILE["a footer"]


def test_other_work_in_between_may_be_about_the_token() -> None:
    """A queue that hands out one job after the other, and each is worked on."""
    jobs = polls(FORM, 6)
    work = [step("edit", f'{{"job":"{TOKENS[n]}"}}', "ok") for n in range(6)]
    assert rung(*(one for pair in zip(jobs, work, strict=True) for one in pair)) < Rung.NUDGE


def test_taking_turns_is_no_other_work() -> None:
    one, other = polls(FORM, 4), polls(VOLATILE["in JSON"], 4, "search")
    plain = [step("stat", '{"p":"b"}', "a file of twelve bytes")] * 4
    lap = [part for turn in zip(one, other, plain, strict=True) for part in turn]
    assert rung(*lap[:-3]) == Rung.NUDGE
    assert rung(*lap[:-4]) < Rung.NUDGE


def test_twice_is_not_each_time() -> None:
    first, second, *_ = polls(FORM)
    assert learned(Trail((first, second, first, second))).steps == (first, second, first, second)


def test_what_was_learned_stays_learned() -> None:
    """A token that stays for once does not undo it: verdicts do not fall while the loop goes on."""
    steps = polls(FORM, 4)
    rungs = [rung(*steps, *([steps[-1]] * more)) for more in range(4)]
    assert rungs == sorted(rungs)
    assert rungs[-1] == Rung.CUT


def test_nothing_to_learn_costs_nothing() -> None:
    trail = Trail(tuple(polls(PROGRESS["a count"])))
    assert learned(trail) is trail
    assert learned(Trail(())).steps == ()


@settings(max_examples=300)
@given(
    st.text(string.ascii_letters + ' \n{}":é界', min_size=40, max_size=900),
    st.lists(st.text("0123456789abcdef", min_size=12, max_size=16), min_size=2, max_size=2),
    st.booleans(),
)
def test_another_token_is_the_same_sketch(text: str, tokens: list[str], last: bool) -> None:
    made = [sketch(f"{text} {token}" if last else f"{token} {text}") for token in tokens]
    if None not in made:
        assert made[0] == made[1]


@given(st.text(max_size=900), st.integers(0, 10**8))
def test_plain_numbers_are_never_left_out(text: str, number: int) -> None:
    one, other = sketch(f"{text} {number} "), sketch(f"{text} {number + 1} ")
    assert one is None or one != other
