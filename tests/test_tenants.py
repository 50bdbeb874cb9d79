"""`guardproxy orgs`, `teams` and `keys`: beside a running proxy with two workers, and over a store of the test."""

from __future__ import annotations

import json
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from guardproxy import cli, secrets
from guardproxy.http import asking, client, terminal, virtual_key
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from tests.running import Running

SECRET = "a secret of this test's own"
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
def run(server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv(secrets.VARIABLE, SECRET)
    file = tmp_path / "guardproxy.yaml"
    file.write_text(f"store: {{url: 'unix://{server.socket_path}'}}")

    monkeypatch.delenv(asking.VARIABLE, raising=False)

    def command(*words: str) -> tuple[int, str, str]:
        try:
            code = cli.main([*words, "--config", str(file)])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


def test_a_life(run: Run) -> None:
    """An org, a team and a key, made, shown, changed, switched, rotated and forgotten."""
    assert run("orgs", "create", "acme", "--by", "anna")[0] == 0
    assert run("teams", "create", "web", "--org", "acme")[0] == 0
    code, out, _ = run("keys", "create", "--org", "acme", "--team", "web", "--name", "ci", "--model", "gpt-*")
    assert code == 0
    (secret,) = re.findall(r"gp-[0-9A-Za-z]{42}", out)
    (key,) = re.findall(r"key (k[0-9a-f]{12}) of org acme", out)
    for words in (("keys", "list", "--org", "acme"), ("keys", "show", key)):
        _, out, _ = run(*words)
        assert virtual_key.shown(secret) in out
        assert "gpt-*" in out
        assert secret not in out
    assert "anna" in run("orgs", "list")[1]
    assert "web" in run("teams", "list", "--org", "acme")[1]
    assert run("keys", "update", key, "--model", "", "--route", "/v1/embeddings", "--expires", "30d")[0] == 0
    shown = run("keys", "show", key)[1]
    assert re.search(r"^models +all$", shown, re.MULTILINE)
    assert re.search(r"^routes +/v1/embeddings$", shown, re.MULTILINE)
    for words in (("show",), ("disable",), ("rotate", "--overlap", "0"), ("delete",)):
        code, out, err = run("keys", words[0], key, *words[1:], "--org", "default")
        assert (code, out) == (1, "")
        assert "org default has no key" in err
    assert run("keys", "disable", key, "--org", "acme")[0] == 0
    assert re.search(r"^state +off$", run("keys", "show", key)[1], re.MULTILINE)
    assert run("keys", "enable", key)[0] == 0
    _, out, _ = run("keys", "rotate", key, "--overlap", "1h", "-q")
    assert re.fullmatch(r"gp-[0-9A-Za-z]{42}\n", out)
    assert out.strip() != secret
    assert run("keys", "show", key)[1].count("secret ") == 2
    assert run("orgs", "delete", "acme")[0] == 1
    for words in (("keys", "delete", key), ("teams", "delete", "web", "--org", "acme"), ("orgs", "delete", "acme")):
        assert run(*words)[0] == 0
    assert "no org" in run("orgs", "list")[1]


WRONG: list[tuple[tuple[str, ...], int, str]] = [
    (("orgs", "create", "Acme Inc"), 2, "NAME or --name: must be 1 to 63"),
    (("orgs", "disable", "globex"), 1, "no org 'globex'"),
    (("teams", "create", "web", "--org", "globex"), 1, "guardproxy orgs create globex"),
    (("keys", "create", "--org", "globex"), 1, "guardproxy orgs create globex"),
    (("keys", "create", "--team", "web"), 1, "no team 'web'"),
    (("keys", "create", "--route", "/x"), 2, "--route: '/x' must begin with /v1/"),
    (("keys", "create", "--model", "a", "--route", "/v1/x"), 2, "--route: a key for certain models has no routes"),
    (("keys", "create", "--expires", "soon"), 2, "--expires: 'soon' must be"),
    (("keys", "create", "--user-header", "Authorization"), 2, "--user-header: must be"),
    (("keys", "show", "nightly"), 1, "guardproxy keys list shows them"),
    (("keys", "rotate", "k000000000000", "--overlap", "long"), 2, "--overlap: 'long' must be"),
    (("keys", "show", "gp-" + "a" * 42), 2, "KEY: is the secret of a key"),
]


@pytest.mark.parametrize(("words", "code", "said"), WRONG, ids=lambda one: " ".join(one) if type(one) is tuple else "")
def test_what_is_typed_wrong_is_told_in_a_line(run: Run, words: tuple[str, ...], code: int, said: str) -> None:
    found, out, err = run(*words)
    assert (found, out) == (code, "")
    assert said in err
    assert err.count("\n") == 1


# Beside a running proxy


class _Provider(BaseHTTPRequestHandler):
    """Answers at once, and keeps the headers."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[list[dict[str, str]]] = []

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append({name.lower(): value for name, value in self.headers.items()})
        choice = {"index": 0, "message": {"role": "assistant", "content": "done"}, "finish_reason": "stop"}
        raw = json.dumps({"id": "c", "object": "chat.completion", "model": "m", "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def upstream() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Provider)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    _Provider.seen.clear()
    yield f"http://127.0.0.1:{server.server_address[1]}/v1"
    server.shutdown()
    server.server_close()


def ask(base: str, key: str, session: str = "nightly") -> tuple[int, str]:
    """A turn over a connection of its own, so that either worker may get it; its status and session."""
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    headers = {"Content-Type": "application/json", "Authorization": f"Bearer {key}", "Connection": "close"}
    request = urllib.request.Request(
        f"{base}/chat/completions", body, headers | {"x-guardproxy-session-id": session}, method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.headers["x-guardproxy-session-id"]
    except urllib.error.HTTPError as error:
        return error.code, ""


def test_two_orgs_two_workers(
    tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A company in a few commands. What one changes holds in both workers; nothing has a key in it."""
    monkeypatch.delenv(secrets.VARIABLE, raising=False)
    file = tmp_path / "guardproxy.yaml"
    file.write_text("auth: keys\nupstream: {api_key: sk-provider-0123456789}\ntelemetry: {log_level: debug}\n")
    words = ("--config", str(file), "--upstream", upstream, "--workers", "2")
    with Running(tmp_path / "run", *words) as proxy:
        assert "guardproxy keys create" in proxy.greeting

        def run(*words: str) -> str:
            assert cli.main([*words, "--data-dir", str(proxy.data)]) == 0
            return capsys.readouterr().out

        made = {}
        for org in ("acme", "globex"):
            run("orgs", "create", org)
            made[org] = run("keys", "create", "--org", org, "-q").strip()
        sessions = {org: {ask(proxy.base, key) for _ in range(20)} for org, key in made.items()}
        assert all(len(found) == 1 for found in sessions.values())
        assert {status for found in sessions.values() for status, _ in found} == {200}
        assert sessions["acme"] != sessions["globex"]
        assert ask(proxy.base, "sk-other")[0] == 401
        ((_, session),) = sessions["acme"]
        assert session in run("sessions", "list", "--org", "acme")
        assert session not in run("sessions", "list", "--org", "globex")
        assert session in run("trace", session, "--org", "acme")
        run("sessions", "cut", session, "--org", "acme", "--why", "enough")
        (key,) = re.findall(r"k[0-9a-f]{12}", run("keys", "list", "--org", "globex"))
        run("keys", "disable", key)
        told = time.monotonic()
        while time.monotonic() - told < 2:
            time.sleep(0.05)
        assert {ask(proxy.base, made["globex"])[0] for _ in range(30)} == {401}  # in both: connections are spread
        assert ask(proxy.base, made["acme"])[0] == 200  # the cut run is told so in words
        assert {seen["authorization"] for seen in _Provider.seen} == {"Bearer sk-provider-0123456789"}
        token = run("admin", "init", "--name", "anna").strip()
        assert cli.main(["orgs", "list", "--data-dir", str(proxy.data)]) == 1
        told = capsys.readouterr().err
        assert "answered 401" in told
        assert f"(commands take it from {client.VARIABLE})" in told
        monkeypatch.setenv(client.VARIABLE, token)
        run("keys", "update", key, "--name", "nightly", "--by", "the boss")
        assert "nightly" in run("keys", "show", key)
        assert "acme" in run("orgs", "list", "--admin", proxy.admin)
        metrics = urllib.request.urlopen(f"{proxy.admin}/metrics").read().decode()
        assert re.search(r'guardproxy_auth_refused_total{\w+="key_disabled"} [1-9]', metrics)
        assert proxy.stop() == 0
        run("orgs", "disable", "globex", "--by", "ben")  # with a token nobody is who they say
        monkeypatch.delenv(client.VARIABLE)
        run("orgs", "enable", "globex", "--by", "ben")
        written = [json.loads(line) for line in run("audit", "--json").splitlines()]
        heap = proxy.err + proxy.greeting + metrics + repr(_Provider.seen) + repr(written)
    assert [(one["what"], one["actor"], one["kind"]) for one in written if one["what"][:3] in ("org", "key")] == [
        ("org.update", "ben", "command"),
        ("org.update", "anna", "token"),
        ("key.update", "anna", "token"),
        ("key.update", terminal.me(), "local"),
        *[(what, terminal.me(), "local") for what in ("key.create", "org.create") * 2],
    ]
    heap += "".join(one.read_text(errors="replace") for one in proxy.data.rglob("*") if one.is_file())
    for secret in made.values():
        assert secret not in heap
        assert secret[3:] not in heap
    assert "sk-provider-0123456789" not in heap.replace(repr(_Provider.seen), "")


def test_a_proxy_that_anybody_could_use_does_not_start(tmp_path: Path, upstream: str) -> None:
    with Running(tmp_path / "run", "--host", "0.0.0.0", "--upstream", upstream) as proxy:
        assert proxy.process.wait(20) == 2
        assert "auth: listen.host is 0.0.0.0" in proxy.err
        assert "Traceback" not in proxy.err
