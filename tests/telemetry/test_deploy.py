"""The files in `deploy/` parse and name what exists; dashboards and alerts: tests/grafana."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest
import yaml

from guardproxy import _kinds, config
from guardproxy.core.tool_rules import ToolRules

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
YAML_FILES = sorted(
    path for path in DEPLOY.rglob("*") if path.suffix in (".yaml", ".yml") and path.parent.name != "templates"
)


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
