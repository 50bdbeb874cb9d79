"""The field cases as a table: after which turn each rung is reached. Reports: see the case numbers in the docs."""

from __future__ import annotations

import json

import pytest

from tests.core.detectors.scripts import Turn, rules, rungs


def call(tool: str, result: str | None, **arguments: object) -> tuple[str, str, str | None]:
    return tool, json.dumps(arguments), result


FORTY = "\n".join(f"line {n} of the file" for n in range(40))
AB: list[Turn] = [call("lookup", "none", q="a"), call("search", "none", q="b")]
PING: list[Turn] = [call("memory_search", "[]", q="x"), call("memory_get", "null", k="x")]
POLL: Turn = call("process", "(no new output)", action="log", id=7)
LOOK: Turn = call("poll", "none")
NEW: list[Turn] = [call("sh", f"out {n}", cmd=f"other {n}") for n in range(10)]


def edits(results: list[str]) -> list[Turn]:
    turns: list[Turn] = []
    for number, result in enumerate(results):
        turns += [call("edit", "ok", p="a.py", new=f"v{number}"), call("sh", result, cmd="pytest -q")]
    return turns


CASES: dict[str, tuple[list[Turn], dict[str, int]]] = {
    "B01": ([call("read", FORTY, path="a.ts")] * 6, {"nudge": 3, "firm": 4, "finalize": 5, "cut": 6}),
    "B02": ([[call("sh", "BUILD SUCCESS", cmd="mvn test")] * 4] * 3, {"nudge": 3}),
    "B03": (
        [
            turn
            for k in range(1, 9)
            for turn in (
                call("sh", "error[E0308] mismatched types", cmd="cargo test"),
                call("read", f"text of file {k}", path=f"src/m{k}.rs"),
            )
        ],
        {"nudge": 7, "firm": 9, "finalize": 13, "cut": 15},
    ),
    "B04": ([call("memory_get", "(memory is empty)", key="quota")] * 3, {"nudge": 3}),
    "B06": (
        [call("get_issue", '{"error":"404 not found"}', id=k) for k in (101, 245, 318, 77, 402, 9, 55, 81)],
        {"nudge": 4, "firm": 5, "finalize": 7, "cut": 8},
    ),
    "B06, a 200 in between": (
        [
            *[call("get_issue", '{"error":"404 not found"}', id=k) for k in (1, 2, 3)],
            call("get_issue", '{"title":"it leaks"}', id=4),
            *[call("get_issue", '{"error":"404 not found"}', id=k) for k in (5, 6, 7)],
        ],
        {},
    ),
    "B07": (
        [
            call(
                "py",
                f'Cell In[{k}], line 1{k}\n    print("Hi {k}\n          ^\nSyntaxError: unterminated string literal',
                code=f'print("Hi {k}',
            )
            for k in range(1, 6)
        ],
        {"nudge": 4, "firm": 5},
    ),
    "B08a": ([call("grep", "no match", cmd=f"grep -B{n} needle f") for n in (10, 50, 250, 1750)], {"nudge": 4}),
    "B08b": ([call("read", f"page {k}", path="v.py", offset=k * 80, limit=80) for k in range(6)], {}),
    "B09": (AB * 5, {"nudge": 6, "firm": 8, "cut": 10}),
    "B09, changing results": (
        [call(t, f"hit {k}", q=q) for k in range(5) for t, q in (("lookup", "a"), ("search", "b"))],
        {},
    ),
    "B10, its laps": (PING * 4, {"nudge": 6, "firm": 8}),
    "B11": (
        [call("send", f'{{"ok":true,"messageId":"m{k}","ts":17100000{k}}}', to="ops", text="done") for k in range(3)],
        {"nudge": 3},
    ),
    "B12": (
        [call("read", f"{FORTY}\n(40/40 lines shown - read {k} times this session)", path="a") for k in range(1, 4)],
        {"nudge": 3},
    ),
    "B13": ([call("process", "[]", action="list")] * 7, {"nudge": 3, "firm": 4, "finalize": 5, "cut": 6}),
    "B14": (
        [call("todo", f"ok\n\n[guardproxy] todo was called {k} times", op="x") for k in range(6)],
        {"nudge": 3, "firm": 4, "finalize": 5, "cut": 6},
    ),
    "B15": (
        [call("todo", "Invalid arguments: op must be set")] * 8,
        {"nudge": 3, "firm": 4, "finalize": 5, "cut": 6},
    ),
    "B16, requests after the first": ([None] * 3, {"nudge": 1, "firm": 2, "cut": 3}),
    "B18": (["Two sessions are open."] * 4, {"nudge": 2, "firm": 3, "cut": 4}),
    "B19": ([call("task_list", f"{9 - k} tasks in progress", status="in_progress") for k in range(8)], {}),
    "B19, frozen": (
        [call("task_list", "task 4: in progress", status="in_progress")] * 12,
        {"nudge": 8, "firm": 12},
    ),
    "B20": ([POLL] * 30, {"nudge": 8, "firm": 12, "finalize": 23, "cut": 24}),
    "B21": ([LOOK, LOOK, *NEW, LOOK, LOOK], {}),
    "B21, no gap": ([LOOK] * 3, {"nudge": 3}),
    "B22": (
        [
            *[call("build_status", f"step {k}/9 running", id=3) for k in range(1, 10)],
            call("build_status", "done", id=3),
        ],
        {},
    ),
    "B23": (edits([f"{5 - k} failed" for k in range(5)]), {}),
    "B23, identical": (edits(["3 failed"] * 10), {"nudge": 12}),
    "B24": ([call("sh", f"answer {k}", cmd=f"command {k}") for k in range(25)], {}),
    "B25": (
        [
            call("read", "x", files=files)
            for files in ([{"path": "a"}], [{"path": "b"}], [{"path": "c"}], [{"path": "a"}, {"path": "b"}])
        ],
        {},
    ),
    "B28": (
        [*[call("read_output", f"block {k}", session=1) for k in range(20)], call("read_output", "", session=1)],
        {},
    ),
    "B29": (
        [call("read_file", f"page {k}", path="x", start_line=1 + 40 * k, end_line=40 + 40 * k) for k in range(8)],
        {},
    ),
    "B30": ([call("search", f"hits {k}", pattern="def main", offset=50 * k, limit=50) for k in range(6)], {}),
    "B31": (
        [
            turn
            for k in range(12)
            for turn in (
                call("grep", f"list {k}", q=f"comp{k}"),
                call("sh", "", cmd=f"git mv comp{k} new/"),
                call("edit", "ok", p=f"idx{k}"),
            )
        ],
        {},
    ),
    "B48": ([call("term", f"r{k}", cmd=f"c{k}") for k in range(4)], {}),
    "B60": ([call("graph_stats", '{"nodes":7}')] * 6, {"nudge": 3, "firm": 4, "finalize": 5, "cut": 6}),
}


