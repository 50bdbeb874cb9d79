"""The house keeps its shape: sizes, docstrings, a test for every file, no cycles, no traces of one machine."""

from __future__ import annotations

import ast
import os
import re
import statistics
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import guardproxy

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "guardproxy"
FILES = sorted(PACKAGE.rglob("*.py"))
FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)

ELSEWHERE = {
    "__main__.py": ("tests/test_cli.py", "three lines; started there as a process"),
    "errors.py": ("tests/http/test_bad_input.py", "values only; what they become is tested over HTTP"),
    "core/advice/en.py": ("tests/core/test_advice.py", "texts are data; one table for both languages"),
    "core/advice/zh.py": ("tests/core/test_advice.py", "texts are data; one table for both languages"),
    "core/advice/limits.py": ("tests/core/test_advice.py", "one table for all texts"),
    "core/advice/people.py": ("tests/core/test_advice.py", "one table for all texts"),
    "http/resuming.py": ("tests/http/test_approving.py", "a call is asked about and resumed in one test"),
    "core/view.py": ("tests/store", "values only; what the store is asked and answers"),
    "replaying/told.py": ("tests/test_replay.py", "values only; what a replay makes of a run"),
    "demo/local.py": ("tests/demo/test_run.py", "needs the extra local-model; run there if it is installed"),
    "http/assembly.py": ("tests/http/test_worker.py", "wiring; every test over HTTP and every worker goes through it"),
    "http/handing_on.py": ("tests/http/test_passing.py", "how every answer to a route that is not read goes out"),
    "http/settling.py": ("tests/http/test_turn.py", "the end of every turn; with the store there, away and failing"),
    "http/panic.py": ("tests/http/test_serve.py", "needs a running proxy"),
}
"""Source files without a test file of their own name: where they are tested, and why there."""


def name(file: Path) -> str:
    return file.relative_to(PACKAGE).as_posix()


@cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def functions() -> Iterator[tuple[str, int]]:
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, FUNCTION):
                yield f"{name(file)}:{node.lineno} {node.name}", (node.end_lineno or 0) - node.lineno + 1


def test_modules_are_short() -> None:
    lines = {name(file): len(file.read_text("utf-8").splitlines()) for file in FILES}

    assert {file: count for file, count in lines.items() if count > 300} == {}
    assert statistics.median(count for count in lines.values() if count > 3) <= 150


def test_functions_are_short() -> None:
    lengths = dict(functions())

    assert {where: length for where, length in lengths.items() if length > 60} == {}
    assert statistics.median(lengths.values()) <= 9
    assert statistics.quantiles(lengths.values(), n=10)[-1] <= 30


@pytest.mark.parametrize("file", FILES, ids=name)
def test_public_names_are_documented(file: Path) -> None:
    module = tree(file)
    lacking = [] if ast.get_docstring(module) or not module.body else ["the module"]
    lacking += _undocumented(module.body, "", methods=not file.name.startswith("_") or file.name == "__init__.py")
    lacking += _bare_constants(module.body, file.read_text("utf-8").splitlines())

    assert lacking == []


def _undocumented(body: list[ast.stmt], owner: str, *, methods: bool) -> Iterator[str]:
    for node in body:
        if not isinstance(node, (*FUNCTION, ast.ClassDef)) or node.name.startswith("_"):
            continue
        if ast.get_docstring(node) is None and not _is_stub(node):
            yield owner + node.name
        if isinstance(node, ast.ClassDef) and methods:
            yield from _undocumented(node.body, f"{node.name}.", methods=methods)


def _is_stub(node: ast.AST) -> bool:
    """`def f(self) -> X: ...` of a Protocol, whose class says what is asked for."""
    body = getattr(node, "body", [])
    return len(body) == 1 and isinstance(body[0], ast.Expr) and getattr(body[0].value, "value", 0) is ...


def _bare_constants(body: list[ast.stmt], lines: list[str]) -> Iterator[str]:
    """Public numbers without their reason: neither a text under them nor a comment on their line or above."""
    for node, after in zip(body, [*body[1:], ast.Pass()], strict=False):
        target = node.targets[0] if isinstance(node, ast.Assign) else getattr(node, "target", None)
        if not isinstance(target, ast.Name) or not re.fullmatch(r"[A-Z][A-Z0-9_]+", target.id):
            continue
        text_under = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        comment = "#" in lines[node.lineno - 1] or lines[node.lineno - 2].lstrip().startswith("#")
        if _is_number(getattr(node, "value", None)) and not text_under and not comment:
            yield target.id


