"""What is printed for people: one line a text, whatever a model or a client put into it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from guardproxy.http import terminal

VISIBLE = {
    "plain": ("rm -rf build", 0, "rm -rf build"),
    "Chinese": ("删除 文件", 0, "删除 文件"),
    "an escape": ("a\x1b[2Kb", 0, "a\\x1b[2Kb"),
    "lines": ("a\nb\tc", 0, "a\\nb\\tc"),
    "a mark of direction": ("a\u202eb", 0, "a\\u202eb"),
    "no text": ("a\udc80", 0, "a\\udc80"),
    "just short enough": ("abcd", 4, "abcd"),
    "too long": ("abcdefgh" * 1000, 4, "abcd… (+7,996 characters)"),
}


@pytest.mark.parametrize(("text", "width", "shown"), VISIBLE.values(), ids=VISIBLE.keys())
def test_visible(text: str, width: int, shown: str) -> None:
    assert terminal.visible(text, width) == shown


def test_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    terminal.show(("id", "wants"), [("a1", "[red]x[/red]"), ("b22", "y")], "nothing")

    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["id", "wants"],
        ["a1", "[red]x[/red]"],
        ["b22", "y"],
    ]


def test_a_table_without_rows(capsys: pytest.CaptureFixture[str]) -> None:
    told = f"nothing waits in {'a' * 300} b"
    terminal.show(("id",), [], told)

    assert capsys.readouterr().out == f"{told}\n"


@pytest.mark.parametrize(
    ("env", "name"), [({"USER": "ann"}, "ann"), ({"LOGNAME": "bob"}, "bob"), ({"USER": ""}, "cleo"), ({}, "cleo")]
)
def test_me(env: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("USER", "LOGNAME"):
        monkeypatch.delenv(variable, raising=False)
    for variable, value in env.items():
        monkeypatch.setenv(variable, value)

    monkeypatch.setattr("os.getuid", lambda: 4321)
    monkeypatch.setattr("pwd.getpwuid", lambda number: SimpleNamespace(pw_name={4321: "cleo"}[number]))

    assert terminal.me() == name
    monkeypatch.setattr("os.getuid", lambda: 7)
    assert terminal.me() == (env.get("USER") or env.get("LOGNAME") or "uid 7")
