"""A command finds the proxy that runs on its data and store, and no other one."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from guardproxy.config import Config, build
from guardproxy.http import whereabouts


def config(folder: Path, **store: str) -> Config:
    return build({"store": {"data_dir": str(folder), **store}})


@pytest.fixture
def listener() -> Iterator[tuple[str, dict[str, str]]]:
    """An admin listener, and what it says of itself."""
    says: dict[str, str] = {}

    class Says(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(int(says.get("status", "200")))
            for name, value in says.items():
                self.send_header(name, value)
            if "knows" in says:
                told = whereabouts.proof(says["knows"], self.headers[whereabouts.NONCE])
                self.send_header(whereabouts.HEADER, told)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Says)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", says
    server.shutdown()
    server.server_close()
    thread.join()


def test_its_own_is_found(
    tmp_path: Path, listener: tuple[str, dict[str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")  # no machine asks itself through one
    (url, says), own, mark = listener, config(tmp_path / "data"), whereabouts.mark()
    assert whereabouts.find(own) is None
    whereabouts.tell(own, mark, url)
    assert (tmp_path / "data" / whereabouts.FILE).stat().st_mode & 0o777 == 0o600
    assert whereabouts.find(own) is None  # somebody else has the port by now
    for wrong in (mark, "", whereabouts.proof(mark, "x")):  # heard from it, or from another answer of it
        says[whereabouts.HEADER] = wrong
        assert whereabouts.find(own) is None
    del says[whereabouts.HEADER]
    says["knows"] = mark
    assert whereabouts.find(own) == url
    assert whereabouts.find(config(tmp_path / "data", url="redis://other:6379")) is None
    assert whereabouts.find(config(tmp_path / "elsewhere")) is None
    whereabouts.forget(own, whereabouts.mark())  # a later one's is not taken away
    assert whereabouts.find(own) == url
    whereabouts.forget(own, mark)
    assert whereabouts.find(own) is None
    assert [one.name for one in (tmp_path / "data").iterdir()] == []


def test_a_redirect_leads_nowhere(tmp_path: Path, listener: tuple[str, dict[str, str]]) -> None:
    (url, says), own, mark = listener, config(tmp_path), whereabouts.mark()
    whereabouts.tell(own, mark, url)
    says |= {"status": "302", "Location": f"{url}/x", "knows": mark}
    assert whereabouts.find(own) is None


KEPT = [
    "",
    "[]",
    "{}",
    "{",
    '{"url":"ftp://x","mark":"m","store":""}',
    '{"url":"http://127.0.0.1:9","mark":"m","store":""}',
]


@pytest.mark.parametrize("text", KEPT)
def test_a_file_that_says_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / whereabouts.FILE).write_text(text)
    assert whereabouts.find(config(tmp_path)) is None
    whereabouts.forget(config(tmp_path), "x")


def test_a_directory_that_takes_no_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    whereabouts.tell(config(tmp_path / "file" / "data"), "m", "http://127.0.0.1:1")
    assert whereabouts.find(config(tmp_path / "file" / "data")) is None


def test_the_password_of_a_store_is_not_in_it(tmp_path: Path) -> None:
    own: Any = config(tmp_path, url="redis://user:planted@host:6379")
    whereabouts.tell(own, "m", "http://127.0.0.1:1")
    assert "planted" not in (tmp_path / whereabouts.FILE).read_text()


def test_a_copy_of_the_directory_is_another_store(tmp_path: Path, listener: tuple[str, dict[str, str]]) -> None:
    """A backup, looked at by a command, must not change what it was taken from."""
    url, says = listener
    first, copy = tmp_path / "first", tmp_path / "copy"
    says["knows"] = mark = whereabouts.mark()
    whereabouts.tell(config(first), mark, url)
    copy.mkdir()
    (copy / whereabouts.FILE).write_bytes((first / whereabouts.FILE).read_bytes())
    assert whereabouts.find(config(first)) == url
    assert whereabouts.find(config(copy)) is None
