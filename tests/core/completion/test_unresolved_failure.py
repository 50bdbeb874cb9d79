"""A failure that nothing resolved beside a claim of success; every way in which it may be none passes."""

from __future__ import annotations

import pytest

from guardproxy.core.completion import CHECKS, Candidate
from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Call
from guardproxy.core.tools import Rules
from tests.cheap import cheap
from tests.core.completion.finals import Did, edit, final, judged, sh

RED = "collected 5 items\nFAILED tests/test_a.py::test_x\n=== 1 failed, 4 passed in 0.3s ===\n[exit code: 1]"
GREEN = "collected 5 items\n=== 5 passed in 0.3s ==="
PASS = "I fixed the parser. All tests pass."


@pytest.mark.parametrize(
    "acts",
    [
        [sh("pytest -q", RED)],
        [edit("a.py"), sh("cd repo && python -m pytest tests", RED)],
        [sh("pytest", GREEN), edit("a.py"), sh("pytest", RED)],
        [sh("pytest", RED), edit("a.py")],  # mended, but not run again
        [sh("pytest", RED), sh("cat a.py", "x = 1"), sh("git diff", "+x")],  # looks are no runs
        [sh("npm run test:unit 2>&1 | tail -5", "Tests: 1 failed, 4 passed, 5 total\nexit code: 1")],
        [sh("uv run pytest -x", RED)],
        [sh("go test ./...", "--- FAIL: TestA\nFAIL\nexit status 1")],
        [("run_tests", {}, RED)],
        [sh("pytest", RED), ("user", "<system-reminder>3 steps left</system-reminder>", None)],
        [
            (
                "shell",
                {"command": ["bash", "-lc", "timeout 60 cargo test"]},
                "test result: FAILED. 1 failed\nexit code: 101",
            )
        ],
    ],
)
@pytest.mark.parametrize("text", [PASS, "Done, and the tests are passing now.", "修好了。所有测试均已通过。"])
def test_tests_that_fail_and_are_said_to_pass(acts: list[Did], text: str) -> None:
    found = judged("unresolved_failure", final(text, *acts))

    assert "the answer says that the tests pass" in found


@pytest.mark.parametrize(
    "acts",
    [
        [],
        [sh("pytest -q", GREEN)],
        [sh("pytest", RED), edit("a.py"), sh("pytest", GREEN)],
        [sh("pytest", RED), edit("a.py"), sh("./check.sh", "all good")],  # may have run them
        [sh("pytest", RED), edit("a.py"), sh("python - <<'E'\nprint(1)\nE", "1")],
        [sh("pytest", RED), edit("a.py"), ("task", {"prompt": "run the tests"}, "they pass")],
        [sh("pytest tests/new.py", GREEN), sh("pytest", RED)],  # which of them is meant?
        [sh("pytest", RED), ("user", "That is known. Sum up?", None)],  # another question
        [sh("pytest", RED), sh("pytest", None)],  # still runs
        [sh("pytest", "[Old tool result content cleared]")],
        [sh("grep -rn pytest .", "error: 3 failed\nexit code: 2")],
        [sh("pytest --collect-only", RED)],
        [sh("pip install pytest", "ERROR: no network\nexit code: 1")],
        [sh("ruff check .", "Found 3 errors.\nexit code: 1")],
        [sh("cat report.txt", RED)],
        [sh("pytest -q", "12 passed, 1 warning in 0.4s\nerror: coverage below 90\nexit code: 2")],
        [("execute_python", {"code": "import pytest; pytest.main()"}, RED)],
        [("run_command", "not json", RED)],
    ],
)
def test_runs_that_may_have_been_good(acts: list[Did]) -> None:
    assert judged("unresolved_failure", final(PASS, *acts)) == ""


@pytest.mark.parametrize(
    "text",
    [
        "I fixed the parser.",
        "The new tests pass.",
        "All 4 tests of the parser pass.",
        "Tests pass except test_x, which is unrelated.",
        "All tests pass but test_x.",
        "test_x still fails; all other tests pass.",
        "1 test fails as before. All tests pass otherwise.",
        "All tests should pass now.",
        "Run pytest to see that all tests pass.",
        "Once you set the key, all tests pass.",
        "Do all tests pass?",
        "Not all tests pass.",
        "I could not make it work.",
        'The script prints "All tests pass".',
        "```\nall tests pass\n```",
        "> all tests pass",
        "The user said that all tests pass.",
        "Alle Tests laufen durch.",
        "所有测试应该会通过。",
        "除 test_x 外,所有测试通过。",
        "",
    ],
)
def test_answers_that_do_not_claim_it(text: str) -> None:
    assert judged("unresolved_failure", final(text, sh("pytest", RED))) == ""


@pytest.mark.parametrize(
    "arguments", ['{"answer": "I fixed it.\\nAll tests pass."}', "All tests pass.", '["All tests pass."]']
)
def test_a_final_tool_claims_too(arguments: str) -> None:
    assert judged("unresolved_failure", final("", sh("pytest", RED), calls=[Call("finish", arguments)]))


