"""One kind of error has one signature, whatever was asked, by what program and when."""

from __future__ import annotations

import json

import pytest

from guardproxy.core.mask import result_text
from guardproxy.core.signature import signature_text

REFUSED = "could not connect to server: Connection refused"


def signed(command: str, said: str) -> str:
    return signature_text(result_text(said), json.dumps({"command": command}))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("./map-zip -p 1", f"./map-zip: {REFUSED}"), ("./sum -p 1", f"./sum: {REFUSED}")),
        (("map -p 1", f"map: {REFUSED}"), ("sum -p 1", f"sum: {REFUSED}")),
        (("a", f"[2026-01-31T10:00:00Z] {REFUSED}"), ("b", f"[2026-02-01T11:30:00Z] {REFUSED}")),
        (("a", f"2026-01-31 10:00:00,123 {REFUSED}"), ("b", REFUSED)),
        (("a", f"[12:03:44] {REFUSED}"), ("b", REFUSED)),
        (("a", f"2026-01-31T10:00:00Z pid=4711\n{REFUSED}"), ("b", REFUSED)),
        (("a", f"PID: 12 {REFUSED}"), ("b", REFUSED)),
        (("pip install zip-py", "ERROR: no match for zip-py"), ("pip install io_x2", "ERROR: no match for io_x2")),
        (("cat src/a1.py", "cat: src/a1.py: No such file"), ("cat lib/b2/c.go", "cat: lib/b2/c.go: No such file")),
        (("ping h1.org", "error: h1.org is down"), ("ping me.example", "error: me.example is down")),
    ],
)
def test_the_same_error(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert signed(*one) == signed(*other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("./a", f"./a: {REFUSED}"), ("./a", "./a: permission denied")),
        (("./a", f"psql: {REFUSED}"), ("./a", f"curl: {REFUSED}")),  # which program it was that the call did not name
        (("a", "[12:03:44] error: no space"), ("a", "[12:03:44] error: no memory")),
    ],
)
def test_different_errors(one: tuple[str, str], other: tuple[str, str]) -> None:
    assert signed(*one) != signed(*other)


def test_errors_that_only_repeat_the_call_are_of_one_kind() -> None:
    assert signed("xyzzy", "xyzzy") == signed("frotz", "frotz")
