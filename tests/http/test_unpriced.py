"""`guardproxy check` names models without a price: over files, as it is typed."""

from __future__ import annotations

from pathlib import Path

import pytest

from guardproxy import cli

ONE = "upstreams: [{name: a, url: 'https://a.example/v1', api_key: k, models: [%s]}]"
COUNTED = (
    "it is counted at 3 dollars per million tokens of input and 15 of output (prices.default), a line in the log and "
    "guardproxy_prices_unknown_total say so (prices.unknown: alert); give it one in prices.models or prices.file"
)
CASES = {
    "nothing named": ("{}", ""),
    "a model that is known": (ONE % "gpt-4o, claude-3-5-haiku-latest", ""),
    "globs": (ONE % "'*', 'my-?', 'my-[ab]'", ""),
    "one": (ONE % "my-llama", f"no price is known for 'my-llama' (upstreams.a.models): {COUNTED}"),
    "one with a price": (ONE % "my-llama" + "\nprices: {models: {'my-*': {input: 0, output: 0}}}", ""),
    "a price in other letters": (ONE % "My-Llama" + "\nprices: {models: {'my-*': {input: 0, output: 0}}}", ""),
    "renamed": (
        "upstreams: [{name: a, url: 'https://a.example/v1', api_key: k, rename: {mine: theirs, gpt-4o: mine-4o}}]",
        f"no price is known for 'mine' (upstreams.a.rename): {COUNTED}",
    ),
    "of a policy": (
        "policies: {p: {models: [mine, gpt-4o]}}",
        f"no price is known for 'mine' (policies.p.models): {COUNTED}",
    ),
    "of a budget": (
        "budgets: [{scope: model, match: mine, dimension: cost_usd, window: day, limit: 4}]",
        f"no price is known for 'mine' (budgets): {COUNTED}",
    ),
    "of no model's budget": ("budgets: [{scope: key, match: mine, dimension: cost_usd, window: day, limit: 4}]", ""),
    "twice": (
        ONE % "mine, other" + "\npolicies: {p: {models: [mine]}}",
        f"no price is known for 'mine' (upstreams.a.models), 'other' (upstreams.a.models): {COUNTED}",
    ),
    "blocked": (
        ONE % "mine" + "\nprices: {unknown: block}",
        (
            "no price is known for 'mine' (upstreams.a.models): a request for it is refused with HTTP 400 "
            "unknown_price (prices.unknown: block); give it one in prices.models or prices.file"
        ),
    ),
    "unsaid, at another price": (
        ONE % "mine" + "\nprices: {unknown: default, default: {input: 1.5, output: 2}}",
        (
            "no price is known for 'mine' (upstreams.a.models): it is counted at 1.5 dollars per million tokens of "
            "input and 2 of output (prices.default), unsaid (prices.unknown: default); give it one in prices.models or "
            "prices.file"
        ),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_models_without_a_price(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    written, expected = CASES[name]
    file = tmp_path / "c.yaml"
    file.write_text(written)
    code = cli.main(["check", str(file)])
    out, err = capsys.readouterr()

    assert (code, err) == (0, "")
    assert [line.strip() for line in out.splitlines()[1:] if "price" in line] == (
        [f"warning: {expected}"] if expected else []
    )
    assert not [one for one in caplog.records if one.levelname != "INFO"], "what a worker says is not said here"


def test_many_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "c.yaml"
    file.write_text(ONE % ", ".join(f"mine-{number}" for number in range(13)))
    cli.main(["check", str(file)])

    assert "'mine-9' (upstreams.a.models) and 3 more: it is counted" in capsys.readouterr().out
