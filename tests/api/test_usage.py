"""Usage as providers spell it: nothing is counted twice, nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from guardproxy.api._usage import LARGEST, merge, usage_of
from guardproxy.core.model import Usage
from tests.api.cases import objects


def chat(taken: int, given: int, /, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": taken, "completion_tokens": given, **more}


def messages(taken: int, given: int, /, **more: Any) -> dict[str, Any]:
    return {"input_tokens": taken, "output_tokens": given, **more}


CASES: dict[str, tuple[object, Usage | None]] = {
    "openai": (
        chat(
            100,
            20,
            total_tokens=120,
            prompt_tokens_details={"cached_tokens": 60},
            completion_tokens_details={"reasoning_tokens": 12},
        ),
        Usage(100, 20, 60, 0, 12),
    ),
    "openai, cache writes": (
        chat(100, 20, prompt_tokens_details={"cached_tokens": 60, "cache_write_tokens": 30}),
        Usage(100, 20, 60, 30),
    ),
    "openai, responses": (
        messages(
            100,
            20,
            input_tokens_details={"cached_tokens": 60},
            output_tokens_details={"reasoning_tokens": 12},
            total_tokens=120,
        ),
        Usage(100, 20, 60, 0, 12),
    ),
    # case 20 of gateways.md
    "anthropic": (messages(3, 550, cache_creation_input_tokens=12_304), Usage(12_307, 550, 0, 12_304)),
    "anthropic, read and written": (
        messages(
            3,
            550,
            cache_read_input_tokens=1000,
            cache_creation_input_tokens=500,
            cache_creation={"ephemeral_5m_input_tokens": 100, "ephemeral_1h_input_tokens": 400},
        ),
        Usage(1503, 550, 1000, 500, cache_write_1h=400),
    ),
    "anthropic, less read than new": (messages(1000, 5, cache_read_input_tokens=900), Usage(1900, 5, 900)),
    "anthropic's words, but the sum says inside": (
        messages(1000, 5, cache_read_input_tokens=900, total_tokens=1005),
        Usage(1000, 5, 900),
    ),
    "anthropic, thinking": (messages(3, 9, output_tokens_details={"thinking_tokens": 4}), Usage(3, 9, 0, 0, 4)),
    "anthropic, summarised on the way": (
        messages(
            23,
            10,
            cache_read_input_tokens=7,
            iterations=[
                messages(180, 35, type="compaction", cache_creation_input_tokens=5),
                messages(23, 10, type="message"),
                {"type": "compaction"},
                7,
            ],
        ),
        Usage(23 + 7 + 185, 45, 7, 5),
    ),
    "anthropic, advised": (
        messages(23, 10, iterations=[messages(100, 50, type="advisor_message", model="dear")]),
        Usage(123, 60, others=(("dear", Usage(100, 50)),)),
    ),
    "anthropic, searches": (messages(3, 9, server_tool_use={"web_search_requests": 4}), Usage(3, 9, searches=4)),
    "anthropic, no searches": (messages(3, 9, server_tool_use=None), Usage(3, 9)),
    "perplexity": (chat(3, 9, num_search_queries=5), Usage(3, 9, searches=5)),
    "anthropic, no steps": (messages(23, 10, iterations=None), Usage(23, 10)),
    "anthropic, last chunk": ({"output_tokens": 15}, Usage(0, 15)),
    "anthropic, zeros": (messages(0, 0, cache_read_input_tokens=0), Usage(0, 0)),
    "litellm, anthropic behind chat": (
        chat(
            12_307,
            550,
            total_tokens=12_857,
            cache_creation_input_tokens=12_304,
            cache_read_input_tokens=0,
            prompt_tokens_details={
                "cached_tokens": 0,
                "cache_creation_tokens": 12_304,
                "cache_creation_token_details": {"ephemeral_1h_input_tokens": 12_304},
            },
        ),
        Usage(12_307, 550, 0, 12_304, cache_write_1h=12_304),
    ),
    "a gateway that leaves anthropic's count": (
        chat(3, 550, cache_creation_input_tokens=12_304, cache_read_input_tokens=7),
        Usage(12_314, 550, 7, 12_304),
    ),
    "the sum says apart": (
        chat(1000, 50, total_tokens=1450, cache_read_input_tokens=400),
        Usage(1400, 50, 400),
    ),
    "the sum says inside": (chat(1000, 50, total_tokens=1050, cache_read_input_tokens=400), Usage(1000, 50, 400)),
    "no sum: inside, as openai": (chat(1000, 50, cache_read_input_tokens=400), Usage(1000, 50, 400)),
    "deepseek": (
        chat(100, 20, prompt_cache_hit_tokens=64, prompt_cache_miss_tokens=36, total_tokens=120),
        Usage(100, 20, 64),
    ),
    "moonshot": (chat(100, 20, cached_tokens=64), Usage(100, 20, 64)),
    "xai: reasoning apart": (
        chat(100, 9, total_tokens=409, completion_tokens_details={"reasoning_tokens": 300}),
        Usage(100, 309, 0, 0, 300),
    ),
    "gemini: reasoning apart, by the sum": (
        chat(100, 400, total_tokens=800, completion_tokens_details={"reasoning_tokens": 300}),
        Usage(100, 700, 0, 0, 300),
    ),
    "reasoning inside": (
        chat(100, 400, total_tokens=500, completion_tokens_details={"reasoning_tokens": 300}),
        Usage(100, 400, 0, 0, 300),
    ),
    "more of an hour than was written": (
        messages(3, 1, cache_creation_input_tokens=5, cache_creation={"ephemeral_1h_input_tokens": 9}),
        Usage(8, 1, 0, 5, cache_write_1h=5),
    ),
    "zeros": (chat(0, 0, total_tokens=0), Usage()),
    "said and drawn": (
        chat(
            100,
            40,
            prompt_tokens_details={"audio_tokens": 60, "image_tokens": 7, "text_tokens": 33},
            completion_tokens_details={"audio_tokens": 30, "image_tokens": 2, "text_tokens": 8},
        ),
        Usage(100, 40, audio=60, image=7, audio_output=30, image_output=2),
    ),
    "openai, words alone": (
        chat(
            100,
            40,
            prompt_tokens_details={"audio_tokens": 0, "cached_tokens": 10},
            completion_tokens_details={"audio_tokens": 0, "reasoning_tokens": 5},
        ),
        Usage(100, 40, 10, 0, 5, audio_output=0),
    ),
    "a transcription": (
        messages(14, 45, input_token_details={"text_tokens": 2, "audio_tokens": 12}),
        Usage(14, 45, audio=12),
    ),
    "only words are counted apart": (
        chat(9, 4, completion_tokens_details={"text_tokens": 4}),
        Usage(9, 4, audio_output=0, image_output=0),
    ),
    "of sound, but an embedding": (chat(9, 0, prompt_tokens_details={"audio_tokens": 9}), Usage(9, 0, audio=9)),
    "zeros of everything": (
        chat(0, 0, prompt_tokens_details={"audio_tokens": 0}, completion_tokens_details={"audio_tokens": 0}),
        Usage(),
    ),
    "nothing": ({"total_tokens": 9}, None),
    "garbage": (chat("9", -1), None),  # type: ignore[arg-type]
    "no object": ([1], None),
    "garbage inside": (
        chat(9, 1, prompt_tokens_details=[1], cache_creation=7, completion_tokens_details={"reasoning_tokens": "x"}),
        Usage(9, 1),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_usage(name: str) -> None:
    value, expected = CASES[name]
    assert usage_of(value) == expected


def test_running_totals_take_the_largest_of_each() -> None:
    first = usage_of(messages(3, 1, cache_read_input_tokens=40, cache_creation={"ephemeral_1h_input_tokens": 0}))
    last = usage_of({"output_tokens": 15, "cache_creation_input_tokens": 7, "input_tokens": 0})
    assert merge(first, last) == Usage(43, 15, 40, 7)
    assert merge(last, first) == merge(first, last)
    assert merge(None, last) == last
    assert merge(first, None) == first
    heard = usage_of(chat(9, 9, completion_tokens_details={"audio_tokens": 4}))
    assert merge(first, heard) == Usage(43, 9, 40, audio_output=4)


counts = st.one_of(st.integers(-5, LARGEST * 2), st.floats(), st.text(max_size=3), st.none(), st.booleans())
NAMES = sorted({key for value, _ in CASES.values() if isinstance(value, dict) for key in value})
INNER = [
    "cached_tokens",
    "cache_write_tokens",
    "cache_creation_tokens",
    "reasoning_tokens",
    "ephemeral_1h_input_tokens",
    "cache_creation_token_details",
    "audio_tokens",
    "image_tokens",
    "text_tokens",
]
details = st.dictionaries(st.sampled_from(INNER), counts | objects, max_size=4)


@given(st.dictionaries(st.sampled_from(NAMES), counts | details | objects))
def test_the_parts_are_never_more_than_the_whole(value: dict[str, object]) -> None:
    found = usage_of(value)
    if found is not None:
        assert 0 <= found.cached + found.cache_write <= found.input
        assert 0 <= found.reasoning <= found.output
        assert 0 <= found.cache_write_1h <= found.cache_write
