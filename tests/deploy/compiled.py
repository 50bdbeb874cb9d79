"""The hook that compiles, loaded as hatchling loads it: it belongs to no package."""

from __future__ import annotations

import importlib.util
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]

_found = importlib.util.spec_from_file_location("compile_hook", ROOT / "deploy" / "compile.py")
assert _found is not None
assert _found.loader is not None
_hook = importlib.util.module_from_spec(_found)
_found.loader.exec_module(_hook)

modules = _hook.modules
_settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]
CHOSEN: dict[str, list[str]] = modules(ROOT, _settings["custom"]["groups"], _settings["custom"]["interpreted"])
"""Groups and their files."""
