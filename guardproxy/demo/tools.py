"""The tools of the demonstration's agent. They are really executed, and each execution is counted."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

_DEPLOY = ("queued", "queued", "building image (1 of 3)", "building image (3 of 3)", "starting 2 of 2 pods", "live")


class Toolbox:
    """A fresh set for each run: what `deploy_status` says depends on how often it was asked."""

    def __init__(self) -> None:
        self.executed: Counter[str] = Counter()

    def execute(self, name: str, arguments: str) -> str:
        """The result of a call, or an error as text, as most frameworks return it."""
        self.executed[name] += 1
        tool = TOOLS.get(name)
        try:
            given = json.loads(arguments)
            return tool(self, given) if tool else f"Error: there is no tool {name}"
        except (ValueError, KeyError, TypeError) as error:
            return f"Error: {error}"


def _search_docs(box: Toolbox, given: Mapping[str, Any]) -> str:
    return json.dumps({"query": given["query"], "hits": [{"title": "Shipping times", "score": 0.12}], "total": 1})


def _read_file(box: Toolbox, given: Mapping[str, Any]) -> str:
    return "include: defaults.yaml\nlog_level: info\n"


def _list_folder(box: Toolbox, given: Mapping[str, Any]) -> str:
    return "README.md\nconfig.yaml\nmain.py"


def _fetch_page(box: Toolbox, given: Mapping[str, Any]) -> str:
    if "rates" in given["url"]:
        return f"Error: 503 Service Unavailable while fetching {given['url']}"
    return "200 OK\nall checks passed"


def _start_deploy(box: Toolbox, given: Mapping[str, Any]) -> str:
    return json.dumps({"id": "d-17", "service": given["service"], "status": "queued"})


def _deploy_status(box: Toolbox, given: Mapping[str, Any]) -> str:
    return json.dumps({"id": given["id"], "status": _DEPLOY[min(box.executed["deploy_status"], len(_DEPLOY)) - 1]})


TOOLS: Mapping[str, Callable[[Toolbox, Mapping[str, Any]], str]] = {
    "search_docs": _search_docs,
    "read_file": _read_file,
    "list_folder": _list_folder,
    "fetch_page": _fetch_page,
    "start_deploy": _start_deploy,
    "deploy_status": _deploy_status,
}
"""Name to function; each takes one text argument."""

_ARGUMENT = {
    "search_docs": "query",
    "read_file": "path",
    "list_folder": "path",
    "fetch_page": "url",
    "start_deploy": "service",
    "deploy_status": "id",
}


def schemas() -> list[dict[str, Any]]:
    """The tools as a request names them."""
    return [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": name.replace("_", " "),
                "parameters": {
                    "type": "object",
                    "properties": {_ARGUMENT[name]: {"type": "string"}},
                    "required": [_ARGUMENT[name]],
                },
            },
        }
        for name in TOOLS
    ]
