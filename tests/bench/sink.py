"""A collector that takes every OTLP/HTTP export and keeps only the count of bytes; it ends with its parent."""

from __future__ import annotations

import http.server
import os
import sys
import threading
import time


class Sink(http.server.BaseHTTPRequestHandler):
    """Reads the body, says 200."""

    protocol_version = "HTTP/1.1"
    taken = 0
    posts = 0

    def do_POST(self) -> None:
        """One export."""
        if self.headers.get("Transfer-Encoding"):
            self.close_connection = True
        Sink.taken += len(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        Sink.posts += 1
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def do_GET(self) -> None:
        """What was taken so far: posts and bytes."""
        text = f"{Sink.posts} {Sink.taken}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Nothing."""


if __name__ == "__main__":
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Sink)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    parent = os.getppid()
    while os.getppid() == parent:
        time.sleep(1)
