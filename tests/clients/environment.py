"""An environment for each client, made once: a venv or an npm prefix under `.clients/`."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zlib
from pathlib import Path

from tests.clients import ROOT, Client

CACHE = ROOT / ".clients"
SECONDS = 1200.0
"""For one installation: some have hundreds of packages."""


class NotInstalled(Exception):
    """The registry, or what it takes, is not there: a failure of `make clients`, never a reason to skip."""


def programs(client: Client) -> Path:
    """The folder with its programs."""
    return folder(client) / ("bin" if client.registry == "pypi" else "node_modules/.bin")


def install(client: Client) -> None:
    """Make the environment where it is not there. Raises NotInstalled."""
    made = folder(client)
    if (made / "complete").exists():
        return
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    if client.registry == "pypi":
        _run([sys.executable, "-m", "venv", str(made)], made)
        pip = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run([*pip, *client.packages], made)
    else:
        (made / "package.json").write_text(json.dumps({"private": True, "type": "module"}))
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        _run(["npm", "install", *quiet, "--prefix", str(made), *client.packages], made)
    (made / "complete").touch()


def folder(client: Client) -> Path:
    """Where its environment is."""
    key = zlib.crc32("\n".join([*client.packages, sys.version if client.registry == "pypi" else ""]).encode())
    return CACHE / f"{client.name}-{key:08x}"


def _run(command: list[str], where: Path) -> None:
    try:
        done = subprocess.run(command, cwd=where, capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotInstalled(f"{' '.join(command)}: {error}") from error
    if done.returncode:
        raise NotInstalled(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
