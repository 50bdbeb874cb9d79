"""The output inside of what clients put around it, and what it says of its call in each client's form."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from guardproxy.core.envelope import Opened, opened
from guardproxy.core.model import NO_FP, Flag
from tests.core.steps import step
from tests.generated.making import STYLES, Client
from tests.generated.words import Words

RECORDINGS = Path(__file__).parents[3] / "shared" / "clients" / "recordings"
CHECKED = Flag.FAILED | Flag.VOID | Flag.PENDING
GEMINI = "Command: {command}\nDirectory: {where}\n{output}\nError: {error}\nExit Code: {code}\nSignal: {signal}\n{last}"


def gemini(output: str, error: str = "(none)", code: str = "0", signal: str = "(none)", pgid: int = 7) -> str:
    return GEMINI.format(
        command="make all", where="(root)", output=output, error=error, code=code, signal=signal,
        last=f"Background PIDs: (none)\nProcess Group PGID: {pgid}",
    )  # fmt: skip


def codex(output: str, code: int, seconds: float = 0.7) -> str:
    return json.dumps({"output": output, "metadata": {"exit_code": code, "duration_seconds": seconds}})


def openhands(output: str, code: int) -> str:
    done = f"[The command completed with exit code {code}.]\n[Current working directory: /w]\n"
    return f"{output}\n{done}[Python interpreter: /usr/bin/python]\n[Command finished with exit code {code}]"


def chunk(output: str, code: int, chunk: str = "23393b", seconds: float = 0.0) -> str:
    head = f"Chunk ID: {chunk}\nWall time: {seconds:.4f} seconds\nProcess exited with code {code}\n"
    return f"{head}Original token count: 5\nOutput:\n{output}"


FORMS = [
    (gemini("Output: hi\nyou"), Opened("hi\nyou", 0)),
    (gemini("Stdout: hi\nStderr: (empty)"), Opened("hi", 0)),
    (gemini("Stdout: hi\nStderr: a\nb"), Opened("hi\na\nb", 0)),
    (gemini("Output: (empty)"), Opened("", 0)),
    (gemini("Output: x", error="spawn ENOENT", code="(none)"), Opened("x\nspawn ENOENT", None, failed=True)),
    (gemini("Output: x", signal="SIGKILL", code="(none)"), Opened("x", None, failed=True)),
    (gemini("Output: x", signal="0", code="-1"), Opened("x", -1)),
    ("Output: hi\nProcess Group PGID: 4", Opened("hi")),
    ("Output: hi\nError: in the log\nProcess Group PGID: 4", Opened("hi\nError: in the log")),
    ("Output: hi\nExit Code: 2\nProcess Group PGID: 4", Opened("hi", 2)),
    ("Command: cat <<E\nOutput: no\nE\nDirectory: x\nOutput: yes\nExit Code: 0", Opened("yes", 0)),
    (codex("a\nb", 0), Opened("a\nb", 0)),
    (codex("", 1), Opened("", 1)),
    ('{\n  "returncode": 0,\n  "output": "hi\\n"\n}', Opened("hi\n", 0)),
    ('{"stdout": "a", "stderr": "b", "exit_code": 3}', Opened("a\nb", 3)),
    ('{"output": "a", "exit_code": 0, "changed": ["x"]}', Opened('a\n{"changed": ["x"]}', 0)),
    ('{"output": "a", "exit_code": 0, "pid": 7, "cwd": "/x", "timed_out": false}', Opened("a", 0)),
    ('{"content": [{"type": "text", "text": "hi"}], "isError": false}', Opened("hi")),
    ('{"content": [{"type": "text", "text": "no"}], "isError": true}', Opened("no", failed=True)),
    ('[{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]', Opened("a\nb")),
    ('[{"query": "ls", "result": "a\\n", "success": true}]', Opened("a\n")),
    ('[{"query": "ls", "result": "", "error": "no", "success": false}]', Opened("no", failed=True)),
    (chunk("hi\n", 0), Opened("hi\n", 0)),
    ("Exit code: 2\nWall time: 0.7 seconds\nTotal output lines: 3\nOutput:\nhi", Opened("hi", 2)),
    ("Exit code 1\nhi", Opened("hi", 1)),
    ("Exit code 1", Opened("", 1)),
    ("Command executed.\nOutput:\nhi", Opened("hi")),
    ("Command executed in terminal within working directory '/w'. Exit code: 2\nOutput:\nhi", Opened("hi", 2)),
    ("Command failed with exit code 7.\nhi", Opened("hi", 7)),
    ("<returncode>1</returncode>\n<output>\nhi\n</output>", Opened("hi", 1)),
    (openhands("hi", 0), Opened("hi", 0)),
    ("hi\n[Current working directory: /w]\n[Command finished with exit code 2]", Opened("hi", 2)),
    ("hi\n(exit 1)", Opened("hi", 1)),
    ("hi\n[Process exited with code 3]", Opened("hi", 3)),
]


@pytest.mark.parametrize(("text", "found"), FORMS)
def test_the_output_is_found(text: str, found: Opened) -> None:
    assert opened(text) == found


@pytest.mark.parametrize(
    "text",
    [
        "hi", "", "{", "[", "[1]", "[{}]", "{}", '{"output": 1}', '{"output": "a"}', '{"exit_code": 0}',
        '[{"text": 1}]', '{"output": "a", "exit_code": true}',
        '{"content": "a"}', '{"content": [{"type": "image"}]}', '{"output": "a", "exit_code": "0"}',
        '{"output":' * 5000, "Command: ls", "Output: hi", "Exit codes are numbers", "Command failed: npm test\nError",
        "Chunk ID: 1\nWall time: 5 seconds\nProcess running with session ID 7\nOutput:\n", "an exit (see below)",
        "he left by the exit]", "Signal: 1\nExit Code: 0", "<returncode>x</returncode>", "Wall time: 5 s",
        "Error: (none)",
    ],
)  # fmt: skip
def test_what_has_no_envelope_stays(text: str) -> None:
    assert opened(text) is None


WRONG = "bash: foo: command not found"
TRACE = 'Traceback (most recent call last):\n  File "a.py", line 7\nValueError: bad'
CLIENTS = {
    "gemini": lambda text, code: gemini(f"Output: {text or '(empty)'}", code=str(code)),
    "gemini, streams": lambda text, code: gemini(f"Stdout: {text or '(empty)'}\nStderr: (empty)", code=str(code)),
    "gemini, short": lambda text, code: (
        f"Output: {text or '(empty)'}\n{f'Exit Code: {code}{chr(10)}' if code else ''}Process Group PGID: 99"
    ),
    "codex": codex,
    "codex, headed": lambda text, code: f"Exit code: {code}\nWall time: 0.7 seconds\nOutput:\n{text}",
    "codex, chunks": chunk,
    "openhands": openhands,
    "cline": lambda text, code: (
        f"Command failed with exit code {code}.\n{text}" if code else f"Command executed.\nOutput:\n{text}"
    ),
    "cline, json": lambda text, code: json.dumps([{"query": "make", "result": text, "success": not code}]),
    "claude": lambda text, code: f"Exit code {code}\n{text}" if code else text,
    "mini": lambda text, code: f"<returncode>{code}</returncode>\n<output>\n{text}\n</output>",
    "mini, json": lambda text, code: json.dumps({"returncode": code, "output": text}),
    "plain": lambda text, code: f"{text}\n(exit {code})" if code else text,
    "mcp": lambda text, code: json.dumps({"content": [{"type": "text", "text": text}], "isError": bool(code)}),
}


@pytest.mark.parametrize("form", CLIENTS)
@pytest.mark.parametrize(
    ("text", "code", "flags"),
    [
        ("hello from the note", 0, Flag.NONE),
        ("0 errors, 3 warnings\nall is built", 0, Flag.NONE),
        ("Error: none", 0, Flag.NONE),
        ("no errors", 0, Flag.NONE),
        (WRONG, 127, Flag.FAILED),
        (TRACE, 1, Flag.FAILED),
        ("2 failed, 3 passed", 1, Flag.FAILED),
        ("something else", 2, Flag.FAILED),
        ("", 0, Flag.VOID),
        ("No matches found", 0, Flag.VOID),
        ("* main build - queued", 0, Flag.PENDING),
    ],
)
def test_what_each_client_says(form: str, text: str, code: int, flags: Flag) -> None:
    assert step("run_command", '{"command":"make all"}', CLIENTS[form](text, code)).flags & CHECKED == flags


@pytest.mark.parametrize("form", [one for one in CLIENTS if one not in ("mcp", "cline, json")])  # those tell no code
def test_exit_code_1_without_a_word_is_an_answer(form: str) -> None:
    said = step("run_command", '{"command":"grep x y"}', CLIENTS[form]("", 1))
    assert said.flags & CHECKED == Flag.VOID
    assert step("run_command", '{"command":"grep x y"}', CLIENTS[form]("", 2)).flags & Flag.FAILED


@pytest.mark.parametrize("form", CLIENTS)
def test_an_error_is_known_by_what_the_program_said(form: str) -> None:
    """Whatever a log has put in front of it, and whatever the call has in it."""

    def signed(program: str, begun: str) -> bytes:
        said = f"{begun}{program}: could not connect to server 127.0.0.1:5432: Connection refused"
        return step("run_command", json.dumps({"command": f"{program} --port 5432"}), CLIENTS[form](said, 1)).signature

    first = signed("./map-zip", "[2026-01-31T10:00:00Z] ")
    assert first == signed("./up-sync", "[2026-01-31T11:30:59Z] ") == signed("./get", "") != NO_FP


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (gemini("Output: hi", pgid=12345), gemini("Output: hi", pgid=777)),
        (codex("hi", 0, 0.7), codex("hi", 0, 2.9)),
        (chunk("hi", 0, "23393b", 0.1), chunk("hi", 0, "a523d0", 2.0)),
        (codex("x" * 9000, 0, 0.7), codex("x" * 9000, 0, 2.9)),
    ],
)
def test_what_the_client_adds_makes_no_difference(one: str, other: str) -> None:
    assert step("shell", "{}", one).result == step("shell", "{}", other).result


def test_the_exit_code_is_part_of_the_answer() -> None:
    assert step("shell", "{}", codex("hi", 2)).result != step("shell", "{}", codex("hi", 3)).result


def test_words_of_what_a_command_only_shows_are_no_failure_where_it_went_well() -> None:
    shown = "def f():\n    pass\nValueError: a comment in a file"
    cat = '{"command": ["bash", "-lc", "cat a.py"], "workdir": "/w"}'
    run = '{"command": ["bash", "-lc", "python a.py || true"], "workdir": "/w"}'
    assert not step("shell", cat, codex(shown, 0)).flags & Flag.FAILED
    assert step("shell", run, codex(shown, 0)).flags & Flag.FAILED


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("full", [True, False])
@pytest.mark.parametrize(
    ("output", "code", "flags"), [("all is built", 0, Flag.NONE), (TRACE, 1, Flag.FAILED), ("", 0, Flag.VOID)]
)
def test_the_forms_of_generated_runs(style: str, *, full: bool, output: str, code: int, flags: Flag) -> None:
    client = Client(Words(random.Random("forms")))
    client.style, client.full_form = style, full
    tool, arguments, told = client.shell("make all", output, code)
    assert step(tool, json.dumps(arguments), told).flags & CHECKED == flags


def results(value: Any) -> Iterator[str]:
    """The texts of tool results, wherever they stand in a recorded request."""
    if isinstance(value, dict):
        if value.get("role") in ("tool", "function") or value.get("type") == "tool_result":
            content = value.get("content")
            parts = [content] if isinstance(content, str) else [one.get("text", "") for one in content or ()]
            yield "\n".join(parts)
        elif value.get("type") == "function_call_output" and isinstance(value.get("output"), str):
            yield value["output"]
        else:
            for one in value.values():
                yield from results(one)
    elif isinstance(value, list):
        for one in value:
            yield from results(one)
    elif isinstance(value, str) and value[:1] == "{":
        try:
            yield from results(json.loads(value))
        except ValueError:
            return


def test_no_recorded_result_is_a_failure() -> None:
    """Each command in the recordings of clients went well (it shows a file)."""
    if not RECORDINGS.exists():
        pytest.skip("../shared/clients/recordings is not here: this test reads what clients sent")
    told = set()
    for file in sorted(RECORDINGS.glob("*.jsonl")):
        for line in file.read_text("utf-8").splitlines():
            told |= set(results(json.loads(line)))
    assert len(told) > 20
    failed = [text for text in told if step("run_command", "{}", text).flags & Flag.FAILED]
    shown = {
        step("run_command", '{"command":"cat note.txt"}', text).result for text in told if "hello from the note" in text
    }
    assert (failed, len(shown)) == ([], 1)
