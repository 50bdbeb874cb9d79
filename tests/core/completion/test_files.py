"""Files that were changed, as calls say so; files that were not are never named. Tests that nobody ran."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.core.completion import CHECKS, Candidate
from guardproxy.core.completion._changes import changed
from guardproxy.core.completion._commands import parts_of
from tests.cheap import cheap
from tests.core.completion.finals import Did, edit, final, judged, sh, whole
from tests.core.talk import user

PATCH = "*** Begin Patch\n*** Update File: src/a.py\n@@\n-x\n+y\n"
PATCH += "*** Add File: docs/n.md\n+z\n*** Delete File: old.py\n*** End Patch"


@pytest.mark.parametrize(
    ("acts", "expected"),
    [
        ([edit("src/a.py")], {"src/a.py": "changed"}),
        ([edit("./src//b/../a.py")], {"src/a.py": "changed"}),
        ([("Write", {"file_path": "/repo/a.py", "content": "> b.txt"}, "ok")], {"/repo/a.py": "changed"}),
        ([("MultiEdit", {"edits": [{"file_path": "a"}, {"file_path": "b"}]}, "ok")], {"a": "changed", "b": "changed"}),
        ([("str_replace_editor", {"command": "create", "path": "a.py"}, "ok")], {"a.py": "created"}),
        ([("str_replace_editor", {"command": "view", "path": "a.py"}, "1 x")], {}),
        (
            [("apply_patch", {"input": PATCH}, "Done!")],
            {"src/a.py": "changed", "docs/n.md": "created", "old.py": "removed"},
        ),
        (
            [("shell", {"command": ["apply_patch", PATCH]}, "Done!")],
            {"src/a.py": "changed", "docs/n.md": "created", "old.py": "removed"},
        ),
        (
            [sh(f"apply_patch <<'EOF'\n{PATCH}\nEOF")],
            {"src/a.py": "changed", "docs/n.md": "created", "old.py": "removed"},
        ),
        ([("delete_file", {"path": "a.py"}, "deleted")], {"a.py": "removed"}),
        ([("move_file", {"source": "a", "destination": "b"}, "moved")], {"a": "removed", "b": "created"}),
        # shells
        ([sh("echo x > a.txt")], {"a.txt": "created"}),
        ([sh("echo x >> 'my file.txt'")], {"my file.txt": "created"}),
        ([sh("cd sub && sed -i 's/a/b/' x.py y.py")], {"sub/x.py": "changed", "sub/y.py": "changed"}),
        ([sh("sed -i.bak -e 's/a/b/' x.py")], {"x.py": "changed"}),
        ([sh("(cd sub; touch a); touch b")], {"sub/a": "created", "b": "created"}),
        ([sh("cat <<'EOF' > a.py\nif a > b:\n    print('x > y')\nEOF\nls")], {"a.py": "created"}),
        ([sh("tee a.txt < b.txt")], {"a.txt": "created"}),
        ([sh("cp a.py b.py && mv c.py d.py")], {"b.py": "created", "c.py": "removed", "d.py": "created"}),
        ([sh("rm -f a.py; git rm b.py")], {"a.py": "removed", "b.py": "removed"}),
        ([sh("sudo tee /etc/hosts")], {"/etc/hosts": "created"}),
        ([("shell", {"command": ["bash", "-lc", "echo x > a"]}, "ok")], {"a": "created"}),
        ([sh("bash -c 'echo x > a'")], {"a": "created"}),
        # undone again
        ([sh("touch a"), sh("rm a")], {}),
        ([edit("a"), sh("git checkout -- a")], {}),
        ([edit("a"), edit("b"), sh("git checkout a")], {"b": "changed"}),
        ([edit("a"), sh("git stash")], {}),
        ([edit("a"), sh("git reset --hard HEAD")], {}),
        ([sh("git checkout -b fix"), edit("a"), sh("git stash list")], {"a": "changed"}),
        ([sh("echo x > d/a && echo y > d/b"), sh("rm -rf d")], {}),
        # not done
        ([edit("a.py", "Error: no match for the old text")], {}),
        ([("Write", {"file_path": "a"}, "The user doesn't want to proceed with this tool use. It was rejected.")], {}),
        ([("edit_file", {"path": "a"}, None)], {}),
        ([edit("a.py", "[Old tool result content cleared]")], {}),
        ([("edit_file", {"path": "a", "dry_run": True}, "would change 1 line")], {}),
        ([edit("a.py", "No changes were made.")], {}),
        # cannot be told, or changes nothing
        ([sh('echo x > "$FILE" && rm *.pyc && touch a{1,2}')], {}),
        ([sh('cd "$DIR" && touch a')], {}),
        ([sh("grep '>' a.txt | awk '$1 > 3' && echo \"a > b\"")], {}),
        ([sh("pytest 2>&1 >/dev/null | head")], {"/dev/null": "created"}),  # scratch, see below
        ([sh("echo 'never ends > a")], {}),
        ([sh("cat << EOF > a")], {}),
        ([("execute_python", {"code": "if a > b:\n  pass"}, "ok")], {}),
        ([("execute_sql", {"command": "select * from t where a > b"}, "ok")], {}),
        ([("run_command", {"command": "cp", "args": ["a", "b"]}, "ok")], {}),
        ([("read_file", {"path": "a.py"}, "x")], {}),
        ([("send_mail", {"path": "a.py"}, "sent")], {}),
        ([("edit_event", {"title": "x"}, "ok")], {}),
        ([sh("sed -n 's/a/b/p' x.py; sed 's/a/b/' y.py")], {}),
        ([sh("python build.py --out a.txt")], {}),
    ],
)
def test_changes(acts: list[Did], expected: dict[str, str]) -> None:
    assert changed(final("Done.", *acts)) == expected


@pytest.mark.parametrize(
    ("acts", "where", "named"),
    [
        ([edit("src/a.py")], {"allowed": ("src/**",)}, ""),
        ([edit("/srv/repo/src/a.py")], {"allowed": ("src/**",)}, ""),  # where the work is cannot be told
        ([edit("SRC/A.py")], {"allowed": ("src/*.py",)}, ""),
        ([edit("src/deep/er/a.py")], {"allowed": ("src",)}, ""),
        ([edit("src/a.py")], {"allowed": ("**/a.py",)}, ""),
        ([edit("a.py")], {"allowed": ("**/a.py",)}, ""),
        ([sh("echo x > /tmp/log; pytest > /dev/null")], {"allowed": ("src/**",)}, ""),
        ([sh("rm build.log")], {"allowed": ("src/**",)}, ""),  # what a program left behind
        ([sh("touch repro.py && python repro.py; rm repro.py"), edit("src/a.py")], {"allowed": ("src/**",)}, ""),
        ([edit("tests/a.py")], {}, ""),
        ([edit("tests/a.py")], {"allowed": ("src/**",)}, "tests/a.py"),
        (
            [edit("src/a.py"), edit("setup.py")],
            {"allowed": ("src/**", "docs/**")},
            "setup.py. It may change: src/**, docs/**",
        ),
        ([edit("src_old/a.py")], {"allowed": ("src",)}, "src_old/a.py"),
        ([edit("/etc/passwd")], {"allowed": ("/srv/repo/**",)}, "/etc/passwd"),
        ([sh("echo x > /tmp/log")], {"allowed": ("src/**",), "scratch": ()}, "/tmp/log"),
        ([edit("src/a.py")], {"denied": ("tests/**",)}, ""),
        ([edit("src/tests.py")], {"denied": ("tests/**",)}, ""),
        ([edit("tests/a.py")], {"denied": ("tests/**",)}, "have to stay as they are: tests/a.py"),
        ([edit("/srv/repo/.github/workflows/ci.yml")], {"denied": (".github/**",)}, "ci.yml"),
        ([sh("rm tests/test_a.py")], {"denied": ("tests/**",)}, "tests/test_a.py"),
        ([edit("tests/a.py"), sh("git checkout tests/a.py")], {"denied": ("tests/**",)}, ""),
        ([edit("src/key.pem")], {"allowed": ("src/**",), "denied": ("*.pem",)}, "src/key.pem"),
    ],
)
def test_where_files_may_be_changed(acts: list[Did], where: dict[str, Any], named: str) -> None:
    said = judged("files", final("Done.", *acts), **where)

    assert named in said
    assert bool(said) == bool(named)


WORK = edit("src/a.py")


@pytest.mark.parametrize(
    ("text", "acts", "failed"),
    [
        ("Fixed. All tests pass.", [WORK], True),
        ("Fixed. I ran the tests.", [WORK, sh("ls"), sh("git diff")], True),
        ("修好了。所有测试均已通过。", [WORK], True),
        ("Fixed. All tests pass.", [WORK, sh("pytest", "5 passed in 1s")], False),
        ("Fixed. All tests pass.", [WORK, sh("make", "ok")], False),
        ("Fixed. All tests pass.", [WORK, sh("./ci.sh", "ok")], False),
        ("Fixed. All tests pass.", [WORK, ("execute_python", {"code": "run()"}, "ok")], False),
        ("Fixed. All tests pass.", [WORK, ("agent", {"prompt": "test it"}, "ok")], False),
        ("Fixed. All tests pass.", [WORK, ("get_ci_status", {}, "checks passed")], False),
        ("Fixed. All tests pass.", [WORK, ("user", "they pass here", None)], False),
        ("All tests pass.", [("read_file", {"path": "ci.log"}, "ok")], False),  # no coding
        ("Fixed. All tests should pass.", [WORK], False),
        ("Fixed. Run the tests to be sure.", [WORK], False),
        ("Fixed. I have not run the tests.", [WORK], False),
        ("Fixed.", [WORK], False),
    ],
)
def test_tests_that_nobody_ran(text: str, acts: list[Did], failed: bool) -> None:
    assert ("no call of this run has run any" in judged("files", final(text, *acts), tests=True)) is failed
    assert judged("files", final(text, *acts), denied=("nowhere",)) == ""


def test_a_shortened_conversation_may_have_run_them() -> None:
    bare = final("All tests pass.", WORK)

    assert judged("files", Candidate(bare.text, (), bare.ask, shortened=True), tests=True) == ""


def test_actions_in_text_are_read_too() -> None:
    messages = [user("fix it"), {"role": "assistant", "content": "THOUGHT: x\n\n```bash\necho x > tests/a.py\n```"}]
    messages.append(user("<returncode>0</returncode>\n<output>\n</output>"))
    candidate = Candidate("Done.", (), whole(*messages))

    assert "tests/a.py" in judged("files", candidate, denied=("tests/**",))


def test_in_chinese() -> None:
    assert "必须保持原样" in judged("files", final("好", edit("a")), "zh", denied=("a",))


@pytest.mark.parametrize("field", ["allowed", "denied", "scratch"])
@pytest.mark.parametrize("pattern", ["", " ", "/", "**", "*/*"])
def test_patterns_that_cannot_be_meant(field: str, pattern: str) -> None:
    with pytest.raises(ValueError, match=f"{field}: a pattern needs more"):
        CHECKS["files"].Settings(**{field: (pattern,)})


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("FOO=1 sudo -E timeout -k 5 60 uv run python -m pytest -x", [("pytest", "-x")]),
        ('for f in a b; do rm "$f"; done', [("for", "f", "in", "a", "b"), ("rm", "$f"), ("done",)]),
        ("a | b || c & d", [("a",), ("b",), ("c",), ("d",)]),
        ("echo 'it'\"'\"'s' \\; x", [("echo", "it's", ";", "x")]),
        ("ls \\\n  -l", [("ls", "-l")]),
        ("npx -y jest --ci", [("jest", "--ci")]),
        ("coverage run -m pytest", [("pytest",)]),
        ("", []),
        ("# it's a note\nls # and 'another\nls a#b", [("ls",), ("ls", "a#b")]),
    ],
)
def test_parts_of_commands(command: str, expected: list[tuple[str, ...]]) -> None:
    parts = parts_of("bash", json.dumps({"command": command}))

    assert parts is not None
    assert [part.words for part in parts] == expected


@settings(max_examples=150, deadline=None)
@given(st.text(alphabet="ab '\"\\$<>&|;()\n-E/.{}`=", max_size=60))
def test_no_command_is_an_exception(command: str) -> None:
    changed(final("x", sh(command), sh(f"cat <<E\n{command}\nE\n")))


@pytest.mark.parametrize("piece", ["<<E\n", "'", "(", "a>", "\\", "bash -c ", "$(", '"\\'])
def test_long_commands_cost_little(piece: str) -> None:
    with cheap(1):
        parts_of("bash", json.dumps({"command": (piece * 20_000)[:20_000]}))
