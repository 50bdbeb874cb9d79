"""Every TraceQL query that we ship, read with the grammar that Grafana's own editor uses.

It says nothing of what a Tempo would answer. Needs node, and what `make verify` installs into tests/verify/traceql.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from grafana import build, traces
from grafana._chart import filled
from guardproxy.telemetry import semconv

pytestmark = pytest.mark.verify

HERE = Path(__file__).parent / "traceql"
DOCS = Path(__file__).parents[2] / "docs" / "metrics.md"
SHIPPED = {
    **{f"{file}: {title}": query for file, board in build.BOARDS.items() for title, query in board.traceql()},
    **traces.SAYINGS,
}
IN_DOCS = re.findall(r"^\{.*\}.*$", DOCS.read_text(), re.MULTILINE)
OF_RESOURCES = {"service.name", "service.instance.id", "service.version"}


def parsed(queries: list[str]) -> list[dict[str, list[str]]]:
    node = shutil.which("node")
    assert node, "node is not installed (Debian: apt install nodejs npm)"
    assert (HERE / "node_modules").is_dir(), "type: make verify, which installs what it needs here"
    done = subprocess.run(
        [node, "parse.mjs"],
        cwd=HERE,
        input=json.dumps(queries),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_every_query_is_traceql_and_names_attributes_that_there_are() -> None:
    """As Grafana would send it, its variables filled in."""
    queries = {**SHIPPED, **{query: query for query in IN_DOCS}}
    found = dict(zip(queries, parsed([filled(query) for query in queries.values()]), strict=True))
    named = {one for row in found.values() for one in row["attributes"]}
    known = {f"span.{name}" for name in semconv.SPAN_ATTRIBUTES} | {f"resource.{name}" for name in OF_RESOURCES}

    assert len(IN_DOCS) >= 8
    assert {title: row["wrong"] for title, row in found.items() if row["wrong"]} == {}
    assert "span.guardproxy.session.id" in named
    assert named <= known
    assert all(row["attributes"] or "name =~" in queries[title] for title, row in found.items())


@pytest.mark.parametrize("query", ["{ span.a = }", '{ span.a = "b" ', "{ } | rate( by (span.a)", '{ span.a == "b" }'])
def test_what_is_no_traceql_would_be_found(query: str) -> None:
    ((row),) = parsed([query])

    assert row["wrong"]
