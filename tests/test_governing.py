"""`guardproxy admin` and `audit` over a store of the test. Beside a running proxy: `tests/http/test_operators.py`."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guardproxy import cli, governing, secrets
from guardproxy.config import build
from guardproxy.http import reach, tokens
from guardproxy.http.tokens import Keyring
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.tokens import ROLES

SECRET = "a secret of this test's own"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
def run(server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """A command against the store of the test, which is empty: code, output, errors."""
    monkeypatch.setenv(secrets.VARIABLE, SECRET)
    file = tmp_path / "guardproxy.yaml"
    file.write_text(f"store: {{url: 'unix://{server.socket_path}'}}")
    reach.ask(build({"store": {"url": f"unix://{server.socket_path}"}}), lambda s: s._client.command("FLUSHALL"))

    def go(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main([*words, "--config", str(file)])
        except SystemExit as end:  # argparse
            code = int(str(end.code))
        told = capsys.readouterr()
        return code, told.out, told.err

    return go


def known(server: Embedded, secret: str) -> str:
    """The name of a token's owner, as the listener would know it."""
    config = build({"store": {"url": f"unix://{server.socket_path}"}})
    found = reach.ask(config, lambda store: Keyring(store, secrets.derive(SECRET).key_hash).find(secret))
    return found.token.name if found.token and found.live else ""


def test_the_first_owner_and_others(run: Run, server: Embedded) -> None:
    code, root, said = run("admin", "init")
    assert (code, root[:4], "owner" in said, root.strip() in said) == (0, "gpa-", True, False)
    assert known(server, root.strip()) == "owner"
    code, out, said = run("admin", "init", "--name", "second")
    assert (code, out) == (1, "")
    assert (
        said == "guardproxy: there is an owner already: guardproxy admin tokens lists them, and an owner makes more\n"
    )
    args = ("--name", "bot", "--role", "viewer", "--org", "acme", "--for", "2h")
    code, bot, said = run("admin", "tokens", "create", *args)
    assert (code, known(server, bot.strip())) == (0, "bot")
    assert "bot, viewer of acme, for 2h" in said
    code, listed, _ = run("admin", "tokens", "list")
    assert [line.split()[1] for line in listed.splitlines()] == ["name", "bot", "owner"]
    token = listed.splitlines()[1].split()[0]
    code, out, _ = run("admin", "tokens", "revoke", token, "--why", "left")
    assert (code, out) == (0, f"token {token} (bot, viewer) is taken back\n")
    assert known(server, bot.strip()) == ""
    assert "revoked by" in run("admin", "tokens", "list")[1]
    _, out, _ = run("audit")
    assert [line.split()[7] for line in out.splitlines()[1:]] == ["token.revoke", "token.create", "token.create"]
    for secret in (root.strip(), bot.strip()):
        assert secret not in out + listed


def test_an_owner_whose_time_is_over_is_none(run: Run) -> None:
    assert run("admin", "init", "--for", "1s")[0] == 0
    time.sleep(1.1)
    assert run("admin", "init")[0] == 0


def test_nothing_there(run: Run) -> None:
    assert run("admin", "tokens", "list")[1].startswith("there is no token")
    assert run("audit")[1].startswith("nothing was changed in the store at unix:")
    assert run("audit", "--json")[1] == ""


def test_filters(run: Run) -> None:
    run("admin", "init")
    run("admin", "tokens", "create", "--name", "bot", "--role", "viewer")
    entries = [json.loads(line) for line in run("audit", "--json")[1].splitlines()]
    bot = entries[0]["subject"]
    fitting = run("audit", "--what", "tok", "--since", "1h")[1]
    assert fitting.startswith("no entry fits --what tok --since 1h in the store at")
    for words, count in (
        (("--what", "token"), 2),
        (("--what", "tok"), 0),
        (("--subject", bot), 1),
        (("--actor", "nobody"), 0),
        (("--since", "1h"), 2),
        (("--limit", "1"), 1),
    ):
        assert len(run("audit", "--json", *words)[1].splitlines()) == count, words


def test_a_list_that_is_cut_says_how_to_go_on(run: Run) -> None:
    run("admin", "init")
    for name in ("a", "b"):
        run("admin", "tokens", "create", "--name", name, "--role", "viewer")
    _, out, _ = run("audit", "--limit", "2")
    older = re.search(r"there are more: --cursor (\S+) lists those behind these, --limit N more at once\n$", out)
    assert older
    assert run("audit", "--limit", "2", "--json")[2] == older[0]
    for words in (("--cursor", older[1]), ("--limit", "1", "--cursor", older[1])):
        _, out, err = run("audit", *words, "--json")
        assert (len(out.splitlines()), err) == (1, "")
    assert run("audit", "--cursor", "first")[:1] == (2,)


WRONG = {
    "no role": (("admin", "tokens", "create", "--name", "a"), 2, "--role"),
    "no such role": (("admin", "tokens", "create", "--name", "a", "--role", "root"), 2, "invalid choice"),
    "no name": (("admin", "tokens", "create", "--name", " ", "--role", "viewer"), 2, "--name: must say whose it is"),
    "a long name": (("admin", "tokens", "create", "--name", "a" * 61, "--role", "viewer"), 2, "--name: must be"),
    "no time": (("admin", "init", "--for", "soon"), 2, "--for soon"),
    "a long time": (("admin", "init", "--for", "999w"), 2, "--for: must not be longer"),
    "no such token": (("admin", "tokens", "revoke", "x"), 1, "there is no token 'x'"),
    "no entries": (("audit", "--limit", "0"), 2, "--limit: must be a number above 0"),
    "no command": (("admin",), 2, "COMMAND"),
}


@pytest.mark.parametrize("which", WRONG)
def test_what_is_wrong(which: str, run: Run) -> None:
    words, code, said = WRONG[which]
    got, out, err = run(*words)

    assert (got, out) == (code, ""), err
    assert said in err
    assert "Traceback" not in err


def test_before_any_proxy_ran(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The first token can be made before the first start; other commands look for what there is."""
    data = str(tmp_path / "data")
    assert cli.main(["admin", "tokens", "list", "--data-dir", data]) == 2
    assert cli.main(["admin", "init", "--data-dir", data]) == 0
    assert cli.main(["admin", "tokens", "list", "--data-dir", data]) == 0
    assert "owner" in capsys.readouterr().out.splitlines()[-1]


def test_roles_are_those_of_the_store() -> None:
    assert governing.ROLES == ROLES
    assert tokens.ROLES == ROLES
