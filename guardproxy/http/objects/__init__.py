"""What /admin/v1 is about: a file is an object, with its models in and out and its routes.

A new object is a new file here and nothing else: `ROUTES` of every module without an underscore in front are served,
guarded by their roles, written to the audit, and described in the OpenAPI document.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module
from types import ModuleType

from guardproxy.http.objects._route import Route


def found() -> dict[str, ModuleType]:
    """The objects by name."""
    names = (one.name for one in pkgutil.iter_modules(__path__))
    return {name: import_module(f"{__name__}.{name}") for name in names if not name.startswith("_")}


def routes(objects: dict[str, ModuleType]) -> tuple[Route, ...]:
    """All of their routes."""
    return tuple(route for module in objects.values() for route in module.ROUTES)


OBJECTS = found()
ROUTES = routes(OBJECTS)
