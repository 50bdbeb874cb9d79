"""Rates per model: the table, then the file, then the published ones, then the fallback; each model looked up once."""

from __future__ import annotations

import logging

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from guardproxy.core.pricing import Rates, times
from guardproxy.errors import BadAsk
from guardproxy.http import prices
from guardproxy.http.prices import Prices
from guardproxy.price_file import of
from tests.cheap import cheap

FALLBACK = Rates(5.0, 20.0, known=False)
TABLE = {"acme-*": Rates(1.0, 2.0), "acme-big": Rates(9.0, 9.0), "gpt-4o": Rates(0.0, 0.0)}
LISTED = of(
    {
        "acme-small": {"input_cost_per_token": 7e-6, "output_cost_per_token": 8e-6},
        "Gpt-4o-Mini": {"input_cost_per_token": 3e-6, "output_cost_per_token": 4e-6},
        "free": {"input_cost_per_token": 0, "output_cost_per_token": 0.0},
    }
)


@pytest.fixture(autouse=True)
def _nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prices, "_said", set())


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("acme-small", Rates(1.0, 2.0)),
        ("acme-big", Rates(1.0, 2.0)),  # the first pattern that fits, in the order of the file
        ("ACME-small", Rates(7.0, 8.0)),
        ("ACME-large", Rates(1.0, 2.0)),  # what else would a provider take it for
        ("gpt-4o", Rates(0.0, 0.0)),  # the configuration may say that it is free
        ("gpt-4o-mini", Rates(3.0, 4.0)),  # the price file before the published prices
        ("openai/gpt-4o-mini", Rates(3.0, 4.0)),
        ("free", Rates(0.0, 0.0)),
        ("a model of ours", FALLBACK),
        ("", FALLBACK),
        ("/", FALLBACK),
        ("x/gpt-4.1", FALLBACK),  # no provider that anybody knows
    ],
)
def test_rates(model: str, expected: Rates) -> None:
    assert Prices(TABLE, FALLBACK, LISTED).rates(model) == expected


@pytest.mark.parametrize(
    "model", ["gpt-4o-mini", "gpt-4o", "claude-sonnet-4-0", "openai/gpt-4o", "anthropic/claude-sonnet-4-0"]
)
def test_published(model: str) -> None:
    found = Prices({}, FALLBACK).rates(model)

    assert found.known
    assert 0 < found.cached < found.input < found.output < 100, "dollars per million tokens"


def test_published_prices_of_cache_writes_and_long_inputs() -> None:
    sonnet = Prices({}, FALLBACK).rates("claude-sonnet-4-5")
    assert (sonnet.cached, sonnet.input, sonnet.cache_write, sonnet.cache_write_1h) == (0.3, 3.0, 3.75, 6.0)
    (tier,) = sonnet.tiers
    assert tier.above == 200_000
    assert (tier.rates.input, tier.rates.output, tier.rates.cache_write_1h) == (6.0, 22.5, 12.0)
    three = Prices({}, FALLBACK, url="https://dashscope-intl.aliyuncs.com/x").rates("claude-sonnet-4-5")
    assert three == sonnet, "an address that nobody knows takes nothing away"


def test_published_prices_of_sound_pictures_and_requests() -> None:
    of = Prices({}, FALLBACK).rates
    speaks, hears, draws, asks = map(of, ("gpt-audio", "gemini-2.5-flash", "gpt-image-1.5", "perplexity/sonar"))
    assert (speaks.input, speaks.audio, speaks.output, speaks.audio_output) == (2.5, 32.0, 10.0, 64.0)
    assert (hears.input, hears.audio, hears.audio_output) == (0.3, 1.0, -1.0)
    assert (draws.image, draws.image_output) == (8.0, 32.0)
    assert asks.request == 12_000, "micro-dollars"
    known, claude = of("gpt-4.1"), of("claude-sonnet-4-5")
    assert (known.search, known.file_search, claude.search) == (10_000, 2500, 10_000)
    assert claude.tiers[0].rates.search == 10_000


def test_the_address_says_whose_price_it_is() -> None:
    model = "openai/gpt-oss-120b"
    there, here = (
        Prices({}, FALLBACK, url=url).rates(model)
        for url in ("https://openrouter.ai/api/v1", "https://api.groq.com/openai/v1")
    )
    assert there.known
    assert here.known
    assert there.output != here.output


def test_what_has_no_price_of_output_is_not_free() -> None:
    found = Prices({}, FALLBACK, url="https://api.openai.com/v1").rates("text-embedding-3-small")
    assert (found.known, found.input, found.output) == (True, 0.02, FALLBACK.output)


def test_a_price_that_changes_with_the_hour_is_looked_up_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, asked = [1000.0], []
    monkeypatch.setattr(prices, "monotonic", lambda: clock[0])
    monkeypatch.setattr(prices, "_published", lambda model, *_: asked.append(model) or Rates(1.0, 1.0))
    known = Prices({}, FALLBACK)
    for later in (0, 1, prices.KEPT_S - 2, 2, 1):
        clock[0] += later
        known.rates("m")
    assert asked == ["m", "m"]