def series(tool: str, result: str, pattern: str, count: int = 20) -> list[Turn]:
    """The tool over targets that differ in a letter; the pattern says where it stands."""
    return [call(tool, result, arg=pattern.replace("@", f"{chr(97 + k)}x")) for k in range(count)]


def shell(command: str, result: str, count: int = 20) -> list[Turn]:
    return [call("bash", result, command=command.replace("@", f"n{k}")) for k in range(count)]


HEALTHY: dict[str, tuple[list[Turn], str]] = {
    "convert": (shell("convert @.png @.jpg", ""), ""),
    "lint": (shell("ruff check @", "All checks passed!"), ""),
    "archive": (series("archive_mail", "", "@"), ""),
    "approve": (series("approve_request", "{}", "@"), ""),
    "close": (series("close_issue", "closed", "@"), ""),
    "type": (series("type", "Typed", "@"), ""),
    "audit": (shell("grep -rn @ src", ""), "firm"),
    "empty files": (series("read_file", "", "pkg/@/__init__.py"), "firm"),
    "bash waits": ([*shell("sleep 60", "", 1), *shell("./status.sh", "state: RUNNING", 1)] * 7, ""),
    "in progress": (shell("sleep 60; curl api", '{"status":"in_progress"}', 1) * 7, ""),
    "creating": (shell("kubectl get pod x", "x 0/1 ContainerCreating 30s", 1) * 7, ""),
    "a silent tail": (shell("sleep 30; tail -1 log", "step 1200", 1) * 9, "nudge"),
    "domains": (series("check_domain", "Error: domain not available", "@.com", 11), "finalize"),
    "refactor and test": (
        [t for k in "abcdefghijkl" for t in (call("refactor", "done", s=k), call("run_tests", "all tests passed"))],
        "nudge",
    ),
}
"""Work that is right to look alike, and the highest rung that it may reach."""


@pytest.mark.parametrize("name", HEALTHY)
def test_healthy_work_goes_on(name: str) -> None:
    turns, highest = HEALTHY[name]
    order = ["", "nudge", "firm", "finalize", "cut"]
    assert max(map(order.index, rungs(turns)), default=0) <= order.index(highest)


LOOPS: dict[str, tuple[list[Turn], dict[str, int]]] = {
    "a thought for ever": (
        [call("think", "ok", thought="hm")] * 20,
        {"nudge": 8, "firm": 12, "finalize": 19, "cut": 20},
    ),
    "tools that are not there": (
        [call(f"tool_{k}", "Error: unknown tool") for k in "abcdef"],
        {"nudge": 3, "firm": 4, "finalize": 5, "cut": 6},
    ),
    "B05": (
        [call("sh", "total 0", command="ls -l", dir_path=f"/srv/{k}x") for k in "abcdefghijklmnop"],
        {"nudge": 8, "firm": 12, "finalize": 15, "cut": 16},
    ),
    "searches that find nothing": (series("search", "No results found.", "@", 12), {"nudge": 5, "firm": 8}),
}


@pytest.mark.parametrize("name", LOOPS)
def test_loop(name: str) -> None:
    turns, expected = LOOPS[name]
    assert rungs(turns) == expected


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    turns, expected = CASES[name]
    assert rungs(turns) == expected


def test_slow_polls_count_half() -> None:
    assert rungs([POLL] * 30, pause_ms=60_000) == {"nudge": 15, "firm": 23}


@pytest.mark.parametrize(
    ("rule", "turns"),
    [
        ("repeated_call", CASES["B13"][0]),
        ("repeated_error", [call("book", "Error: no seat", flight="A1")] * 3),
        ("invalid_call", CASES["B15"][0]),
        ("interleaved_repeat", CASES["B03"][0]),
        ("error_signature", CASES["B06"][0]),
        ("same_result", CASES["B08a"][0]),
        ("cycle", CASES["B09"][0]),
        ("unchanged_poll", CASES["B20"][0]),
        ("monologue", CASES["B18"][0]),
    ],
)
def test_each_rule_sees_its_kind(rule: str, turns: list[Turn]) -> None:
    assert rule in rules(turns)


def test_a_loop_without_a_period_adds_nothing_new() -> None:
    four = [call("fix", f"2 tests differ, variant {k}", change=k) for k in "abcd"]
    turns = [four[i] for i in (0, 1, 2, 3, 2, 0, 3, 1, 0, 2, 1)]
    assert "nothing_new" in rules(turns)
