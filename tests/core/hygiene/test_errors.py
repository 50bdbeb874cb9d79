"""errors: the kind of a failure, the wait, and when a tool is gone for good."""

from __future__ import annotations

import re

import pytest

from guardproxy.core.edit import AppendText
from guardproxy.core.hygiene import Fatal
from guardproxy.core.hygiene.errors import Settings
from tests.core import talk
from tests.core.hygiene.tidying import answered, clean, everything, one, said

ON = Settings("enforce")
DOWN = "HTTP 503 Service Unavailable"


@pytest.mark.parametrize(
    ("tool", "answer", "kind"),
    [
        ("get_issue", '{"error": "404 not found"}', "not_found"),
        ("get_issue", "Error: 404", "not_found"),
        ("bash", "cat: x: No such file or directory", "not_found"),
        ("bash", "bash: foo: command not found", "not_found"),
        ("read_file", "Error: ENOENT: no such file or directory, open 'a'", "not_found"),
        ("read_file", "错误:文件不存在", "not_found"),
        ("sql", "Error executing query: Unknown column 'a' in 'where clause'", "not_found"),
        ("search", "Could not find that page, please try again.", "not_found"),
        ("bash", 'Traceback (most recent call last):\n  File "a"\nsqlite3.OperationalError: no such table: t', ""),
        (
            "sql",
            'Traceback (most recent call last):\n  File "a"\nsqlite3.OperationalError: no such table: t',
            "not_found",
        ),
        ("bash", "bash: ./a: Permission denied", "permissions"),
        ("get_page", "Error: 403 Forbidden", "permissions"),
        ("get_page", '{"status": 401, "error": "unauthorized"}', "permissions"),
        ("get_page", "Error: 402 Payment Required", "permissions"),
        ("f", "Error: invalid arguments: path must be a string", "arguments"),
        ("f", "TypeError: f() missing 1 required positional argument: 'x'", "arguments"),
        ("f", "MCP error -32602: Invalid arguments for tool f", "arguments"),
        ("f", '{"error": {"code": 422, "message": "unprocessable"}}', "arguments"),
        ("f", "Error: HTTP 503 Service Unavailable", "transient"),
        ("f", '{"error": {"code": 503, "message": "overloaded"}}', "transient"),
        ("f", '{"status": 429, "error": "slow down"}', "transient"),
        ("f", "Error: 403 rate limit exceeded", "transient"),
        ("f", "Error: ETIMEDOUT", "transient"),
        ("f", "Error: request timed out", "transient"),
        ("bash", "curl: (7) Failed to connect to a port 80: Connection refused\n[exit code: 7]", "transient"),
        ("f", "Traceback (most recent call last):\n  File a\nrequests.ReadTimeout: read timed out", "transient"),
        ("bash", "Error: command timed out after 120 s", "too_slow"),
        ("f", "Error: Your credit balance is too low", "fatal"),
        ("f", "Error: the API key was revoked", "fatal"),
        ("f", "Error: this tool has been disabled by the administrator", "fatal"),
        ("f", "Error: tool edit is disabled in plan mode", ""),
        ("bash", "Error: the API key was revoked", ""),
        ("q", "Unknown tool: q", "no_tool"),
        ("f", "Unknown tool: f", "fatal"),  # which the request offers
        ("bash", "E   TimeoutError: timed out\n2 failed, 3 passed in 4 s", ""),
        ("bash", 'Traceback (most recent call last):\n  File "a"\nValueError: invalid value', ""),
        ("f", "Error: 500 Internal Server Error", ""),
        ("f", "Error: something broke", ""),
        ("f", "all well, 503 rows", ""),
        ("read_file", "notes on HTTP 503 and permission denied", ""),
        ("f", "", ""),
        ("f", "Error: it failed 429 times", ""),
    ],
)
def test_what_kind_of_failure_it_is(tool: str, answer: str, kind: str) -> None:
    made = one(tool, '{"n": 1}', answer, errors=ON)

    assert [done.what for done in made.done] == [kind] * bool(kind)
    assert len(made.edits) == bool(kind)


