"""What is compiled for a wheel: that it can be, and means the same. That it does: `make verify` runs tests on it."""

from __future__ import annotations

import ast
import ctypes
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import guardproxy
from tests.as_written import COMPILED as AS_SHIPPED
from tests.deploy.compiled import CHOSEN, ROOT, modules

HOOK = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
GROUPS, INTERPRETED = HOOK["custom"]["groups"], HOOK["custom"]["interpreted"]
HARMLESS = {"NamedTuple", "Protocol", "Generic", "TypedDict", "IntEnum", "Exception", "Sequence", "asyncio.Protocol"}
"""What a compiled class may derive from, beside compiled ones: of others mypyc does not keep the layout. It is silent
about OrderedDict and logging.Handler, and both end in crashes far from there.
"""


def test_each_pattern_and_each_exception_is_about_something() -> None:
    every = {str(path.relative_to(ROOT)) for some in GROUPS.values() for one in some for path in ROOT.glob(one)}

    assert [one for some in GROUPS.values() for one in some if not [*ROOT.glob(one)]] == []
    assert set(INTERPRETED) <= every
    assert len(INTERPRETED) == len(set(INTERPRETED))
    assert {path for paths in CHOSEN.values() for path in paths} == every - set(INTERPRETED)


def test_a_module_is_in_one_group() -> None:
    again = {"first": ["guardproxy/core/*.py"], "second": ["guardproxy/core/mask.py", "guardproxy/cli.py"]}

    found = modules(ROOT, again, ["guardproxy/core/mask.py"])

    assert found["second"] == ["guardproxy/cli.py"]
    assert "guardproxy/core/canon.py" in found["first"]
    assert "guardproxy/core/mask.py" not in found["first"]


COMPILED = {
    one.name
    for paths in CHOSEN.values()
    for path in paths
    for one in ast.walk(ast.parse((ROOT / path).read_text()))
    if isinstance(one, ast.ClassDef)
}


@pytest.mark.parametrize("path", [path for paths in CHOSEN.values() for path in paths])
def test_nothing_stands_in_it_that_would_mean_something_else(path: str) -> None:
    """What mypyc compiles in silence, and into something else. What it refuses, or what fails to import, is seen."""
    tree = ast.parse((ROOT / path).read_text())

    assert [one.name for one in _classes(tree) if set(_bases(one)) - HARMLESS - COMPILED] == []
    assert [ast.unparse(one) for one in ast.walk(tree) if isinstance(one, ast.GeneratorExp) and _endless(one)] == []
    assert [ast.unparse(one) for one in ast.walk(tree) if isinstance(one, ast.Subscript) and _made_slice(one)] == []
    assert [ast.unparse(one) for one in ast.walk(tree) if isinstance(one, ast.Call) and _gathers(one)] == []


def _classes(tree: ast.AST) -> Iterator[ast.ClassDef]:
    return (one for one in ast.walk(tree) if isinstance(one, ast.ClassDef))


def _bases(one: ast.ClassDef) -> Iterator[str]:
    for base in one.bases:
        named = base.value if isinstance(base, ast.Subscript) else base
        yield ast.unparse(named)


def _endless(one: ast.GeneratorExp) -> bool:
    """Compiled generator expressions are lists."""
    return any(
        ast.unparse(part.iter).startswith(("itertools.", "count(", "cycle(", "iter(")) for part in one.generators
    )


def _made_slice(one: ast.Subscript) -> bool:
    """Compiled bytes are indexed by integers and by slices that are written out."""
    return isinstance(one.slice, ast.Call) and ast.unparse(one.slice.func) == "slice"


def _gathers(one: ast.Call) -> bool:
    """A type checker is told that several coroutines by name give a tuple; they give a list."""
    return ast.unparse(one.func) == "asyncio.gather" and not all(isinstance(part, ast.Starred) for part in one.args)


WRONG = """
class A(OrderedDict[int, str]): ...
next(n for n in itertools.count())
raw[slice(*span)]
await asyncio.gather(one(), other())
"""


def test_the_checks_can_fail() -> None:
    tree = ast.parse(WRONG)

    assert [*_bases(next(_classes(tree)))] == ["OrderedDict"]
    assert any(isinstance(one, ast.GeneratorExp) and _endless(one) for one in ast.walk(tree))
    assert any(isinstance(one, ast.Subscript) and _made_slice(one) for one in ast.walk(tree))
    assert any(isinstance(one, ast.Call) and _gathers(one) for one in ast.walk(tree))


def test_nothing_is_written_beside_the_sources() -> None:
    """It would be imported in the place of a module that has changed since."""
    assert [*Path(ROOT / "guardproxy").rglob("*.so")] == []


@pytest.mark.skipif(not AS_SHIPPED, reason="what is compiled is looked at")
def test_what_is_compiled_shows_nothing_but_its_beginnings() -> None:
    """What it shows, the loader may replace: then each of its own calls goes by a table (`FLAGS`)."""
    groups = [*Path(guardproxy.__file__).parents[1].glob("guardproxy_*__mypyc.*.so")]
    found = {path.name.partition(".")[0]: ctypes.CDLL(str(path)) for path in groups}

    assert len(found) == len(GROUPS)
    assert all(hasattr(library, f"PyInit_{name}") for name, library in found.items())
    assert [name for name, library in found.items() if hasattr(library, "CPyDict_GetItem")] == []
