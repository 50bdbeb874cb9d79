"""The files of `deploy/` as the tools of those who use them read them: hadolint, docker-compose, systemd, amtool.

A tool that is missing is a failure: `make verify` says what it needs.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.verify

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    found = shutil.which(words[0], path=f"{ROOT / '.venv-validators' / 'bin'}:{os.environ['PATH']}")
    assert found, f"{words[0]} is not here; make verify says what it needs"
    return subprocess.run(
        [found, *words[1:]],
        capture_output=True,
        text=True,
        env={k: v for k, v in os.environ.items() if k != "GUARDPROXY_SECRET"},
        timeout=60,
        check=False,
    )


@pytest.fixture
def unit(tmp_path: Path) -> Path:
    """The unit, with a program that is there: systemd looks for it."""
    text = (DEPLOY / "systemd" / "guardproxy.service").read_text()
    assert text.count("/opt/guardproxy/bin/guardproxy ") == 2
    file = tmp_path / "guardproxy.service"
    file.write_text(text.replace("/opt/guardproxy/bin/guardproxy ", f"{sys.executable} "))
    return file


def test_hadolint() -> None:
    done = run("hadolint", str(DEPLOY / "Dockerfile"))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_hadolint_finds_what_is_wrong(tmp_path: Path) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM python:latest\nRUN pip install guardproxy\n")
    done = run("hadolint", str(file))

    assert done.returncode == 1
    assert {word for word in ("DL3007", "DL3013") if word in done.stdout} == {"DL3007", "DL3013"}


def composed(folder: Path, env: str) -> subprocess.CompletedProcess[str]:
    """As deploy/README.md says: with `.env` beside the file, from another folder."""
    copy = folder / "deploy"
    shutil.copytree(DEPLOY, copy)
    (copy / ".env").write_text(env)
    return run("docker-compose", "-f", str(copy / "compose.yaml"), "config", "-q")


def test_docker_compose(tmp_path: Path) -> None:
    done = composed(tmp_path, f"GUARDPROXY_SECRET={'s' * 32}\n")

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_docker_compose_asks_for_the_secret(tmp_path: Path) -> None:
    done = composed(tmp_path, "")

    assert done.returncode == 1
    assert "openssl rand -hex 32" in done.stderr


def test_systemd_takes_the_unit(unit: Path) -> None:
    done = run("systemd-analyze", "verify", str(unit))

    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_systemd_finds_the_unit_confined(unit: Path) -> None:
    """By its own measure, from 0 (nothing is left to do harm with) to 10; 2.0 and less is called OK."""
    done = run("systemd-analyze", "security", "--offline=yes", "--threshold=20", "--no-pager", str(unit))

    assert done.returncode == 0, done.stdout


YAMLLINT = """{extends: default, rules: {line-length: disable, document-start: disable, truthy: {check-keys: false},
indentation: {indent-sequences: whatever}, braces: {max-spaces-inside: 1}, comments: {min-spaces-from-content: 1},
comments-indentation: disable}}"""


def test_yamllint() -> None:
    """But for the chart's templates, which are no YAML."""
    files = [file for file in DEPLOY.rglob("*") if file.suffix in (".yaml", ".yml") and file.parent.name != "templates"]
    done = run("yamllint", "--strict", "-d", YAMLLINT, *map(str, files))

    assert (done.returncode, done.stdout) == (0, "")
    assert len(files) > 10


def test_amtool() -> None:
    assert run("amtool", "check-config", str(DEPLOY / "alertmanager.yml")).returncode == 0
