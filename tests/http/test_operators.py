"""The admin listener of a real proxy: log-in, TLS, forwarded addresses, and what is left in the audit."""

from __future__ import annotations

import datetime as dt
import ipaddress
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from guardproxy.errors import ConfigError
from guardproxy.http import operators
from guardproxy.http.client import VARIABLE
from tests.running import Running, provider, until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with provider() as url:
        yield url


def certificate(folder: Path, name: str, password: bytes = b"") -> tuple[Path, Path]:
    """A certificate for 127.0.0.1 that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    who = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    made = x509.CertificateBuilder().subject_name(who).issuer_name(who).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number()).not_valid_before(now - dt.timedelta(hours=1))
    made = made.not_valid_after(now + dt.timedelta(hours=1))
    own = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    signed = made.add_extension(own, critical=False).sign(key, hashes.SHA256())
    cert, secret = folder / "cert.pem", folder / "key.pem"
    cert.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, how))
    return cert, secret


class Asked:
    """A client of one listener. `cert`: what it trusts."""

    def __init__(self, url: str, cert: Path | None = None) -> None:
        self.url = url
        self.cert = cert

    def __call__(self, method: str, path: str, body: Any = None, token: str = "", **more: str) -> tuple[int, Any]:
        headers = {"Content-Type": "application/json"} | {name.replace("_", "-"): text for name, text in more.items()}
        headers |= {"Authorization": f"Bearer {token}"} if token else {}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, headers, method=method)
        context = ssl.create_default_context(cafile=str(self.cert)) if self.cert else None
        try:
            with urllib.request.urlopen(request, timeout=10, context=context) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())


def command(data: Path, *words: str, **env: str) -> tuple[int, str, str]:
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("GUARDPROXY_", "OPENAI_", "OTEL_"))}
    given = [sys.executable, "-m", "guardproxy", *words]
    if words[0] != "panic":
        given += ["--data-dir", str(data)]
    done = subprocess.run(given, capture_output=True, text=True, env=plain | env, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def test_from_no_log_in_to_a_log_in(tmp_path: Path, upstream: str) -> None:
    """A proxy of a company in its first hour. Tokens made by commands hold in the listener within two seconds."""
    with Running(tmp_path, "--upstream", upstream) as proxy:
        ask, data = Asked(proxy.admin), proxy.data
        proxy.ask(text="one")
        assert ask("GET", "/admin/v1/sessions")[0] == 200
        assert ask("PUT", "/panic", {"on": False})[0] == 200
        code, out, said = command(data, "admin", "init", "--name", "root")
        root = out.strip()
        assert (code, root[:4], root in said) == (0, "gpa-", False)
        assert command(data, "admin", "init")[0] == 1

        for method, path, body in (("GET", "/admin/v1/sessions", None), ("PUT", "/panic", {"on": True})):
            assert ask(method, path, body)[0] == 401
        assert ask("GET", "/panic")[0] == 401
        assert ask("GET", "/readyz")[0] == 200
        looker = command(data, "admin", "tokens", "create", "--name", "looker", "--role", "viewer")[1].strip()
        assert ask("GET", "/admin/v1/sessions", None, looker)[1]["items"]
        assert ask("PUT", "/panic", {"on": True}, looker)[0] == 403
        assert ask("GET", "/panic", None, looker) == (200, {"on": False})
        assert command(data, "panic", "on", "--admin", proxy.admin)[0] == 1
        assert command(data, "panic", "on", "--admin", proxy.admin, **{VARIABLE: root})[0] == 0

        _, listed, _ = command(data, "admin", "tokens", "list")
        (line,) = [line for line in listed.splitlines() if "looker" in line]
        began = time.monotonic()
        assert command(data, "admin", "tokens", "revoke", line.split()[0], "--why", "left")[0] == 0
        until(lambda: ask("GET", "/admin/v1/sessions", None, looker)[0] == 401, 2)
        assert time.monotonic() - began < 30  # most of it is the command's own start, on a busy machine

        port = int(proxy.admin.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as broken:  # no HTTP, with a token in it
            broken.sendall(f"GET /panic HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {root}\x00\r\n\r\n".encode())
            assert b" 400 " in broken.recv(4096)
        os.kill(proxy.process.pid, signal.SIGHUP)
        until(lambda: "config.reload" in command(data, "audit")[1])
        entries = [json.loads(line) for line in command(data, "audit", "--json")[1].splitlines()][::-1]
        log = proxy.err
        assert proxy.stop() == 0

    assert [(one["what"], one["actor"], one["kind"]) for one in entries if one["what"] != "config.reload"] == [
        ("panic.set", "admin", "local"),
        ("token.create", entries[1]["actor"], "command"),
        ("token.create", entries[1]["actor"], "command"),
        ("panic.set", "root", "token"),
        ("token.revoke", entries[1]["actor"], "command"),
    ]
    assert entries[3]["address"] == "127.0.0.1"
    assert "what is not well-formed HTTP" in log
    assert root not in log
    assert looker not in log
    assert not [one for one in data.rglob("*") if one.is_file() and root.encode() in one.read_bytes()]


def test_tls_and_a_reverse_proxy(tmp_path: Path, upstream: str) -> None:
    """The listener speaks TLS alone; a renewed certificate is taken at SIGHUP; a bad one is not."""
    cert, key = certificate(tmp_path, "first")
    file = tmp_path / "guardproxy.yaml"
    tls = f"{{cert: '{cert}', key: '{key}'}}"
    file.write_text(f"admin: {{port: 0, tls: {tls}, trusted_proxies: [127.0.0.0/8]}}\nlisten: {{port: 0}}")
    with Running(tmp_path, "--upstream", upstream, "--config", str(file)) as proxy:
        port = proxy.greeting.partition("metrics and health: https://127.0.0.1:")[2].partition("/")[0]
        assert port, proxy.greeting
        url = f"https://127.0.0.1:{port}"
        root = command(proxy.data, "admin", "init")[1].strip()
        first = Asked(url, cert)
        assert first("GET", "/admin/v1/audit", None, root)[0] == 200
        with pytest.raises((OSError, urllib.error.URLError)):
            Asked(f"http://127.0.0.1:{port}")("GET", "/healthz")
        assert first("PUT", "/panic", {"on": False}, root, X_Forwarded_For="1.1.1.1, 198.51.100.7")[0] == 200
        assert first("GET", "/admin/v1/audit", None, root)[1]["items"][0]["address"] == "198.51.100.7"

        old = cert.read_bytes()
        certificate(tmp_path, "second")
        os.kill(proxy.process.pid, signal.SIGHUP)
        until(lambda: ssl.get_server_certificate(("127.0.0.1", int(port))).encode() != old)
        good = ssl.get_server_certificate(("127.0.0.1", int(port)))
        key.write_text("no key")
        os.kill(proxy.process.pid, signal.SIGHUP)
        until(lambda: "the old certificate stays" in proxy.err)
        assert ssl.get_server_certificate(("127.0.0.1", int(port))) == good


WRONG = {
    "no file": lambda cert, key: (cert.with_name("none"), key),
    "no key": lambda cert, key: (cert, cert),
    "a key of another": lambda cert, key: (cert, certificate(cert.parent / "other", "other")[1]),
    "an encrypted key": lambda cert, key: certificate(cert.parent / "other", "other", b"hush"),
}


@pytest.mark.parametrize("which", WRONG)
def test_a_certificate_of_no_use(which: str, tmp_path: Path) -> None:
    """One line at the start, and no prompt for a password."""
    (tmp_path / "other").mkdir()
    cert, key = WRONG[which](*certificate(tmp_path, "one"))
    section = operators.AdminSection.model_validate({"tls": {"cert": str(cert), "key": str(key)}})
    with pytest.raises(ConfigError, match=r"admin\.tls: cannot use"):
        operators._context(section)


def test_a_proxy_does_not_start_with_it(tmp_path: Path, upstream: str) -> None:
    file = tmp_path / "guardproxy.yaml"
    file.write_text("admin: {port: 0, tls: {cert: none.pem, key: none.pem}}\nlisten: {port: 0}")
    with Running(tmp_path, "--upstream", upstream, "--config", str(file)) as proxy:
        code = proxy.process.wait(20)

    assert (code, "Traceback" in proxy.err) == (2, False)
    assert "admin.tls: cannot use none.pem" in proxy.err
