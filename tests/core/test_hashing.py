"""Hashes of parts: keyed, of one length, and never equal for parts that are cut elsewhere."""

from __future__ import annotations

from hypothesis import given, strategies as st

from guardproxy.core.hashing import Hasher, finish, framed, hash16, raw

PARTS = st.lists(st.text(max_size=6) | st.binary(max_size=6), max_size=40)


@given(PARTS, PARTS)
def test_no_two_lists_run_together(one: list[str | bytes], two: list[str | bytes]) -> None:
    equal = [raw(part) for part in one] == [raw(part) for part in two]
    assert (framed(one) == framed(two)) == equal
    assert (hash16(b"k", *one) == hash16(b"k", *two)) == equal


def test_the_key_matters() -> None:
    assert len(hash16(b"k", "a")) == 16
    assert hash16(b"k", "a") != hash16(b"l", "a")


def test_finish_leaves_the_hasher_as_it_was() -> None:
    hasher = Hasher(b"begun", key=b"k", digest_size=16)
    assert finish(hasher, "a") == finish(hasher, b"a") != finish(hasher, "b")


def test_half_a_pair_has_a_hash() -> None:
    assert hash16(b"k", "\ud800") != hash16(b"k", "\udc00")
