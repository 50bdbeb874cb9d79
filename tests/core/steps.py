"""A step in one line, for the tables of tests."""

from __future__ import annotations

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Call, Message, Step

PRINTER = Fingerprinter(b"a key")


def step(tool: str, arguments: str, result: str | None = "x", printer: Fingerprinter = PRINTER) -> Step:
    """The step of a call with its result; None: not answered."""
    answer = None if result is None else Message("tool", result)
    return printer.step(Call(tool, arguments), answer, first=True, at_ms=1)
