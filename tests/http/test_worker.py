"""What a worker is made of, apart from serving: sockets and the end with its parent (whole ones: test_serve)."""

from __future__ import annotations

import errno
import socket
import subprocess
import sys

import pytest

from guardproxy.http.worker import listener


def test_workers_share_a_port_and_others_do_not() -> None:
    with listener("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        first.listen()
        with listener("127.0.0.1", port) as second:
            assert second.getsockname() == first.getsockname()
        with pytest.raises(OSError, match=r".") as caught:
            listener("127.0.0.1", port, shared=False)

    assert caught.value.errno == errno.EADDRINUSE


def test_port_is_free_again_at_once() -> None:
    with listener("127.0.0.1", 0, shared=False) as first:
        first.listen()
        port = first.getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)), first.accept()[0]:
            pass  # leaves a connection in TIME_WAIT
    with listener("127.0.0.1", port, shared=False) as again:
        again.listen()


@pytest.mark.parametrize("host", ["nowhere.invalid", "256.0.0.1"])
def test_no_such_address(host: str) -> None:
    with pytest.raises(OSError, match=r"(not known|resolution|No address)"):
        listener(host, 0)


def test_ends_when_its_parent_says_nothing_and_goes() -> None:
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-m", "guardproxy.http.worker", str(theirs.fileno())]
    with theirs:
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    ours.close()

    assert process.wait(30) == 70
