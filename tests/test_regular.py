"""Only what can be read again is taken for what is read again."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from guardproxy import _regular
from guardproxy.errors import ConfigError


def test_what_stays_is_taken_and_what_is_missing_is_left_to_who_reads_it(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.write_text("")
    link.symlink_to(file)  # as Kubernetes mounts a ConfigMap
    for path in (file, link, tmp_path, tmp_path / "nothing", tmp_path / "a\0b"):
        _regular.check(path)


def test_what_is_gone_after_the_first_time_is_refused(tmp_path: Path) -> None:
    pipe, there = tmp_path / "pipe", tmp_path / "s"
    os.mkfifo(pipe)
    reading, writing = os.pipe()
    try:
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(there))
            kinds = {
                pipe: "a pipe",
                Path(f"/dev/fd/{reading}"): "a pipe",
                Path("/dev/null"): "a device",
                there: "a socket",
            }
            for path, kind in kinds.items():
                with pytest.raises(ConfigError) as refused:
                    _regular.check(path, param="prices.file")
                assert refused.value.message.startswith(f"{path} is {kind}, no regular file: ")
                assert refused.value.param == "prices.file"
    finally:
        os.close(reading)
        os.close(writing)
