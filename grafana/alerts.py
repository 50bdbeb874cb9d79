"""Grafana's own alert rules, from the expressions of `deploy/rules.yml`: for those who alert in Grafana.

Use one of the two, or every page comes twice.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

DEPLOY = Path(__file__).parents[1] / "deploy"
RULES = DEPLOY / "rules.yml"
FILE = DEPLOY / "grafana" / "alerting" / "guardproxy.yaml"
SOURCE = "prometheus"
"""Uid of the data source, as `deploy/grafana/provisioning` names it: alert rules know no variables."""
RANGE_SECONDS = 600
"""What Grafana asks for; the expressions have ranges of their own."""
HEAD = "# Written by `python -m grafana.build` from deploy/rules.yml: change it there.\n"


def rules() -> list[dict[str, Any]]:
    """The alerts of the Prometheus rule file."""
    groups = yaml.safe_load(RULES.read_text(encoding="utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"] if "alert" in rule]


def _rule(rule: dict[str, Any]) -> dict[str, Any]:
    """Prometheus fires for each row that an expression has, whatever its value; here each row becomes a 1."""
    asked = {"refId": "A", "instant": True, "expr": f"({rule['expr'].strip()}) * 0 + 1", "datasource": {"uid": SOURCE}}
    above = {"evaluator": {"type": "gt", "params": [0]}, "query": {"params": ["A"]}, "reducer": {"type": "last"}}
    judged = {"refId": "B", "type": "threshold", "expression": "A", "conditions": [above]}
    span = {"from": RANGE_SECONDS, "to": 0}
    name = rule["alert"]
    return {
        "uid": "gp-" + "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name)[12:],
        "title": name,
        "condition": "B",
        "data": [
            {"refId": "A", "relativeTimeRange": span, "datasourceUid": SOURCE, "model": asked},
            {"refId": "B", "relativeTimeRange": dict(span), "datasourceUid": "__expr__", "model": judged},
        ],
        "noDataState": "OK",
        "execErrState": "Error",
        "for": rule.get("for", "0s"),
        "labels": rule["labels"],
        "annotations": rule["annotations"],
    }


def drawn() -> str:
    """The file as YAML."""
    group = {
        "orgId": 1,
        "name": "guardproxy",
        "folder": "guardproxy",
        "interval": "1m",
        "rules": [_rule(one) for one in rules()],
    }
    document = {"apiVersion": 1, "groups": [group]}
    return HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
