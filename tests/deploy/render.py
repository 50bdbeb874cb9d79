"""Lints the chart and renders it, as `helm` would; run by the environment of the validators, not by ours.

Reads `{name: values}` as JSON, writes what came of each: `rendered` by template, or `refused` with the words of Helm;
the `kinds` of what was validated strictly, and `invalid`: what Kubernetes would refuse.
"""

from __future__ import annotations

import json
import sys

import helm_python
import kubernetes_validate
import yaml

CUSTOM = {"ServiceMonitor"}
"""Kinds that are not of Kubernetes itself: there is no schema here to hold them against."""


def main(chart: str, versions: list[str]) -> None:
    """Everything at once: loading the library takes longer than what it does."""
    sets = json.load(sys.stdin)
    print(json.dumps({name: outcome(chart, values, versions) for name, values in sets.items()}))


def outcome(chart: str, values: dict, versions: list[str]) -> dict:
    """Of one set of values."""
    try:
        report = helm_python.lint(chart, values, strict=True)
        rendered = helm_python.Chart.load(chart).render(values, name="company", namespace="agents")
    except helm_python.HelmError as error:
        return {"refused": str(error)}
    found = {"rendered": rendered, "lint": report["errors"], "invalid": [], "kinds": []}
    found["warned"] = [one["error"] for one in report["messages"] if one["severity"] > 1]
    for path, text in rendered.items():
        for document in yaml.safe_load_all(text) if path.endswith(".yaml") else ():
            if document and document["kind"] not in CUSTOM:
                found["kinds"].append(document["kind"])
                found["invalid"] += [f"{path}: {wrong}" for wrong in problems(document, versions)]
    return found


def problems(document: dict, versions: list[str]) -> list[str]:
    """What is wrong with a manifest, by version of Kubernetes."""
    found = []
    for version in versions:
        try:
            kubernetes_validate.validate(document, version, strict=True)
        except kubernetes_validate.ValidationError as error:
            found.append(f"{version}: {error.message}")
    return found


main(sys.argv[1], sys.argv[2:])
