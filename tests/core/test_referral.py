"""A result that only refers to an earlier one counts as that one, and nothing else is taken for it."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.detectors import default_settings, detect_all
from guardproxy.core.fact import pack, unpack
from guardproxy.core.model import NO_FP, Call, Flag, Message, Rung, Step, Trail
from guardproxy.core.referral import LONGEST, REFERRAL, refers, resolved
from guardproxy.core.volatile import learned
from tests.core.steps import PRINTER, step

PATH = '{"file_path":"/src/a.ts"}'
QWEN = (
    "[File src/a.ts unchanged since last read in this session \u2014 the whole text was given earlier. If it was "
    "modified outside the read/edit tools, read it again with an offset to fetch what it holds now.]"
)
TEXT = "one line\nanother line\nthe last line"
REFERRALS = {
    "Claude Code": "File unchanged since last read. The earlier result in this conversation is still current.",
    "Claude Code, from the third on": "Wasted call \u2014 file unchanged since your last Read. See that one.",
    "Qwen Code": QWEN,
    "Hermes": json.dumps({"status": "unchanged", "message": "File unchanged since last read.", "dedup": True}),
    "Hermes, over several lines": json.dumps(
        {"status": "unchanged", "message": "File unchanged since last read"}, indent=2
    ),
    "in brackets": "[File previously read: src/a.ts. Content unchanged since last read.]",
    "of lines": "[Lines 1-40: unchanged since your last read (Hash: 8c1f)]",
    "of a turn": "(unchanged since your last read at turn 5)",
    "not modified": "This file has not been modified since it was last read.",
    "no changes": "src/a.ts: no changes since the previous full read",
    "with a preview": "File unchanged since your last read.\nPreview:\n" + "x\n" * 300,
}
NOT = {
    "nothing": "",
    "a file": TEXT,
    "a file that speaks of it": f"{TEXT}\nFile unchanged since last read.",
    "a numbered line": "1\tFile unchanged since last read.",
    "a numbered line with an arrow": "     1\u2192File unchanged since last read.",
    "a hit of a search": "src/a.ts:12:  'File unchanged since last read.'",
    "a long text": "File unchanged since last read." + "x" * LONGEST,
    "far down": "x" * 300 + " unchanged since last read",
    "another time": "The licence is unchanged since the last release.",
    "not of a reading": "unchanged since 2019",
    "changed": "File changed since last read.",
}


@pytest.mark.parametrize("text", REFERRALS.values(), ids=REFERRALS.keys())
def test_answers_that_refer_to_an_earlier_one(text: str) -> None:
    assert refers(text)
    assert step("Read", PATH, text).result == step("Read", PATH, text).masked_result == REFERRAL


@pytest.mark.parametrize("text", NOT.values(), ids=NOT.keys())
def test_other_answers(text: str) -> None:
    assert not refers(text)
    assert step("Read", PATH, text).result != REFERRAL


def failing(text: str) -> Step:
    return PRINTER.step(Call("Read", PATH), Message("tool", text, failed=True), first=True, at_ms=1)


@pytest.mark.parametrize(
    "other",
    [step("bash", '{"command":"cat a"}', QWEN), step("edit", PATH, QWEN), failing(QWEN), step("Read", PATH, None)],
    ids=["a shell's output", "of a tool that changes", "of a failure", "no answer"],
)
def test_only_what_a_tool_that_looks_says_in_success(other: Step) -> None:
    assert other.result != REFERRAL


def rung(*steps: Step) -> Rung:
    found = detect_all(learned(Trail(tuple(unpack(pack(one)) for one in steps))), default_settings())
    return max((one.rung for one in found), default=Rung.PASS)


@pytest.mark.parametrize("wording", REFERRALS.values(), ids=REFERRALS.keys())
def test_a_loop_shows_as_early_as_it_would_with_the_text_itself(wording: str) -> None:
    plain = [step("Read", PATH, TEXT)]
    short = [plain[0], step("Read", PATH, wording)]
    for times in range(2, 7):
        assert rung(*plain, *plain * (times - 1)) == rung(*short, *short[1:] * (times - 2)), times
    assert rung(*short, short[1]) == Rung.NUDGE


def test_two_wordings_are_one_answer() -> None:
    first, *others = (step("Read", PATH, text) for text in (TEXT, *list(REFERRALS.values())[:2]))
    assert rung(first, *others) == Rung.NUDGE


def test_a_range_of_a_file_keeps_its_extent() -> None:
    """A reference is one line long; what was read is not."""
    part = '{"path":"a.ts","start_line":1,"end_line":40}'
    whole, short = step("read_file", part, TEXT * 40), step("read_file", part, QWEN)
    assert resolved(Trail((whole, short))).steps[1].bearing == whole.bearing
    assert whole.bearing.stop > 2


READ, AGAIN = step("Read", PATH, TEXT), step("Read", PATH, QWEN)
CHANGED = step("Read", PATH, TEXT + "\nnew")
EDIT = step("edit", '{"path":"/src/a.ts","old":"one","new":"two"}', "The file was edited.")
BUSY = step("get_job", '{"id":"7"}', "status: running")


@pytest.mark.parametrize(
    ("steps", "as_"),
    [
        ([READ, AGAIN], READ),
        ([READ, EDIT, CHANGED, AGAIN], CHANGED),
        ([READ, step("Read", '{"file_path":"/src/b.ts"}', "b"), AGAIN], READ),
        ([READ, failing("Error: busy"), AGAIN], READ),
        ([READ, step("Read", PATH, None), AGAIN], READ),
        ([READ, AGAIN, AGAIN], READ),
        ([step("Read", '{"file_path":"/src/b.ts"}', "b"), AGAIN], AGAIN),
        ([BUSY, step("get_job", '{"id":"7"}', "Status unchanged since the last read.")], BUSY),
    ],
    ids=["plain", "changed", "another file", "a failure", "not answered", "twice", "not known", "not ready"],
)
def test_it_is_the_last_answer_that_the_same_call_got(steps: list[Step], as_: Step) -> None:
    found = resolved(Trail(tuple(steps), 7))
    newest = found.steps[-1]
    assert (newest.result, newest.masked_result, newest.signature) == (as_.result, as_.masked_result, as_.signature)
    assert newest.flags & Flag.PENDING == as_.flags & Flag.PENDING
    assert (found.first, len(found.steps)) == (7, len(steps))
    assert NO_FP not in (newest.result, newest.masked_result)


def test_a_trail_without_any_is_the_same_object() -> None:
    trail = Trail((READ, EDIT))
    assert resolved(trail) is trail


def test_work_between_two_looks_stays_work() -> None:
    """Each edit shows what it did; the reader refers to the text only where nothing has changed."""
    steps = []
    for number in range(6):
        edit = f'{{"path":"/src/a.ts","old":"{number}","new":"n{number}"}}'
        steps += [
            step("Read", PATH, f"{TEXT}\nversion {number} of the text is here"),
            AGAIN,
            step("edit", edit, f"The file was edited: version {number}."),
        ]
    assert rung(*steps) <= Rung.OBSERVE
