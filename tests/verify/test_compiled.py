"""The compiled wheel, unpacked by `make verify`: what is said to be compiled is, and all of it can be imported.

And a configuration means the same: what reads annotations finds nothing of use in a compiled class, in silence.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.deploy.compiled import CHOSEN, ROOT

pytestmark = pytest.mark.verify
COMPILED = ROOT / "build" / "compiled"
IMPORT = """
import importlib, json, pkgutil, sys
import guardproxy
names = [one.name for one in pkgutil.walk_packages(guardproxy.__path__, "guardproxy.") if "__main__" not in one.name]
print(json.dumps({name: importlib.import_module(name).__file__ for name in names}))
"""


SCHEMA = """
import json
from guardproxy.config import Config
print(json.dumps(Config.model_json_schema(), sort_keys=True))
"""


def told_by(program: str, where: Path) -> str:
    """What a program prints where guardproxy is imported from there."""
    environment = {**os.environ, "PYTHONPATH": str(where), "PYTHONSAFEPATH": "1"}
    told = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert told.returncode == 0, told.stderr
    return told.stdout


@pytest.fixture(autouse=True)
def _there_is_one() -> None:
    if not (COMPILED / "stamp").exists():
        pytest.fail("there is no compiled wheel here; `make build/compiled/stamp` builds and unpacks it")


def test_a_configuration_means_the_same() -> None:
    assert told_by(SCHEMA, COMPILED) == told_by(SCHEMA, ROOT)


def test_every_module_is_imported_and_the_hot_ones_are_compiled() -> None:
    files: dict[str, str] = json.loads(told_by(IMPORT, COMPILED))
    assert all(file.startswith(str(COMPILED)) for file in files.values())
    wanted = {
        path.removesuffix(".py").replace("/", ".").removesuffix(".__init__")
        for paths in CHOSEN.values()
        for path in paths
    }
    assert {name for name, file in files.items() if file.endswith(".so")} == wanted
