"""Orgs, teams and keys as an operator makes them: what is taken, what is refused, and what is kept."""

from __future__ import annotations

from typing import Any

import pytest

from guardproxy.errors import BadAsk, GuardError
from guardproxy.http import keyring, virtual_key
from guardproxy.http.keyring import Keyring
from guardproxy.store.redis import Store

HASH = b"h" * 32
NOW = 1_800_000_000_000
DAY = 86_400_000


def ring(store: Store) -> Keyring:
    return Keyring(store.registry, HASH, "anna")


async def test_a_key_is_kept_as_a_hash(store: Store) -> None:
    made = await ring(store).make_key(name="ci", models=["gpt-*"], expires="90d", user_header="X-User")
    (secret,) = made.key.secrets
    assert secret.digest == virtual_key.digest(HASH, made.secret)
    assert secret.shown == virtual_key.shown(made.secret)
    assert made.secret not in repr(made.key)
    read = await store.registry.key(made.key.id)
    assert read == made.key
    assert (read.org, read.name, read.models, read.user_header, read.made_by) == (
        "default",
        "ci",
        ("gpt-*",),
        "x-user",
        "anna",
    )
    assert read.expires_ms - read.made_ms == pytest.approx(90 * DAY, abs=5000)


async def test_changes(store: Store) -> None:
    made = await ring(store).make_key(name="ci", models=["gpt-*"], expires="1d")
    _, key = await ring(store).change(made.key.id, {"name": "nightly", "models": None, "routes": None})
    assert (key.name, key.models) == ("nightly", ("gpt-*",))
    _, key = await ring(store).change(key.id, {"models": [""], "routes": ["/v1/embeddings"], "expires": "never"})
    assert (key.models, key.routes, key.expires_ms, key.secrets) == ((), ("/v1/embeddings",), 0, made.key.secrets)


async def test_rotations(store: Store) -> None:
    made = await ring(store).make_key()
    secrets = [made.secret]
    for _ in range(keyring.OVERLAPPING + 2):
        _, made = await ring(store).rotate(made.key.id, DAY)
        secrets.insert(0, made.secret)
    assert len(made.key.secrets) == keyring.OVERLAPPING
    assert [one.shown for one in made.key.secrets] == [virtual_key.shown(s) for s in secrets[: keyring.OVERLAPPING]]
    assert [one.until_ms > 0 for one in made.key.secrets] == [False, *[True] * (keyring.OVERLAPPING - 1)]
    found = [(await store.registry.find(virtual_key.digest(HASH, secret))).key for secret in secrets]
    assert [one is not None for one in found] == [n < keyring.OVERLAPPING for n in range(len(secrets))]
    ends = made.key.secrets[3].until_ms
    _, made = await ring(store).rotate(made.key.id, 7 * DAY)
    assert made.key.secrets[4].until_ms == ends  # one that was to end does not live longer for another rotation
    _, made = await ring(store).rotate(made.key.id, 0)
    assert [virtual_key.digest(HASH, made.secret)] == [one.digest for one in made.key.secrets]


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "an org's name": ({"org": "Acme Inc."}, "org"),
    "the slot of the registry": ({"org": "_registry"}, "org"),
    "braces": ({"org": "a}{b"}, "org"),
    "a team's name": ({"team": "a/b"}, "team"),
    "a name with a line end": ({"name": "a\nb"}, "name"),
    "a long name": ({"name": "a" * 101}, "name"),
    "a glob with a space": ({"models": ["gpt 5"]}, "models"),
    "too many globs": ({"models": [f"m{n}" for n in range(65)]}, "models"),
    "a long glob": ({"models": ["m" * 201]}, "models"),
    "a route of no API": ({"routes": ["/admin"]}, "routes"),
    "models and routes": ({"models": ["gpt-*"], "routes": ["/v1/files"]}, "routes"),
    "a header that carries keys": ({"user_header": "Authorization"}, "user_header"),
    "a header that is none": ({"user_header": "x user"}, "user_header"),
    "a policy's name": ({"policy": "a\x1bb"}, "policy"),
    "an expiry that is over": ({"expires": "2020-01-01"}, "expires"),
    "an expiry that is none": ({"expires": "soon"}, "expires"),
}


@pytest.mark.parametrize("case", BAD)
async def test_what_is_typed_wrong(store: Store, case: str) -> None:
    fields, param = BAD[case]
    with pytest.raises(BadAsk) as told:
        await ring(store).make_key(**fields)
    assert told.value.param == param
    assert await store.registry.keys("default") == []


@pytest.mark.parametrize("name", ["k000000000000", "nightly", "", "k" * 500, "gp-\x00"])
async def test_a_key_that_is_not_there(store: Store, name: str) -> None:
    for work in (ring(store).key, ring(store).delete_key, ring(store).rotate):
        with pytest.raises(GuardError) as told:
            await work(name)
        assert told.value.status == 404


async def test_a_secret_in_the_place_of_an_id_is_not_repeated(store: Store) -> None:
    made = await ring(store).make_key()
    with pytest.raises(BadAsk) as told:
        await ring(store).key(made.secret)
    assert made.secret not in told.value.message


async def test_orgs_and_teams(store: Store) -> None:
    await ring(store).make_org("acme")
    await ring(store).make_team("acme", "web")
    made = await ring(store).make_key("acme", "web")
    assert (made.key.org, made.key.team) == ("acme", "web")
    for on in (False, True):
        before, after = await ring(store).switch_org("acme", on=on)
        assert (before.enabled, after.enabled) == (not on, on)
        team, now = await ring(store).switch_team("acme", "web", on=on)
        assert (team.enabled, now.enabled) == (not on, on)
    for missing in (ring(store).switch_org("globex", on=True), ring(store).switch_team("acme", "mobile", on=True)):
        with pytest.raises(GuardError) as told:
            await missing
        assert told.value.status == 404


EXPIRIES = {"never": 0, "": 0, "90m": NOW + 5_400_000, "2w": NOW + 14 * DAY, "2027-01-31": 1_801_353_600_000}
EXPIRIES |= {"2027-01-31T12:00:00+01:00": 1_801_393_200_000}


@pytest.mark.parametrize(("text", "at_ms"), EXPIRIES.items())
def test_expiries(text: str, at_ms: int) -> None:
    assert keyring._expiry(text, NOW) == at_ms


@pytest.mark.parametrize(("text", "ms"), [("0", 0), ("90m", 5_400_000), ("1d", DAY)])
def test_spans(text: str, ms: int) -> None:
    assert keyring.span_ms("overlap", text) == ms


@pytest.mark.parametrize("text", ["", "1", "-1d", "1y", "1.5h"])
def test_spans_that_are_none(text: str) -> None:
    with pytest.raises(BadAsk):
        keyring.span_ms("overlap", text)
