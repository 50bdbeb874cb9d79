"""What kind of tool a name means, and which commands change something."""

from __future__ import annotations

import pytest

from guardproxy.core.tools import DEFAULT_RULES, Rules, changes, only_looks, tool_of, waits


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
        ("bash", '{"command":"git gc"}', False),
        ("bash", '{"command":"npx tsc"}', False),
        ("bash", '{"command":"ls; make"}', False),
        ("bash", '{"command":""}', True),
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
        ('{"command":"ls; sleep 5"}', ""),
        ("{}", ""),
    ],
)
def test_commands_that_wait(arguments: str, expected: str) -> None:
    assert waits(arguments) == expected


def test_rules_replace_the_words() -> None:
    tool = tool_of("ponder", Rules(think_like=("pon*",), ignore_args={"ponder": ("id",)}))
    assert tool.think
    assert tool.ignored == {"id"}
