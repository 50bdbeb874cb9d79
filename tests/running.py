"""A real `guardproxy serve` and a small provider, for tests of processes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any


class _Answers(BaseHTTPRequestHandler):
    """Answers after the seconds that the model's name says; streams one chunk before and one after them."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        ask = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        pause = float(ask["model"])
        if ask.get("stream"):
            self._stream(pause)
            return
        time.sleep(pause)
        message = {"role": "assistant", "content": "done"}
        body = {"id": "c1", "object": "chat.completion", "model": "m", "created": 0}
        body["choices"] = [{"index": 0, "message": message, "finish_reason": "stop"}]
        body["usage"] = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
        raw = json.dumps(body).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def _stream(self, pause: float) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for text, reason in (("a", None), ("b", "stop")):
            choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason}
            chunk = {"id": "c1", "object": "chat.completion.chunk", "model": "m", "created": 0, "choices": [choice]}
            self.wfile.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")
            self.wfile.flush()
            time.sleep(pause if reason is None else 0)
        self.wfile.write(b"data: [DONE]\n\n")
        self.close_connection = True

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def provider() -> Iterator[str]:
    """A provider's base URL."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Answers)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()
    thread.join()


class Running:
    """One `guardproxy serve`. `err` is its log so far."""

    def __init__(self, folder: Path, *arguments: str, env: dict[str, str] | None = None) -> None:
        folder.mkdir(exist_ok=True)
        self.data = folder / "data"
        self._log = folder / f"log-{time.monotonic_ns()}"
        command = [sys.executable, "-m", "guardproxy", "serve", "--data-dir", str(self.data), *arguments]
        if not any(argument.startswith("--port") for argument in arguments):
            command += ["--port", "0", "--admin-port", "0"]
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("GUARDPROXY_", "OPENAI_", "OTEL_"))}
        with self._log.open("wb") as log:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=log, text=True, env=plain | (env or {})
            )
        self.greeting = ""
        assert self.process.stdout
        for line in self.process.stdout:
            self.greeting += line
            if "/s/NAME" in line:
                break
        self.base = (re.findall(r"export OPENAI_BASE_URL=(\S+)", self.greeting) or [""])[0]
        self.admin = (re.findall(r"(http://\S+)/metrics", self.greeting) or [""])[0]

    @property
    def err(self) -> str:
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        assert self.process.stdout
        self.process.stdout.close()

    def stop(self, number: int = signal.SIGTERM, seconds: float = 45) -> int:
        self.process.send_signal(number)
        return self.process.wait(seconds)

    def children(self) -> dict[int, str]:
        """Processes whose parent this is, and what they run."""
        found = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                parent = int(stat.read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid:
                    found[int(stat.parent.name)] = (stat.parent / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
        return found

    def workers(self) -> list[int]:
        return [pid for pid, command in self.children().items() if "guardproxy.http.worker" in command]

    def ask(self, model: str = "0", *, stream: bool = False, text: str = "hi", timeout: float = 30) -> bytes:
        body = {"model": model, "messages": [{"role": "user", "content": text}], "stream": stream}
        return fetch(f"{self.base}/chat/completions", body, timeout=timeout)


def fetch(url: str, body: Any = None, *, method: str | None = None, timeout: float = 30) -> bytes:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read()


def until(what: Callable[[], object], seconds: float = 20) -> None:
    """Wait for something to become true."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(0.05)


def alive(pid: int) -> bool:
    """Whether a process runs; one that is dead and not yet collected does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False
