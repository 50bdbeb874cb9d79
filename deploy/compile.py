"""Compiles the modules that every request goes through, for wheels: a hook of hatchling's that calls mypyc.

Off unless `HATCH_BUILD_HOOK_ENABLE_CUSTOM=true`; `make wheel` sets it. Which modules: `pyproject.toml`, at the hook.
Nothing is written beside the sources: an extension that is older than its module would be imported in its place.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

FLAGS = ("-w", "-fcommon", "-fvisibility=hidden")
"""The C is mypyc's, nobody here can mend what a compiler says of it; and each file of a group has the group's table.
Hidden: what others could see, and put something else in the place of, is called by way of a table and never inlined;
that is some 5 % of a turn. Modules find one another by tables of mypyc's own, so only `PyInit_*` has to be seen.
"""


class CompileHook(BuildHookInterface):  # type: ignore[type-arg]
    """Builds the extensions into a directory of its own, and puts them into the wheel beside their modules."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Part of hatchling's protocol. An editable install stays as it is."""
        if version == "editable":
            return
        self._place = tempfile.TemporaryDirectory()
        place = Path(self._place.name)
        for path in built(Path(self.root), place, self.config["groups"], self.config["interpreted"]):
            build_data["force_include"][str(path)] = str(path.relative_to(place / "lib"))
        build_data["pure_python"], build_data["infer_tag"] = False, True

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Part of hatchling's protocol."""
        if version != "editable":
            self._place.cleanup()


def modules(root: Path, groups: dict[str, list[str]], interpreted: list[str]) -> dict[str, list[str]]:
    """The files of each group, relative to the root; `interpreted` are left out. Each may stand in one group only."""
    left_out = set(interpreted)
    found: dict[str, list[str]] = {}
    for name, patterns in groups.items():
        paths = sorted({str(path.relative_to(root)) for pattern in patterns for path in root.glob(pattern)})
        found[name] = [path for path in paths if path not in left_out]
        left_out |= set(paths)
    return found


def built(root: Path, place: Path, groups: dict[str, list[str]], interpreted: list[str]) -> list[Path]:
    """The extensions, in `place`/lib. mypyc ends the process with its own words where a module cannot be compiled."""
    from mypyc.build import mypycify  # noqa: PLC0415  # needed where something is compiled only
    from setuptools import Distribution  # noqa: PLC0415

    chosen = modules(root, groups, interpreted)
    with _inside(root):
        extensions = mypycify(
            ["--config-file=pyproject.toml", *(path for paths in chosen.values() for path in paths)],
            opt_level=os.environ.get("GUARDPROXY_OPT_LEVEL", "2"),
            debug_level="0",
            multi_file=True,
            separate=[(paths, f"guardproxy_{name}") for name, paths in chosen.items()],
            target_dir=str(place / "c"),
        )
        for extension in extensions:
            extension.extra_compile_args += FLAGS
        command = Distribution({"name": "guardproxy", "ext_modules": extensions}).get_command_obj("build_ext")
        command.build_lib, command.build_temp = str(place / "lib"), str(place / "o")
        command.parallel = os.cpu_count()
        command.ensure_finalized()
        command.run()
    return sorted((place / "lib").rglob("*.so"))


@contextmanager
def _inside(root: Path) -> Iterator[None]:
    """The names of modules are paths from here."""
    before = Path.cwd()
    os.chdir(root)
    sys.path.insert(0, str(root))
    try:
        yield
    finally:
        os.chdir(before)
        sys.path.remove(str(root))
