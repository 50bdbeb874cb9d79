"""Commands that work on the store itself, with a token in the environment: each role, of all and of one org."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guardproxy import cli, secrets
from guardproxy.config import build
from guardproxy.http import client, entitled, reach
from guardproxy.http.auditing import Actor
from guardproxy.http.tokens import Keyring
from guardproxy.store import embedded
from guardproxy.store.redis import Store

SECRET = "a secret of this test's own"
WHO = (*((role, org) for role in ("viewer", "operator", "owner") for org in ("", "acme")), ("dead", ""), ("none", ""))

LOOK, STEER, GOVERN = {"viewer", "operator", "owner"}, {"operator", "owner"}, {"owner"}
OF_ORG = {
    "sessions list": LOOK,
    "sessions show x": LOOK,
    "sessions pause x": STEER,
    "sessions resume x": STEER,
    "sessions cut x": STEER,
    "sessions reset x": STEER,
    "sessions extend x --turns 1": STEER,
    "sessions checkpoint x": STEER,
    "sessions checkpoint x --take 1": STEER,
    "approvals list": LOOK,
    "approvals show x": LOOK,
    "approvals approve x": STEER,
    "approvals deny x": STEER,
    "approvals answer x y": STEER,
    "trace x": LOOK,
    "false-alarm x": STEER,
    "false-alarms": LOOK,
    "false-alarms --revoke x": STEER,
    "erase --session x --yes": GOVERN,
    "keys list": LOOK,
    "teams create web": GOVERN,
}
"""Commands about an organisation, and whose token suffices."""

OF_ALL = {
    "admin tokens list": GOVERN,
    "admin tokens create --name new --role owner": GOVERN,
    "admin tokens create --name new --role viewer --org acme": GOVERN,
    "admin tokens revoke x": GOVERN,
    "admin init": GOVERN,
    "orgs create more": GOVERN,
}
"""Commands about all of them: no token for one organisation suffices."""

REFUSED = ("is a viewer's", "is an operator's", "is for acme alone", "this token was revoked", "this is no admin token")
Go = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def socket() -> Iterator[str]:
    with embedded.scratch() as running:
        yield str(running.socket_path)


@pytest.fixture(scope="module")
def tokens(socket: str) -> dict[tuple[str, str], str]:
    """A token a role and organisation, one that was revoked, one that never was."""

    async def work(store: Store) -> dict[tuple[str, str], str]:
        keyring, made, actor = Keyring(store, secrets.derive(SECRET).key_hash), {}, Actor("test")
        for role, org in WHO[:-1]:
            kind = "owner" if role == "dead" else role
            token, made[role, org] = await keyring.create(f"{role}-{org or 'all'}", kind, actor, org=org)
            if role == "dead":
                await keyring.revoke(token.id, actor)
        return {**made, ("none", ""): "gpa-made-up"}

    return reach.ask(build({"store": {"url": f"unix://{socket}"}}), work)


@pytest.fixture
def go(socket: str, tokens: dict[tuple[str, str], str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Go:
    """A command with the token of a role and organisation; None = without any."""
    file = tmp_path / "guardproxy.yaml"
    file.write_text(f"store: {{url: 'unix://{socket}'}}")

    def run(who: tuple[str, str] | None, *words: str) -> tuple[int, str, str]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(secrets.VARIABLE, SECRET)
            patch.delenv("GUARDPROXY_ADMIN", raising=False)
            patch.setenv(client.VARIABLE, tokens[who] if who else "")
            code = cli.main([*words, "--config", str(file)])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


def refused(told: tuple[int, str, str]) -> bool:
    code, out, err = told
    assert "Traceback" not in err
    if found := any(words in err for words in REFUSED):
        assert (code, out) == (1, ""), err
    return found


@pytest.mark.parametrize("command", OF_ORG)
def test_a_command_about_an_organisation(command: str, go: Go) -> None:
    for who in WHO:
        for org in ("acme", "globex"):
            may = who[0] in OF_ORG[command] and who[1] in ("", org)
            assert refused(go(who, *command.split(), "--org", org)) is not may, (who, org)
    assert not refused(go(None, *command.split(), "--org", "globex"))


@pytest.mark.parametrize("command", OF_ALL)
def test_a_command_about_all(command: str, go: Go) -> None:
    for who in WHO:
        may = who[0] in OF_ALL[command] and not who[1]
        assert refused(go(who, *command.split())) is not may, who
    assert not refused(go(None, *command.split()))


def test_the_audit_shows_a_token_its_organisation_and_names_it(go: Go) -> None:
    assert go(("owner", ""), "admin", "tokens", "create", "--name", "tom", "--role", "viewer")[0] == 0
    entries = [json.loads(line) for line in go(("viewer", ""), "audit", "--json")[1].splitlines()]
    made = next(one for one in entries if one["diff"].get("name", ["", ""])[1] == "tom")
    assert (made["actor"], made["kind"], made["role"], bool(made["token"])) == ("owner-all", "token", "owner", True)
    seen = [json.loads(line)["org"] for line in go(("viewer", "acme"), "audit", "--json")[1].splitlines()]
    assert set(seen) == {"acme"}
    assert {one["org"] for one in entries} > {"acme"}


def test_with_a_token_nobody_is_who_they_say(go: Go, monkeypatch: pytest.MonkeyPatch, socket: str) -> None:
    config = build({"store": {"url": f"unix://{socket}"}})
    assert entitled.typist(config, "owner", entitled.ALL, "ben").name == "ben"
    monkeypatch.setenv(secrets.VARIABLE, SECRET)
    _, secret, _ = go(None, "admin", "tokens", "create", "--name", "ann", "--role", "operator")
    monkeypatch.setenv(client.VARIABLE, secret.strip())
    assert entitled.typist(config, "operator", "default", "ben").name == "ann"


def test_an_old_token_does_not_hinder_the_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(client.VARIABLE, "gpa-of-another-proxy")
    data = str(tmp_path / "data")
    assert cli.main(["admin", "init", "--data-dir", data]) == 0
    assert cli.main(["admin", "init", "--data-dir", data]) == 1
