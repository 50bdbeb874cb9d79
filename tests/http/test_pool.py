"""Connections to a provider: made, kept, tried at several addresses, given up."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

from guardproxy.errors import UpstreamError
from guardproxy.http import pool as module
from guardproxy.http.exchange import Terms
from guardproxy.http.pool import Pool
from tests.http.test_exchange import OK, asked, pool, provider, says

ONE = OK + b"Content-Length: 1\r\n\r\na"


async def test_one_connection_after_the_other_many_at_once() -> None:
    async with provider(says(ONE, pause_s=0.02)) as server:
        used = pool(server.url)
        for _ in range(3):
            await asked(used)
        assert server.connections == 1
        await asyncio.gather(*(asked(used) for _ in range(5)))
        assert server.connections == 5
        used.close()


async def test_an_old_connection_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_S", 0.1)
    async with provider(says(ONE)) as server:
        used = pool(server.url)
        await asked(used)
        await asyncio.sleep(0.3)
        assert not used._idle, "the sweep closed it"
        await asked(used)
        assert server.connections == 2
        used.close()


async def test_a_connection_that_the_provider_closed_is_not_used() -> None:
    async with provider(says(ONE, then_close=True)) as server:
        used = pool(server.url)
        for _ in range(3):
            assert await asked(used) == (200, b"a")
            await asyncio.sleep(0.05)
        assert server.connections == 3
        used.close()


async def test_nobody_is_there() -> None:
    with pytest.raises(OSError, match="Connect"):
        await asked(pool("http://127.0.0.1:9/v1"))


@pytest.mark.parametrize("host", ["a..b", "a" * 64])
async def test_what_is_no_host(host: str) -> None:
    with pytest.raises(OSError, match="no name of a host"):
        await asked(pool(f"http://{host}/v1"))


async def test_no_connection_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    async def never(*_: Any, **__: Any) -> None:
        await asyncio.sleep(60)

    monkeypatch.setattr(module, "start_connection", never)
    used = Pool(Terms("http://127.0.0.1:9/v1", 0.1, 5, 5))
    with pytest.raises(UpstreamError, match="in time") as raised:
        await asked(used)
    assert raised.value.code == "upstream_timeout"


@pytest.mark.parametrize(
    ("url", "host"),
    [
        ("http://h/v1", "h"),
        ("http://h:80/v1", "h"),
        ("https://h:443/v1", "h"),
        ("http://h:8080/v1", "h:8080"),
        ("http://[::1]:11434/v1", "[::1]:11434"),
    ],
)
async def test_the_host_that_is_named(url: str, host: str) -> None:
    assert Pool(Terms(url, 1, 1, 1))._named == host


async def test_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a certificate that is trusted, and not with another."""
    certificate, key = _certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async with provider(says(ONE), tls=context, host="localhost") as server:
        with pytest.raises(ssl.SSLCertVerificationError):
            await asked(pool(server.url))
        trusting = ssl.create_default_context(cafile=str(certificate))
        monkeypatch.setattr(ssl, "create_default_context", lambda: trusting)
        used = pool(server.url)
        assert await asked(used) == (200, b"a")
        used.close()


def _certificate(folder: Path) -> tuple[Path, Path]:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "localhost")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, private = folder / "cert.pem", folder / "key.pem"
    certificate.write_bytes(made.public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    private.write_bytes(key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))
    return certificate, private
