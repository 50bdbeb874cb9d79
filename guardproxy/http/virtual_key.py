"""What a virtual key looks like, and its keyed hash: `gp-`, 36 random letters and digits, and six that prove them.

The proof is keyed too. So a made-up key is refused for a microsecond, before the store is asked.
"""

from __future__ import annotations

import secrets
from hashlib import sha256
from hmac import compare_digest, digest as hmac

from guardproxy.core.tenant import SECRET

PREFIX = "gp-"
"""What every virtual key begins with."""

RANDOM, PROOF = 36, 6
"""Characters of each: 214 bits that nobody guesses, and 35 bits that keep guesses from the store."""

SHOWN = 4
"""Characters at each end that people see: enough to tell one's keys apart."""

_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def mint(key: bytes) -> str:
    """A new secret under `key` (`secrets.Keys.key_hash`)."""
    start = PREFIX + "".join(secrets.choice(_ALPHABET) for _ in range(RANDOM))
    return start + _proof(key, start)


def is_ours(secret: str) -> bool:
    """Whether it has the shape of a virtual key: anything else that a client sends is a provider's."""
    return SECRET.fullmatch(secret) is not None


def within(text: str) -> bool:
    """Whether a text has a virtual key in it, genuine or not."""
    return PREFIX in text and SECRET.search(text) is not None


def genuine(key: bytes, secret: str) -> bool:
    """Whether it was minted under `key`."""
    return is_ours(secret) and compare_digest(_proof(key, secret[:-PROOF]), secret[-PROOF:])


def digest(key: bytes, secret: str) -> str:
    """The keyed hash by which a secret is found: 64 hex digits."""
    return hmac(key, b"virtual key\0" + secret.encode("utf-8", "surrogateescape"), sha256).hex()


def same(one: str, other: str) -> bool:
    """Whether two digests are equal, in a time that does not depend on where they differ."""
    return compare_digest(one, other)


def shown(secret: str) -> str:
    """What people see of a secret ever after."""
    return f"{secret[: len(PREFIX) + SHOWN]}…{secret[-SHOWN:]}"


def _proof(key: bytes, start: str) -> str:
    number = int.from_bytes(hmac(key, b"proof\0" + start.encode(), sha256)[:8])
    letters = []
    for _ in range(PROOF):
        number, at = divmod(number, len(_ALPHABET))
        letters.append(_ALPHABET[at])
    return "".join(letters)
