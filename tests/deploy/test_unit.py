"""The systemd unit: what it starts exists, and it waits long enough. That systemd takes it: tests/verify."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from guardproxy import cli
from guardproxy.http.crew import DRAIN_SECONDS

UNIT = Path(__file__).parents[2] / "deploy" / "systemd" / "guardproxy.service"
LINES = [line.partition("=")[::2] for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]


def said(name: str) -> list[str]:
    return [value for known, value in LINES if known == name]


@pytest.mark.parametrize("line", [*said("ExecStart"), said("ExecReload")[0]])
def test_what_it_starts_is_a_command_of_ours(line: str) -> None:
    program, *words = shlex.split(line)
    given = cli._parser().parse_args(words)

    assert program == "/opt/guardproxy/bin/guardproxy"
    assert str(getattr(given, "config", None) or given.file) == "/etc/guardproxy/guardproxy.yaml"


def test_it_ends_as_the_proxy_does() -> None:
    """SIGTERM to the parent alone, SIGKILL when its time is over; not again what only a person can mend."""
    assert said("KillMode") == ["mixed"]
    assert int(said("TimeoutStopSec")[0]) > DRAIN_SECONDS + 10
    assert said("RestartPreventExitStatus") == [str(cli.WRONG)]
    assert said("ExecReload")[-1].split()[1:] == ["-HUP", "$MAINPID"]


def test_its_data_is_where_it_may_write() -> None:
    (environment,) = said("Environment")

    assert dict(word.split("=") for word in environment.split())["XDG_DATA_HOME"] == "/var/lib"
    assert said("StateDirectory") == ["guardproxy"]
    assert said("ProtectSystem") == ["strict"]
    assert said("User") == ["guardproxy"]
