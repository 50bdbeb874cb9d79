"""The secret: where it comes from, what it is turned into, what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardproxy import secrets
from guardproxy.errors import ConfigError

LONG = "0123456789abcdef"


def test_given(tmp_path: Path) -> None:
    assert secrets.find({"GUARDPROXY_SECRET": f" {LONG}\n"}, tmp_path, shared_store=True) == LONG
    assert list(tmp_path.iterdir()) == []


def test_made_once_and_for_us_only(tmp_path: Path) -> None:
    home = tmp_path / "new" / "data"
    first, second = (secrets.find({}, home, shared_store=False) for _ in range(2))

    assert first == second
    assert len(first) == 64
    assert (home / "secret").stat().st_mode & 0o777 == 0o600
    assert [file.name for file in home.iterdir()] == ["secret"]


REFUSED = {
    "short": ({"GUARDPROXY_SECRET": LONG[:-1]}, None, False, "has 15 characters, fewer than 16"),
    "missing with a shared store": ({}, None, True, "store.url is set, so other machines may share this store"),
    "empty with a shared store": ({"GUARDPROXY_SECRET": " "}, None, True, "openssl rand -hex 32"),
    "empty file": ({}, (b"", 0o600), False, "has 0 characters"),
    "file for all": ({}, (LONG.encode(), 0o644), False, "can be read by others (mode 0644)"),
    "file of bytes": ({}, (b"\xff" * 32, 0o600), False, "cannot keep the secret in"),
}


@pytest.mark.parametrize(("env", "file", "shared", "words"), REFUSED.values(), ids=REFUSED.keys())
def test_refused(tmp_path: Path, env: dict[str, str], file: tuple[bytes, int] | None, shared: bool, words: str) -> None:
    if file:
        (tmp_path / "secret").write_bytes(file[0])
        (tmp_path / "secret").chmod(file[1])
    with pytest.raises(ConfigError) as caught:
        secrets.find(env, tmp_path, shared_store=shared)

    assert words in caught.value.message
    assert LONG[:-1] not in caught.value.message


def test_directory_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot keep the secret"):
        secrets.find({}, tmp_path / "file", shared_store=False)


def test_subkeys() -> None:
    keys, again, other = secrets.derive(LONG), secrets.derive(LONG), secrets.derive(LONG + "x")
    subkeys = {keys.fingerprint, keys.trace, keys.ledger, keys.key_hash}

    assert keys == again
    assert len(subkeys) == 4
    assert {len(key) for key in subkeys} == {32}
    assert keys.key_id != other.key_id
    assert not subkeys & {other.fingerprint, other.trace, other.ledger, other.key_hash}
    assert keys.ledger.hex() not in repr(keys)
    assert str(keys.ledger) not in repr(keys)


def test_subkeys_never_change() -> None:
    """Fingerprints in stores and ids of traces depend on them: a change here is a change of format."""
    assert secrets.derive(LONG).key_id == KEY_ID


KEY_ID = "e591f832"
