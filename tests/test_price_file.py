"""Prices in LiteLLM's format: what is read, what is left out, what is named as wrong."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from guardproxy import price_file
from guardproxy.core.model import Usage
from guardproxy.core.pricing import Rates, Tier, cost
from guardproxy.errors import ConfigError

BOTH = {"input_cost_per_token": 3e-6, "output_cost_per_token": 1.5e-5}
SPEC = {
    "input_cost_per_token": 0.0,
    "output_cost_per_token": 0.0,
    "mode": "one of: chat, embedding, completion",
    "max_input_tokens": "max input tokens, if the provider specifies it",
}

ENTRIES: dict[str, tuple[dict[str, Any], Rates | None]] = {
    "plain": (BOTH, Rates(3.0, 15.0)),
    "all kinds": (
        {
            **BOTH,
            "litellm_provider": "anthropic",
            "mode": "chat",
            "cache_read_input_token_cost": 3e-7,
            "cache_creation_input_token_cost": 3.75e-6,
            "cache_creation_input_token_cost_above_1hr": 6e-6,
            "output_cost_per_reasoning_token": 2e-5,
            "input_cost_per_token_batches": 1e-6,
            "input_cost_per_token_priority": 9e-6,
            "search_context_cost_per_query": {"search_context_size_high": 0.01},
            "supports_vision": True,
        },
        Rates(3.0, 15.0, 0.3, 3.75, cache_write_1h=6.0, reasoning=20.0, search=10_000.0),
    ),
    "tiers by name": (
        {
            **BOTH,
            "cache_read_input_token_cost": 3e-7,
            "cache_creation_input_token_cost": 3.75e-6,
            "cache_creation_input_token_cost_above_1hr": 6e-6,
            "output_cost_per_reasoning_token": 2e-5,
            "output_cost_per_token_above_272k_tokens": 4e-5,
            "input_cost_per_token_above_200k_tokens": 6e-6,
            "output_cost_per_token_above_200k_tokens": 2.25e-5,
            "cache_creation_input_token_cost_above_1hr_above_200k_tokens": 1.2e-5,
            "input_cost_per_token_above_200k_tokens_priority": 9e-6,
            "input_cost_per_audio_token_above_200k_tokens": 9e-6,
            "input_cost_per_video_per_second_above_15s_interval": 0.001,
            "cache_read_input_token_cost_above_200k_tokens": None,
        },
        Rates(
            3.0,
            15.0,
            0.3,
            3.75,
            cache_write_1h=6.0,
            reasoning=20.0,
            tiers=(
                Tier(272_000, Rates(6.0, 40.0, 0.3, 3.75, cache_write_1h=12.0, audio=9.0)),
                Tier(200_000, Rates(6.0, 22.5, 0.3, 3.75, cache_write_1h=12.0, audio=9.0)),
            ),
        ),
    ),
    "sound, pictures and each request": (
        {
            **BOTH,
            "input_cost_per_audio_token": 3.2e-5,
            "output_cost_per_audio_token": 6.4e-5,
            "input_cost_per_image_token": 8e-6,
            "output_cost_per_image_token": 3.2e-5,
            "input_cost_per_request": 0.012,
            "search_context_cost_per_query": {"search_context_size_low": 0.005, "search_context_size_high": 0.014},
            "file_search_cost_per_1k_calls": 2.5,
        },
        Rates(
            3.0,
            15.0,
            audio=32.0,
            audio_output=64.0,
            image=8.0,
            image_output=32.0,
            request=12_000.0,
            search=14_000.0,
            file_search=2500.0,
        ),
    ),
    "searches of no price": ({**BOTH, "search_context_cost_per_query": {}}, Rates(3.0, 15.0)),
    "sold by the request alone": ({"mode": "chat", "input_cost_per_request": 0.012}, None),
    "a tier that begins at its number": (
        {**BOTH, "litellm_provider": "xai", "input_cost_per_token_above_128k_tokens": 6e-6},
        Rates(3.0, 15.0, tiers=(Tier(127_999, Rates(6.0, 15.0)),)),
    ),
    "a tier in tokens": (
        {**BOTH, "input_cost_per_token_above_128_tokens": 6e-6},
        Rates(3.0, 15.0, tiers=(Tier(128, Rates(6.0, 15.0)),)),
    ),
    "tiers as a list": (
        {
            "mode": "chat",
            "tiered_pricing": [
                {"input_cost_per_token": 1.2e-6, "output_cost_per_token": 3.6e-6, "range": [256000.0, 1000000.0]},
                {
                    "input_cost_per_token": 4e-7,
                    "output_cost_per_token": 1.2e-6,
                    "output_cost_per_reasoning_token": 4e-6,
                    "cache_read_input_token_cost": 1e-7,
                    "range": [0, 256000.0],
                },
            ],
        },
        Rates(0.4, 1.2, 0.1, reasoning=4.0, tiers=(Tier(256_000, Rates(1.2, 3.6)),)),
    ),
    "free on purpose": ({"input_cost_per_token": 0, "output_cost_per_token": 0.0}, Rates(0.0, 0.0)),
    "a text, as YAML makes of 3e-06": (
        {"input_cost_per_token": "3e-06", "output_cost_per_token": "0.000015"},
        Rates(3.0, 15.0),
    ),
    "an embedding": ({"mode": "embedding", "input_cost_per_token": 2e-8}, Rates(0.02, 0.0)),
    "sold by the image": ({"mode": "image_generation", "output_cost_per_image": 0.04}, None),
    "an image model with half a price": ({"mode": "image_generation", "input_cost_per_token": 5e-6}, None),
    "sold by the query": (
        {"mode": "search", "tiered_pricing": [{"input_cost_per_query": 0.005, "max_results_range": [0, 25]}]},
        None,
    ),
    "only limits": ({"mode": "chat", "max_tokens": 4096}, None),
}


@pytest.mark.parametrize("name", ENTRIES)
def test_an_entry(name: str) -> None:
    entry, expected = ENTRIES[name]
    found = price_file.of({"sample_spec": SPEC, "Acme/Model-1": entry})

    assert found.wrong == ()
    assert found.rates == ({} if expected is None else {"acme/model-1": expected})


PRIORITY: dict[str, tuple[dict[str, Any], Rates | None]] = {
    "none": (BOTH, None),
    "some of it": ({**BOTH, "input_cost_per_token_priority": 6e-6}, Rates(6.0, 15.0)),
    "all of it": (
        {
            **BOTH,
            "cache_read_input_token_cost": 3e-7,
            "cache_creation_input_token_cost_above_1hr": 6e-6,
            "cache_read_input_token_cost_priority": 6e-7,
            "input_cost_per_token_priority": 6e-6,
            "output_cost_per_token_priority": 3e-5,
            "input_cost_per_token_above_200k_tokens": 5e-6,
            "input_cost_per_token_above_272k_tokens_priority": 1.2e-5,
            "input_cost_per_token_flex": 1e-6,
        },
        Rates(6.0, 30.0, 0.6, cache_write_1h=6.0, tiers=(Tier(272_000, Rates(12.0, 30.0, 0.6, cache_write_1h=6.0)),)),
    ),
}


@pytest.mark.parametrize("name", PRIORITY)
def test_who_asks_to_be_served_first(name: str) -> None:
    entry, expected = PRIORITY[name]
    listed = price_file.of({"m": entry})

    assert listed.wrong == ()
    assert listed.priority == ({"m": expected} if expected else {})
    assert listed.find("acme/m", first=True) == (expected or listed.find("m"))


WRONG: dict[str, tuple[object, str]] = {
    "no mapping": ([1], "is no mapping of prices"),
    "half a price": ({"input_cost_per_token": 1e-6}, "has no output_cost_per_token"),
    "the other half": ({"mode": "chat", "output_cost_per_token": 1e-6}, "has no input_cost_per_token"),
    "below nothing": ({**BOTH, "input_cost_per_token": -1e-6}, "input_cost_per_token is -1e-06 dollars per token"),
    "dollars per million": ({**BOTH, "output_cost_per_token": 15}, "output_cost_per_token is 15 dollars per token"),
    "no number": ({**BOTH, "cache_read_input_token_cost": "cheap"}, "cache_read_input_token_cost is no number"),
    "a flag": ({**BOTH, "input_cost_per_token": True}, "input_cost_per_token is no number"),
    "a list": ({**BOTH, "input_cost_per_token": [3e-6]}, "input_cost_per_token is no number"),
    "infinite": ({**BOTH, "input_cost_per_token": "inf"}, "input_cost_per_token is no number"),
    "a bad price of priority": (
        {**BOTH, "input_cost_per_token_priority": -1},
        "of its prices for priority input_cost_per_token is -1 dollars per token",
    ),
    "a bad tier": (
        {**BOTH, "input_cost_per_token_above_200k_tokens": "x"},
        "input_cost_per_token_above_200k_tokens is no number",
    ),
    "tiers that are no list": ({**BOTH, "tiered_pricing": {"range": [0]}}, "tiered_pricing is no list of prices"),
    "a tier without a range": (
        {"tiered_pricing": [BOTH]},
        "tiered_pricing has a range that begins with no number",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_bad_entry_is_named_and_costs_nobody_else_anything(name: str) -> None:
    entry, words = WRONG[name]
    found = price_file.of({"good": BOTH, "bad\nmodel": entry, "better": BOTH})

    assert list(found.rates) == ["good", "better"]
    assert found.wrong == (f"'bad\\nmodel': {words}",)
    assert found.complaints() == [f"prices.file: the entry 'bad\\nmodel': {words}; it is not used"]


def test_many_bad_entries_are_counted() -> None:
    found = price_file.of({f"m{number}": 7 for number in range(price_file.NAMED + 5)})
    *named, last = found.complaints()
    assert len(named) == price_file.NAMED
    assert last == "prices.file: and 5 more entries that cannot be used"


NAMES = {"gpt-4o": 1.0, "azure/gpt-4o": 2.0, "openrouter/acme/big": 3.0}
FOUND = {
    "gpt-4o": 1.0,
    "GPT-4o": 1.0,
    "azure/gpt-4o": 2.0,
    "openai/gpt-4o": 1.0,
    "a/b/gpt-4o": 1.0,
    "openrouter/acme/big": 3.0,
    "acme/big": None,  # whose price that is depends on who sells it
    "big": None,
    "": None,
    "/": None,
}


@pytest.mark.parametrize("model", FOUND)
def test_names(model: str) -> None:
    listed = price_file.of(
        {name: {"input_cost_per_token": price / 1e6, "output_cost_per_token": 0} for name, price in NAMES.items()}
    )
    found = listed.find(model)
    assert (found.input if found else None) == FOUND[model]


plain = st.none() | st.booleans() | st.integers() | st.floats() | st.floats(0, 1e-4) | st.text(max_size=5)
values = plain | st.lists(plain, max_size=2) | st.dictionaries(st.text(max_size=5), plain, max_size=2)
KEYS = [*price_file.FIELDS, "mode", "tiered_pricing", "range", "input_cost_per_token_above_200k_tokens"]
steps = st.lists(st.dictionaries(st.sampled_from(KEYS), values, max_size=3), max_size=2)
entries = st.dictionaries(st.sampled_from(KEYS), values | steps, max_size=6)


@given(st.dictionaries(st.text(max_size=4), entries | values, max_size=2))
def test_nothing_in_a_file_is_a_traceback_or_a_price_below_zero(document: dict[str, Any]) -> None:
    found = price_file.of(document)
    for rates in found.rates.values():
        for length in (0, 10**6):
            assert cost(rates, Usage(length, 100, length // 2, length // 3, 50, cache_write_1h=7)) >= 0


def write(path: Path, text: str) -> str:
    path.write_text(text)
    return str(path)


BAD_FILES = {"no JSON": "{", "a list": "[]", "not UTF-8": "\xff"}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_cannot_be_used_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_bytes(BAD_FILES[name].encode("latin-1"))
    with pytest.raises(ConfigError) as caught:
        price_file.read(str(path))
    assert caught.value.message.startswith(f"prices.file: cannot read {path}: ")
    assert caught.value.param == "prices.file"


def test_a_missing_or_huge_file_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="No such file"):
        price_file.read(str(tmp_path / "none.json"))
    with pytest.raises(ConfigError, match="Is a directory"):
        price_file.read(str(tmp_path))
    monkeypatch.setattr(price_file, "LARGEST", 4)
    with pytest.raises(ConfigError, match="more than 4 bytes"):
        price_file.read(write(tmp_path / "prices.json", json.dumps({"m": BOTH})))


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    first = price_file.read(write(path, json.dumps({"m": BOTH})))
    assert price_file.read(str(path)) is first
    write(path, json.dumps({"m": BOTH, "n": BOTH}))
    os.utime(path, ns=(1, 1))
    assert list(price_file.read(str(path)).rates) == ["m", "n"]


def test_a_file_that_can_be_read_once_is_refused() -> None:
    """Each worker reads it."""
    with pytest.raises(ConfigError, match="/dev/null is a device, no regular file") as refused:
        price_file.read("/dev/null")
    assert refused.value.param == "prices.file"
