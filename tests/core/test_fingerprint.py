"""Normal forms: what is the same must look the same, what differs must differ, and nothing may take long."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.core import fingerprint, outcome
from guardproxy.core.fingerprint import Fingerprinter, Rules, hash16, is_harness, mask, pack, strip_own, unpack
from guardproxy.core.model import NO_FP, Call, Flag, Kind, Message, Step
from guardproxy.core.tools import changes

PRINTER = Fingerprinter(b"a key")


def step(tool: str, arguments: str, result: str | None = "x", printer: Fingerprinter = PRINTER) -> Step:
    answer = None if result is None else Message("tool", result)
    return printer.step(Call(tool, arguments), answer, first=True, at_ms=1)


@pytest.mark.parametrize(
    ("one", "other", "exact", "near"),
    [
        ('{"a":1,"b":2}', '{"b": 2, "a": 1}', True, True),
        ('{"a":1.0}', '{"a":1}', True, True),
        ('{"a":-0.0}', '{"a":0}', True, True),
        ('{"a":null,"b":1}', '{"b":1}', True, True),
        ('{"a":{"x":null,"y":[1,{"z":null}]}}', '{"a":{"y":[1,{}]}}', True, True),
        ("", "{}", True, True),
        ("  ", "{}", True, True),
        ('{"a":true}', '{"a":1}', False, False),
        ('{"a":"1"}', '{"a":1}', False, False),
        ('{"q":"Paris weather"}', '{"q":"paris  weather!"}', False, True),
        ('{"q":"C"}', '{"q":"D"}', False, False),
        ('{"path":"./a.ts"}', '{"path":"a.ts"}', False, True),
        ('{"path":"A.ts/x"}', '{"path":"a.ts/x"}', False, False),
        ('{"files":["b","a"]}', '{"files":["a","b"]}', False, True),
        ('{"files":[{"path":"a"}]}', '{"files":[{"path":"a"},{"path":"b"}]}', False, False),
        ('{"command":"ls","description":"list"}', '{"command":"ls","description":"look again"}', False, True),
        ('{"thought":"a"}', '{"thought":"b"}', False, False),
        ('{"command":"ls  -l /x"}', '{"command":"ls -l /x"}', False, True),
        ('{"offset":80}', '{"offset":160}', False, False),
        ('{"a":12345678901234567890}', '{"a":12345678901234567891}', False, False),
        ("not json", "not  json", False, False),
        ("[1]", "[1 ]", False, False),
        ('{"q":"ﬁn"}', '{"q":"fin"}', False, True),
    ],
)
def test_calls(one: str, other: str, *, exact: bool, near: bool) -> None:
    a, b = step("f", one), step("f", other)
    assert (a.call == b.call, a.near == b.near) == (exact, near)
    assert PRINTER.call(Call("f", one)) == a.call


def test_numbers_are_masked_but_not_those_that_page() -> None:
    assert step("grep", '{"cmd":"grep -B10 x"}').masked == step("grep", '{"cmd":"grep -B1750 x"}').masked
    assert step("read", '{"p":"v","offset":80}').masked != step("read", '{"p":"v","offset":160}').masked


def test_names_of_tools_differ_and_their_case_does_not() -> None:
    assert step("f", "{}").call != step("g", "{}").call
    assert step("Read", "{}").call == step(" read ", "{}").call
    assert step("fg", "{}").call != step("f", "g{}").call


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("done at 2026-01-31T10:00:00.123Z", "done at 2026-02-01T11:30:59Z"),
        ("10:00:00 ok", "23:59:01 ok"),
        ("3 passed in 0.12s", "3 passed in 12.50s"),
        ("took 12 ms", "took 9 ms"),
        ("Wall time: 0.3 seconds\nhi", "Wall time: 1.25 seconds\nhi"),
        ("Chunk ID: 5f3a2b\nhi", "Chunk ID: 77aa01\nhi"),
        ("at 0x7f3a2b1c", "at 0x55d0c0de"),
        ("Foo@1f2e3d4c", "Foo@99aabbcc"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "id 00000000-e89b-42d3-a456-426614174fff"),
        ("wrote /tmp/tmpab12cd/x", "wrote /tmp/tmpzz99/x"),
        ("body\n(40 lines, read 2 times)", "body\n(40 lines, read 3 times)"),
        ('{"ok":true,"messageId":"m1","ts":1}', '{"ts":2,"messageId":"m9","ok":true}'),
        ('{"a":{"created_at":"x","v":1}}', '{"a":{"v":1,"created_at":"y"}}'),
        ("\x1b[31mred\x1b[0m", "red"),
        ("x\n", "x"),
    ],
)
def test_results_that_differ_only_in_what_changes_by_itself(one: str, other: str) -> None:
    assert step("f", "{}", one).result == step("f", "{}", other).result


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("3 failed", "2 failed"),
        ("step 3/9", "step 4/9"),
        ("50 %", "51 %"),
        ("line 12: x", "line 13: x"),
        ("user id: 12 is blocked", "user id: 13 is blocked"),
        ('{"id":"a"}', '{"id":"b"}'),
        ("{not json ts", "{not json at"),
        ("a" * 70_000 + "x" + "a" * 70_000, "a" * 70_000 + "y" + "a" * 70_000),
        ("a" * 70_000, "a" * 70_001),
    ],
)
def test_results_that_differ(one: str, other: str) -> None:
    assert step("f", "{}", one).result != step("f", "{}", other).result


def test_images_are_compared_by_their_bytes() -> None:
    def shot(*media: bytes) -> Step:
        return PRINTER.step(Call("shot", "{}"), Message("tool", "", media=media), first=True, at_ms=0)

    assert shot(b"a").result == shot(b"a").result
    assert shot(b"a").result != shot(b"b").result
    assert shot(b"a").result != shot(b"a", b"b").result
    assert shot(b"a").flags & Flag.MEDIA
    assert not shot(b"a").flags & Flag.VOID


FLAGS: list[tuple[str, str, Flag]] = [
    ("sh", "(no output)", Flag.VOID),
    ("f", "", Flag.VOID),
    ("f", "[]", Flag.VOID),
    ("f", "null", Flag.VOID),
    ("f", "(memory is empty)", Flag.VOID),
    ("f", "No more results.", Flag.VOID),
    ("f", "no match", Flag.VOID),
    ("bash", "Output: \nReward: 0.67", Flag.VOID),
    ("bash", "<returncode>0</returncode>\n<output>\n</output>", Flag.VOID),
    ("f", "no more than seven of them are blue", Flag.NONE),
    ("f", "0 issues.", Flag.NONE),
    ("f", "Error: payment does not add up", Flag.FAILED),
    ("f", '{"error":"404 not found"}', Flag.FAILED),
    ("f", '{"error":null,"rows":[1]}', Flag.NONE),
    ("f", '{"success": false, "reason": "x"}', Flag.FAILED),
    ("f", "Could not find [x]. Similar: [y]", Flag.FAILED),
    ("f", "Invalid action!", Flag.FAILED),
    ("f", "错误:文件不存在", Flag.FAILED),
    ("bash", "<returncode>1</returncode>\n<output>\nno luck\n</output>", Flag.FAILED),
    ("bash", "<returncode>0</returncode>\n<output>\nfine\n</output>", Flag.NONE),
    ("bash", "Exit code: 2\nwhatever", Flag.FAILED),
    ("sh", "collected 5 items\n\n1 failed, 4 passed", Flag.FAILED),
    ("sh", "0 failed, 4 passed", Flag.NONE),
    ("sh", "10 failed", Flag.FAILED),
    ("py", "x = 1\nTraceback (most recent call last):\n  File x\nValueError: no", Flag.FAILED),
    ("sh", "Answer: 32 and 50 are not equal.", Flag.FAILED),
    ("read_file", "def f():\n    raise ValueError('x')\nValueError: this is a comment in a file", Flag.NONE),
    ("read_file", "Error: no such file", Flag.FAILED),
    ("f", "Invalid arguments: op must be set", Flag.FAILED | Flag.INVALID),
    ("f", "Unknown tool `g`", Flag.FAILED | Flag.INVALID),
    ("f", "step 3/9 running", Flag.PENDING),
    ("f", "(no new output)", Flag.PENDING | Flag.VOID),
    ("f", "Error: the job is not running", Flag.FAILED),
    ("f", "[Old tool result content cleared]", Flag.CLEARED),
    ("f", "all good", Flag.NONE),
]


@pytest.mark.parametrize(("tool", "text", "flags"), FLAGS)
def test_what_a_result_says(tool: str, text: str, flags: Flag) -> None:
    found = step(tool, "{}", text).flags & ~(Flag.ROUND_START | Flag.MUTATES)
    assert found == flags


def test_the_client_knows_best_whether_it_failed() -> None:
    def told(text: str, *, failed: bool) -> Flag:
        return PRINTER.step(Call("f", "{}"), Message("tool", text, failed=failed), first=False, at_ms=0).flags

    assert told("fine", failed=True) == Flag.FAILED
    assert told("Error: as the log of another machine says", failed=False) == Flag.NONE


def test_what_a_call_is() -> None:
    assert step("", "{}").flags & Flag.INVALID
    assert step("f", "{broken").flags & Flag.INVALID
    assert step("f", "[1]").flags & Flag.INVALID
    assert step("think", '{"thought":"a"}').flags & Flag.THINK
    assert step("write_file", "{}").flags & Flag.MUTATES
    assert step("f", "{}", None).flags == Flag.UNANSWERED | Flag.ROUND_START
    assert step("f", "{}", None).result == NO_FP


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ('{"command":"sed -i s/a/b/ f"}', True),
        ('{"command":"cat <<EOF > f.py\\nx\\nEOF"}', True),
        ('{"command":"git commit -m x"}', True),
        ('{"command":"pip install x"}', True),
        ('{"command":"str_replace","path":"a"}', True),
        ('{"command":"ls 2>&1"}', False),
        ('{"command":"ls > /dev/null"}', False),
        ('{"command":"git status"}', False),
        ('{"command":"grep -n \\"a->b\\" f"}', False),
        ('{"command":"pytest -q"}', False),
        ('{"command":"sed -n 1,5p f"}', False),
    ],
)
def test_commands_that_change_something(command: str, *, expected: bool) -> None:
    assert changes(command) is expected


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        (('{"id":1}', '{"error":"404 not found"}'), ('{"id":2}', '{"error":"404 not found"}'), True),
        (
            ('{"q":"\\"Ann\\""}', "Could not find [\"Ann\"]. Similar: ['A', 'B']"),
            ('{"q":"\\"Bob\\""}', "Could not find [\"Bob\"]. Similar: ['C']"),
            True,
        ),
        (
            ('{"q":"a"}', "Error: Table 'x.people' doesn't exist"),
            ('{"q":"b"}', "Error: Unknown column 'z' in 'list'"),
            False,
        ),
        (
            ('{"c":"print(1"}', "Cell 1, line 1\n  print(1\nSyntaxError: never closed"),
            ('{"c":"print(22"}', "Cell 2, line 9\n  print(22\nSyntaxError: never closed"),
            True,
        ),
        (('{"c":"a"}', "Traceback\nValueError: a"), ('{"c":"b"}', "Traceback\nKeyError: a"), False),
        (
            ('{"v":1}', "ran\n" + "x\n" * 100 + "3 failed, 1 passed"),
            ('{"v":2}', "ran\n" + "x\n" * 100 + "2 failed, 2 passed"),
            False,
        ),
        (
            ('{"v":1}', "ran\n" + "x\n" * 100 + "3 failed, 1 passed"),
            ('{"v":2}', "ran\n" + "x\n" * 100 + "3 failed, 1 passed"),
            True,
        ),
    ],
)
def test_error_signatures(first: tuple[str, str], second: tuple[str, str], *, same: bool) -> None:
    one, other = step("f", *first), step("f", *second)
    assert NO_FP not in (one.signature, other.signature)
    assert (one.signature == other.signature) is same


def test_only_failures_have_signatures() -> None:
    assert step("f", "{}", "fine").signature == NO_FP


@pytest.mark.parametrize(
    "text",
    [
        "Observation:\nhello",
        "Error:\nError in code parsing:",
        "Tool call error:\n\n<error>",
        "<task-notification>\n<task-id>1",
        "<environment_context>\n  <cwd>",
        "<subagent_notification>\n{}",
        "<system-reminder>\nAs you answer",
        "Your tool call was malformed and could not be parsed. Please retry.",
        "Your previous response failed the application's validation",
        "1 validation error for Answer",
        "# 1 SEARCH/REPLACE block failed to match!",
        "What did we do so far?",
        "  \nObservation: x",
    ],
)
def test_texts_that_programs_write(text: str) -> None:
    assert is_harness(text)


@pytest.mark.parametrize("text", ["", "fix it", "I see an Error: what now?", "And again?", "Yes, please proceed"])
def test_texts_that_people_write(text: str) -> None:
    assert not is_harness(text)


def test_long_texts_that_differ_in_digits_are_one_form() -> None:
    form = "Please always give exactly one action in triple backticks in your next reply; found {} actions in this one."
    assert PRINTER.text(form.format(2)) == PRINTER.text(form.format(13))
    assert PRINTER.text("option 1") != PRINTER.text("option 2")
    assert PRINTER.text("Two  sessions.") == PRINTER.text("two sessions.")


def test_our_own_words_are_taken_out_and_only_they() -> None:
    assert strip_own("ok\n\n[guardproxy] note: x was called\n{}") == "ok"
    assert strip_own("[guardproxy] note") == ""
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
    assert len(small._memo) <= 4
    assert len(small._texts) <= 4


FPS = st.one_of(st.just(NO_FP), st.binary(min_size=16, max_size=16))
STEPS = st.builds(
    Step,
    kind=st.sampled_from(Kind),
    tool=st.text(max_size=30),
    call=FPS,
    near=FPS,
    masked=FPS,
    result=FPS,
    masked_result=FPS,
    signature=FPS,
    flags=st.integers(0, 1023).map(Flag),
    at_ms=st.integers(0, 2**62),
)


@given(STEPS)
def test_facts_come_back_as_they_were(one: Step) -> None:
    assert unpack(pack(one)) == one


@given(STEPS, st.integers(0, 2**62))
def test_a_stamped_fact_differs_in_its_time_alone(one: Step, at_ms: int) -> None:
    stamped = unpack(fingerprint.stamp(pack(one), at_ms))
    assert stamped.at_ms == at_ms
    assert unpack(fingerprint.stamp(pack(stamped), one.at_ms)) == one


@given(STEPS)
def test_facts_hold_no_content_beside_the_name(one: Step) -> None:
    assert len(pack(one)) <= 14 + fingerprint.TOOL_NAME + 6 * 16


@given(st.binary(max_size=200))
def test_junk_is_no_fact(junk: bytes) -> None:
    try:
        found = unpack(junk)
    except ValueError:
        return
    assert found.kind in Kind


@pytest.mark.parametrize("fact", [b"", b"\x01", b"\x02" + pack(step("f", "{}"))[1:], pack(step("f", "{}"))[:-1]])
def test_torn_and_foreign_facts_are_refused(fact: bytes) -> None:
    with pytest.raises(ValueError, match="step"):
        unpack(fact)


@settings(max_examples=200)
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
    began = time.process_time()
    step("bash", text, text, printer)
    step("read", '{"a":"' + text[:100_000] + '"}', "Error: " + text, printer)
    printer.text(text)
    is_harness(text)
    mask(text)
    assert time.process_time() - began < 0.5


def test_the_label_and_trailer_of_a_harness_are_not_the_answer() -> None:
    assert outcome.body("Output: hi\n\nReward: 0.5") == "hi"
    assert outcome.body("<returncode>0</returncode>\n<output>\nhi\n</output>") == "hi"
    assert outcome.body("hi 42") == "hi 42"
