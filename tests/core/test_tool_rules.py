"""Rules about single calls: what they match, what they leave alone, and what cannot be meant."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st
from pydantic import TypeAdapter, ValidationError

from guardproxy.core.model import Call
from guardproxy.core.tool_rules import ToolRule, ToolRules, first, read

HOME_KEYS = ToolRule("*", paths=("~/.ssh",))


@pytest.mark.parametrize(
    ("pattern", "tool", "concerned"),
    [
        ("delete_*", "delete_row", True),
        ("delete_*", "Delete_Row", True),
        ("DELETE_*", " delete_row ", True),
        ("delete_*", "undelete_row", False),
        ("delete_*", "mcp__db__delete_row", True),
        ("delete_*", "db.delete_row", True),
        ("mcp__db__*", "mcp__db__delete_row", True),
        ("send", "send_email", False),
        ("*", "", True),
        ("*", "anything", True),
        ("[ab]", "b", True),
    ],
)
def test_which_tools_a_rule_is_about(pattern: str, tool: str, concerned: bool) -> None:
    assert ToolRule(pattern).concerns(tool) is concerned
    assert ToolRule(pattern).matches(Call(tool, "{}")) is concerned


@pytest.mark.parametrize(
    ("args", "arguments", "matched"),
    [
        ({"command": "*rm -rf*"}, {"command": "cd x && rm -rf /"}, True),
        ({"command": "*rm -rf*"}, {"command": "RM   -RF /"}, True),
        ({"command": "*rm -rf*"}, {"command": "ls"}, False),
        ({"command": "*rm -rf*"}, {"note": "rm -rf"}, False),
        ({"command": "*rm -rf*"}, {"command": ["rm", "-rf", "/"]}, True),
        ({"command": "*drop table*"}, {"command": "select 1;\ndrop\ttable x"}, True),
        ({"env": "prod"}, {"env": "production"}, False),
        ({"env": "prod*", "force": "true"}, {"env": "production", "force": True}, True),
        ({"env": "prod*", "force": "true"}, {"env": "production", "force": False}, False),
        ({"env": "prod*", "force": "true"}, {"env": "production"}, False),
        ({"options.mode": "w*"}, {"options": {"mode": "write"}}, True),
        ({"options.mode": "w*"}, {"options.mode": "write"}, True),
        ({"options.mode": "w*"}, {"options": '{"mode": "write"}'}, True),
        ({"options.mode": "w*"}, {"options": {"mode": "read"}}, False),
        ({"files.name": "*.lock"}, {"files": [{"name": "a"}, {"name": "b.lock"}]}, True),
        ({"to": "*@example.org"}, {"to": ["a@example.com", "b@example.org"]}, True),
        ({"amount": "1????*"}, {"amount": 10000}, True),
        ({"amount": "1????*"}, {"amount": 999}, False),
        ({"x": "null"}, {"x": None}, True),
        ({"x": "*"}, {}, False),
        ({"filter": '*"all":true*'}, {"filter": {"all": True}}, True),
    ],
)
def test_conditions_on_arguments(args: dict[str, str], arguments: object, matched: bool) -> None:
    rule = ToolRule("*", args)
    assert rule.matches(Call("t", json.dumps(arguments))) is matched
    assert rule.matches(Call("t", json.dumps(json.dumps(arguments)))) is matched, "an object written as a text"


def test_arguments_that_cannot_be_read_are_one_text() -> None:
    rule = ToolRule("*", {"command": "*rm -rf*"})
    assert rule.matches(Call("t", '{"command": "rm -rf /'))
    assert rule.matches(Call("t", "rm -rf /"))
    assert not rule.matches(Call("t", '{"command": "ls'))


@pytest.mark.parametrize(
    ("pattern", "arguments", "matched"),
    [
        ("/etc/**", {"path": "/etc/passwd"}, True),
        ("/etc/**", {"path": "/etc"}, True),
        ("/etc/**", {"path": "/etc/"}, True),
        ("/etc/*", {"path": "/etc"}, False),
        ("/etc", {"path": "/etc/ssl/key"}, True),
        ("/etc", {"path": "/etcetera"}, False),
        ("/etc", {"path": "/usr/../etc//./passwd"}, True),
        ("/etc", {"path": "//etc/passwd"}, True),
        ("/etc", {"path": "file:///etc/passwd"}, True),
        ("/etc", {"path": "../../etc/passwd"}, True),
        ("/etc", {"path": "etc/passwd"}, False),
        ("/etc", {"path": "src/etc/passwd"}, False),
        ("/etc", {"paths": ["a", {"file": "/etc/passwd"}]}, True),
        ("/etc", {"content": "see /etc/passwd"}, False),
        ("/etc", {"content": "/etc/passwd"}, False),
        ("/etc", {"note": "see /etc/passwd"}, False),
        ("/etc", {"command": "cat /etc/passwd"}, True),
        ("/etc", {"command": "cat '/etc/passwd'|head"}, True),
        ("/etc", {"command": "cat /e''tc/passwd"}, True),
        ("/etc", {"command": "tee>/etc/hosts"}, True),
        ("/etc", {"command": "x --file=/etc/hosts"}, True),
        ("/etc", {"command": "scp host:/etc/hosts ."}, True),
        ("/etc", {"command": ["cat", "/etc/passwd"]}, True),
        ("/etc", {"code": 'print(open("/etc/passwd").read())'}, True),
        ("/etc", {"command": "echo etc"}, False),
        ("~/.ssh", {"path": "~/.ssh/id_rsa"}, True),
        ("~/.ssh", {"path": "/home/me/.ssh/id_rsa"}, True),
        ("~/.ssh", {"path": "/root\u002f.ssh"}, True),
        ("~/.ssh", {"path": "/Users/me/.ssh/config"}, True),
        ("~/.ssh", {"path": r"C:\Users\me\.ssh\config"}, True),
        ("~/.ssh", {"command": "cat $HOME/.ssh/id_rsa ${HOME}/x"}, True),
        ("~/.ssh", {"command": "cat ${HOME}/.ssh/id_rsa"}, True),
        ("~/.ssh", {"path": "~other/.ssh/id_rsa"}, True),
        ("~/.ssh", {"path": "/srv/.ssh/id_rsa"}, False),
        ("$HOME/.ssh", {"path": "/home/me/.ssh/id_rsa"}, True),
        (".env", {"path": ".env"}, True),
        (".env", {"path": "./app/.env"}, True),
        (".env", {"path": "/srv/app/.env"}, True),
        (".env", {"path": ".environment"}, False),
        (".env", {"pattern": ".env"}, False),
        (".env*", {"command": "cat app/.env.local"}, True),
        ("*.pem", {"path": "/srv/keys/a.PEM"}, True),
        ("secrets/**", {"path": "app/secrets/a/b"}, True),
        ("secrets/**", {"path": "app/mysecrets/a"}, False),
        ("**/secrets/**", {"path": "secrets/a"}, True),
        ("src/**/gen", {"path": "src/gen/a.py"}, True),
        ("src/**/gen", {"path": "src/a/gen/b.py"}, True),
        ("src/**/gen", {"path": "src/agen"}, False),
        ("/", {"path": "/anything"}, True),
        ("c:/windows", {"path": "C:\\Windows\\system32"}, True),
    ],
)
def test_paths(pattern: str, arguments: object, matched: bool) -> None:
    assert ToolRule("*", paths=(pattern,)).matches(Call("t", json.dumps(arguments))) is matched


def test_a_rule_matches_only_where_all_its_parts_do() -> None:
    rule = ToolRule("write_*", {"mode": "w"}, ("/etc",))
    assert rule.matches(Call("write_file", '{"mode": "w", "path": "/etc/x"}'))
    assert not rule.matches(Call("read_file", '{"mode": "w", "path": "/etc/x"}'))
    assert not rule.matches(Call("write_file", '{"mode": "r", "path": "/etc/x"}'))
    assert not rule.matches(Call("write_file", '{"mode": "w", "path": "/srv/x"}'))


def test_the_words_of_free_text_are_tried_as_paths() -> None:
    assert HOME_KEYS.matches(Call("shell", "cat ~/.ssh/id_rsa"))
    assert not HOME_KEYS.matches(Call("shell", "cat README"))


def test_the_first_rule_that_matches() -> None:
    one, other = ToolRule("a*"), ToolRule("*")
    assert first((one, other), Call("ab", "")) is one
    assert first((one, other), Call("b", "")) is other
    assert first((one,), Call("b", "")) is None
    assert first((), Call("b", "")) is None


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ({"tool": " "}, "tool"),
        ({"tool": "a", "args": {"": "x"}}, "args"),
        ({"tool": "a", "paths": ("",)}, "paths"),
    ],
)
def test_what_cannot_be_meant_is_refused(made: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=f"^{said}: "):
        ToolRule(**made)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("pattern", "seconds"), [("a", 0), ("a", -1), ("a", float("nan")), ("a", float("inf")), ("", 1)]
)
def test_a_deadline_is_a_length_of_time(pattern: str, seconds: float) -> None:
    with pytest.raises(ValueError, match=r"^deadlines"):
        ToolRules(deadlines={pattern: seconds})
    assert ToolRules(deadlines={"a": 0.5})


def test_the_configuration_reads_rules_and_refuses_unknown_keys() -> None:
    reader = TypeAdapter(ToolRules)
    rules = reader.validate_python({"deny": [{"tool": "rm", "args": {"x": "y"}, "paths": ["/etc"], "reason": "no"}]})
    assert rules == ToolRules(deny=(ToolRule("rm", {"x": "y"}, ("/etc",), "no"),))
    for wrong in ({"denied": []}, {"deny": [{"tool": "rm", "arg": {}}]}):
        with pytest.raises(ValidationError, match=r"Extra inputs are not permitted|Unexpected keyword"):
            reader.validate_python(wrong)


def test_rules_can_be_members_of_a_set() -> None:
    assert len({ToolRule("a", {"b": "c"}), ToolRule("a", {"b": "c"})}) == 1
    assert hash(ToolRules(deadlines={"a": 1})) == hash(ToolRules(deadlines={"a": 1}))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
RULES = st.builds(
    ToolRule,
    tool=st.text(min_size=1).filter(str.strip),
    args=st.dictionaries(st.text(min_size=1).filter(str.strip), st.text(), max_size=2),
    paths=st.lists(st.text(min_size=1).filter(str.strip), max_size=2).map(tuple),
)


@given(RULES, st.text(), st.text() | JSON.map(json.dumps))
def test_no_call_makes_a_rule_raise(rule: ToolRule, tool: str, arguments: str) -> None:
    assert rule.matches(Call(tool, arguments)) in (True, False)
    assert not rule.matches(Call(tool, arguments)) or rule.concerns(tool)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.text(min_size=1).filter(str.strip))
def test_the_order_of_keys_does_not_count(arguments: dict[str, object], pattern: str) -> None:
    turned = dict(reversed(arguments.items()))
    for rule in (ToolRule("*", {"a": pattern}), ToolRule("*", paths=(pattern,))):
        assert rule.matches(Call("t", json.dumps(arguments))) == rule.matches(Call("t", json.dumps(turned)))


@pytest.mark.parametrize(
    "arguments",
    [
        "[" * 100_000,
        '{"a":' * 900 + "1" + "}" * 900,
        "[" * 900 + "]" * 900,
        '{"a": ' + "9" * 5000 + "}",
        '{"a": "\\ud800"}',
        '{"path": "\\u0000/etc"}',
        '{"a": NaN}',
        "null",
        "",
        "{" * 50_000,
    ],
)
def test_strange_arguments_are_judged_all_the_same(arguments: str) -> None:
    rule = ToolRule("*", {"a": "x", "a.b": "y"}, ("/etc", "~/x"))
    assert rule.matches(Call("t", arguments)) is False
    assert ToolRule("*", paths=("/etc",)).matches(Call("t", arguments)) is False


def test_depths_that_can_just_be_read_are_judged_too() -> None:
    rule = ToolRule("*", {"a": "x", "a.b": "y"}, ("/etc",))
    for depth in range(850, 1000):
        assert rule.matches(Call("t", '{"a": ' + "[" * depth + "]" * depth + "}")) is False


def test_long_commands_are_read_to_their_end() -> None:
    command = "echo " + "x " * 100_000 + "; cat /etc/passwd"
    assert ToolRule("*", paths=("/etc",)).matches(Call("bash", json.dumps({"command": command})))


def test_arguments_are_read_as_tools_read_them() -> None:
    assert read('{"a": "line\nbreak"}') == {"a": "line\nbreak"}
    assert read('"{\\"a\\": 1}"') == {"a": 1}
    assert read("[1]") == [1]
    assert read("12") == "12"
    assert read("not json") == "not json"
