"""The image without a container: the Dockerfile's own steps, with its paths moved to a folder, then its own command,
with the configuration that is in it, beside a Redis server of its own; by its user, if the tests may become that one.

What only a container can show (the base, its user, its first process) is not seen here.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.deploy.dockerfile import ROOT, command, copied, said, stages, variables, visible
from tests.running import fetch, provider, until

pytestmark = [
    pytest.mark.verify,
    pytest.mark.skipif(sys.platform != "linux", reason="the image is for Linux"),
]

FIRST, LAST = stages()
HERE = Path(sys.base_prefix).resolve()
REACHED = all(folder.stat().st_mode & 0o001 for folder in (HERE, *HERE.parents))
NOBODY: dict[str, Any] = {"user": 10001, "group": 10001, "extra_groups": []} if os.geteuid() == 0 and REACHED else {}
PATHS = ("/opt/guardproxy", "/etc/guardproxy", "/var/lib", "/wheel", "/src")
ELSEWHERE = ("GUARDPROXY_", "OPENAI_", "OTEL_", "PIP_", "PYTHON", "VIRTUAL_ENV")
"""Variables of whoever runs the tests, which no container has."""

MOST_MB = 180


class Image:
    """What the steps made, under a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        plain = {k: v for k, v in os.environ.items() if not k.startswith(ELSEWHERE)}
        inside = {name: self.moved(value) for name, value in variables(LAST).items()}
        path = inside.pop("PATH").replace("$PATH", os.environ["PATH"])
        self.environment = plain | inside | {"PATH": path, "HOME": self.moved("/var/lib/guardproxy")}

    def moved(self, text: str) -> str:
        """The same with paths of the image under the folder."""
        return re.sub(rf"(?<![\w.])({'|'.join(PATHS)})(?=/|\s|$)", rf"{self.folder}\1", text)

    def build(self) -> None:
        """The first stage, without what it takes from Debian and the compiling for which it does: see test_compiled."""
        builder = self.folder / "builder"
        subprocess.run([sys.executable, "-m", "venv", str(builder)], check=True, timeout=120)
        self._copy(FIRST, Path(self.moved(said(FIRST, "WORKDIR")[0])))
        given = {name: value for name, value in variables(FIRST).items() if name != "PIP_NO_CACHE_DIR"}
        environment = os.environ | given | {"PATH": f"{builder / 'bin'}:{os.environ['PATH']}"}
        for line in (one for one in said(FIRST, "RUN") if not one.startswith("apt-get")):
            subprocess.run(
                self.moved(line), shell=True, check=True, timeout=600, cwd=self.folder / "src", env=environment
            )
        self._copy(LAST, self.folder)
        shutil.rmtree(self.folder / "src")
        shutil.rmtree(self.folder / "wheel")
        shutil.rmtree(builder)

    def _copy(self, stage: list[tuple[str, str]], workdir: Path) -> None:
        for source, target in copied(stage):
            here, there = ROOT / source, workdir / self.moved(target)
            assert visible(source)
            if here.is_dir():
                shutil.copytree(here, there, ignore=_unseen)
                continue
            whole = there / here.name if target.endswith("/") else there
            whole.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(here, whole)

    def run(self, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
        """One command in the container."""
        return subprocess.run(
            words,
            env=self.environment | env,
            cwd="/",
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            executable=shutil.which(words[0], path=self.environment["PATH"]),
            **NOBODY,
        )


def _unseen(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if not visible(Path(folder, name).relative_to(ROOT).as_posix())]


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    with tempfile.TemporaryDirectory(prefix="guardproxy-image-") as folder:
        made = Image(Path(folder))
        made.folder.chmod(0o755)  # nobody must get through
        made.build()
        home = Path(made.environment["HOME"])
        home.mkdir(parents=True)
        if NOBODY:
            os.chown(home, NOBODY["user"], NOBODY["group"])
        yield made


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """As in compose.yaml; its URL."""
    found = shutil.which("redis-server")
    assert found, "redis-server is not installed (Debian: apt install redis-server)"
    with closing(socket.socket()) as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    words = [found, "--port", str(port), "--dir", str(tmp_path_factory.mktemp("redis")), "--appendonly", "yes"]
    with subprocess.Popen([*words, "--maxmemory-policy", "noeviction"], stdout=subprocess.DEVNULL) as process:
        until(lambda: _takes(port))
        yield f"redis://127.0.0.1:{port}/0"
        process.terminate()


def _takes(port: int) -> bool:
    with closing(socket.socket()) as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def started(image: Image, **env: str) -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    """The image's own command, on ports that are free: the process, where agents and where operators go."""
    words = [image.moved(word) for word in command()]
    process = subprocess.Popen(
        [*words, "--port", "0", "--admin-port", "0"],
        executable=shutil.which(words[0], path=image.environment["PATH"]),
        env=image.environment | env,
        cwd="/",
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        **NOBODY,
    )
    try:
        assert process.stdout
        greeting = ""
        for line in process.stdout:
            greeting += line
            if "/s/NAME" in line:
                break
        base = re.findall(r"export OPENAI_BASE_URL=(\S+)", greeting)
        admin = re.findall(r"(http://\S+)/metrics", greeting)
        assert base, greeting
        yield process, base[0], admin[0]
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()


def asked(base: str, session: str) -> Any:
    """One turn of a client that brings its own key."""
    body = json.dumps({"model": "0", "messages": [{"role": "user", "content": "hi"}]}).encode()
    head = {"Content-Type": "application/json", "Authorization": "Bearer key", "x-guardproxy-session-id": session}
    request = urllib.request.Request(f"{base}/chat/completions", body, head)
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)["choices"][0]["message"]["content"]


