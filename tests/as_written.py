"""Tests that look inside of the code as it is written cannot look inside of what is compiled."""

from __future__ import annotations

import re

import pytest

from guardproxy.core import fingerprint

COMPILED = not fingerprint.__file__.endswith(".py")
"""Whether the modules under test are those of the compiled wheel."""

as_written = pytest.mark.skipif(COMPILED, reason="puts something inside of code that is compiled here: it is not asked")
"""For a test that patches a module or derives from a class of ours: compiled code calls its own directly."""

DOUBLE = re.compile(
    r"object expected; got (tests\.|types\.SimpleNamespace|unittest\.)|attribute '\w+' is read-only"
    r"|interpreted classes cannot inherit from compiled"
)
"""What compiled code says of a double, which it takes for nothing but what it is; nothing else can bring it there."""


def refused(error: BaseException | None) -> str:
    """The reason to skip a test whose double was refused by compiled code; "" for any other error."""
    told = str(error) if COMPILED and isinstance(error, TypeError | AttributeError) else ""
    return told if DOUBLE.search(told) else ""
