"""`guardproxy approvals` and `sessions`: as processes beside a running proxy, and over a store of the test."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from guardproxy import cli, secrets
from guardproxy.config import build
from guardproxy.http import in_words, reach
from guardproxy.http.sealed import ANSWER, CHECKPOINT, Held, Sealer
from guardproxy.store import embedded
from guardproxy.store.approvals import Approval
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from tests.running import Running, fetch, provider
from tests.store.kit import Agent

ORG, SECRET = "default", "a secret of this test's own"
CALL = Held("delete_file", '{"path":"/data/a.csv"}', b'{"role":"assistant"}')
QUESTION = Held("ask_human", "{}", b"{}", question="Which?")

Run = Callable[..., tuple[int, str, str]]


def approval(name: str, held: Held, key: bytes) -> Approval:
    now = round(time.time() * 1000)
    sealed = Sealer(key).seal_held(name, held)
    return Approval(name, ORG, "run-1", "main", held.tool, now, now + 3_600_000, sealed)


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
def file(server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration that names the store of the test, which is empty."""
    monkeypatch.setenv(secrets.VARIABLE, SECRET)
    made = tmp_path / "guardproxy.yaml"
    made.write_text(f"store: {{url: 'unix://{server.socket_path}'}}")
    do(made, lambda store: store._client.command("FLUSHALL"))
    return made


def do(file: Path, work: Callable[[Store], Any]) -> Any:
    return reach.ask(build({"store": {"url": re.findall("'(.*)'", file.read_text())[0]}}), work)


