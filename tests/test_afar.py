"""`sessions`, `approvals` and `trace` of a proxy on another machine, and as JSON: over a real admin listener."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from guardproxy import _extending, cli, secrets
from guardproxy.http import asking, client
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from tests.http import admin_api
from tests.http.admin_api import Api
from tests.live import live
from tests.scenes import Heard
from tests.store.kit import Agent, emptied

Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
async def api(server: Embedded) -> AsyncIterator[Api]:
    async with emptied(server) as store, admin_api.serving(store) as made:
        await made.fill()
        await made.token("root", "owner")
        await made.token("looker", "viewer")
        yield made


@pytest.fixture
def run(
    api: Api, server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Run:
    """A command typed on a machine that has neither the store nor its secret: `afar` False, on the one that has."""
    file = tmp_path / "here.yaml"
    file.write_text(f"store: {{url: 'unix://{server.socket_path}'}}")
    monkeypatch.setenv(secrets.VARIABLE, "a secret of this test's own")

    async def command(*words: str, who: str = "root", afar: bool = True) -> tuple[int, str, str]:
        monkeypatch.setenv(client.VARIABLE, api.secrets[who])
        if afar:
            monkeypatch.setenv(asking.VARIABLE, str(api.client._base_url).rstrip("/"))
            more = ["--data-dir", str(tmp_path / "none")]
        else:
            monkeypatch.delenv(asking.VARIABLE, raising=False)
            monkeypatch.delenv(client.VARIABLE)
            more = ["--config", str(file)]
        try:
            code = await asyncio.to_thread(cli.main, [*words, *more])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


async def test_sessions(run: Run, api: Api) -> None:
    org = ("--org", admin_api.ORG)
    code, out, err = await run("sessions", "list", *org)
    assert (code, err) == (0, "")
    assert out.splitlines()[0].split()[:3] == ["session", "state", "outcome"]
    assert out.splitlines()[1].split()[:2] == ["run-1", "active"]
    assert out.endswith("other organisations: default, spare (--org NAME)\n")
    assert "other organisations: acme, spare (--org NAME)" in (await run("sessions", "list"))[1]
    await api.token("hers", "owner", org=admin_api.ORG)
    assert "other organisations" not in (await run("sessions", "list", *org, who="hers"))[1]
    assert "no session of agent orders is there" in (await run("sessions", "list", "--agent", "orders", *org))[1]
    assert (
        "no run of the last day of agent orders in"
        in (await run("sessions", "list", "--agent", "orders", *org, afar=False))[1]
    )
    assert "no session is paused in org acme" in (await run("sessions", "list", "--state", "paused", *org))[1]
    assert await run("sessions", "pause", "run-1", "--why", "a look", "--by", "anna", *org) == (
        0,
        "session run-1 is paused: its requests are answered with who paused it and why, until it is resumed\n",
        "",
    )
    _, out, _ = await run("sessions", "show", "run-1", *org)
    assert "state                paused" in out
    assert "to_go_on             guardproxy sessions resume run-1 --org acme\n" in out
    assert "pause by anna (token root): a look" in out
    assert (await run("sessions", "extend", "run-1", "--turns", "5", "--cost", "1.5", *org))[1] == (
        "session run-1 has more (--turns 5, --cost 1.5); it is paused\n"
    )
    assert (await run("sessions", "resume", "run-1", *org))[0] == 0
    (one,) = json.loads((await run("sessions", "list", "--json", *org))[1])
    assert (one["session"], one["state"]) == ("run-1", "active")
    assert json.loads((await run("sessions", "cut", "run-1", "--json", *org))[1])["state"] == "closed"
    assert [one.what for one in await api.entries(what="session")] == [
        f"session.{what}" for what in ("pause", "extend", "resume", "cut")
    ]


async def test_a_list_that_is_cut_says_so(run: Run, api: Api) -> None:
    org = ("--org", admin_api.ORG)
    words = ("sessions", "list", "--limit", "1", *org)
    assert "there are more" not in (await run(*words))[1]
    await Agent(api.store, session="run-2").turn()
    hint = "there are more: --cursor 1 lists those behind these, --limit N more at once\n"
    _, first, _ = await run(*words)
    _, second, _ = await run(*words, "--cursor", "1")
    assert hint in first
    assert hint not in second
    assert {line.split()[0] for text in (first, second) for line in text.splitlines()[1:2]} == {"run-1", "run-2"}
    code, out, err = await run(*words, "--json")
    assert (code, len(json.loads(out)), err) == (0, 1, hint)
    assert (await run(*words, "--cursor", "2"))[1].startswith("no further session is there in org acme")


async def test_a_checkpoint(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    words = ("sessions", "checkpoint", "run-1", "--org", admin_api.ORG)
    assert json.loads((await run(*words))[1])["messages"] == [{"n": "planted-text"}]
    code, out, _ = await run(*words, "--take", "1", "--out", str(file))
    assert (code, str(file) in out, file.stat().st_mode & 0o777) == (0, True, 0o600)
    assert json.loads(file.read_text())["generation"] == 1
    assert (await run(*words, "--take", "1"))[0] == 1  # a second one


async def test_approvals(run: Run) -> None:
    org = ("--org", admin_api.ORG)
    _, out, _ = await run("approvals", "list", *org)
    assert sorted(line.split()[0] for line in out.splitlines()[1:-1]) == ["a1", "q1"]
    assert "planted-arguments" in out
    assert out.count("pending, ") == out.count(" left ") == 2  # as the local command says it
    assert "planted" not in (await run("approvals", "list", *org, who="looker"))[1]
    assert "planted-question?" in (await run("approvals", "show", "q1", *org))[1]
    code, out, _ = await run("approvals", "approve", "a1", "--args", '{"path":"b"}', "--why", "a copy", *org)
    assert (code, out.startswith("approval a1: approved by root; ")) == (0, True)
    assert (await run("approvals", "deny", "a1", *org))[0] == 1
    assert (await run("approvals", "answer", "q1", "the second", *org))[1].startswith("approval q1: answered by ")
    assert "no approval is pending in org acme" in (await run("approvals", "list", *org))[1]


WRONG = {
    "no such run": (("sessions", "show", "none"), 1, "no session"),
    "not for a viewer": (("sessions", "pause", "run-1"), 1, "403"),
    "nothing to raise": (("sessions", "extend", "run-1"), 2, "say what to raise"),
    "too much": (("sessions", "extend", "run-1", "--turns", "-5"), 2, "--turns:"),
    "no such state": (("sessions", "list", "--state", "gone"), 2, "--state:"),
    "no number": (("sessions", "list", "--limit", "0"), 2, "--limit:"),
    "no object": (("approvals", "approve", "a1", "--args", "[]"), 2, "--args:"),
    "nothing said": (("approvals", "answer", "q1", " "), 2, "TEXT:"),
    "no such trace": (("trace", "none"), 1, "no session"),
    "a file besides": (("trace", "run-1", "--from", "log", "--json"), 2, "leave out --admin and --json"),
    "no URL": (("trace", "run-1", "--admin", "example"), 2, "must be a URL"),
}


@pytest.mark.parametrize("which", WRONG)
async def test_what_is_wrong(which: str, run: Run) -> None:
    words, code, said = WRONG[which]
    who = "looker" if which == "not for a viewer" else "root"
    got, out, err = await run(*words, "--org", admin_api.ORG, who=who)

    assert (got, out) == (code, ""), err
    assert said in err
    assert err.count("\n") == 1


async def test_the_trace_is_that_of_the_store(run: Run, api: Api, heard: Heard) -> None:
    async with live(api.store, heard) as running:
        for text in ("one", "two", "three"):
            body = {"model": "mock-1", "messages": [{"role": "user", "content": text}]}
            answer = await running.post(body, {"x-guardproxy-session-id": "traced"})
            await heard.next()
            assert answer.status == 200
    await api.store.runs.pause("default", "traced", "anna", "a look")
    (heads, *rows), (_, *afar) = [(await run("sessions", "list", afar=far))[1].splitlines() for far in (False, True)]
    assert rows[:-1] == afar[:-1]  # one table, wherever it is asked for
    assert [one[-1].partition(":")[0] for one in (rows, afar)] == ["runs of other organisations", "other organisations"]
    cells = dict(zip(heads.split(), re.split(" {2,}", rows[0].strip()), strict=False))
    assert (cells["session"], cells["state"]) == ("traced", "paused by anna")
    assert 0 < float(cells["cost"].strip("$")) < 0.01
    here, there = await run("trace", "traced", afar=False), await run("trace", "traced")
    assert here[0] == there[0] == 0
    assert "pause by anna: a look" in there[1]
    lines = [out.splitlines() for _, out, _ in (here, there)]
    assert lines[0][: len(lines[1]) - 1] == lines[1][:-1]
    assert there[1].splitlines()[-2:] == [
        "state: paused by anna: a look", "to go on: guardproxy sessions resume traced"]  # fmt: skip
    told = json.loads((await run("trace", "traced", "--json"))[1])
    assert told["to_go_on"] == "guardproxy sessions resume traced"
    assert ([one["turn"] for one in told["turns"]], told["state"]) == ([1, 2, 3], "paused")


@pytest.fixture
def heard() -> Heard:
    return Heard()


def test_options_of_extend() -> None:
    """Each is an option of the command, and no limit is raised by two."""
    limits = [limit for some in _extending.EXTEND.values() for limit in some]
    assert len(set(limits)) == len(limits)
    assert set(limits) <= set(_extending.OPTIONS)
