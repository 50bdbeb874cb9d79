"""What is read more than once must be a file that stays: a pipe is empty the second time, and passes for nothing."""

from __future__ import annotations

import stat
from pathlib import Path

from guardproxy.errors import ConfigError

_KINDS = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFSOCK: "a socket", stat.S_IFBLK: "a device"}


def check(path: Path, *, param: str | None = None) -> None:
    """Raise ConfigError for a pipe, a device or a socket. What is not there, or a folder, is for its reader to say."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return
    if kind := _KINDS.get(stat.S_IFMT(mode)):
        said = f"{path} is {kind}, no regular file: it is read more than once, and only the first time is sure"
        raise ConfigError(f"{said}; write it to a file", param=param)
