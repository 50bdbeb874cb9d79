"""Each example of a configuration loads with the variables that it names, and says nothing in vain."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from guardproxy import config
from guardproxy.errors import ConfigError

FILES = sorted((Path(__file__).parents[2] / "deploy" / "examples").glob("*.yaml"))
GIVEN = {
    "GUARDPROXY_REDIS_URL": "redis+sentinel://sentinel-0:26379,sentinel-1:26379/main/0",
    "OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318",
}


def variables(file: Path) -> dict[str, str]:
    named = re.findall(r"\$\{(\w+)\}", file.read_text())
    return {name: GIVEN.get(name, "thirty-two characters, or more ...") for name in named}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_it_loads(file: Path) -> None:
    tree, _ = config.load(file, variables(file))

    assert tree.warnings() == []
    assert tree.store.url == GIVEN["GUARDPROXY_REDIS_URL"]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_what_is_missing_is_named(file: Path) -> None:
    for name in variables(file):
        with pytest.raises(ConfigError, match=name):
            config.load(file, {known: text for known, text in variables(file).items() if known != name})
