"""The files in `deploy/` and `grafana/` parse and name what exists; the committed dashboard is the generated one."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from grafana import build, panels
from guardproxy import _kinds, config
from guardproxy.core.tool_rules import ToolRules
from guardproxy.telemetry import semconv
from guardproxy.telemetry.metrics import TABLE

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SCRAPED = {
    instrument.prometheus + suffix
    for instrument in TABLE
    for suffix in (("_bucket", "_sum", "_count") if instrument.kind == "histogram" else ("",))
}
LABELS = {label.replace(".", "_") for instrument in TABLE for label in instrument.labels} | {"le", "job"}
RULES = [rule for group in yaml.safe_load((DEPLOY / "rules.yml").read_text())["groups"] for rule in group["rules"]]
YAML_FILES = sorted(
    path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".yml") and path.parent.name != "templates"
)


def labels_in(expression: str) -> set[str]:
    """Label names in selectors and groupings."""
    selectors = " ".join(re.findall(r"\{([^}]*)\}", expression))
    groupings = ",".join(re.findall(r"by \(([^)]*)\)", expression))
    return set(re.findall(r"(\w+)\s*=", re.sub(r'"[^"]*"', "", selectors))) | set(re.findall(r"\w+", groupings))


def test_the_committed_dashboard_is_the_generated_one():
    assert (ROOT / "grafana/runs.json").read_text() == build.runs(), "run: python -m grafana.build"


@pytest.mark.parametrize("expression", [*panels.expressions(), *(rule["expr"] for rule in RULES)])
def test_what_is_queried_exists(expression):
    names = panels.metric_names(expression)

    assert names <= SCRAPED
    assert names or "up{" in expression
    assert labels_in(expression) <= LABELS


@pytest.mark.parametrize("name", ["guardproxy_no_such_total", "guardproxy_session_turns"])
def test_a_wrong_name_would_be_found(name):
    assert not panels.metric_names(f"sum by (le) (rate({name}[5m]))") <= SCRAPED


def test_the_trace_query_names_attributes_that_spans_have():
    names = set(re.findall(r"span\.([\w.]+)", panels.CUT_OFF_RUNS))

    assert names
    assert names <= semconv.SPAN_ATTRIBUTES


def test_the_dashboard_is_tied_to_no_installation():
    board = json.loads(build.runs())
    sources = {panel["datasource"]["uid"] for panel in board["panels"] if panel["type"] != "row"}

    assert board.get("id") is None
    assert sources == {"${datasource}", "${tempo}"}
    assert board["uid"] == "guardproxy-runs"
    assert len({panel["title"] for panel in board["panels"]}) == len(board["panels"])


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_files_parse(path):
    assert isinstance(yaml.safe_load(path.read_text()), dict)


@pytest.mark.parametrize(
    "env", [{}, {"GUARDPROXY_REDIS_URL": "redis://redis:6379/0", "OPENAI_BASE_URL": "http://m/v1"}]
)
def test_the_example_configuration_loads(env):
    tree, _ = config.load(DEPLOY / "guardproxy.example.yaml", env)

    assert tree.store.url == env.get("GUARDPROXY_REDIS_URL")
    assert tree.upstream.url == env.get("OPENAI_BASE_URL", _kinds.DEFAULT_UPSTREAM)
    assert tree.policy_value() == config.build({}).policy_value()  # what the file calls defaults are defaults
    assert tree.telemetry.log_format == "json"


COMMENTED = re.compile(r"^( *)# (?= *(?:- |\"?[a-z_*-]+\"?:( |$)))", re.MULTILINE)
"""A line of the example that is commented out, and no prose."""

EXAMPLES = {"webhook", "upstreams", "verifier"}
"""Sections that have no default which would do anything: what stands there is an example."""


def taken_in(tmp_path) -> dict:
    """The example with all that is commented out."""
    text = COMMENTED.sub(r"\1", (DEPLOY / "guardproxy.example.yaml").read_text())
    (tmp_path / "model_prices_and_context_window.json").write_text("{}")
    text = text.replace("auth: passthrough", "auth: keys", 1)  # with a key of the provider's own
    (tmp_path / "g.yaml").write_text(text)
    return yaml.safe_load(text)


def test_the_example_loads_with_all_that_is_commented_out(tmp_path):
    """And what it calls defaults are defaults."""
    written = taken_in(tmp_path)
    names = ("OPENAI_API_KEY", "SECOND_API_KEY", "VERIFIER_SECRET", "APPROVALS_SECRET")
    tree, _ = config.load(tmp_path / "g.yaml", dict.fromkeys(names, "sixteen characters or more"))
    plain = config.build({})

    for name in (
        "refuse",
        "on_cut",
        "on_budget",
        "arguments",
        "approvals",
        "checkpoints",
        "hygiene",
        "final",
        "completion",
    ):
        assert name in written["policy"]
        assert getattr(tree.policy, name) == getattr(plain.policy, name), name
    for name in ("timeout_seconds", "fail", "mode"):
        assert getattr(tree.policy.verifier, name) == getattr(plain.policy.verifier, name)
    assert tree.webhook.timeout_seconds == plain.webhook.timeout_seconds
    assert tree.webhook.url
    assert tree.admin.tls.cert


def test_the_example_has_every_section(tmp_path):
    """Each section of the configuration, of the policy and of the rules for calls, and each key of those that are new
    to whoever comes from a plain proxy.
    """
    written = taken_in(tmp_path)

    assert {*written} >= {*config.Config.model_fields}
    assert {*written["policy"]} >= {*config.PolicySection.model_fields} - NOT_SHOWN
    assert {*written["tools"]} >= {field.name for field in fields(ToolRules)}
    for name in ("arguments", "approvals", "checkpoints", "hygiene", "final", "completion", "verifier"):
        assert {*written["policy"][name]} == {*type(getattr(config.build({}).policy, name)).model_fields}, name


NOT_SHOWN = {"usage", "default_output_hold"}
"""Of the policy: nobody needs them on the first day."""
