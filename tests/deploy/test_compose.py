"""compose.yaml and the files that it mounts: they exist, and agree about names, ports and folders."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from guardproxy import config
from guardproxy.http.crew import DRAIN_SECONDS
from tests.deploy.dockerfile import LAST_COPIES

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def read(name: str) -> dict:
    return yaml.safe_load((DEPLOY / name).read_text())


COMPOSE = read("compose.yaml")
SERVICES = COMPOSE["services"]
COLLECTOR, TEMPO, PROMETHEUS = read("collector.yaml"), read("tempo.yaml"), read("prometheus.yml")
SOURCES = {one["uid"]: one for one in read("grafana/provisioning/datasources/guardproxy.yaml")["datasources"]}

PORTS = {
    # service: the ports on which it listens, by its configuration or, where that says nothing, by its documentation
    "proxy": {8787, 8788},
    "redis": {6379},
    "collector": {int(COLLECTOR["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2])},
    "tempo": {
        TEMPO["server"]["http_listen_port"],
        int(TEMPO["distributor"]["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2]),
    },
    "prometheus": {9090},
    "alertmanager": {9093},
    "grafana": {3000},
}

CONNECTIONS = {
    "the proxy's store": SERVICES["proxy"]["environment"]["GUARDPROXY_REDIS_URL"],
    "the proxy's spans": SERVICES["proxy"]["environment"]["OTEL_EXPORTER_OTLP_ENDPOINT"],
    "the collector's traces": COLLECTOR["exporters"]["otlphttp/tempo"]["endpoint"],
    "what Prometheus scrapes": f"http://{PROMETHEUS['scrape_configs'][0]['static_configs'][0]['targets'][0]}",
    "where Prometheus sends alerts": "http://"
    + PROMETHEUS["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"][0],
    **{f"Grafana's {name}": source["url"] for name, source in SOURCES.items()},
}


def mounts(service: str) -> dict[str, str]:
    """By the path inside: the one outside, or the volume."""
    return {words[1]: words[0] for words in (one.split(":") for one in SERVICES[service].get("volumes", ()))}


def test_the_services_are_those_that_are_documented() -> None:
    rows = re.findall(r"^\| (\w+) \|", (DEPLOY / "README.md").read_text(), re.MULTILINE)

    assert {*SERVICES} == {*PORTS}
    assert {*rows} >= {*SERVICES}


@pytest.mark.parametrize("url", CONNECTIONS.values(), ids=CONNECTIONS.keys())
def test_who_is_asked_is_there_and_listens_there(url: str) -> None:
    parts = urlsplit(url)

    assert parts.port in PORTS[str(parts.hostname)]


def test_what_is_mounted_exists_and_is_read_only() -> None:
    for service, one in SERVICES.items():
        for volume in one.get("volumes", ()):
            outside, inside, *how = volume.split(":")
            if outside.startswith("."):
                assert (DEPLOY / outside).exists(), (service, outside)
                assert how == ["ro"], (service, volume)
            else:
                assert outside in COMPOSE["volumes"], (service, outside)
            assert inside.startswith("/")
    assert {volume["name"] for volume in COMPOSE["volumes"].values()} == {
        f"guardproxy-{name}" for name in COMPOSE["volumes"]
    }


def test_each_program_is_told_of_the_file_that_is_mounted() -> None:
    for service in ("collector", "tempo", "prometheus", "alertmanager"):
        told = [word.partition("=")[2] for word in SERVICES[service]["command"] if "config" in word.partition("=")[0]]
        assert len(told) == 1
        assert told[0] in mounts(service)
    for rules in PROMETHEUS["rule_files"]:
        assert f"/etc/prometheus/{rules}" in mounts("prometheus")
    (boards,) = read("grafana/provisioning/dashboards/guardproxy.yaml")["providers"]
    assert [*(DEPLOY / mounts("grafana")[boards["options"]["path"]]).glob("*.json")]
    assert mounts("proxy").keys() >= {target for _, target in LAST_COPIES}


def test_what_is_kept_is_on_a_volume() -> None:
    """Where each program writes, by its command or its configuration."""
    written = {
        "redis": "/data",
        "prometheus": "/prometheus",
        "alertmanager": "/alertmanager",
        "grafana": "/var/lib/grafana",
        "tempo": "/var/tempo",
    }

    for service, path in written.items():
        assert path in mounts(service), service
    for service in ("prometheus", "alertmanager"):
        assert any(word.endswith(f"={written[service]}") for word in SERVICES[service]["command"])
    assert TEMPO["storage"]["trace"]["local"]["path"].startswith(written["tempo"])
    assert TEMPO["storage"]["trace"]["wal"]["path"].startswith(written["tempo"])


def test_the_proxy_is_confined_and_has_time_to_finish() -> None:
    proxy = SERVICES["proxy"]

    assert proxy["read_only"]
    assert proxy["cap_drop"] == ["ALL"]
    assert {path.partition(":")[0] for path in proxy["tmpfs"]} == {"/tmp", "/var/lib/guardproxy"}
    assert int(proxy["stop_grace_period"].removesuffix("s")) > DRAIN_SECONDS + 10
    assert (ROOT / "deploy" / proxy["build"]["context"] / proxy["build"]["dockerfile"]).exists()


def test_redis_keeps_what_it_is_given() -> None:
    words = SERVICES["redis"]["command"]

    assert words[words.index("--appendonly") + 1] == "yes"
    assert words[words.index("--maxmemory-policy") + 1] == "noeviction"
    assert SERVICES["proxy"]["depends_on"]["redis"]["condition"] == "service_healthy"


def test_only_the_own_machine_is_let_in() -> None:
    """And to the operators' listener nobody."""
    published = [port for one in SERVICES.values() for port in one.get("ports", ())]

    assert published
    assert all(port.startswith("127.0.0.1:") for port in published)
    assert not [port for port in published if port.endswith(":8788")]
    for service, one in SERVICES.items():
        assert {int(port.rpartition(":")[2]) for port in one.get("ports", ())} <= PORTS[service]


def test_images_are_exact() -> None:
    for service, one in SERVICES.items():
        if "build" not in one:
            assert re.search(r":v?\d+\.\d+[\w.-]*$", one["image"]), service


def test_the_proxy_has_a_configuration_that_loads() -> None:
    environment = {name: text for name, text in SERVICES["proxy"]["environment"].items() if "${" not in text}
    tree, _ = config.load(DEPLOY / mounts("proxy")["/etc/guardproxy/guardproxy.yaml"], environment)

    assert {tree.listen.port, tree.admin.port} == PORTS["proxy"]
    assert tree.listen.host == tree.admin.host == "0.0.0.0"
    assert tree.store.url == environment["GUARDPROXY_REDIS_URL"]
    assert tree.telemetry.otlp_endpoint == environment["OTEL_EXPORTER_OTLP_ENDPOINT"]


def test_the_data_sources_know_each_other() -> None:
    tempo = SOURCES["tempo"]["jsonData"]

    assert tempo["tracesToMetrics"]["datasourceUid"] in SOURCES
    assert {source["type"] for source in SOURCES.values()} == {"prometheus", "tempo"}
