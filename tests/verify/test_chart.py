"""The Helm chart: linted and rendered by Helm, each manifest held against the schemas of Kubernetes, and read for what
it promises. Needs the environment of the validators (`make verify` makes it); its absence is a failure here.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from guardproxy import config
from guardproxy.http.crew import DRAIN_SECONDS

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[2]
CHART = ROOT / "deploy" / "helm" / "guardproxy"
PYTHON = ROOT / ".venv-validators" / "bin" / "python"
VERSIONS = ["1.27", "1.33", "1.37"]
SECRET = {"existingSecret": "guardproxy"}

GOOD: dict[str, dict[str, Any]] = {
    "the least": SECRET,
    "redis of others": SECRET | {"redis": {"bundled": {"enabled": False}, "external": {"urlKey": "REDIS"}}},
    "one for all": SECRET | {"replicas": 1, "podDisruptionBudget": {"enabled": False}, "preStopSeconds": 0},
    "virtual keys": SECRET
    | {
        "secretKeys": {"upstreamKey": "OPENAI_API_KEY"},
        "config": {"auth": {"mode": "keys"}, "policy": {"preset": "strict"}},
    },
    "tls for operators": SECRET
    | {
        "config": {"admin": {"tls": {"cert": "/tls/tls.crt", "key": "/tls/tls.key"}}},
        "serviceMonitor": {"enabled": True},
        "extraVolumes": [{"name": "tls", "secret": {"secretName": "admin-tls"}}],
        "extraVolumeMounts": [{"name": "tls", "mountPath": "/tls", "readOnly": True}],
    },
    "everything": SECRET
    | {
        "image": {"repository": "registry.example.com/guardproxy", "tag": "1.2.3", "pullSecrets": ["registry"]},
        "workers": 2,
        "autoscaling": {"enabled": True, "maxReplicas": 20, "cpuPercent": 60},
        "podDisruptionBudget": {"maxUnavailable": "25%"},
        "preStopSeconds": 15,
        "service": {"type": "LoadBalancer", "port": 80, "annotations": {"example.com/internal": "true"}},
        "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
        "networkPolicy": {
            "enabled": True,
            "agents": [{"namespaceSelector": {"matchLabels": {"agents": "yes"}}}],
            "operators": [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}],
        },
        "redis": {"bundled": {"storageClassName": "fast", "storage": "20Gi", "maxmemory": "2gb"}},
        "serviceAccount": {"create": False, "name": "agents"},
        "podAnnotations": {"example.com/a": "1"},
        "podLabels": {"team": "platform"},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [{"key": "agents", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {
            "nodeAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": {
                    "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]
                }
            }
        },
        "priorityClassName": "agents",
        "extraEnv": [{"name": "OTEL_SERVICE_NAME", "value": "guardproxy"}],
        "extraEnvFrom": [{"secretRef": {"name": "webhook"}}],
        "config": {"webhook": {"url": "https://chat.example.com/h", "secret": "${WEBHOOK_SECRET}"}},
    },
}

BAD = {
    "no secret": ({}, "existingSecret"),
    "an unknown value": (SECRET | {"replica": 3}, "replica"),
    "an unknown value inside": (SECRET | {"redis": {"bundled": {"persistent": True}}}, "persistent"),
    "no number": (SECRET | {"replicas": "3"}, "replicas"),
    "no name": (SECRET | {"existingSecret": "No Name"}, "existingSecret"),
    "no memory": (SECRET | {"redis": {"bundled": {"maxmemory": "much; --save 1 1"}}}, "maxmemory"),
    "no workers": (SECRET | {"workers": 0}, "workers"),
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, Any]:
    assert PYTHON.exists(), "the validators are not installed; make verify does it"
    given = GOOD | {name: values for name, (values, _) in BAD.items()}
    command = [str(PYTHON), str(ROOT / "tests" / "deploy" / "render.py"), str(CHART), *VERSIONS]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(params=GOOD)
def manifests(request: pytest.FixtureRequest, outcomes: dict[str, Any]) -> dict[tuple[str, str], Any]:
    """By kind and name."""
    return read(outcomes[request.param])


def read(outcome: dict[str, Any]) -> dict[tuple[str, str], Any]:
    texts = [text for path, text in outcome["rendered"].items() if path.endswith(".yaml")]
    documents = [document for text in texts for document in yaml.safe_load_all(text) if document]
    found = {(document["kind"], document["metadata"]["name"]): document for document in documents}
    assert len(found) == len(documents)
    return found


@pytest.mark.parametrize("name", GOOD)
def test_helm_and_kubernetes_take_it(name: str, outcomes: dict[str, Any]) -> None:
    outcome = outcomes[name]

    assert "refused" not in outcome, outcome
    assert (outcome["lint"], outcome["warned"], outcome["invalid"]) == ([], [], [])
    assert {"Deployment", "Service", "ConfigMap"} <= {*outcome["kinds"]}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_refused_by_name(name: str, outcomes: dict[str, Any]) -> None:
    assert BAD[name][1] in outcomes[name]["refused"]


def test_kinds(outcomes: dict[str, Any]) -> None:
    """What is there only when it is asked for."""
    kinds = {name: sorted(outcomes[name]["kinds"]) for name in GOOD}
    least = ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "Service", "ServiceAccount", "StatefulSet"]

    assert kinds["the least"] == least
    assert kinds["redis of others"] == ["ConfigMap", "Deployment", "PodDisruptionBudget", "Service", "ServiceAccount"]
    assert kinds["one for all"] == [kind for kind in least if kind != "PodDisruptionBudget"]
    assert [kind for kind in kinds["everything"] if kind not in least] == [
        "HorizontalPodAutoscaler",
        *["NetworkPolicy"] * 2,
    ]
    assert ("ServiceMonitor", "company-guardproxy") in read(outcomes["everything"])


def pods(manifests: dict[tuple[str, str], Any]) -> list[Any]:
    return [one["spec"]["template"] for (kind, _), one in manifests.items() if kind in ("Deployment", "StatefulSet")]


def proxy(manifests: dict[tuple[str, str], Any]) -> Any:
    return manifests["Deployment", "company-guardproxy"]


def test_nobody_is_root_and_nothing_is_written_but_to_volumes(manifests: dict[tuple[str, str], Any]) -> None:
    for pod in (one["spec"] for one in pods(manifests)):
        assert pod["securityContext"]["runAsNonRoot"]
        assert pod["securityContext"]["runAsUser"] > 0
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["automountServiceAccountToken"] is False
        assert pod["enableServiceLinks"] is False
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            mounted = {mount["name"] for mount in container["volumeMounts"]}
            assert mounted <= {volume["name"] for volume in pod.get("volumes", ())} | {"data"}


def test_no_secret_is_in_it(manifests: dict[tuple[str, str], Any]) -> None:
    """Each is a reference to the Secret that is there."""
    assert "Secret" not in {kind for kind, _ in manifests}
    named = {
        one["name"]: one.get("valueFrom", {}).get("secretKeyRef", {}).get("name")
        for pod in pods(manifests)
        for one in pod["spec"]["containers"][0]["env"]
        if "value" not in one
    }

    assert {"GUARDPROXY_SECRET"} <= {*named}
    assert {*named.values()} == {"guardproxy"}


def test_operators_are_in_no_service_by_default(outcomes: dict[str, Any]) -> None:
    for name, values in GOOD.items():
        services = {known: one["spec"] for (kind, known), one in read(outcomes[name]).items() if kind == "Service"}
        targets = {known: [port["targetPort"] for port in spec["ports"]] for known, spec in services.items()}
        assert targets["company-guardproxy"] == ["http"]
        wanted = values.get("serviceMonitor", {}).get("enabled", False)
        assert (targets.get("company-guardproxy-admin") == ["admin"]) is wanted, name


def test_who_is_selected_is_there(manifests: dict[tuple[str, str], Any]) -> None:
    """By Services, budgets of disruption, policies of the network, the autoscaler and the monitor."""
    labels = [pod["metadata"]["labels"] for pod in pods(manifests)]

    for (kind, name), one in manifests.items():
        spec = one.get("spec", {})
        if kind == "HorizontalPodAutoscaler":
            target = spec["scaleTargetRef"]
            assert (target["kind"], target["name"]) in manifests
            assert "replicas" not in proxy(manifests)["spec"]
            continue
        if kind == "ServiceMonitor":
            wanted, found = (
                spec["selector"]["matchLabels"],
                [manifests["Service", f"{name}-admin"]["metadata"]["labels"]],
            )
        elif kind == "Service":
            wanted, found = spec["selector"], labels
        elif kind in ("PodDisruptionBudget", "Deployment", "StatefulSet"):
            wanted, found = spec["selector"]["matchLabels"], labels
        elif kind == "NetworkPolicy":
            wanted, found = spec["podSelector"]["matchLabels"], labels
        else:
            continue
        assert len([one for one in found if wanted.items() <= one.items()]) == 1, (kind, name)
    if proxy(manifests)["spec"]["template"]["spec"]["serviceAccountName"] != "agents":
        assert ("ServiceAccount", "company-guardproxy") in manifests


def test_alive_is_not_ready_and_there_is_time_to_finish(manifests: dict[tuple[str, str], Any]) -> None:
    spec = proxy(manifests)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    looks = {name: container[name]["httpGet"] for name in ("startupProbe", "livenessProbe", "readinessProbe")}
    pause = int(container["lifecycle"]["preStop"]["exec"]["command"][1])

    assert {name: look["path"] for name, look in looks.items()} == {
        "startupProbe": "/healthz",
        "livenessProbe": "/healthz",
        "readinessProbe": "/readyz",
    }
    assert all(ports[look["port"]] == 8788 for look in looks.values())
    assert spec["terminationGracePeriodSeconds"] > pause + DRAIN_SECONDS + 10


def test_the_configuration_is_one_that_serves(manifests: dict[tuple[str, str], Any]) -> None:
    """It loads with what the container has in its environment, and fits the ports and the volumes."""
    spec = proxy(manifests)["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    environment = {one["name"]: one.get("value", "0123456789abcdef") for one in container["env"]}
    environment |= {"GUARDPROXY_REDIS_URL": "redis://redis:6379/0", "WEBHOOK_SECRET": "0123456789abcdef"}
    text = manifests["ConfigMap", "company-guardproxy"]["data"]["guardproxy.yaml"]
    document = yaml.safe_load(text)
    tree = config.build(loaded(document, environment))

    assert (tree.listen.host, tree.admin.host, tree.store.url) == ("0.0.0.0", "0.0.0.0", "redis://redis:6379/0")
    assert {port["containerPort"] for port in container["ports"]} == {tree.listen.port, tree.admin.port}
    schemes = {container[look]["httpGet"]["scheme"] for look in ("startupProbe", "livenessProbe", "readinessProbe")}
    assert schemes == {"HTTPS" if tree.admin.tls.cert else "HTTP"}
    assert {mount["mountPath"] for mount in container["volumeMounts"]} >= {
        "/etc/guardproxy",
        "/var/lib/guardproxy",
        "/tmp",
    }
    assert container["args"] == ["serve", "--config", "/etc/guardproxy/guardproxy.yaml"]


def loaded(document: Any, environment: dict[str, str]) -> Any:
    if isinstance(document, dict):
        return {name: loaded(one, environment) for name, one in document.items()}
    if isinstance(document, str) and document.startswith("${"):
        return environment[document[2:-1]]
    return document


def test_redis_is_kept_and_forgets_nothing(outcomes: dict[str, Any]) -> None:
    found = read(outcomes["everything"])
    redis = found["StatefulSet", "company-guardproxy-redis"]["spec"]
    (container,) = redis["template"]["spec"]["containers"]
    (claim,) = redis["volumeClaimTemplates"]
    environment = {
        one["name"]: one.get("value", "") for one in proxy(found)["spec"]["template"]["spec"]["containers"][0]["env"]
    }

    assert all(word in container["args"][0] for word in ("--appendonly yes", "--maxmemory-policy noeviction", "2gb"))
    assert container["volumeMounts"] == [{"name": claim["metadata"]["name"], "mountPath": "/data"}]
    assert (claim["spec"]["storageClassName"], claim["spec"]["resources"]["requests"]["storage"]) == ("fast", "20Gi")
    assert "@company-guardproxy-redis:6379/" in environment["GUARDPROXY_REDIS_URL"]
    assert ("Service", "company-guardproxy-redis") in found


def test_another_configuration_is_another_pod(outcomes: dict[str, Any]) -> None:
    sums = {
        name: proxy(read(outcomes[name]))["spec"]["template"]["metadata"]["annotations"]["checksum/config"]
        for name in ("the least", "one for all", "virtual keys")
    }

    assert sums["the least"] == sums["one for all"] != sums["virtual keys"]
