"""What kind of tool a name means, and which commands change something."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.core.tools import DEFAULT_RULES, Rules, changes, glances, only_looks, tool_of, waits


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
    ("name", "think", "mutates", "shell", "reads"),
    [
        ("think", True, False, False, False),
        ("sequentialthinking", True, False, False, False),
        ("calculate", True, False, False, False),
        ("wait", True, False, False, False),
        ("browser_wait_for", False, False, False, False),  # it waits where a time is all that it is told
        ("mcp__x__wait", True, False, False, False),
        ("browser.wait", True, False, False, False),
        ("x/sleep", True, False, False, False),
        ("mcp__think__list", False, False, False, False),
        ("await_reply", False, False, False, False),
        ("waiter", False, False, False, False),
        ("edit_file", False, True, False, False),
        ("book_reservation", False, True, False, False),
        ("bash", False, False, True, False),
        ("execute_bash", False, False, True, False),
        ("str_replace_editor", False, False, True, False),
        ("read_file", False, False, False, True),
        ("get_user_details", False, False, False, True),
        ("todo", False, False, False, False),
        ("process", False, False, False, False),
        ("", False, False, False, False),
    ],
)
def test_kinds(name: str, *, think: bool, mutates: bool, shell: bool, reads: bool) -> None:
    tool = tool_of(name, DEFAULT_RULES)
    assert (tool.think, tool.mutates, tool.shell, tool.reads) == (think, mutates, shell, reads)


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("search", '{"q":"x"}', True),
        ("list_issues", "{}", True),
        ("archive_mail", "{}", False),
        ("set_status", "{}", False),
        ("query", '{"sql":"select a from b"}', True),
        ("query", '{"sql":"update a set b=1"}', False),
        ("bash", '{"command":"grep -rn \\"a|b\\" src | sort | uniq"}', True),
        ("bash", '{"command":"cd src && ls -l 2>/dev/null"}', True),
        ("bash", '{"command":"find . -exec grep -l x {} \\\\; | xargs -I {} basename {}"}', True),
        ("bash", '{"command":"find . | xargs rm"}', False),
        ("bash", '{"command":"find . -exec touchit {} +"}', False),
        ("bash", '{"command":"git log -3"}', True),
        ("shell", '{"command":["bash","-lc","sed -n 1,40p a.py"],"workdir":"/app"}', True),
        ("shell", '{"command":["bash","-lc","rm a.py"],"workdir":"/app"}', False),
        ("bash", '{"command":"git gc"}', False),
        ("bash", '{"command":"npx tsc"}', False),
        ("bash", '{"command":"ls; make"}', False),
        ("bash", '{"command":""}', True),
        ("shell", '{"command": ["bash", "-lc", "cat a | head"], "workdir": "/w"}', True),
        ("shell", '{"workdir": "/w", "command": ["bash", "-lc", "make"]}', False),
        ("shell", '{"command": ["ls", "-la"]}', True),
        ("bash", '{"n":1}', False),
    ],
)
def test_calls_that_only_look(name: str, arguments: str, *, expected: bool) -> None:
    assert only_looks(arguments, tool_of(name, DEFAULT_RULES)) is expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"command":"sleep 60"}', "only"),
        ('{"cmd": "sleep 0.5m "}', "only"),
        ('{"command":"sleep 60 && squeue"}', "first"),
        ('{"command":"sleep 5; tail log"}', "first"),
        ('{"command":"sleepy 5"}', ""),
        ('{"command":["bash","-lc","sleep 5"],"workdir":"/app"}', "only"),
        (
            '{"workdir":"/srv/a-rather-long-name/of/a/folder/in/which/it/runs","command":["bash","-lc","sleep 5"]}',
            "only",
        ),
        ('{"command":["/bin/sh","-c","sleep 5; date"]}', "first"),
        ('{"command":["echo","sleep 5"]}', ""),
        ('{"command":"ls; sleep 5"}', ""),
        ('{"command": ["bash", "-lc", "sleep 30"], "workdir": "/w"}', "only"),
        ('{"workdir": "/w", "command": ["/bin/sh", "-c", "sleep 30; ls"]}', "first"),
        ('{"command": ["sleep", "30"]}', "only"),
        ('{"workdir": "/srv/a/folder/whose/name/is/rather/long/as/they/are", "command": "sleep 30"}', "only"),
        ("{}", ""),
    ],
)
def test_commands_that_wait(arguments: str, expected: str) -> None:
    assert waits(arguments, tool_of("bash", DEFAULT_RULES)) == expected


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("browser_wait_for", '{"time": 2}', "only"),
        ("mcp__x__sleep_for", '{"seconds": "1.5"}', "only"),
        ("browser_wait_for", '{"text": "ready", "timeout": 2}', ""),
        ("browser_wait_for", '{"text": "ready"}', ""),
        ("get_page", '{"page": 2}', ""),
    ],
)
def test_tools_that_wait(name: str, arguments: str, expected: str) -> None:
    assert waits(arguments, tool_of(name, DEFAULT_RULES)) == expected


@pytest.mark.parametrize(
    ("name", "rules", "kind"),
    [
        ("ponder", Rules(think_like=("Pon*",)), "think"),
        ("update_check", Rules(read_only=("UPDATE_*",)), "reads"),
        ("bash_docs", Rules(read_only=("bash_docs",)), "reads"),
        ("get_lock", Rules(mutates=("get_lock",)), "mutates"),
        ("edit_file", Rules(mutates=("frob*",)), "mutates"),  # the words still count where nothing is said
        ("list_and_run", Rules(shells=("*_run",)), "shell"),
        ("calculate_route", Rules(mutates=("calculate_route",)), "mutates"),  # a thought no more
        ("think", Rules(think_like=("think",), read_only=("think",)), "think reads"),
        ("other", Rules(read_only=("x",), mutates=("y",), shells=("z",), think_like=("w",)), ""),
    ],
)
def test_what_is_said_wins_over_words(name: str, rules: Rules, kind: str) -> None:
    tool = tool_of(name, rules)
    assert " ".join(one for one in ("think", "mutates", "shell", "reads") if getattr(tool, one)) == kind


def test_all_that_is_said_of_a_tool_holds() -> None:
    """Patterns add up; a tool of which nothing is said is as it was."""
    rules = Rules(
        ignore_args={"S*": ("id",), "send": ("ts",), "x": ("y",)}, defaults={"*nd": {"n": 1}, "send": {"m": 2}}
    )
    tool = tool_of("send", rules)
    assert (tool.shaped, tool.ignored, tool.defaults) == (True, {"id", "ts"}, {"n": 1, "m": 2})
    assert tool_of("read", rules) == tool_of("read", DEFAULT_RULES)


def test_a_tool_that_is_said_to_look_looks() -> None:
    assert only_looks('{"sql":"update a set b=1"}', tool_of("sql_query", Rules(read_only=("sql_query",))))


@pytest.mark.parametrize(
    "rules",
    [
        {"mutates": ("a", " ")},
        {"ignore_args": {"f": ()}},
        {"time_args": {"": ("a",)}},
        {"defaults": {"f": {}}},
        {"read_only": ("a*",), "shells": ("A*",)},
    ],
)
def test_rules_that_cannot_be_meant(rules: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"^{next(iter(rules))}"):
        Rules(**rules)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("ls", True),
        ("ls -la src", True),
        ("cd /app && ls", True),
        ("cat a.py", True),
        ('cat \\"a.py\\"', True),
        ("git status", True),
        ("lsof", False),
        ("cat a.py | python", False),
        ('cat \\"a.py\\" && python x', False),
        ("ls\\npython x", False),
        ("find . -delete", False),
        ("sed -i s/a/b/ f", False),
        ("git commit", False),
        ("pytest -q", False),
        ("cat a > b", False),
        ("ls " + "x" * 300, False),
    ],
)
def test_plain_looks(command: str, *, expected: bool) -> None:
    assert glances(f'{{"command":"{command}"}}') is expected
