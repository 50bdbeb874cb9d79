"""Answers of a cluster's node that say: not here."""

from __future__ import annotations

import re

from guardproxy.errors import StoreError

_SAID = re.compile(r"(MOVED|ASK) (\d{1,5}) (?:(\S*):)?(\d{1,5})$|TRYAGAIN ")


class Redirected(StoreError):
    """`MOVED` for good to `host`, `ASK` for this key while its slot moves, or `TRYAGAIN` soon.

    `host` "": that of the node that said so.
    """

    def __init__(self, said: str, kind: str, slot: int = -1, host: str = "", port: int = 0) -> None:
        super().__init__(
            f"the store is a node of a Redis Cluster ({said}): set store.url to redis+cluster://host:port,host:port"
        )
        self.kind = kind
        self.slot = slot
        self.host = host
        self.port = port


def redirected(said: str) -> Redirected | None:
    """Read an error answer."""
    found = _SAID.match(said)
    if found is None:
        return None
    if not found[1]:
        return Redirected(said, "TRYAGAIN")
    host = (found[3] or "").strip("[]?")
    return Redirected(said, found[1], int(found[2]), host, int(found[4]))
