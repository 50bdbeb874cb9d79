"""Rates per model: the table, then the published ones, then the fallback; each model is looked up once."""

from __future__ import annotations

import logging

import pytest

from guardproxy.core.pricing import Rates
from guardproxy.http import prices
from guardproxy.http.prices import Prices

FALLBACK = Rates(5.0, 20.0, known=False)
TABLE = {"acme-*": Rates(1.0, 2.0), "acme-big": Rates(9.0, 9.0), "gpt-4o": Rates(0.0, 0.0)}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("acme-small", Rates(1.0, 2.0)),
        ("acme-big", Rates(1.0, 2.0)),  # the first pattern that fits, in the order of the file
        ("ACME-small", FALLBACK),
        ("gpt-4o", Rates(0.0, 0.0)),  # the configuration may say that it is free
        ("a model of ours", FALLBACK),
        ("", FALLBACK),
    ],
)
def test_rates(model: str, expected: Rates) -> None:
    assert Prices(TABLE, FALLBACK).rates(model) == expected


@pytest.mark.parametrize("model", ["gpt-4o-mini", "gpt-4o", "claude-sonnet-4-0"])
def test_published(model: str) -> None:
    found = Prices({}, FALLBACK).rates(model)

    assert found.known
    assert 0 < found.cached < found.input < found.output < 100, "dollars per million tokens"


def test_an_unknown_price_is_said_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prices, "_said", 0)
    known = Prices({}, FALLBACK)
    with caplog.at_level(logging.WARNING):
        found = {known.rates("nobody's-model") for _ in range(3)}

    assert found == {FALLBACK}
    (line,) = [record.getMessage() for record in caplog.records]
    assert "nobody's-model" in line
    assert "5 and 20 dollars per million tokens (prices.default)" in line


def test_made_up_names_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "KEPT", 4)
    known = Prices({"*": Rates(1.0, 1.0)}, FALLBACK)
    for number in range(50):
        known.rates(f"m{number}")
        assert len(known._known) <= 4


def test_made_up_names_cannot_fill_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prices, "_said", 0)
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            Prices({}, FALLBACK).rates(f"{number}" + "p" * 3000)

    assert len(caplog.records) == prices.SAID
    assert all("p" * 70 in line and "p" * 81 not in line for line in caplog.messages)
