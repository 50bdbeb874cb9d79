"""The OpenAPI 3.1 document of the admin API, from the routes and the models that serve it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from guardproxy import __version__
from guardproxy.http import people
from guardproxy.http.objects._kinds import Problem
from guardproxy.http.objects._route import Route

PREFIX = "/admin/v1"
"""In front of every path."""

_REF = "#/components/schemas/{model}"
_ETAG = {"type": "string", "pattern": r'^(?:\*|"[!#-~]{1,200}")$'}
_ORG = {
    "type": "string",
    "minLength": 1,
    "maxLength": people.LONGEST_ORG,
    "pattern": "^[^{}]*$",
    "description": "The organisation that the object belongs to; a token may be for one alone",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """The document."""
    routes = list(routes)
    schemas = _schemas(routes)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.path, {})[route.method.lower()] = _operation(route, schemas)
    told = {name: schema for name, schema in schemas.items() if not name.endswith("Query") and name != "Page"}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "guardproxy admin API",
            "version": __version__,
            "description": "Roles: viewer < operator < owner. Errors are application/problem+json (RFC 9457).",
        },
        "paths": paths,
        "components": {
            "schemas": told,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer", "description": "An admin token"}},
        },
        "security": [{"token": []}],
    }


def _schemas(routes: list[Route]) -> Mapping[str, Any]:
    """The schemas of all models by name: of what comes in, and of what goes out."""
    wanted: dict[type[BaseModel], str] = {Problem: "serialization"}
    for route in routes:
        wanted |= {model: "validation" for model in (route.body, route.query) if model is not None}
        wanted[route.out] = "serialization"
    pairs: Any = [(model, mode) for model, mode in wanted.items()]
    _, made = models_json_schema(pairs, ref_template=_REF)
    found: Mapping[str, Any] = made["$defs"]
    return found


def _operation(route: Route, schemas: Mapping[str, Any]) -> dict[str, Any]:
    told = " ".join((route.work.__doc__ or "").split())
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": told.partition(". ")[0].rstrip("."),
        "description": f"{told} Needs the role {route.role}.",
        "tags": [route.path.split("/")[1]],
        "x-role": route.role,
        "parameters": _parameters(route, schemas),
        "responses": _responses(route),
    }
    if route.body is not None:
        required = bool(schemas[route.body.__name__].get("required"))
        content = _content("application/json", route.body)
        if route.example is not None:
            content["application/json"]["example"] = dict(route.example)
        operation["requestBody"] = {"required": required, "content": content}
    return operation


def _parameters(route: Route, schemas: Mapping[str, Any]) -> list[dict[str, Any]]:
    named = re.findall(r"\{(\w+)\}", route.path)
    found = [{"name": n, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}} for n in named]
    if route.about == "org":
        found.append(_query("org", _ORG))
    asked = schemas[route.query.__name__]["properties"] if route.query is not None else {}
    found += [_query(name, schema) for name, schema in asked.items()]
    if route.etag and route.changes:
        about = "The ETag that was seen: 412 if it is another one by now"
        found.append({"name": "If-Match", "in": "header", "description": about, "schema": dict(_ETAG)})
    return found


def _query(name: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """A query has no null: what may be absent is left out."""
    some = [one for one in schema.get("anyOf", [schema]) if one.get("type") != "null"]
    plain = {key: value for key, value in some[0].items() if key not in ("title", "default", "description")}
    found = {"name": name, "in": "query", "schema": plain}
    return found | ({"description": schema["description"]} if "description" in schema else {})


def _responses(route: Route) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    for status in (route.status, *route.also):
        responses[str(status)] = {
            "description": HTTPStatus(status).phrase,
            "content": _content("application/json", route.out),
        }
        if route.etag:
            responses[str(status)]["headers"] = {"ETag": {"schema": {"type": "string"}}}
    for status in route.statuses():
        told: dict[str, Any] = {"description": HTTPStatus(status).phrase}
        told["content"] = _content("application/problem+json", Problem)
        if status == HTTPStatus.UNAUTHORIZED:
            told["headers"] = {"WWW-Authenticate": {"schema": {"type": "string"}}}
        responses[str(status)] = told
    return responses


def _content(kind: str, model: type[Any]) -> dict[str, Any]:
    return {kind: {"schema": {"$ref": _REF.format(model=model.__name__)}}}
