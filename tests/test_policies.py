"""`guardproxy policies`: over a real admin listener, whose proxy's file has one policy of its own."""

from __future__ import annotations

import asyncio
import io
import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from guardproxy import cli
from guardproxy.http import asking, client
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.policies import Kept
from guardproxy.store.registry import Key, Secret
from tests.http import admin_api
from tests.http.admin_api import Api
from tests.store.kit import emptied

Run = Callable[..., Awaitable[tuple[int, str, str]]]


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
async def api(server: Embedded) -> AsyncIterator[Api]:
    async with emptied(server) as store, admin_api.serving(store) as made:
        await made.token("root", "owner")
        await made.token("looker", "viewer")
        yield made


@pytest.fixture
def run(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    async def command(*words: str, who: str = "root") -> tuple[int, str, str]:
        monkeypatch.setenv(client.VARIABLE, api.secrets[who])
        monkeypatch.setenv(asking.VARIABLE, str(api.client._base_url).rstrip("/"))
        try:
            code = await asyncio.to_thread(cli.main, ["policies", *words, "--data-dir", str(tmp_path / "none")])
        except SystemExit as exit_:
            code = int(exit_.code or 0)
        told = capsys.readouterr()
        return code, told.out, told.err

    return command


async def test_a_life(run: Run, api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mine.yaml"
    for turns in (5, 9):
        file.write_text(f"# a comment\npreset: strict\nmodels: [a-*]\nlimits: {{session: {{turns: {turns}}}}}\n")
        code, out, _ = await run("put", "mine", str(file), "--why", "a trial", "--by", "anna")
        assert (code, out.startswith("policy mine is kept as revision")) == (0, True)
        assert "within 2 s" in out
    _, out, _ = await run("list")
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert list(rows) == ["policy", "default", "mine", "watched"]
    assert (rows["mine"][0], rows["watched"][0]) == ("api", "file")
    _, out, _ = await run("show", "mine")
    assert '"turns": 9' in out
    assert json.loads((await run("show", "mine", "--json"))[1])["document"]["preset"] == "strict"
    versions = json.loads((await run("versions", "mine", "--json"))[1])
    assert [one["document"]["limits"]["session"]["turns"] for one in versions] == [9, 5]
    assert (await run("versions", "mine"))[1].splitlines()[1].split()[0] == str(versions[0]["revision"])
    assert (await run("rollback", "mine", str(versions[1]["revision"])))[0] == 0
    assert '"turns": 5' in (await run("show", "mine"))[1]
    monkeypatch.setattr("sys.stdin", io.StringIO('{"mode": "observe"}'))
    assert (await run("put", "other", "-"))[0] == 0
    assert (await run("delete", "mine", "--why", "over"))[1] == "policy mine is forgotten; its versions stay\n"
    assert (await run("show", "mine"))[0] == 1
    assert len(json.loads((await run("versions", "mine", "--json"))[1])) == 3
    said = [(one.what, one.subject, one.why) for one in await api.entries(what="policy")]
    assert said[0] == ("policy.set", "mine", "a trial")
    assert said[-1] == ("policy.delete", "mine", "over")


async def test_what_is_shown_of_one(run: Run, api: Api, tmp_path: Path) -> None:
    """Where it is from, for whom, and all that is in force of it; not only its name."""
    file = tmp_path / "mine.yaml"
    written = "preset: strict, models: [a-*], limits: {session: {turns: 9}}, tools: {deny: [rm]}, on_cut: pause"
    rules = "detectors: {cycle: {mode: observe}, monologue: {enabled: false}}"
    file.write_text(f"{{{written}, {rules}}}")
    await run("put", "mine", str(file), "--by", "anna")
    facts, lines, document = parts((await run("show", "mine"))[1])

    assert re.fullmatch(r"the admin API: revision 1, put by anna \(token root\) at [-0-9]+ [:0-9]+ UTC", facts["from"])
    assert re.fullmatch(r"mine@[0-9a-f]{8}, as log and spans name it", facts["version"])
    assert (facts["policy"], facts["mode"], facts["for"]) == ("mine", "enforce", "models a-*")
    assert re.fullmatch(r"detectors: \d+, preset strict; of another mode: cycle \(observe\); off: monologue", lines[0])
    assert {"limit of a session: turns 9", "refuse: enforce", "tools.deny: rm (enforce)", "on_cut: pause"} <= {*lines}
    assert json.loads(document)["tools"] == {"deny": ["rm"]}
    facts, lines, document = parts((await run("show", "watched"))[1])
    assert (facts["from"], facts["mode"]) == ("the configuration file (policies.watched)", "observe")
    assert "refuse: observe" in lines
    assert document == ""
    facts, lines, _ = parts((await run("show", "default"))[1])
    assert (facts["from"], facts["for"]) == ("the configuration file (policy)", "whoever has no other")
    assert "limit of a session: cost_usd $20" in lines
    file.write_text("mode: observe")
    await run("put", "plain", str(file))
    assert parts((await run("show", "plain"))[1])[0]["for"] == "keys that name it"


async def test_one_that_cannot_be_used_here(run: Run, api: Api) -> None:
    """Another version wrote it: what stood before stays, and it is said that this is not the newest."""
    for document in ({"mode": "observe"}, {"mode": "of another version"}):
        await api.store.policies.put(Kept("mine", document))
        await api.standing.look()
    facts, lines, document = parts((await run("show", "mine"))[1])
    assert facts["version"].endswith("; of revision 1: the newest cannot be used here, the log of serve says why")
    assert (facts["mode"], "refuse: observe" in lines) == ("observe", True)
    assert json.loads(document) == {"mode": "of another version"}
    await api.store.policies.put(Kept("other", {"mode": "of another version"}))
    await api.standing.look()
    facts, lines, _ = parts((await run("show", "other"))[1])
    assert facts["version"] == "not in force: it cannot be used here, the log of serve says why"
    assert lines == []


def parts(told: str) -> tuple[dict[str, str], list[str], str]:
    """What is printed of a policy: facts, what is in force, the document."""
    above, _, document = told.partition("document, as it was put\n")
    facts, _, force = above.partition("in force  ")
    named = dict(re.findall(r"^(\w+) {2,}(.*)$", facts, re.MULTILINE))
    return named, [line.strip() for line in force.splitlines() if line], document


WRONG = {
    "no such policy": (("show", "none"), 1, "no policy 'none'"),
    "no versions": (("versions", "none"), 1, "no policy 'none'"),
    "the file's": (("put", "watched", "good"), 1, "stands in the configuration file"),
    "no name": (("put", "No Name", "good"), 2, "NAME: "),
    "a setting that is none": (("put", "mine", "bad"), 2, "limits.session.turns"),
    "no YAML": (("put", "mine", "torn"), 2, "torn.yaml: line"),
    "a date": (("put", "mine", "dated"), 2, "not JSON serializable"),
    "no file": (("put", "mine", "away"), 2, "cannot read"),
    "no revision": (("rollback", "kept", "99"), 2, "REVISION: kept has no 99"),
    "no number": (("rollback", "kept", "last"), 2, "invalid int"),
    "in use": (("delete", "kept"), 1, "that of the key k00000000000a"),
    "not for a viewer": (("put", "mine", "good"), 1, "403"),
}
FILES = {
    "good": "mode: observe",
    "bad": "limits: {session: {turns: many}}",
    "torn": "limits: {",
    "dated": "preset: 2026-01-01",
}


@pytest.mark.parametrize("which", WRONG)
async def test_what_is_wrong(which: str, run: Run, api: Api, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / f"{name}.yaml").write_text(text)
    await run("put", "kept", str(tmp_path / "good.yaml"))
    await api.store.registry.put(Key("k00000000000a", policy="kept", secrets=(Secret("d" * 64, "gp-…"),)))
    (verb, name, *more), code, said = WRONG[which]
    words = [str(tmp_path / f"{one}.yaml") if verb == "put" else one for one in more]
    got, out, err = await run(verb, name, *words, who="looker" if which == "not for a viewer" else "root")

    assert (got, out) == (code, ""), err
    assert said in err
    assert "Traceback" not in err


def test_without_a_proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv(asking.VARIABLE, raising=False)
    assert cli.main(["policies", "list", "--data-dir", str(tmp_path)]) == 2
    assert "no proxy runs on this data directory" in capsys.readouterr().err
