"""A real `guardproxy serve` in a process of its own, on free ports and with a data directory that is thrown away."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from guardproxy import config
from guardproxy.core.tenant import DEFAULT_ORG
from guardproxy.errors import GuardError
from guardproxy.http import reach, trace
from guardproxy.telemetry.record import TurnRecord

STOP_SECONDS = 20.0
"""The agents are done by then: draining takes a moment."""

RECORD_SECONDS = 10.0
"""A turn is on record a moment after its answer."""


class RunningProxy:
    """A context manager that gives the base URL for agents."""

    def __init__(self, upstream: str) -> None:
        self._upstream = upstream

    def __enter__(self) -> str:
        self._folder = tempfile.TemporaryDirectory(prefix="guardproxy-demo-")
        log = Path(self._folder.name, "log")
        command = [sys.executable, "-m", "guardproxy", "serve", "--port", "0", "--admin-port", "0"]
        command += ["--upstream", self._upstream, "--data-dir", str(Path(self._folder.name, "data"))]
        settings = ("GUARDPROXY_", "OTEL_", "OPENAI_")  # the demonstration does not depend on the caller's shell
        env = {name: value for name, value in os.environ.items() if not name.startswith(settings)}
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=stderr, env=env, text=True)  # noqa: S603 - ourselves
        for line in self._process.stdout or ():
            if found := re.search(r"export OPENAI_BASE_URL=(\S+)", line):
                return found[1]
        said = log.read_text(errors="replace").strip()[-2000:]
        self.__exit__()
        raise GuardError(f"the proxy did not start: {said}")

    def records(self, session: str, turns: int) -> list[TurnRecord]:
        """What the proxy has on record of a session, as `guardproxy trace` reads it, once it has `turns` turns.

        Raises GuardError when it does not have them within some seconds.
        """
        settings = config.build({"store": {"data_dir": str(Path(self._folder.name, "data"))}})
        until = time.monotonic() + RECORD_SECONDS
        while True:
            try:
                found = reach.ask(settings, lambda store: trace.read(store, DEFAULT_ORG, session))
            except GuardError as unknown:
                if unknown.status != 404 or time.monotonic() > until:
                    raise
                found = []
            if len({record["turn"] for record in found}) >= turns:
                return found
            if time.monotonic() > until:
                raise GuardError(f"the proxy has {len(found)} of {turns} turns of {session} on record")
            time.sleep(0.05)

    def lasting(self, text: str) -> str:
        """A text without the lines that name the data directory: nobody can go there any more."""
        return "\n".join(line for line in text.split("\n") if self._folder.name not in line)

    def __exit__(self, *_: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._folder.cleanup()
