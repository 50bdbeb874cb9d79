"""API surfaces: bytes <-> model. A file here without a leading underscore is a surface; its PATHS are its routes.

Pure: no IO, no clock, no randomness, no logging.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pkgutil import iter_modules
from types import MappingProxyType, ModuleType

from guardproxy.api._asked import IN_PATH, SPREAD, of_tools, one_model, said_twice, served
from guardproxy.api._prefix import Prefixes

__all__ = ["IN_PATH", "PATHS", "SPREAD", "SURFACES", "Prefixes", "of_tools", "one_model", "said_twice", "served"]


def _surfaces() -> dict[str, ModuleType]:
    names = sorted(module.name for module in iter_modules(__path__) if not module.name.startswith("_"))
    return {name: import_module(f"{__name__}.{name}") for name in names}


SURFACES: Mapping[str, ModuleType] = MappingProxyType(_surfaces())
"""Surface by name, the file's."""

PATHS: Mapping[str, ModuleType] = MappingProxyType(
    {path: surface for surface in SURFACES.values() for path in surface.PATHS}
)
"""Surface by exact path; every other path under its PREFIX is the passthrough's."""