def _is_number(node: ast.expr | None) -> bool:
    if isinstance(node, ast.BinOp):
        return _is_number(node.left) and _is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in (int, float)


@pytest.mark.parametrize("file", [file for file in FILES if not file.name.startswith("_")], ids=name)
def test_every_file_has_its_test(file: Path) -> None:
    mirror = ROOT / "tests" / file.relative_to(PACKAGE).parent / f"test_{file.name}"
    where, _ = ELSEWHERE.get(name(file), (mirror, ""))

    assert (ROOT / where).exists()


def test_exceptions_from_the_mirror_are_needed() -> None:
    for source, (where, reason) in ELSEWHERE.items():
        assert (PACKAGE / source).exists(), source
        assert (ROOT / where).exists(), where
        assert reason
        assert not (ROOT / "tests" / Path(source).parent / f"test_{Path(source).name}").exists(), source


def imports(file: Path) -> set[str]:
    """Modules of ours that a module imports when it is imported itself."""
    found = set()
    for node in tree(file).body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("guardproxy"):
            inner = {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
            found |= {one if one in MODULES else node.module or "" for one in inner.values()}
        elif isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
    return {one for one in found if one in MODULES}


def module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module_name(file): file for file in FILES}


def test_no_import_cycles() -> None:
    rest = {module: imports(file) - {module} for module, file in MODULES.items()}
    while free := [module for module, needs in rest.items() if not needs & rest.keys()]:
        for module in free:
            del rest[module]

    assert rest == {}


@pytest.mark.parametrize("room", ["api", "core/advice", "core/detectors", "core/hygiene", "core/interventions"])
def test_siblings_do_not_import_siblings(room: str) -> None:
    siblings = {module_name(file) for file in (PACKAGE / room).glob("*.py") if not file.name.startswith("_")}
    wrong = {module: found for module in siblings if (found := imports(MODULES[module]) & siblings - {module})}

    assert siblings
    assert wrong == {}


def test_no_rag_bags() -> None:
    words = {"utils", "util", "helpers", "helper", "common", "misc", "base", "manager", "interfaces", "vendor"}

    assert [name(file) for file in FILES if words & set(re.split(r"[_/.]", name(file)))] == []


def committed() -> list[Path]:
    command = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout
    return [ROOT / os.fsdecode(one) for one in listed.split(b"\0") if one]


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="not a git checkout: what is committed cannot be told")
def test_nothing_names_one_machine() -> None:
    """No home, no checkout, no interpreter of whoever wrote it."""
    ours = {str(ROOT), str(ROOT.parent / "shared"), sys.base_prefix} - {"/usr", "/usr/local", "/"}
    pattern = re.compile("|".join([*map(re.escape, ours), r"/(?:home|Users)/[a-z]{3,}", r"/root/"]).encode())
    files = [file for file in committed() if file.is_file() and file != Path(__file__).resolve()]

    assert [str(file.relative_to(ROOT)) for file in files if pattern.search(file.read_bytes())] == []


def test_version_is_one() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert project["version"] == guardproxy.__version__
    assert f"\n## [{guardproxy.__version__}]\n" in (ROOT / "CHANGELOG.md").read_text()


def test_commands_of_the_readme_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    assert {"demo", "test", "run", "bench", "verify", "lint", "score"} <= targets
    assert set(re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text())) <= targets
    assert os.access(ROOT / ".ci" / "run", os.X_OK)


def test_every_ignored_rule_has_a_reason() -> None:
    """In pyproject.toml a line beneath may share the reason above it; a `noqa` names its rules."""
    bare = [
        f"{file.relative_to(ROOT)}:{number}"
        for file in FILES
        for number, line in enumerate(file.read_text("utf-8").splitlines(), 1)
        if re.search(r"#\s*(?:noqa(?!:\s*[A-Z])|type:\s*ignore(?!\[))", line)
    ]

    assert bare == []
