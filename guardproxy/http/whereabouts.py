"""Where a running proxy's admin listener is, for commands on the same machine: a file in its data directory.

The listener proves that it knows the mark of the file, so that no command takes another proxy, or whoever has the port
by now, for it: a command sends its token there, and changes what it is told to change there.
"""

from __future__ import annotations

import hmac
import json
import logging
import os
import secrets
import urllib.request
from hashlib import sha256
from pathlib import Path

from guardproxy.config import Config
from guardproxy.http import client

FILE = "admin.json"
"""In the data directory; readable by its owner only."""

NONCE, HEADER = "x-guardproxy-nonce", "x-guardproxy-mark"
"""In which `/healthz` is asked for the proof, and says it."""

SECONDS = 1.0
"""How long a command waits to hear it."""

_log = logging.getLogger(__name__)


def mark() -> str:
    """What a listener that is about to open is known by."""
    return secrets.token_hex(16)


def proof(mark: str, nonce: str) -> str:
    """What only they can say who know the mark."""
    return hmac.new(mark.encode(), nonce.encode("utf-8", "replace"), sha256).hexdigest()


def tell(config: Config, mark: str, url: str) -> None:
    """Write where the listener is. A directory that takes no file is no reason not to serve."""
    kept = {"url": url, "mark": mark, "store": _store(config)}
    place = config.data_dir / FILE
    try:
        config.data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        made = place.with_name(f"{FILE}.{mark}")
        with os.fdopen(os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(kept, file)
        made.replace(place)
    except OSError as error:
        _log.info("commands on this machine will not find the admin listener by themselves: %s", error)


def forget(config: Config, mark: str) -> None:
    """Take the file away, if it is still ours."""
    kept = _read(config.data_dir / FILE)
    if kept is not None and kept.get("mark") == mark:
        (config.data_dir / FILE).unlink(missing_ok=True)


def find(config: Config) -> str | None:
    """The URL of the admin listener of the proxy that runs on this data and store; None if none answers."""
    kept = _read(config.data_dir / FILE)
    if kept is None or kept.get("store") != _store(config):
        return None
    url, said = str(kept.get("url")), str(kept.get("mark"))
    if not url.startswith(("http://", "https://")):
        return None
    nonce = secrets.token_hex(16)
    request = urllib.request.Request(f"{url}/healthz", headers={NONCE: nonce})  # noqa: S310 - http only, see above
    try:
        with client.opened(request, SECONDS) as answer:
            told = str(answer.headers.get(HEADER, ""))
            return url if hmac.compare_digest(told.encode(), proof(said, nonce).encode()) else None
    except (OSError, ValueError):
        return None


def _store(config: Config) -> str:
    """The store by its URL, which may have a password in it, or the place of the embedded one: a copy of the directory
    is another store.
    """
    return sha256((config.store.url or str(config.data_dir.resolve())).encode()).hexdigest()


def _read(place: Path) -> dict[str, object] | None:
    try:
        kept = json.loads(place.read_text())
    except (OSError, ValueError):
        return None
    return kept if isinstance(kept, dict) else None
