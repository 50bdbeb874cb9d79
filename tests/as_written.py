"""Tests that look inside of the code as it is written cannot look inside of what is compiled."""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path

import pytest

import guardproxy
from guardproxy.core import fingerprint

COMPILED = not fingerprint.__file__.endswith(".py")
"""Whether the modules under test are those of the compiled wheel."""

as_written = pytest.mark.skipif(COMPILED, reason="puts something inside of code that is compiled here: it is not asked")
"""For a test that patches a module or derives from a class of ours: compiled code calls its own directly."""

DOUBLE = re.compile(r"object expected; got (tests\.|types\.SimpleNamespace|unittest\.)")
"""What compiled code says of a double, which it takes for nothing but what it is; nothing else can bring it there."""

PATCH = re.compile(r"attribute '\w+' is read-only|interpreted classes cannot inherit from compiled")
"""What is said to a test that changes a compiled object or derives from its class. Code of ours must not."""


def refused(error: BaseException | None) -> str:
    """The reason to skip a test whose double was refused by compiled code; "" for any other error."""
    told = str(error) if COMPILED and isinstance(error, TypeError | AttributeError) else ""
    return told if DOUBLE.search(told) or (PATCH.search(told) and not _ours(error)) else ""


def _ours(error: BaseException | None) -> bool:
    """Whether the frame that raised is one of guardproxy's; a compiled one has the path of its source as built."""
    frames = traceback.extract_tb(error.__traceback__ if error else None)
    package = str(Path(guardproxy.__file__).parent) + os.sep
    return bool(frames) and frames[-1].filename.startswith((package, "guardproxy" + os.sep))
