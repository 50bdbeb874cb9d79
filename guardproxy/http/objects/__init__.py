"""What /admin/v1 is about: a file is an object, with its models in and out and its routes.

A new object is a new file here and nothing else: `ROUTES` of every module without an underscore in front are served,
guarded by their roles, written to the audit, and described in the OpenAPI document.
"""

from __future__ import annotations

import pkgutil
from importlib import import_module

from guardproxy.http.objects._route import Route

OBJECTS = {
    found.name: import_module(f"{__name__}.{found.name}")
    for found in pkgutil.iter_modules(__path__)
    if not found.name.startswith("_")
}
"""The objects by name."""

ROUTES: tuple[Route, ...] = tuple(route for module in OBJECTS.values() for route in module.ROUTES)
"""All of their routes."""