@pytest.mark.parametrize(
    "piece", ["a", "a ", "test ", " ", '"', "`", "```\n", "x```\n", "'", "tests pass", "fix ", "\n", "..."]
)
def test_no_text_costs_much(piece: str) -> None:
    text = (piece * 100_000)[:100_000]
    with cheap(3):
        for rule, given in (
            ("unresolved_failure", {"tools": ("*",)}),
            ("files", {"tests": True}),
            ("open_calls", {"tools": ("*",)}),
            ("evidence", {"pattern": r"\bORD-\d+"}),
            ("output_schema", {"json_schema": {"type": "object"}}),
        ):
            judged(rule, final(f"{text} test", edit("a"), sh("pytest", f"{text}\n1 failed\nexit code: 1")), **given)


def test_a_claim_after_mended_failures_is_one() -> None:
    assert judged("unresolved_failure", final("Fixed the failing test. All tests pass.", sh("pytest", RED)))
    assert judged("unresolved_failure", final(PASS, sh("pytest", RED)), tests=False, tools=("x",)) == ""


SENT = ("send_mail", {"to": "a@x.example"}, "Sent.")
NOT_SENT = ("send_mail", {"to": "a@x.example"}, "Error: 503 service unavailable")


@pytest.mark.parametrize(
    ("acts", "failed"),
    [
        ([NOT_SENT], True),
        ([NOT_SENT, NOT_SENT], True),
        ([NOT_SENT, ("get_mail", {}, "inbox: 3")], True),  # looking is no way around it
        ([SENT], False),
        ([NOT_SENT, SENT], False),
        ([SENT, NOT_SENT], False),  # the same mail, sent before
        ([NOT_SENT, ("send_mail", {"to": "b@x.example"}, "Sent.")], False),
        ([NOT_SENT, ("post_message", {"to": "a"}, "ok")], False),  # may be a way around it
        ([NOT_SENT, ("send_sms", {"to": "a"}, None)], False),
        ([("send_mail", {"to": "a"}, "Error: already sent to this address")], False),
        ([("send_mail", {"to": "a"}, "[Old tool result content cleared]")], False),
        ([NOT_SENT, ("user", "forget it. What is 2+2?", None)], False),
        ([("send_mail", {"to": "b"}, "Sent."), NOT_SENT], True),  # another one
    ],
)
def test_needed_tools(acts: list[Did], failed: bool) -> None:
    found = judged("unresolved_failure", final("The mail was sent.", *acts), tools=("send_*",))

    assert bool(found) is failed
    if failed:
        assert "the newest call of `send_mail` failed" in found
        assert "503" in found


@pytest.mark.parametrize(
    "text",
    [
        "I tried to send the mail, but the service is down.",
        "The mail could not be sent: 503.",
        "The draft was created. Unfortunately the mail has not gone out.",
        "4",
        "Der Versand ist erledigt.",
        "邮件发送失败。",
        "草稿已创建,但邮件没有发出。",
    ],
)
def test_an_answer_that_discloses_it_is_fine(text: str) -> None:
    assert judged("unresolved_failure", final(text, NOT_SENT), tools=("send_*",)) == ""


@pytest.mark.parametrize("text", ["Done.", "The mail was sent successfully.", "邮件已发送。", "任务完成。"])
def test_claims(text: str) -> None:
    assert judged("unresolved_failure", final(text, NOT_SENT), tools=("send_mail",))


@pytest.mark.parametrize(
    "acts",
    [
        # a look-up that failed beside one that did not
        [("get_order", {"id": "A-1"}, "shipped"), ("get_order", {"id": "A-2"}, "Error: not found")],
        # an answer with a note of an error
        [("search_shows", {"q": "x"}, '{"error": "Message error...", "response": "' + "a show, " * 100 + '"}')],
        # a shell's failures are judged by tests only
        [("bash", {"command": "rm x"}, "rm: cannot remove 'x': No such file\nexit code: 1")],
        # an edit of a file that was edited before
        [edit("a.py"), ("edit_file", {"path": "a.py", "old": "zz", "new": "y"}, "Error: no match for old text")],
    ],
)
def test_failures_that_need_no_resolving(acts: list[Did]) -> None:
    assert judged("unresolved_failure", final("Done.", *acts), tools=("*",)) == ""


def test_the_rules_of_the_configuration_hold() -> None:
    printer = Fingerprinter(b"k", Rules(failure_ok=("send_mail",)))
    bare = final("Done.", NOT_SENT)

    assert judged("unresolved_failure", Candidate("Done.", (), bare.ask, printer), tools=("send_mail",)) == ""


def test_in_chinese() -> None:
    assert "测试失败了" in judged("unresolved_failure", final(PASS, sh("pytest", RED)), "zh")


def test_an_empty_pattern_is_refused() -> None:
    with pytest.raises(ValueError, match="tools: an empty pattern"):
        CHECKS["unresolved_failure"].Settings(tools=("",))
