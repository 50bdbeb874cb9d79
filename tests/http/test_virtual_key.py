"""Virtual keys: their shape, their proof, their hash."""

from __future__ import annotations

import re

import pytest

from guardproxy.http import virtual_key as keys

ONE, OTHER = b"1" * 32, b"2" * 32
MADE = keys.mint(ONE)


def test_what_is_minted() -> None:
    many = {keys.mint(ONE) for _ in range(200)}
    assert len(many) == 200
    for secret in many:
        assert re.fullmatch(r"gp-[0-9A-Za-z]{42}", secret)
        assert keys.is_ours(secret)
        assert keys.genuine(ONE, secret)
        assert not keys.genuine(OTHER, secret)


def test_every_letter_counts() -> None:
    for at in range(3, len(MADE)):
        wrong = MADE[:at] + ("a" if MADE[at] != "a" else "b") + MADE[at + 1 :]
        assert not keys.genuine(ONE, wrong)
        assert keys.digest(ONE, wrong) != keys.digest(ONE, MADE)


@pytest.mark.parametrize(
    "text",
    ["", "gp-", "sk-abc", MADE[:-1], f"{MADE}x", f"x{MADE}", MADE.upper(), f"{MADE}\n", MADE.replace("g", "ɡ", 1)],
    ids=range(9),
)
def test_what_is_none(text: str) -> None:
    assert not keys.is_ours(text)
    assert not keys.genuine(ONE, text)


@pytest.mark.parametrize(
    ("text", "found"), [(MADE, True), (f"a {MADE} b", True), ("gp-short", False), ("", False)], ids=range(4)
)
def test_within(text: str, found: bool) -> None:
    assert keys.within(text) is found


def test_digests_are_keyed_and_taken_of_anything() -> None:
    assert re.fullmatch(r"[0-9a-f]{64}", keys.digest(ONE, MADE))
    assert keys.digest(ONE, MADE) == keys.digest(ONE, MADE) != keys.digest(OTHER, MADE)
    assert keys.digest(ONE, "\udcff") != keys.digest(ONE, "\udcfe")  # headers are bytes
    assert keys.same(keys.digest(ONE, MADE), keys.digest(ONE, MADE))
    assert not keys.same(keys.digest(ONE, MADE), keys.digest(OTHER, MADE))


def test_what_is_shown_tells_little() -> None:
    assert keys.shown(MADE) == f"{MADE[:7]}…{MADE[-4:]}"
