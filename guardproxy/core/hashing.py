"""Keyed hashes of texts: 128 bits, with the lengths of the parts, so that nothing can be shifted between them."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from typing import cast

Hasher = hashlib.blake2b
Hash = bytes  # 16 bytes


def hash16(key: bytes, *parts: str | bytes) -> Hash:
    """Keyed 128-bit hash of parts; lengths are hashed too, so that no two lists of parts run together."""
    return hashlib.blake2b(framed(parts), key=key, digest_size=16).digest()


_LENGTHS = tuple(struct.Struct(f"<{number}I") for number in range(32))


def framed(parts: Sequence[str | bytes]) -> bytes:
    """All lengths, then all parts: of two lists with one framing the shorter would have to hold less and more."""
    form = _LENGTHS[len(parts)] if len(parts) < len(_LENGTHS) else struct.Struct(f"<{len(parts)}I")
    if parts and type(parts[-1]) is str:  # bytes mostly come last, and an exception costs as much as the hash
        try:
            text = "".join(cast("Sequence[str]", parts))
        except TypeError:  # bytes among them all the same
            text = None
        if text is not None and text.isascii():
            return form.pack(*map(len, parts)) + text.encode()
    made = [raw(part) for part in parts]
    return form.pack(*map(len, made)) + b"".join(made)


def raw(part: str | bytes) -> bytes:
    """A part as bytes; what is no Unicode (half a pair) has a form, too."""
    return part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")


def finish(hasher: Hasher, text: str | bytes) -> Hash:
    """The hash of what the hasher has taken in and a text after it."""
    digest = hasher.copy()
    digest.update(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    return digest.digest()
