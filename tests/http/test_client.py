"""Commands ask the admin listener: with a token from the environment, and in words when it goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest

from guardproxy.errors import ConfigError, GuardError
from guardproxy.http import client


@contextmanager
def listener(status: int, body: bytes) -> Iterator[tuple[str, list[Any]]]:
    """An admin listener that says one thing, and what it was asked."""
    asked: list[Any] = []

    class Says(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            sent = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            asked.append((self.command, self.path, sent, self.headers.get("Authorization")))
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_PUT  # noqa: N815 - the library's name

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Says)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/", asked
    server.shutdown()
    server.server_close()
    thread.join()


def test_what_is_sent() -> None:
    with listener(200, b'{"on":true}') as (url, asked):
        assert client.ask(url, "PUT", "/panic", {"on": True}, "gpa-x") == {"on": True}
        client.ask(url, "GET", "/panic")

    assert asked == [("PUT", "/panic", b'{"on":true}', "Bearer gpa-x"), ("GET", "/panic", b"", None)]


SAID = {
    "a problem": (403, b'{"detail":"too low"}', "answered 403: too low"),
    "an error": (503, b'{"error":{"message":"away"}}', "answered 503: away"),
    "something else": (502, b"<html>", "answered 502: <html>"),
    "a list": (500, b"[]", "answered 500: []"),
    "no token": (
        401,
        b'{"detail":"send one"}',
        "answered 401: send one (commands take it from GUARDPROXY_ADMIN_TOKEN)",
    ),
    "no JSON": (200, b"<html>", "no proxy answers at"),
}


@pytest.mark.parametrize("which", SAID)
def test_what_is_said_of_errors(which: str) -> None:
    status, body, said = SAID[which]
    with listener(status, body) as (url, _), pytest.raises(GuardError) as caught:
        client.ask(url, "GET", "/panic")

    assert said in caught.value.message


@pytest.mark.parametrize(("url", "token"), [("ftp://x", ""), ("x", ""), ("http://x", "a\nb"), ("http://x", "é")])
def test_what_cannot_be_sent(url: str, token: str) -> None:
    with pytest.raises(ConfigError):
        client.ask(url, "GET", "/panic", token=token)


def test_nobody_there() -> None:
    with pytest.raises(GuardError, match="no proxy answers at http://127"):
        client.ask("http://127.0.0.1:9", "GET", "/panic")
