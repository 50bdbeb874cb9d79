"""`guardproxy budgets` and `guardproxy usage`: over a store of the test, and beside a running proxy."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from guardproxy import cli, secrets, spending
from guardproxy._budgets import BudgetSection
from guardproxy.core.usage import BY, payer
from guardproxy.core.windows import WINDOWS
from guardproxy.http import asking
from guardproxy.http.objects.usage import NAMES
from guardproxy.store import embedded
from guardproxy.store.embedded import Embedded
from guardproxy.store.redis import Store
from guardproxy.store.registry import Org, Team
from tests.store.test_tenants import offset

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def server() -> Iterator[Embedded]:
    with embedded.scratch() as running:
        yield running


@pytest.fixture
def run(server: Embedded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    monkeypatch.setenv(secrets.VARIABLE, "a secret of this test's own")
    monkeypatch.delenv(asking.VARIABLE, raising=False)
    file = tmp_path / "guardproxy.yaml"
    said = "budgets: [{scope: org, dimension: requests, window: day, limit: 9}]"
    file.write_text(f"store: {{url: 'unix://{server.socket_path}'}}\n{said}\n")

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
    store = await Store.connect(socket_path=server.socket_path)
    await store._client.command("FLUSHALL")
    await store.registry.put(Org("acme"))
    await store.registry.put(Team("acme", "web"))
    for day, who, sums in (
        ("2026-11-01", ("web", "k1", "ann", "gpt-5", "codex"), (3, 1000, 0, 0, 50, 0, 2_500_000, 0, 0, 1, 1, 10)),
        ("2026-11-30", ("web", "k1", "=1+1", "gpt-5", ""), (1, 10, 0, 0, 5, 0, 1)),
        ("2026-12-01", ("web", "k1", "ann", "gpt-5", ""), (100,)),
    ):
        await store.usages.add("acme", {payer(who): sums}, offset(f"{day}T12:00:00+00:00"))
    await store.usages.add("acme", {payer(("web", "k1", "ann", "gpt-5", "")): (1,)})  # lately, whenever that is
    await store.close()


def test_words_are_those_of_the_configuration() -> None:
    fields = BudgetSection.model_fields
    assert fields["scope"].annotation.__args__ == spending.SCOPES  # type: ignore[union-attr]
    assert fields["dimension"].annotation.__args__ == spending.DIMENSIONS  # type: ignore[union-attr]
    assert set(spending.WINDOWS) == set(WINDOWS)
    assert spending.BY == NAMES == ("day", *BY)


def test_a_life(run: Run) -> None:
    words = ("cost_usd", "500", "--per", "month", "--timezone", "Europe/Berlin", "--soft", "80", "--org", "acme")
    code, out, _ = run("budgets", "set", *words, "--by", "anna")
    assert code == 0
    (name,) = re.findall(r"b[0-9a-f]{12}", out)
    assert "within 2 s" in out
    assert (
        run("budgets", "set", "requests", "60", "--per", "minute", "--scope", "key", "--team", "web", "--org", "acme")[
            0
        ]
        == 0
    )
    code, out, _ = run("budgets", "list", "--org", "acme")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["budget", "of", "for", "counted", "window", "limit", "used", "held", "resets", "soft"]
    assert rows[1][:7] == [name, "org", "org", "cost_usd", "month", "(Europe/Berlin)", "500"]
    assert rows[2][1:6] == ["team:web", "key", "requests", "minute", "60"]
    code, out, _ = run("budgets", "show", rows[2][0], "--org", "acme")
    assert "k1" in out  # was seen
    (one,) = [one for one in json.loads(run("budgets", "list", "--org", "acme", "--json")[1]) if one["of"] == "org"]
    assert (one["limit"], one["soft"], one["timezone"]) == (500.0, [80], "Europe/Berlin")
    assert json.loads(run("budgets", "show", name, "--org", "acme", "--json")[1])["id"] == name
    assert run("budgets", "remove", name, "--org", "acme")[0] == 0
    assert name not in run("budgets", "list", "--org", "acme")[1]
    _, out, _ = run("audit", "--what", "budget")
    assert ("budget.set" in out, "anna" in out, "budget.remove" in out) == (True, True, True)


def test_the_files_budgets_are_shown_for_the_default_org(run: Run) -> None:
    code, out, _ = run("budgets", "list")
    assert (code, out.splitlines()[1].split()[1:5]) == (0, ["file", "org", "requests", "day"])
    assert "has no budget; guardproxy budgets set --org acme makes one" in run("budgets", "list", "--org", "acme")[1]


WRONG = [
    (("budgets", "set", "cost_usd", "5"), "--per: must be one of minute"),
    (("budgets", "set", "cost_usd", "-5", "--per", "day"), "LIMIT: "),
    (("budgets", "set", "requests", "5", "--per", "day", "--timezone", "Mars"), "--timezone: no time zone"),
    (("budgets", "set", "requests", "5", "--per", "day", "--team", "a", "--key", "b"), "--team and --key"),
    (("budgets", "set", "requests", "5", "--per", "day", "--team", "A B"), "--team or --key: "),
    (("budgets", "set", "requests", "5", "--per", "day", "--team", "nobody"), "has no 'team:nobody'"),
    (("budgets", "show", "b0"), "has no budget 'b0'"),
    (("budgets", "remove", "../x"), "has no budget"),
    (("usage", "--month", "2026-13"), "--month: 2026-13 is no month"),
    (("usage", "--group", "colour"), "--group: 'colour' is none of day, team"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_what_is_typed_wrong_is_said(run: Run, words: tuple[str, ...], said: str) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "") or code == 1
    assert said in err
    assert "Traceback" not in err


def test_usage_of_a_month(run: Run) -> None:
    code, out, _ = run("usage", "--org", "acme", "--month", "2026-11")
    assert code == 0
    heads, row = [line.split() for line in out.splitlines()]
    assert heads[:5] == ["org", "team", "key", "model", "requests"]
    assert row == ["acme", "web", "k1", "gpt-5", "4", "1,010", "55", "$2.5000", "1", "1", "$0.0000"]
    assert "has used nothing then" in run("usage", "--org", "acme", "--month", "2026-10")[1]


def test_usage_as_csv_and_json(run: Run) -> None:
    _, out, _ = run("usage", "--org", "acme", "--month", "2026-11", "--csv")
    found = list(csv.DictReader(io.StringIO(out)))
    assert [(row["day"], row["user"], row["requests"], row["cost_usd"]) for row in found] == [
        ("2026-11-01", "ann", "3", "2.500000"), ("2026-11-30", "'=1+1", "1", "0.000001"),
    ]  # fmt: skip
    assert list(found[0])[:8] == ["org", "day", "team", "key", "user", "model", "agent", "requests"]
    _, out, _ = run(
        "usage", "--org", "acme", "--since", "2026-11-02", "--until", "2026-11-30", "--json", "--group", "user"
    )
    (one,) = [json.loads(line) for line in out.splitlines()]
    assert (one["user"], one["requests"], one["day"]) == ("=1+1", 1, None)
    assert run("usage", "--org", "acme", "--month", "2026-10", "--csv")[1] == ""


def test_help_needs_no_store(run: Run) -> None:
    for words in (("budgets", "--help"), ("budgets", "set", "--help"), ("usage", "--help")):
        code, out, _ = run(*words)
        assert (code, "usage: guardproxy" in out) == (0, True)
