"""`guardproxy erase`: what must be said, what is asked, what it answers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guardproxy import cli, secrets
from guardproxy.http import asking, erasing
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.store.filling import fill
from tests.store.kit import ORG

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
def run(server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv(secrets.VARIABLE, "a secret of this test's own")
    monkeypatch.delenv(asking.VARIABLE, raising=False)
    monkeypatch.setattr(erasing, "WAIT_S", 0)
    monkeypatch.setattr(erasing, "GRACE_S", 0)
    file = tmp_path / "guardproxy.yaml"
    file.write_text(f"store: {{url: 'unix://{server.socket_path}'}}\n")

    def command(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main([*words, "--config", str(file)])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


@pytest.fixture(autouse=True)
async def _filled(server: Embedded) -> None:
    store = await Store.connect(socket_path=server.socket_path, timeout_ms=5000)
    await store._client.command("FLUSHALL")
    await fill(store)
    await store.close()


def test_a_run_a_user_an_org(run: Run) -> None:
    code, out, _ = run("erase", "--session", "run-1", "--org", ORG, "--yes", "--why", "asked to", "--by", "root")
    assert (code, out.partition(" (")[0]) == (0, "run run-1 of org acme is erased")
    assert run("sessions", "show", "run-1", "--org", ORG)[0] == 1
    code, out, _ = run("erase", "--user", "ann", "--org", ORG, "--yes")
    assert (code, "(runs: 5, entries" in out, "rows of usage without the name now: 1)" in out) == (0, True, True)
    code, out, _ = run("erase", "--org", ORG, "--yes")
    assert (code, "virtual keys: 1" in out) == (0, True)
    code, _, err = run("erase", "--org", ORG, "--yes")
    assert (code, "nothing is kept of an organisation 'acme'" in err) == (1, True)
    _, out, _ = run("audit", "--what", "erase")
    for word in ("erase.session", "erase.user", "erase.org", "run-1", "asked to", "root"):
        assert word in out


WRONG = [
    (("erase", "--yes"), 2, "say what: --session, --user, or --org alone"),
    (("erase", "--session", "a", "--user", "b"), 2, "not allowed with"),
    (("erase", "--session", "run-1", "--org", ORG), 2, "say --yes if it is meant"),
    (("erase", "--session", "", "--yes"), 2, "--session: "),
    (("erase", "--session", "none", "--yes"), 1, "nothing is kept of a run 'none'"),
    (("erase", "--org", "{x}", "--yes"), 2, "--org: must be the name of an organisation"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=[" ".join(words) for words, *_ in WRONG])
def test_what_is_typed_wrong_erases_nothing(
    run: Run, words: tuple[str, ...], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("yes\n"))
    got, out, err = run(*words)
    assert (got, out) == (code, "")
    assert said in err
    assert "Traceback" not in err
    assert run("sessions", "show", "run-1", "--org", ORG)[0] == 0


class Person(io.StringIO):
    """Somebody at a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("typed", "gone"), [("yes\n", True), ("y\n", False), ("\n", False), ("", False)])
def test_a_person_is_asked(run: Run, typed: str, gone: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", Person(typed))
    code, out, _ = run("erase", "--session", "run-1", "--org", ORG)
    assert out.startswith("All that is kept of run run-1 of org acme will be gone")
    assert (code == 0, "nothing was erased" not in out) == (gone, gone)
    assert (run("sessions", "show", "run-1", "--org", ORG)[0] == 1) is gone