def test_the_command_serves_and_ends(image: Image, redis: str) -> None:
    """Beside an external Redis, with the configuration of the image; operators' commands find the same store."""
    with provider() as upstream:
        env = {"GUARDPROXY_SECRET": "s" * 32, "GUARDPROXY_REDIS_URL": redis, "OPENAI_BASE_URL": upstream}
        file = image.moved("/etc/guardproxy/guardproxy.yaml")
        with started(image, **env) as (process, base, admin):
            assert json.loads(fetch(f"{admin}/readyz"))["ready"]
            assert asked(base, "run-1") == "done"
            until(lambda: b"guardproxy_turns_total" in fetch(f"{admin}/metrics"))  # counted a moment after the answer
            listed = image.run("guardproxy", "sessions", "list", "--config", file, **env)
            assert (listed.returncode, listed.stdout.count(":run-1")) == (0, 1), listed
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
        traced = image.run("guardproxy", "trace", _whole(listed.stdout), "--config", file, **env)
        assert "1 turn" in traced.stdout, traced


def _whole(listed: str) -> str:
    return next(word for word in listed.split() if word.endswith(":run-1"))


def test_without_a_redis_it_has_its_own(image: Image) -> None:
    with provider() as upstream, started(image, OPENAI_BASE_URL=upstream) as (process, base, _):
        assert asked(base, "run-1") == "done"
        process.terminate()
        assert process.wait(30) == 0
    home = Path(image.moved("/var/lib/guardproxy"))

    assert (home / "secret").stat().st_mode & 0o777 == 0o600
    assert {file.name for file in home.parent.iterdir()} == {"guardproxy"}


def test_what_the_commands_need_is_in_it(image: Image, tmp_path: Path) -> None:
    """The page of `replay`, the detectors; and the demonstration, which needs a client, says how to get one."""
    folder = Path(image.environment["HOME"])
    call = {"id": "c", "type": "function", "function": {"name": "ls", "arguments": "{}"}}
    round_ = [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "a.txt"},
    ]
    run = {"id": "r", "messages": [{"role": "user", "content": "look"}, *round_ * 8]}
    (folder / "runs.jsonl").write_text(json.dumps(run) + "\n")
    replayed = image.run("guardproxy", "replay", "--html", str(folder / "page.html"), str(folder / "runs.jsonl"))

    assert replayed.returncode == 0, replayed
    assert "repeated_call" in (folder / "page.html").read_text()
    assert image.run("guardproxy", "list").returncode == 0
    demo = image.run("guardproxy", "demo")
    assert (demo.returncode, "pip install 'guardproxy[demo]'" in demo.stderr) == (2, True), demo


def test_nothing_else_is_in_it(image: Image) -> None:
    folder = Path(image.moved("/opt/guardproxy"))
    bytes_ = sum(file.lstat().st_size for file in folder.rglob("*") if file.is_file() and not file.is_symlink())
    tried = image.run("python", "-c", "import grafana")

    assert bytes_ < MOST_MB << 20
    assert "No module named 'grafana'" in tried.stderr
    assert not [*folder.glob("bin/pip*")]
    assert not [*folder.rglob("tests/test_house.py")]
    assert (folder / "bin" / "guardproxy").exists()
