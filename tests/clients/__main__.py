"""`python -m tests.clients [NAME …] [--scene NAME] [--table]`: install, play, write results and table."""

from __future__ import annotations

import argparse
import asyncio
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.clients import Client, Json, clients, load, table
from tests.clients.environment import NotInstalled, install
from tests.clients.play import play
from tests.clients.provider import scripted
from tests.running import Running

INSIDE = "GUARDPROXY_CLIENTS_INSIDE"
"""Set in the process that plays: it has a network of its own where the system allows one."""

CONFIG = """\
budgets:
  - {scope: model, match: refused-model, dimension: total_tokens, window: total, limit: 1}
"""


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description="real clients against the proxy")
    parser.add_argument("names", nargs="*", help="folders of tests/clients; without any: all")
    parser.add_argument("--scene", action="append", default=[], help="only this one")
    parser.add_argument("--table", action="store_true", help="only write the table of what is known")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that what was started is ended, too
    chosen = [load(name) for name in arguments.names] or list(clients())
    if arguments.table:
        table.write()
        return 0
    if INSIDE not in os.environ:
        return _outside(chosen)
    results = asyncio.run(_play(chosen, arguments.scene))
    table.keep(results)
    table.write()
    wrong = [
        f"{name}, {way}, {scene}: {result['wrong']}"
        for name, found in results.items()
        for way, scenes in found["ways"].items()
        for scene, result in scenes.items()
        if "wrong" in result
    ]
    print("\n".join(["", *wrong, f"{len(results)} clients, {len(wrong)} scenes wrong"]))
    return 1 if wrong else 0


def _outside(chosen: list[Client]) -> int:
    """Install what is chosen, then play without a network beyond the loopback where the system can take it away."""
    failed = []
    for client in chosen:
        try:
            install(client)
        except NotInstalled as why:
            failed.append(client.name)
            print(f"{client.name} cannot be installed: {why}", file=sys.stderr)
    if failed:
        return 1
    command = [sys.executable, "-m", "tests.clients", *sys.argv[1:]]
    # Processes of its own, too: what a client leaves behind as a daemon ends with the run.
    alone = ["unshare", "--map-root-user", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    alone += ["sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if not all(map(shutil.which, ("unshare", "ip"))) or subprocess.run([*alone, "true"], check=False).returncode:
        print("no network namespace here: only proxies that lead nowhere keep the clients at home", file=sys.stderr)
        alone = []
    return subprocess.run([*alone, *command], env={**os.environ, INSIDE: "1"}, check=False).returncode


async def _play(chosen: list[Client], only: list[str]) -> dict[str, Json]:
    results: dict[str, Json] = {}
    folder = Path(tempfile.mkdtemp(prefix="clients-"))
    try:
        (folder / "config.yaml").write_text(CONFIG)
        async with scripted() as (provider, upstream):
            arguments = ("--config", str(folder / "config.yaml"), "--upstream", upstream)
            with await asyncio.to_thread(Running, folder, *arguments) as proxy:
                if not proxy.base:
                    raise SystemExit(f"the proxy did not start: {proxy.err}")
                for client in chosen:
                    found = await play(client, proxy, provider, dict.fromkeys(only, True))
                    results[client.name] = {"packages": list(client.packages), "ways": found}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return results


if __name__ == "__main__":
    sys.exit(main())
