"""Normal forms: what is the same must look the same, what differs must differ, and nothing may take long."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from guardproxy.api._messages import neutral
from guardproxy.core import fingerprint
from guardproxy.core.fingerprint import Fingerprinter, Rules, hash16, mask, pack, strip_own, unpack
from guardproxy.core.harness import is_harness
from guardproxy.core.model import NO_FP, Call, Flag, Message, Step
from tests.cheap import cheap
from tests.core.steps import PRINTER, step


def test_images_are_compared_by_their_bytes() -> None:
    def shot(*media: bytes) -> Step:
        return PRINTER.step(Call("shot", "{}"), Message("tool", "", media=media), first=True, at_ms=0)

    assert shot(b"a").result == shot(b"a").result
    assert shot(b"a").result != shot(b"b").result
    assert shot(b"a").result != shot(b"a", b"b").result
    assert shot(b"a").flags & Flag.MEDIA
    assert not shot(b"a").flags & Flag.VOID


def test_what_a_call_is() -> None:
    assert step("", "{}").flags & Flag.INVALID
    assert step("f", "{broken").flags & Flag.INVALID
    assert step("f", "[1]").flags & Flag.INVALID
    assert step("think", '{"thought":"a"}').flags & Flag.THINK
    assert step("write_file", "{}").flags & Flag.MUTATES
    assert step("f", "{}", None).flags == Flag.UNANSWERED | Flag.ROUND_START
    assert step("f", "{}", None).result == NO_FP


def test_failures_that_are_ordinary_answers() -> None:
    printer = Fingerprinter(b"k", Rules(failure_ok=("lint",)))
    one = step("lint", "{}", "Error: unused import", printer)
    assert step("lint", "{}", "Error: unused import").flags & Flag.FAILED
    assert not one.flags & Flag.FAILED
    assert one.signature == NO_FP
    told = printer.step(Call("lint", "{}"), Message("tool", "red", failed=True), first=True, at_ms=0)
    assert not told.flags & Flag.FAILED


def test_a_call_is_looked_at_once() -> None:
    """It is seen when it is proposed and again with its result, and its arguments may be a whole file."""
    printer = Fingerprinter(b"k")
    call = Call("f", '{"a":1}')
    proposed = printer.call(call)
    known = dict(printer._calls)
    assert printer.step(call, Message("tool", "x"), first=True, at_ms=0).call == proposed
    assert printer._calls == known
    assert not any(isinstance(part, str) for found in known.values() for part in found)


def test_long_texts_that_differ_in_digits_are_one_form() -> None:
    form = "Please always give exactly one action in triple backticks in your next reply; found {} actions in this one."
    assert PRINTER.text(form.format(2)) == PRINTER.text(form.format(13))
    assert PRINTER.text("option 1") != PRINTER.text("option 2")
    assert PRINTER.text("Two  sessions.") == PRINTER.text("two sessions.")
    assert PRINTER.text("Ｔwo\u200b se\u0301ssions.") == PRINTER.text("two s\u00e9ssions.")


def test_our_own_words_are_taken_out_and_only_they() -> None:
    assert strip_own("ok\n\n[guardproxy] note: x was called\n{}") == "ok"
    assert strip_own("[guardproxy] note") == ""
    assert strip_own("ok\n\n\n[guardproxy] note") == "ok"  # most programs end their output with a line's end
    assert strip_own("ok\n\n\n\n\n[guardproxy] note") == "ok\n\n"
    assert strip_own("a\n\n[guardproxy] note\n\nb") == "a\n\nb"
    assert strip_own("the mark [guardproxy] inside a text stays") == "the mark [guardproxy] inside a text stays"


def test_rules_can_name_arguments_that_do_not_count() -> None:
    printer = Fingerprinter(b"k", Rules(ignore_args={"send": ("nonce",)}))
    one, other = '{"to":"a","nonce":"1"}', '{"nonce":"2","to":"a"}'
    assert step("send", one, printer=printer).call == step("send", other, printer=printer).call
    assert step("send", one).call != step("send", other).call


def test_fingerprints_are_keyed_and_parts_do_not_run_together() -> None:
    assert hash16(b"a", "x") != hash16(b"b", "x")
    assert hash16(b"a", "xy", "z") != hash16(b"a", "x", "yz")
    assert hash16(b"a", "x", "") != hash16(b"a", "x")
    assert hash16(b"a", "x") == hash16(b"a", b"x")
    assert len(hash16(b"a")) == 16
    assert step("f", "{}").call != step("f", "{}", printer=Fingerprinter(b"other")).call


def test_the_memo_is_bounded_and_changes_nothing() -> None:
    small = Fingerprinter(b"a key", memo_size=4)
    for number in range(50):
        arguments = f'{{"n":{number % 7}}}'
        assert step("f", arguments, printer=small) == step("f", arguments)
        small.text(f"text {number}")
    assert len(small._calls) <= 4
    assert len(small._texts) <= 4


@given(st.text(max_size=40), st.text(max_size=400), st.text(max_size=400))
def test_any_text_is_a_step(tool: str, arguments: str, result: str) -> None:
    one = step(tool, arguments, result)
    assert unpack(pack(one)) == one or len(tool.encode("utf-8", "replace")) > fingerprint.TOOL_NAME
    PRINTER.text(result)
    is_harness(result)


HOSTILE = {
    "spaces": " " * 300_000,
    "newlines": "\n" * 300_000,
    "dots": "a." * 150_000,
    "digits": "1" * 300_000,
    "colons": "11:11:11 " * 30_000,
    "ids": "id: " * 75_000,
    "marks": "[guardproxy]" * 25_000,
    "paragraphs": "\n\n[guardproxy] x" * 20_000,
    "quotes": '["' * 150_000,
    "dashes": "-aaaa" * 60_000,
    "errors": "Error: " * 40_000,
    "words": "a" * 300_000,
    "brackets": "[" * 300_000,
    "nested": '{"a":' * 60_000,
    "numbers": "9" * 20_000,
    "fails": "1 fail " * 40_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_takes_long(name: str) -> None:
    text = HOSTILE[name]
    printer = Fingerprinter(b"k")
    with cheap(0.5):
        step("bash", text, text, printer)
        step("read", '{"a":"' + text[:100_000] + '"}', "Error: " + text, printer)
        printer.text(text)
        is_harness(text)
        mask(text)


@pytest.mark.parametrize(
    "text", ["abc d" * 2_000_000, "ab\u00e4 d" * 2_000_000, "任务 1 进行中。" * 1_200_000, "\0\xff" * 5_000_000]
)
def test_ten_megabytes_cost_a_few_milliseconds(text: str) -> None:
    """Shortened as it is read: everything after that sees 33 KB. A few are below ten here, and the bound has room."""
    with cheap(0.1):
        message = neutral({"role": "tool", "content": text})
        assert len(message.text) < 40_000
        one = PRINTER.step(Call("f", "{}"), message, first=True, at_ms=0)
    other = neutral({"role": "tool", "content": text[: len(text) // 2] + "!" + text[len(text) // 2 + 1 :]})
    assert PRINTER.step(Call("f", "{}"), other, first=True, at_ms=0).result != one.result


@pytest.mark.parametrize(
    ("tool", "arguments", "result", "thinks", "rest_ms"),
    [
        ("wait", '{"seconds":5}', "Waited 5 seconds", True, 5_000),
        ("browser_wait_for", '{"time":2}', "Waited for 2 seconds", True, 2_000),
        ("wait", '{"seconds":5}', "Error: timed out", False, 5_000),  # what never comes is evidence
        ("bash", '{"command":"sleep 5"}', "", True, 5_000),
        ("bash", '{"command":"sleep 5"}', "Error: timed out", True, 5_000),
        ("bash", '{"command":"sleep 5; date"}', "noon", False, 5_000),
        ("bash", '{"command":"date"}', "noon", False, 0),
    ],
)
def test_waits(tool: str, arguments: str, result: str, *, thinks: bool, rest_ms: int) -> None:
    made = step(tool, arguments, result)
    assert (bool(made.flags & Flag.THINK), made.bearing.rest_ms) == (thinks, rest_ms)


@pytest.mark.parametrize(
    ("tool", "result", "left"),
    [
        ("run_tests", "12 passed", 0),
        ("run_tests", "3 failed", 3),
        ("run_tests", "ran", -1),
        ("run_tests", "ran\n\n[guardproxy] 12 passed", -1),  # our own words
        ("edit_file", "12 passed", -1),
        ("read_file", "12 passed", -1),
    ],
)
def test_what_a_check_says_of_failures(tool: str, result: str, left: int) -> None:
    assert step(tool, "{}", result).bearing.left == left


@pytest.mark.parametrize("tool", ["bash", "wide", "x1"])
def test_what_a_shell_is_the_settings_say(tool: str) -> None:
    """A name counts only where the owner says nothing: `shells`, or `read_only`, is the last word."""
    said = Fingerprinter(b"k" * 16, Rules(shells=("x1",), read_only=("bash",)))
    assert bool(step(tool, "{}", "x", said).flags & Flag.SHELL) == (tool == "x1")