@pytest.mark.parametrize(
    ("kind", "answer", "words"),
    [
        ("arguments", "Error: invalid arguments", "schema"),
        ("permissions", "Error: permission denied", "ask the user"),
        ("not_found", "Error: not found", "Look first at what is there"),
        ("no_tool", "Unknown tool: zz", "f, g, h"),
    ],
)
def test_what_can_be_put_right_is_told_how(kind: str, answer: str, words: str) -> None:
    made = one("zz", "{}", answer, errors=ON)

    assert words in said(made)
    assert made.fatal is None


def seconds(text: str) -> list[int]:
    return [int(found) for found in re.findall(r"about (\d+) s", text)]


def test_the_wait_is_doubled_with_each_failure_of_the_same_call() -> None:
    waits = [seconds(said(clean(answered(*[("f", "{}", DOWN)] * count), errors=ON))) for count in range(1, 8)]

    assert waits == [[2], [4], [8], [16], [32], [], []]
    text = said(clean(answered(*[("f", "{}", DOWN)] * 6), errors=ON))
    assert "6 times in a row" in text
    assert "5 retries" in text


@pytest.mark.parametrize(
    ("steps", "wait"),
    [
        ([("f", "{}", DOWN), ("f", '{"a": 1}', DOWN)], 2),
        ([("f", "{}", DOWN), ("g", "{}", "fine"), ("f", "{ }", DOWN)], 4),
        ([("f", "{}", DOWN), ("f", "{}", "fine"), ("f", "{}", DOWN)], 2),
        ([("f", "{}", DOWN), ("f", "{}", "Error: not found"), ("f", "{}", DOWN)], 2),
        ([("f", "{}", DOWN), ("g", "{}", DOWN), ("f", "{}", DOWN)], 4),
    ],
)
def test_what_counts_towards_the_window(steps: list[tuple[str, str, str]], wait: int) -> None:
    assert seconds(said(clean(answered(*steps), errors=ON))) == [wait]


def test_equal_calls_of_one_message_count_once() -> None:
    asked = talk.ask(
        talk.user("x"),
        talk.called(("f", "{}", "1"), ("f", "{}", "2")),
        talk.result(DOWN, "1"),
        talk.result(DOWN, "2"),
    )
    assert seconds(said(clean(asked, errors=ON))) == [2, 2]


def test_the_window_is_that_of_the_whole_conversation() -> None:
    steps = [("f", "{}", DOWN), *[("g", f'{{"n": {n}}}', "fine") for n in range(40)], ("f", "{}", DOWN)]
    asked = answered(*steps)
    assert asked.tail_start > 0

    assert seconds(said(clean(asked, errors=ON))) == [4]
    assert seconds(said(clean(asked, whole=asked, errors=ON))) == [2]


@pytest.mark.parametrize(
    ("answer", "wait"),
    [
        ("Error: 429 Too Many Requests, retry after 20 s", 20),
        ('{"error": "rate limited", "status": 429, "retry_after": 40}', 40),
        ('{"error": "rate limited", "status": 429, "retry_after_ms": 40}', 2),
        ("Error: 429. Please try again in 3 minutes", 180),
        ("Error: 429. Please try again in 1500 ms", 2),
        ("Error: 429. Please try again in 1.5 s", 2),
        ("Error: 429. Please try again in 1 hour", 300),
        ("Error: 429. Please try again in 999999 hours", 2),
        ("Error: 429", 2),
    ],
)
def test_what_the_failure_asks_for_is_heard(answer: str, wait: int) -> None:
    assert seconds(said(one("f", "{}", answer, errors=ON))) == [wait]


@pytest.mark.parametrize(
    ("chosen", "wait"),
    [(Settings("enforce", wait_seconds=10), 40), (Settings("enforce", wait_seconds=10, longest_seconds=25), 25)],
)
def test_the_window_is_a_setting(chosen: Settings, wait: int) -> None:
    assert seconds(said(clean(answered(*[("f", "{}", DOWN)] * 3), errors=chosen))) == [wait]
    assert chosen.wait(10_000) == chosen.longest_seconds


