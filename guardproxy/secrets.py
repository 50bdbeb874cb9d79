"""One secret, several keys: what `GUARDPROXY_SECRET` is turned into, and where it is kept in embedded mode.

Several workers and machines share a store, so they must share the secret too: with a Redis URL it has to be given. With
the embedded store it is made once and kept beside the data, readable by its owner only.
"""

from __future__ import annotations

import os
import secrets as random
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from guardproxy.errors import ConfigError

VARIABLE = "GUARDPROXY_SECRET"
"""The environment variable."""

SHORTEST = 16
"""Characters. Guessing a shorter one is feasible for whoever holds a fingerprint; 64 hex digits are recommended."""

_FILE = "secret"
_ADVICE = f"set {VARIABLE} to the same long random text everywhere, e.g. the output of: openssl rand -hex 32"


@dataclass(frozen=True, slots=True)
class Keys:
    """Subkeys of 32 bytes, one a purpose, so that none can be found from another. `key_id` names the secret."""

    key_id: str
    fingerprint: bytes = field(repr=False)
    trace: bytes = field(repr=False)
    ledger: bytes = field(repr=False)
    key_hash: bytes = field(repr=False)


def derive(secret: str) -> Keys:
    """The subkeys of `secret` (HKDF-SHA256, RFC 5869)."""
    names = ("fingerprint", "trace", "ledger", "key_hash")
    return Keys(_subkey(secret, "key-id")[:4].hex(), **{name: _subkey(secret, name) for name in names})


def _subkey(secret: str, name: str) -> bytes:
    return HKDF(SHA256(), 32, salt=None, info=f"guardproxy/1/{name}".encode()).derive(secret.encode())


def find(env: Mapping[str, str], data_dir: Path, *, shared_store: bool) -> str:
    """The secret: from the environment, else from the data directory, where it is made if there is none.

    Raises ConfigError when it is too short, cannot be read, or is missing although the store is shared.
    """
    given = env.get(VARIABLE, "").strip()
    if given:
        return _long_enough(given, VARIABLE)
    if shared_store:
        raise ConfigError(f"store.url is set, so other machines may share this store: {_ADVICE}")
    path = data_dir / _FILE
    try:
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not path.exists():
            _make(path)
        return _read(path)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot keep the secret in {path}: {error}") from error


def _make(path: Path) -> None:
    """Write a new secret. Linked into place whole, so that of two starts at once both read the same one."""
    draft = path.with_name(f"{_FILE}.{random.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(random.token_hex(32) + "\n")
        os.link(draft, path)
    except FileExistsError:
        pass  # the other start was first
    finally:
        draft.unlink()


def _read(path: Path) -> str:
    mode = stat.S_IMODE(path.stat().st_mode)
    if mode & 0o077:
        raise ConfigError(f"{path} can be read by others (mode {mode:04o}): chmod 600 it, or delete it for a new one")
    return _long_enough(path.read_text().strip(), str(path))


def _long_enough(secret: str, where: str) -> str:
    if len(secret) < SHORTEST:
        raise ConfigError(f"the secret in {where} has {len(secret)} characters, fewer than {SHORTEST}: {_ADVICE}")
    return secret