UNKNOWN = {
    # what is logged, with which level, and whether the metric is counted
    "default": (logging.INFO, "5 and 20 dollars per million tokens (prices.default)", 0),
    "alert": (logging.WARNING, "5 and 20 dollars per million tokens (prices.default)", 3),
    "block": (logging.WARNING, "it is refused (prices.unknown)", 3),
}


@pytest.mark.parametrize("unknown", UNKNOWN)
def test_an_unknown_price_is_said_once(unknown: str, caplog: pytest.LogCaptureFixture) -> None:
    level, words, counted = UNKNOWN[unknown]
    alerts: list[str] = []
    caplog.set_level(logging.INFO, logger="guardproxy")
    for _ in range(3):  # a reload makes them anew
        known = Prices({}, FALLBACK, unknown=unknown, alert=alerts.append)
        if unknown == "block":
            with pytest.raises(BadAsk) as caught:
                known.rates("nobody's-model")
            assert (caught.value.status, caught.value.code, caught.value.param) == (400, "unknown_price", "model")
            assert "nobody's-model" in caught.value.message
        else:
            assert known.rates("nobody's-model") == FALLBACK

    (line,) = caplog.records
    assert line.levelno == level
    assert "nobody's-model" in line.getMessage()
    assert words in line.getMessage()
    assert alerts == ["nobody's-model"] * counted


def test_who_asks_to_be_served_first_pays_for_it() -> None:
    entry = {"input_cost_per_token": 3e-6, "output_cost_per_token": 4e-6}
    dear = {**entry, "input_cost_per_token_priority": 6e-6, "input_cost_per_token_flex": 1e-6}
    known = Prices(TABLE, FALLBACK, of({"m": dear, "n": entry}))
    asked: list[object] = [None, "priority", "flex", "default", ["priority"], "priority"]
    assert [known.rates("m", service).input for service in asked] == [3.0, 6.0, 3.0, 3.0, 3.0, 6.0]
    assert [known.rates(model, "priority").input for model in ("n", "acme-x", "")] == [3.0, 1.0, 5.0]


def test_who_asks_for_what_has_no_price_of_its_own_pays_the_most() -> None:
    """A tenant's own word makes a call some times as dear: a budget that counted it plainly would be overspent."""
    known = Prices(TABLE, FALLBACK, LISTED)
    assert [known.rates("gpt-4.1", way).output for way in (None, "priority", "fast")] == [8.0, 20.0, 48.0]
    assert [known.rates("acme-small", way).output for way in (None, "priority", "fast")] == [2.0] * 3, "as was written"
    assert [known.rates("gpt-4o-mini", way).output for way in (None, "priority", "fast")] == [4.0, 4.0, 24.0]
    assert [known.rates("nobody's", way) for way in ("priority", "fast")] == [FALLBACK] * 2
    plain, fast = (known.rates("claude-sonnet-4-5", way) for way in ("", "fast"))
    assert fast == times(plain, 6.0)
    assert (fast.cached, fast.tiers[0].rates.output) == (plain.cached * 6, plain.tiers[0].rates.output * 6)


def test_block_knows_what_has_a_price() -> None:
    known = Prices(TABLE, FALLBACK, LISTED, unknown="block")
    assert [known.rates(model).known for model in ("acme-x", "free", "gpt-4.1", "gpt-4o")] == [True] * 4


def test_made_up_names_cannot_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prices, "KEPT", 4)
    known = Prices({"*": Rates(1.0, 1.0)}, FALLBACK)
    for number in range(50):
        known.rates(f"m{number}")
        assert len(known._known) <= 4


def test_a_huge_name_costs_no_more_than_others() -> None:
    known = Prices({"ac*": Rates(1.0, 1.0)}, FALLBACK)
    with cheap(1):  # searched whole, each of them takes seconds
        for number in range(3):
            assert known.rates("gpt-4o" * 10**6 + str(number)) == FALLBACK
    assert max(map(len, known._known)) <= prices.LONGEST
    assert known.rates("ac" * 10**6) == Rates(1.0, 1.0)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text() | st.from_regex(r"[a-z0-9/@:.*\[\]-]{1,40}", fullmatch=True))
def test_any_name_has_a_price(model: str) -> None:
    assert ANY.rates(model).output >= 0
    assert ANY.rates(model, "priority").output >= ANY.rates(model).output


ANY = Prices({}, FALLBACK, url="https://openrouter.ai/api/v1")


def test_made_up_names_cannot_fill_the_log(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Prices, "_said", set())
    with caplog.at_level(logging.WARNING):
        for number in range(50):
            Prices({}, FALLBACK).rates(f"{number}" + "p" * 3000)

    assert len(caplog.records) == prices.SAID
    assert all("p" * 70 in line and "p" * 81 not in line for line in caplog.messages)