@pytest.fixture
def run(file: Path, capsys: pytest.CaptureFixture[str]) -> Run:
    def command(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main([*words, "--config", str(file)])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


@pytest.fixture
def key() -> bytes:
    return secrets.derive(SECRET).ledger


def ask(file: Path, key: bytes, name: str, held: Held = CALL) -> None:
    do(file, lambda store: store.approvals.open(ORG, approval(name, held, key)))


def test_an_answer_that_did_not_pass_is_shown(
    file: Path, run: Run, key: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To who has the secret; to others all but that."""
    said = {"text": "All tests pass.", "wrong": ["run_tests never succeeded"], "calls": []}
    sealed = Sealer(key).seal(ANSWER, "s", json.dumps(said).encode())

    async def kept(store: Store) -> None:
        await Agent(store, session="s").begin(org=ORG)
        await store.checkpoints.put(ORG, "s\x1fanswer", sealed, 0)

    do(file, kept)
    code, out, err = run("sessions", "show", "s")
    assert (code, err) == (0, "")
    assert "answer     All tests pass. (not handed on)\nnot passed run_tests never succeeded\n" in out
    monkeypatch.delenv(secrets.VARIABLE)
    code, out, err = run("sessions", "show", "s")
    assert (code, err, "not passed" in out) == (0, "", False)


def test_approvals(file: Path, run: Run, key: bytes) -> None:
    code, out, err = run("approvals", "list")
    assert (code, err) == (0, "")
    assert out.startswith("nothing waits for a person in the store at unix:")
    ask(file, key, "a1")
    ask(file, key, "a2")
    ask(file, key, "q1", QUESTION)

    code, out, _ = run("approvals", "list")
    assert (code, len(out.splitlines())) == (0, 4)
    row = next(line for line in out.splitlines() if line.startswith("a1 "))
    assert re.search(r'UTC +run-1 +delete_file +pending, 1 h left +\{"path":"/data/a.csv"\} *$', row)
    code, out, _ = run("approvals", "show", "a1")
    assert (code, 'arguments  {"path":"/data/a.csv"}\n' in out) == (0, True)
    assert run("approvals", "approve", "a1", "--args", '{"path":"b"}', "--why", "a copy", "--by", "ann") == (
        0,
        (
            "approval a1: ann approves delete_file with edited arguments; "
            "the call is handed on: at once where its request is held, else with the client's next message\n"
        ),
        "",
    )
    assert run("approvals", "deny", "a2", "--why", "too dear", "--by", "ann") == (
        0,
        (
            "approval a2: ann denies delete_file; "
            "the model is told: at once where its request is held, else with the client's next message\n"
        ),
        "",
    )
    code, out, _ = run("approvals", "answer", "q1", "the second", "--by", "bob")
    assert (code, out.startswith("approval q1: answered by bob; ")) == (0, True)
    code, out, err = run("approvals", "approve", "a2")
    assert (code, out) == (1, "")
    assert re.fullmatch(r"guardproxy: approval a2 was denied by ann at \S+ \S+ UTC before \(too dear\)\n", err)
    assert run("approvals", "list")[1].startswith("nothing waits for a person in ")
    assert run("approvals", "list", "--state", "expired")[1].startswith("no approval is expired in ")
    code, out, _ = run("approvals", "list", "--state", "any")
    assert (code, len(out.splitlines())) == (0, 4)
    assert "the second" in run("approvals", "show", "q1")[1]
    assert 'edited to  {"path":"b"}\n' in run("approvals", "show", "a1")[1]


def test_what_commands_leave_in_the_audit(file: Path, run: Run, key: bytes) -> None:
    """Who decided and steered, from which state to which; no arguments, no answers."""
    ask(file, key, "a1")
    ask(file, key, "q1", QUESTION)
    do(file, lambda store: Agent(store, session="run-2").begin(org=ORG))
    do(file, lambda store: store.checkpoints.put(ORG, "run-2", Sealer(key).seal(CHECKPOINT, "run-2", b"[]"), 60))
    for words in (
        ("approvals", "approve", "a1", "--args", '{"path":"planted"}', "--why", "a copy"),
        ("approvals", "answer", "q1", "planted"),
        ("sessions", "pause", "run-2", "--why", "odd"),
        ("sessions", "resume", "run-2"),
        ("sessions", "extend", "run-2", "--turns", "5"),
        ("sessions", "checkpoint", "run-2", "--take", "1"),
    ):
        assert run(*words, "--by", "ann")[0] == 0, words
        assert run(*words, "--by", "bob")[0] == (0 if words[1] == "extend" else 1), words
    out = run("audit", "--json")[1]
    entries = [json.loads(line) for line in out.splitlines()][::-1]

    assert [(one["actor"], one["kind"], one["what"], one["subject"], one["why"]) for one in entries] == [
        ("ann", "command", "approval.approved", "a1", "a copy"),
        ("ann", "command", "approval.answered", "q1", ""),
        ("ann", "command", "session.pause", "run-2", "odd"),
        ("ann", "command", "session.resume", "run-2", ""),
        ("ann", "command", "session.extend", "run-2", ""),
        ("bob", "command", "session.extend", "run-2", ""),
        ("ann", "command", "session.checkpoint", "run-2", ""),
    ]
    assert entries[0]["diff"]["state"] == ["pending", "approved"]
    assert entries[2]["diff"]["state"] == ["active", "paused"]
    assert entries[4]["diff"] == {"turns": [None, 5]}
    assert {one["org"] for one in entries} == {ORG}
    assert "planted" not in out


def test_who_decides_unless_told(file: Path, run: Run, key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("USER", "carol")
    ask(file, key, "a1")

    assert run("approvals", "deny", "a1")[1].startswith("approval a1: carol denies")


def test_another_secret(file: Path, run: Run, key: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    ask(file, key, "a1")
    monkeypatch.setenv(secrets.VARIABLE, "quite another secret")
    assert "(sealed under another secret)" in run("approvals", "list")[1]
    code, _, err = run("approvals", "approve", "a1")
    assert (code, err.count("\n")) == (1, 1)
    assert err.startswith("guardproxy: approval a1: its content cannot be opened: GUARDPROXY_SECRET is not the one")
    monkeypatch.delenv(secrets.VARIABLE)
    for words in (("approvals", "list"), ("approvals", "approve", "a1"), ("sessions", "checkpoint", "s")):
        code, _, err = run(*words)
        assert (code, "other machines may share this store: set GUARDPROXY_SECRET" in err) == (2, True)
    assert run("sessions", "list")[0] == 0  # who reads no content needs no secret
    assert run("approvals", "deny", "a1", "--by", "ann")[1].startswith("approval a1: ann denies delete_file")


WRONG = {
    "no such command": (("sessions", "kill"), 2, "invalid choice: 'kill'"),
    "nothing to approve": (("approvals", "approve"), 2, "required: ID"),
    "no answer": (("approvals", "answer", "a1"), 2, "required: TEXT"),
    "an unknown id": (("approvals", "deny", "a9"), 1, "there is no approval 'a9'; waiting are a1"),
    "bytes for an id": (("approvals", "deny", "\udcff"), 1, "there is no approval '?'; waiting are a1"),
    "no JSON": (("approvals", "approve", "a1", "--args", "{x"), 2, "--args: must be a JSON object"),
    "no object": (("approvals", "approve", "a1", "--args", "[]"), 2, "--args: must be a JSON object, such as {}"),
    "a why over lines": (("approvals", "deny", "a1", "--why", "a\nb"), 2, "--why: must be printable text"),
    "nobody's name": (("approvals", "deny", "a1", "--by", "\x1b"), 2, "--by: must be printable text"),
    "an empty answer": (("approvals", "answer", "a1", " "), 2, "TEXT: must say something"),
    "no question": (("approvals", "answer", "a1", "yes"), 1, "approval a1 asks nothing: approve or deny it"),
    "a state": (("approvals", "list", "--state", "open"), 2, "--state: must be one of pending, approved"),
    "a state of runs": (("sessions", "list", "--state", "open"), 2, "--state: must be one of active, paused"),
    "no rows": (("sessions", "list", "--limit", "0"), 2, "--limit: must be a number above 0"),
    "behind nothing": (("sessions", "list", "--cursor", "-1"), 2, "--cursor: must be a number, 0 or above"),
    "an unknown run": (("sessions", "show", "nobody"), 1, "the store has no session 'nobody'; it has none at all"),
    "an unknown run is cut": (("sessions", "cut", "no\x1b"), 1, "the store has no session 'no\\x1b'"),
    "more of nothing": (("sessions", "extend", "s"), 2, "extend: say what to raise: --turns, --tool-calls"),
    "tokens": (("sessions", "extend", "s", "--tokens=-1"), 2, "--tokens: must be a whole number above 0"),
    "calls": (("sessions", "extend", "s", "--tool-calls=0"), 2, "--tool-calls: must be a whole number above 0"),
    "less": (("sessions", "extend", "s", "--turns=-1"), 2, "--turns: must be a whole number above 0"),
    "no money": (("sessions", "extend", "s", "--cost", "nan"), 2, "--cost: must be a number above 0"),
    "no time": (("sessions", "extend", "s", "--seconds", "0"), 2, "--seconds: must be a number above 0"),
    "words": (("sessions", "extend", "s", "--turns", "x"), 2, "argument --turns: invalid int value: 'x'"),
    "no folder": (("sessions", "checkpoint", "s", "--out", "/nowhere/a"), 1, "the store has no session 's'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong(name: str, file: Path, run: Run, key: bytes) -> None:
    words, code, told = WRONG[name]
    ask(file, key, "a1")
    got, out, err = run(*words)

    assert (got, out) == (code, ""), err
    assert told in err
    assert "Traceback" not in err
    if "usage: " not in err:
        assert err.count("\n") == 1
    assert (do(file, lambda store: store.approvals.get(ORG, "a1"))).state == "pending"


@pytest.mark.parametrize(
    "words", [("approvals", "list"), ("approvals", "deny", "a"), ("sessions", "list"), ("sessions", "cut", "s")]
)
def test_a_store_that_is_away(words: tuple[str, ...], file: Path, run: Run) -> None:
    file.write_text("store: {url: 'redis://127.0.0.1:9'}")
    code, out, err = run(*words)

    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("guardproxy: the store redis://127.0.0.1:9/0 cannot be reached")


def test_that_panic_is_on_is_said(file: Path, run: Run) -> None:
    for on in (True, False):
        do(file, lambda store, on=on: store.panic(on))
        assert ("panic is on" in run("sessions", "list")[1]) is on
        assert do(file, lambda store: in_words.standing(store, ORG, "x")) == [in_words.PANIC] * on


def test_that_there_are_others_elsewhere_is_said(file: Path, run: Run, key: bytes) -> None:
    """A list is of one organisation: who sees it empty must not think that nothing runs, or waits."""

    async def acme(store: Store) -> None:
        await Agent(store, session="run-9").turn()
        await store.approvals.open("acme", replace(approval("a9", CALL, key), org="acme"))

    assert "other organisations" not in run("sessions", "list")[1] + run("approvals", "list")[1]
    do(file, acme)
    assert run("sessions", "list")[1].endswith("runs of other organisations: acme (--org NAME)\n")
    assert run("approvals", "list")[1].endswith("approvals of other organisations: acme (--org NAME)\n")
    assert "other organisations" not in run("approvals", "list", "--state", "expired")[1]
    for kind in ("sessions", "approvals"):
        assert "other organisations" not in run(kind, "list", "--org", "acme")[1]


def test_a_list_that_is_cut_says_so(file: Path, run: Run) -> None:
    """And how to go on: until there is nothing more."""

    async def three(store: Store) -> None:
        for number in range(3):
            await Agent(store, session=f"run-{number}").begin(org=ORG)

    do(file, three)
    hint = r"there are more: --cursor (\d+) lists those behind these, --limit N more at once\n"
    seen: list[str] = []
    more: tuple[str, ...] = ()
    while more is not None:
        code, out, err = run("sessions", "list", "--limit", "2", *more)
        assert (code, err) == (0, "")
        seen += re.findall("^run-\\d", out, re.MULTILINE)
        found = re.search(hint, out)
        more = ("--cursor", found[1]) if found else None  # type: ignore[assignment]
        assert len(seen) < 5
    assert sorted(seen) == ["run-0", "run-1", "run-2"]
    for enough in ("3", "4"):
        assert "there are more" not in run("sessions", "list", "--limit", enough)[1]
    assert run("sessions", "list", "--cursor", "3")[1].startswith("no further run of the last day in the store at ")


def test_what_lets_a_run_of_another_organisation_go_on_can_be_typed(file: Path, run: Run) -> None:
    """As it is printed: with whose it is."""

    async def acme(store: Store) -> None:
        agent = Agent(store, session="k1:errs")
        await store.begin(agent.opening(org="acme"))

    do(file, acme)
    assert run("sessions", "pause", "k1:errs", "--org", "acme")[0] == 0
    told = run("sessions", "show", "k1:errs", "--org", "acme")[1]
    printed = re.findall(r"to go on +guardproxy (.*)", told)
    assert printed == [f"sessions resume k1:errs --config {file} --org acme"]
    code, _, err = run("sessions", "resume", "k1:errs")
    assert (code, "that is org default, another is asked with --org NAME" in err) == (1, True)
    assert run(*printed[0].split())[1].startswith("session k1:errs may go on")


def test_no_run(run: Run) -> None:
    """It may be the wrong store: which was asked is said, and how another one is."""
    assert re.fullmatch(
        r"no run of the last day in the store at unix:/\S+; .* --config FILE or --data-dir DIR\n",
        run("sessions", "list")[1],
    )
    told = run("sessions", "list", "--state", "paused", "--org", "acme")[1]
    assert re.match(r"no run of the last day is paused in the store at unix:/\S+, organisation acme; ", told)
    code, _, err = run("approvals", "show", "a1")
    assert (code, "(the store at unix:" in err, "--data-dir DIR)" in err) == (1, True, True)


class Beside:
    """Commands as processes of their own, beside a proxy with a store of its own."""

    def __init__(self, proxy: Running) -> None:
        self.proxy = proxy

    def __call__(self, *words: str) -> str:
        command = [sys.executable, "-m", "guardproxy", *words, "--data-dir", str(self.proxy.data)]
        plain = {k: v for k, v in os.environ.items() if not k.startswith(("GUARDPROXY_", "OPENAI_", "OTEL_"))}
        done = subprocess.run(
            command, check=False, capture_output=True, text=True, timeout=60, env=plain | {"USER": "ann"}
        )
        assert "Traceback" not in done.stderr
        return done.stdout if done.returncode == 0 else f"{done.returncode} {done.stderr}"

    def store(self, work: Callable[[Store], Any]) -> Any:
        return reach.ask(build({"store": {"data_dir": str(self.proxy.data)}}), work)

    @property
    def key(self) -> bytes:
        return secrets.derive((self.proxy.data / "secret").read_text().strip()).ledger

    def api(self, method: str, path: str, body: Any = None) -> Any:
        return json.loads(fetch(f"{self.proxy.admin}/admin/v1/{path}", body, method=method))


@pytest.fixture(scope="module")
def beside(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Beside]:
    if sys.platform != "linux":
        pytest.skip("as the other tests of processes")
    with provider() as url, Running(tmp_path_factory.mktemp("p"), "--upstream", url, "--workers", "2") as proxy:
        yield Beside(proxy)


def talk(beside: Beside, session: str) -> None:
    body = {"model": "0", "messages": [{"role": "user", "content": "hi"}]}
    fetch(f"{beside.proxy.base.removesuffix('/v1')}/s/{session}/v1/chat/completions", body)


def test_runs_beside_a_proxy(beside: Beside) -> None:
    """What a command changes, the admin listener shows, and the other way round."""
    talk(beside, "run-1")
    assert re.search(r"run-1 +active +finished +1 ", beside("sessions", "list"))
    assert beside("sessions", "pause", "run-1", "--why", "looks odd").startswith("session run-1 is paused: ")
    told = beside.api("GET", "sessions/run-1")
    assert (told["state"], told["by"], told["why"]) == ("paused", "ann", "looks odd")
    assert beside("sessions", "list", "--state", "paused").count("run-1") == 1
    beside.api("POST", "sessions/run-1/resume", {"by": "bob", "why": "it is fine"})
    shown = beside("sessions", "show", "run-1")
    assert re.search(r"^state +active$", shown, re.MULTILINE)
    assert re.findall(r"UTC  (\w+) by (\w+): (.*)", shown) == [
        ("pause", "ann", "looks odd"),
        ("resume", "bob", "it is fine"),
    ]
    assert beside("sessions", "extend", "run-1", "--turns", "5", "--cost", "0.5").startswith(
        "session run-1 has more (--turns 5, --cost 0.5); it is active"
    )
    assert beside("sessions", "cut", "run-1").startswith("session run-1 is cut")
    assert beside.api("GET", "sessions?state=closed")["items"][0]["session"] == "run-1"
    told = beside("sessions", "cut", "run-9")
    assert told.startswith("1 guardproxy: the store has no session 'run-9'; the newest are run-")


def test_approvals_beside_a_proxy(beside: Beside) -> None:
    """With the secret that the proxy made for itself; the content is in no log."""
    for name in ("a1", "a2"):
        beside.store(lambda store, name=name: store.approvals.open(ORG, approval(name, CALL, beside.key)))
    assert "/data/a.csv" in beside("approvals", "list")
    assert {one["id"]: one["arguments"] for one in beside.api("GET", "approvals")["items"]} == {
        "a1": CALL.arguments,
        "a2": CALL.arguments,
    }
    assert beside("approvals", "approve", "a1").startswith("approval a1: ann approves delete_file; ")
    assert beside.api("GET", "approvals/a1")["state"] == "approved"
    beside.api("POST", "approvals/a2/deny", {"by": "bob"})
    assert re.match(
        r"1 guardproxy: approval a2 was denied by bob at .* before\n$", beside("approvals", "approve", "a2")
    )
    assert "/data/a.csv" not in beside.proxy.err


def test_a_checkpoint_beside_a_proxy(beside: Beside, tmp_path: Path) -> None:
    talk(beside, "run-2")
    file = tmp_path / "kept.json"
    sealed = Sealer(beside.key).seal(CHECKPOINT, "run-2", b'[{"role":"user","n":1.10}]')
    number = beside.store(lambda store: store.checkpoints.put(ORG, "run-2", sealed, 60))

    assert beside("sessions", "checkpoint", "run-2").endswith('"messages":[{"role":"user","n":1.10}]}\n')
    told = beside("sessions", "checkpoint", "run-2", "--take", str(number + 1), "--out", str(file))
    assert told.startswith("1 guardproxy: ")
    assert list(tmp_path.iterdir()) == []  # who was refused has nothing
    assert beside("sessions", "checkpoint", "run-2", "--out", str(tmp_path / "no" / "a")).startswith(
        "2 guardproxy: cannot write"
    )
    told = beside("sessions", "checkpoint", "run-2", "--take", str(number), "--out", str(file))
    assert told == f"generation {number} of session run-2 is in {file}\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.read_text())["messages"] == [{"role": "user", "n": 1.1}]
    assert "ann" in beside("sessions", "checkpoint", "run-2", "--take", str(number), "--by", "bob")
