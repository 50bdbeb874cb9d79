"""What kind of tool a name means, and which commands change something."""

from __future__ import annotations

import pytest

from guardproxy.core.tools import DEFAULT_RULES, Rules, changes, tool_of


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


def test_rules_replace_the_words() -> None:
    tool = tool_of("ponder", Rules(think_like=("pon*",), ignore_args={"ponder": ("id",)}))
    assert tool.think
    assert tool.ignored == {"id"}
