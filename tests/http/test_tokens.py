"""Admin tokens: made, known again, taken back, also by another process and while the store is away."""

from __future__ import annotations

import re
import time

import pytest

from guardproxy.errors import BadAsk, GuardError, StoreError
from guardproxy.http import tokens
from guardproxy.http.auditing import Actor
from guardproxy.http.tokens import Keyring
from guardproxy.store import embedded
from guardproxy.store.redis import Store
from guardproxy.store.tokens import Token

KEY, ANN = b"k" * 32, Actor("ann")


async def test_a_token_is_known_by_its_hash_alone(store: Store) -> None:
    ring = Keyring(store, KEY)
    assert not await ring.used()
    made, secret = await ring.create("bot", "operator", ANN, org="acme", for_ms=60_000)

    assert re.fullmatch(r"gpa-[A-Za-z0-9_-]{43}", secret)
    assert made.last == secret[-4:]
    assert (await ring.find(secret)).token == made
    assert await ring.used()
    for other in (Keyring(store, b"o" * 32), ring):
        assert (await other.find(secret.swapcase())).token is None
    assert (await Keyring(store, b"o" * 32).find(secret)).token is None
    kept = await store._client.command("HGETALL", "gp:admin{admin}:tokens")
    assert secret not in str(kept)
    assert secret.removeprefix("gpa-")[:12] not in str(kept)


async def test_another_process_takes_it_back(store: Store) -> None:
    """It is known at once, not after two seconds."""
    mine, theirs = Keyring(store, KEY), Keyring(store, KEY)
    made, secret = await mine.create("bot", "viewer", ANN)
    assert (await mine.find(secret)).live
    await theirs.revoke(made.id, ANN, why="gone")

    assert not (await mine.find(secret)).live
    (entry, *_), _ = await store.audit.read(1)
    assert (entry.what, entry.subject, entry.why, entry.actor) == ("token.revoke", made.id, "gone", "ann")


async def test_while_the_store_is_away() -> None:
    """Who was known stays known (the panic switch must work); who was not, or was taken back, is not."""
    with embedded.scratch() as server:
        store = await Store.connect(socket_path=server.socket_path, timeout_ms=500)
        ring, late = Keyring(store, KEY), Keyring(store, KEY)
        _, known = await ring.create("known", "operator", ANN)
        gone, revoked = await ring.create("gone", "operator", ANN)
        _, unseen = await ring.create("unseen", "operator", ANN)
        await ring.find(known)
        await ring.find(revoked)
        await ring.revoke(gone.id, ANN)
        await ring.find(revoked)
    for secret, live in ((known, True), (revoked, False), (unseen, False), ("", False)):
        found = await ring.find(secret)
        assert (found.any, found.live) == (True, live)
    with pytest.raises(StoreError):
        await late.find(known)
    await store.close()


WRONG = {
    "no name": ({"name": " ", "role": "viewer"}, "name"),
    "a long name": ({"name": "n" * 61, "role": "viewer"}, "name"),
    "a name over lines": ({"name": "a\nb", "role": "viewer"}, "name"),
    "no role": ({"name": "a", "role": "admin"}, "role"),
    "for ever": ({"name": "a", "role": "viewer", "for_ms": 10**15}, "for"),
    "an organisation with braces": ({"name": "a", "role": "viewer", "org": "a{b"}, "org"),
    "an organisation over lines": ({"name": "a", "role": "viewer", "org": "a\x00"}, "org"),
}


@pytest.mark.parametrize("which", WRONG)
async def test_what_is_no_token(which: str, store: Store) -> None:
    given, param = WRONG[which]
    with pytest.raises(BadAsk) as caught:
        await Keyring(store, KEY).create(**given, actor=ANN)  # type: ignore[arg-type]

    assert caught.value.param == param
    assert await store.tokens.every() == []


async def test_no_such_token(store: Store) -> None:
    with pytest.raises(GuardError) as caught:
        await Keyring(store, KEY).revoke("\ud800", ANN)
    assert caught.value.status == 404


def test_rows() -> None:
    now = round(time.time() * 1000)
    states = {
        "live": Token("1", "a", "owner"),
        "expired": Token("1", "a", "owner", expires_ms=now - 1),
        "revoked by bob": Token("1", "a", "owner", expires_ms=now - 1, revoked_ms=now, revoked_by="bob"),
    }
    assert [tokens.row(one, now)[-1] for one in states.values()] == list(states)
    assert tokens.row(Token("1", "a\x1b[2J", "viewer", "acme", "wxyz", "ann"), now)[:4] == (
        "1",
        "a\\x1b[2J (…wxyz)",
        "viewer",
        "acme",
    )
    assert len(tokens.row(Token("1", "a", "owner"), now)) == len(tokens.HEADS)
