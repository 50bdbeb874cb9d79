"""The server of our own: its data, its lock, its socket, and that it never outlives its parent."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from guardproxy.errors import ConfigError, StoreError
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from tests.store.kit import Agent

ROOT = Path(__file__).parents[2]


@pytest.fixture
def started() -> Iterator[list[embedded.Embedded]]:
    found: list[embedded.Embedded] = []
    yield found
    for one in reversed(found):
        one.stop()


def gone(pid: int, within_s: float = 5) -> bool:
    """Ended, or ended and not yet waited for by whoever adopted it."""
    until = time.monotonic() + within_s
    while True:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.01)


def run_parent(data_dir: Path, body: str) -> subprocess.Popen[str]:
    code = "import time\nfrom pathlib import Path\nfrom guardproxy.store import embedded\n"
    code += f"d = Path({str(data_dir)!r})\n{body}"
    return subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_a_second_start_finds_its_data(tmp_path: Path, started: list[embedded.Embedded]) -> None:
    for turn in (1, 2):
        server = embedded.start(tmp_path)
        started.append(server)
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
        assert (await Agent(store, session="s", count=2 * turn, user=str(turn)).turn()).turn == turn
        await store.check_policy()
        await store.close()
        server.stop()
        server.stop()  # twice is once
        assert not Path(server.socket_path).exists()


async def test_data_survive_the_kill_of_the_server(tmp_path: Path, started: list[embedded.Embedded]) -> None:
    server = embedded.start(tmp_path)
    started.append(server)
    store = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    await Agent(store, session="s").turn()
    await store._client.command("WAITAOF", 1, 0, 3000)  # a write may wait for the flush of the second before
    await store.close()
    assert server.process
    server.process.kill()
    server.process.wait()
    assert Path(server.socket_path).exists()  # stale
    os.close(server.lock)
    server.lock, server.process = -1, None
    again = embedded.start(tmp_path)
    started.append(again)
    store = await Store.connect(socket_path=again.socket_path, timeout_ms=5000)
    assert await store.session_state("acme", "s")
    await store.close()


def test_a_second_process_attaches_and_leaves_the_server_running(
    tmp_path: Path, started: list[embedded.Embedded]
) -> None:
    started.append(embedded.start(tmp_path))
    second = run_parent(tmp_path, "e = embedded.start(d)\nprint(e.attached, e.socket_path, e.pid)\ne.stop()")
    out, _ = second.communicate(timeout=30)
    assert out.split() == ["True", started[0].socket_path, str(started[0].pid)]
    assert embedded.answers(started[0].socket_path)


def test_while_a_server_lives_without_its_parent_nobody_starts_another_on_its_files(
    tmp_path: Path, started: list[embedded.Embedded]
) -> None:
    orphan = embedded.start(tmp_path)
    started.append(orphan)
    os.close(orphan.lock)  # as if we were gone
    orphan.lock = -1
    second = embedded.start(tmp_path)
    started.append(second)
    assert (second.attached, second.pid) == (True, orphan.pid)


def test_a_second_start_says_why_not(
    tmp_path: Path, started: list[embedded.Embedded], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = embedded.start(tmp_path)
    started.append(server)
    monkeypatch.setattr(embedded, "START_S", 0.3)
    os.kill(server.pid, signal.SIGSTOP)
    try:
        with pytest.raises(StoreError, match=f"in use by process {os.getpid()}.*does not answer"):
            embedded.start(tmp_path)
    finally:
        os.kill(server.pid, signal.SIGCONT)


@pytest.mark.parametrize("watch", [False, True], ids=["death signal", "watcher"])
@pytest.mark.parametrize("frozen", [False, True], ids=["running", "stopped"])
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc whether a process is gone")
def test_the_server_dies_with_its_parent_however_that_ends(tmp_path: Path, watch: bool, frozen: bool) -> None:
    if watch is False and sys.platform != "linux":
        pytest.skip("the death signal is Linux's")
    parent = run_parent(tmp_path, f"e = embedded.start(d, watch={watch})\nprint(e.pid, flush=True)\ntime.sleep(60)")
    assert parent.stdout
    pid = int(parent.stdout.readline())
    try:
        assert not gone(pid, 0.1)
        if frozen:
            os.kill(pid, signal.SIGSTOP)
        parent.kill()
        parent.wait()
        assert gone(pid)
    finally:
        parent.stdout.close()
        if not gone(pid, 0):
            os.kill(pid, signal.SIGKILL)
    again = embedded.start(tmp_path)  # nothing is left in the way
    again.stop()


def test_a_long_directory_gets_a_short_private_socket(
    tmp_path: Path, started: list[embedded.Embedded], monkeypatch: pytest.MonkeyPatch
) -> None:
    deep = tmp_path / ("d" * 60) / ("e" * 60)
    server = embedded.start(deep)
    started.append(server)
    path = Path(server.socket_path)
    assert len(os.fsencode(server.socket_path)) < embedded.SOCKET_BYTES
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert embedded.answers(server.socket_path)
    server.stop()
    assert not path.parent.exists()
    (tmp_path / ("t" * 90)).mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / ("t" * 90)))
    server = embedded.start(deep)
    started.append(server)
    assert len(os.fsencode(server.socket_path)) < embedded.SOCKET_BYTES


def test_the_directory_and_its_files_are_for_their_owner(tmp_path: Path, started: list[embedded.Embedded]) -> None:
    server = embedded.start(tmp_path / "new" / "data")
    started.append(server)
    assert stat.S_IMODE(server.data_dir.stat().st_mode) == 0o700
    assert stat.S_IMODE(Path(server.socket_path).stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({"XDG_DATA_HOME": "/data", "HOME": "/home/x"}, "/data/guardproxy"),
        ({"XDG_DATA_HOME": "relative", "HOME": "/home/x"}, "/home/x/.local/share/guardproxy"),
        ({"HOME": "/home/x"}, "/home/x/.local/share/guardproxy"),
    ],
)
def test_the_default_directory_is_xdgs(env: dict[str, str], expected: str) -> None:
    assert str(embedded.default_data_dir(env)) == expected


def test_a_directory_that_cannot_be_used_is_a_config_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot be used"):
        embedded.start(tmp_path / "file" / "data")


def test_a_server_that_cannot_start_says_why(tmp_path: Path) -> None:
    embedded.start(tmp_path).stop()
    for file in (tmp_path / "appendonlydir").glob("*.manifest"):
        file.write_text("this is no manifest\n")
    with pytest.raises(StoreError, match=r"the embedded store ended: .*log: "):
        embedded.start(tmp_path)
    with pytest.raises(StoreError, match="it left no log"):
        embedded.start(tmp_path / "other", server=Path("/bin/false"))


def test_a_thread_may_not_own_the_server(tmp_path: Path) -> None:
    caught: list[Exception] = []

    def attempt() -> None:
        try:
            embedded.start(tmp_path, watch=False)
        except StoreError as error:
            caught.append(error)

    thread = threading.Thread(target=attempt)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


def test_a_copied_directory_leaves_the_server_of_the_first_alone(
    tmp_path: Path, started: list[embedded.Embedded]
) -> None:
    """Its note leads to a socket that is another's, and in use."""
    first = embedded.start(tmp_path / "first")
    started.append(first)
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / "server.json").write_bytes((tmp_path / "first" / "server.json").read_bytes())
    second = embedded.start(copy)
    started.append(second)
    assert second.socket_path != first.socket_path
    assert embedded.answers(first.socket_path)
    assert embedded.answers(second.socket_path)