GONE = "Error: the API key was revoked"


@pytest.mark.parametrize(
    ("chosen", "steps", "action"),
    [
        (ON, [("f", "{}", GONE)], None),
        (ON, [("f", "{}", GONE), ("g", "{}", "x"), ("f", '{"a": 1}', GONE)], "finalize"),
        (Settings("enforce", on_fatal="pause"), [("f", "{}", GONE), ("f", "{}", GONE)], "pause"),
        (Settings("enforce", on_fatal="tell"), [("f", "{}", GONE)] * 5, None),
        (Settings("enforce", fatal_after=1), [("f", "{}", GONE)], "finalize"),
        (Settings("enforce", fatal_after=1), [("f", "{}", GONE), ("f", "{}", "works again")], None),
        (ON, [("f", "{}", GONE), ("g", "{}", GONE)], None),
        (Settings("observe", fatal_after=1), [("f", "{}", GONE)], None),
        (Settings("enforce", fatal_after=1, fatal_words=("Broken for Good",)), [("f", "{}", "Error: broken for good!")],
         "finalize"),
        (Settings("enforce", fatal_after=1, fatal_words=("nothing",)), [("f", "{}", "nothing here")], None),
    ],
)  # fmt: skip
def test_a_tool_that_is_gone_for_good_ends_the_run_as_the_settings_say(
    chosen: Settings, steps: list[tuple[str, str, str]], action: str | None
) -> None:
    made = clean(answered(*steps), errors=chosen)

    assert (made.fatal.action if made.fatal else None) == action
    if action:
        assert isinstance(made.fatal, Fatal)
        assert made.fatal.tool == "f"
        assert made.fatal.reason.startswith("f is not available for good: it failed so ")


def test_words_of_ones_own_make_a_failure_transient() -> None:
    made = one("f", "{}", "Error: the moon is full", errors=Settings("enforce", transient_words=("MOON",)))

    assert [done.what for done in made.done] == ["transient"]


def test_what_a_client_puts_around_an_output_is_not_read() -> None:
    text = "Command: cat a\nOutput: cat: a: No such file or directory\nExit Code: 1"

    assert [done.what for done in one("bash", '{"command": "cat a"}', text, errors=ON).done] == ["not_found"]


def test_our_own_words_are_no_sign() -> None:
    advice = said(one("f", "{}", "Error: permission denied", errors=ON))

    assert one("f", "{}", f"fine\n{advice}", errors=ON).done == ()
    made = one("f", "{}", f"Error: something broke\n{advice}", errors=ON)
    assert made.done == ()


def test_parallel_failures_are_told_each_at_its_place() -> None:
    asked = talk.ask(
        talk.user("x"), talk.called(("f", "{}", "1"), ("g", "{}", "2"), ("h", "{}", "3")),
        talk.result("Error: not found", "2"), talk.result(DOWN, "1"),
    )  # fmt: skip
    made = clean(asked, errors=ON)

    assert [(done.tool, done.what, done.index) for done in made.done] == [("f", "transient", 3), ("g", "not_found", 2)]
    assert [edit.index for edit in made.edits if isinstance(edit, AppendText)] == [3, 2]


def test_the_same_request_gives_the_same_words() -> None:
    asked = answered(("f", "{}", DOWN), ("f", "{}", DOWN))

    assert clean(asked, errors=ON) == clean(everything(asked), errors=ON)


@pytest.mark.parametrize(
    ("more", "field"),
    [
        ({"retries": 0}, "retries"),
        ({"wait_seconds": 0}, "wait_seconds"),
        ({"fatal_after": 0}, "fatal_after"),
        ({"longest_seconds": 1}, "longest_seconds"),
        ({"fatal_words": (" ",)}, "fatal_words"),
        ({"transient_words": ("",)}, "transient_words"),
    ],
)
def test_settings_refuse_what_cannot_be_meant(more: dict[str, object], field: str) -> None:
    with pytest.raises(ValueError, match=f"^{field}: "):
        Settings(**more)
