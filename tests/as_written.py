"""Tests that look inside of the code as it is written cannot look inside of what is compiled."""

from __future__ import annotations

import pytest

from guardproxy.core import fingerprint

COMPILED = not fingerprint.__file__.endswith(".py")
"""Whether the modules under test are those of the compiled wheel."""

as_written = pytest.mark.skipif(COMPILED, reason="puts something inside of code that is compiled here: it is not asked")
"""For a test that patches a module or derives from a class of ours: compiled code calls its own directly."""
