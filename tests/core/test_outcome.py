"""What a result says of its call: words where tools put them, and the kind of an error."""

from __future__ import annotations

import pytest

from guardproxy.core import outcome
from guardproxy.core.model import NO_FP, Call, Flag, Message
from tests.core.steps import PRINTER, step

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
    ("f", "Unknown tool `g`", Flag.FAILED | Flag.INVALID | Flag.NO_TOOL),
    ("f", "step 3/9 running", Flag.PENDING),
    ("f", '{"status":"in_progress"}', Flag.PENDING),
    ("f", "in-progress", Flag.PENDING),
    ("f", "state: RUNNING", Flag.PENDING),
    ("f", "web-0 0/1 ContainerCreating 0", Flag.PENDING),
    ("f", "Still loading...", Flag.PENDING),
    ("f", "Loading…", Flag.PENDING),
    ("f", "PENDING", Flag.PENDING),
    ("f", "Position 4 in the queue", Flag.PENDING),
    ("f", '{"phase": "Provisioning"}', Flag.PENDING),
    ("bash", "You are still standing", Flag.NONE),
    ("f", "status: missing", Flag.NONE),
    ("f", "the building is tall", Flag.NONE),
    ("f", "(no new output)", Flag.PENDING | Flag.VOID),
    ("f", "Error: the job is not running", Flag.FAILED),
    ("f", "[Old tool result content cleared]", Flag.CLEARED),
    ("f", "all good", Flag.NONE),
    ("f", "Error: (none)", Flag.NONE),
    ("f", "Error: none", Flag.NONE),
    ("f", "error: null", Flag.NONE),
    ("f", "Errors: 0", Flag.NONE),
    ("f", "errors: []", Flag.NONE),
    ("f", "error: ''", Flag.NONE),
    ("f", "Error: -", Flag.NONE),
    ("f", "Error: nonesuch", Flag.FAILED),
    ("f", "Error: 0 bytes were read", Flag.FAILED),
    ("f", "ERROR:\nInvalid path", Flag.FAILED),
    ("f", "built\nError: (none)", Flag.NONE),
    ("f", '{"error": "", "rows": [1]}', Flag.NONE),
    ("f", '{"errors": [], "rows": [1]}', Flag.NONE),
    ("f", '{"error": "none", "rows": [1]}', Flag.NONE),
    ("f", '{"error": {}, "rows": [1]}', Flag.NONE),
    ("f", '{"exit_code": 0, "rows": [1]}', Flag.NONE),
    ("f", '{"returncode": 1, "rows": [1]}', Flag.FAILED),
    ("f", '{"data": null, "errors": [{"message": "no field"}]}', Flag.FAILED),
    ("f", "0 errors", Flag.NONE),
    ("f", "no errors found", Flag.NONE),
    ("f", "Found 0 matches", Flag.VOID),
    ("read_file", "File not found: /a/b.py", Flag.FAILED),
    ("read_file", "The file does not exist.", Flag.FAILED),
    ("sh", "[2026-01-31T10:00:00Z] ERROR: no distribution", Flag.FAILED),
    ("sh", "2026-01-31T10:00:00Z pid=12\nERROR: no distribution", Flag.FAILED),
    ("read_log", "[2026-01-31T10:00:00Z] ERROR: no distribution\n[2026-01-31T10:00:02Z] up", Flag.NONE),
    ("sh", "2026-01-31T10:00:00Z", Flag.NONE),
    ("gh", "* main build - waiting\nJOBS", Flag.PENDING),
]


@pytest.mark.parametrize(("tool", "text", "flags"), FLAGS)
def test_what_a_result_says(tool: str, text: str, flags: Flag) -> None:
    found = step(tool, "{}", text).flags & ~(Flag.ROUND_START | Flag.MUTATES | Flag.SILENT | Flag.LOOKS | Flag.SHELL)
    assert found == flags


@pytest.mark.parametrize(
    ("text", "blank", "affirmed"),
    [
        ("", True, False),
        ("null", True, False),
        ("{}", True, False),
        ("(no output)", True, False),
        ("[]", False, False),
        ("No results found.", False, False),
        ("ok", False, True),
        ("Done.", False, True),
        ("All checks passed!", False, True),
        ("(empty)", True, False),
        ("healthy", False, True),
        ("200", False, True),
        ("HTTP/1.1 200 OK", False, True),
        ("no errors found", False, True),
        ("201 rows", False, False),
        ("unhealthy", False, False),
        ("The file was edited successfully.", False, True),
        ("Clicked on button", False, True),
        ('{"success": true}', False, True),
        ("rejected", False, False),
        ("unchanged", False, False),
        ("total 0", False, False),
        ("Nothing happens.", False, False),
        ("10 results", False, False),
    ],
)
def test_bare_successes(text: str, *, blank: bool, affirmed: bool) -> None:
    assert (outcome.blank(text), outcome.affirmed(text)) == (blank, affirmed)


def test_the_client_knows_best_whether_it_failed() -> None:
    def told(text: str, *, failed: bool) -> Flag:
        return PRINTER.step(Call("f", "{}"), Message("tool", text, failed=failed), first=False, at_ms=0).flags

    assert told("fine", failed=True) == Flag.FAILED
    assert told("Error: as the log of another machine says", failed=False) == Flag.NONE


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


def test_the_label_and_trailer_of_a_harness_are_not_the_answer() -> None:
    assert outcome.body("Output: hi\n\nReward: 0.5") == "hi"
    assert outcome.body("<returncode>0</returncode>\n<output>\nhi\n</output>") == "hi"
    assert outcome.body("hi 42") == "hi 42"
