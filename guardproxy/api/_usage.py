"""Token usage as providers spell it -> Usage. Shared by all surfaces. Never raises.

`input` includes cached tokens and cache writes, `output` includes reasoning (OpenAI's meaning). Who counts them apart
is known by the spelling (Anthropic's `input_tokens` beside `cache_read_input_tokens`) or by the sums: a part larger
than its whole was counted apart, and so was one without which `total_tokens` does not fit. Nothing is counted
twice, nothing is lost. Running totals come in several chunks: `merge` takes the largest of each field, never the sum.
Explicit zeros are zeros; an object that says nothing is no usage.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from guardproxy.core.model import Usage

MOST = 32
"""Steps of other models whose price is looked up."""

LARGEST = 2**48
"""Above this a token count is garbage, and would not fit the store's arithmetic."""

_READ = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")  # DeepSeek; Anthropic; Moonshot
_INSIDE = ("prompt_tokens_details", "input_tokens_details", "input_token_details")  # the last: transcriptions
_WRITTEN = ("cache_write_tokens", "cache_creation_tokens")  # OpenAI, OpenRouter; LiteLLM
_WRITTEN_SET = frozenset(_WRITTEN)
_LONG = "ephemeral_1h_input_tokens"
_STEPS, _BESIDE = "iterations", ("compaction", "advisor_message")
_NOTHING: Mapping[str, object] = {}
_NO_MEDIA: Mapping[str, Any] = {}


def usage_of(value: object) -> Usage | None:
    """The usage object of an answer or chunk; None where it holds no count."""
    found = _counted(value) if isinstance(value, dict) else None
    if found is not None and (searches := _searches(value)):  # type: ignore[arg-type]
        found = replace(found, searches=searches)
    if found is not None and _STEPS in value:  # type: ignore[operator]  # nothing is found of what is none
        found = _with_steps(found, value[_STEPS])  # type: ignore[index]
    return found


def given_of(value: object) -> Usage | None:
    """As `usage_of`, where it may be that no model speaks (embeddings, rankings): no more than a total is all input, as
    Voyage says it.
    """
    found = usage_of(value)
    if found is None and isinstance(value, dict) and (total := _count(value, "total_tokens")) is not None:
        found = Usage(total)
    return found


def _searches(value: Mapping[str, object]) -> int:
    """Searches in the web: Anthropic's place for them, and Perplexity's."""
    tools = value.get("server_tool_use")
    told = _count(tools, "web_search_requests") if isinstance(tools, dict) else _count(value, "num_search_queries")
    return told or 0


def _with_steps(usage: Usage, steps: object) -> Usage:
    """The usage with that of steps which Anthropic counts beside it: it has summarised the conversation, or asked
    another model for advice.
    """
    for step in steps if isinstance(steps, list) else ():
        one = _counted(step) if isinstance(step, dict) and step.get("type") in _BESIDE else None
        if one is None:
            continue
        model = step.get("model")
        others = ((model, one),) if isinstance(model, str) and model else ()
        usage = replace(
            usage,
            input=usage.input + one.input,
            output=usage.output + one.output,
            cached=usage.cached + one.cached,
            cache_write=usage.cache_write + one.cache_write,
            cache_write_1h=usage.cache_write_1h + one.cache_write_1h,
            others=(*usage.others, *others)[:MOST],
        )
    return usage


def _counted(value: Mapping[str, object]) -> Usage | None:
    taken = _count(value, "prompt_tokens", "input_tokens")
    given = _count(value, "completion_tokens", "output_tokens")
    if taken is None and given is None:
        return None
    taken, given = taken or 0, given or 0
    inside = _details(value, *_INSIDE)
    thought = _details(value, "completion_tokens_details", "output_tokens_details")
    cached = (inside and _count(inside, "cached_tokens")) or _count(value, *_READ) or 0
    written = 0  # a look at the keys of a small object is a quarter of asking it for each
    if "cache_creation_input_tokens" in value or not _WRITTEN_SET.isdisjoint(inside):
        written = _count(value, "cache_creation_input_tokens") or (inside and _count(inside, *_WRITTEN)) or 0
    reasoning = (thought and _count(thought, "reasoning_tokens", "thinking_tokens")) or 0
    media = _media(inside, thought) if (inside or thought) and (taken or given) else _NO_MEDIA
    if not (cached or written or reasoning):
        return Usage(taken, given, **media) if media else Usage(taken, given)
    total, beside = _count(value, "total_tokens") or 0, cached + written
    if beside and (beside > taken or total == taken + beside + given or (_anthropic(value) and total != taken + given)):
        taken += beside
    if reasoning and (reasoning > given or total == taken + given + reasoning):  # xAI's, and Gemini's as OpenAI's
        given += reasoning
    long = min(_long(value, inside), written) if written else 0
    return Usage(taken, given, cached, written, reasoning, cache_write_1h=long, **media)


def merge(old: Usage | None, new: Usage | None) -> Usage | None:
    """The larger of each field."""
    if old is None or new is None:
        return new if old is None else old
    return Usage(
        input=max(old.input, new.input),
        output=max(old.output, new.output),
        cached=max(old.cached, new.cached),
        cache_write=max(old.cache_write, new.cache_write),
        reasoning=max(old.reasoning, new.reasoning),
        cache_write_1h=max(old.cache_write_1h, new.cache_write_1h),
        audio=max(old.audio, new.audio),
        image=max(old.image, new.image),
        audio_output=max(old.audio_output, new.audio_output),
        image_output=max(old.image_output, new.image_output),
        others=max(old.others, new.others, key=len),
        searches=max(old.searches, new.searches),
        file_searches=max(old.file_searches, new.file_searches),
    )


def _anthropic(value: Mapping[str, object]) -> bool:
    """Whether the input was counted without what was read from and written to the cache."""
    return not ("prompt_tokens" in value or "prompt_tokens_details" in value or "input_tokens_details" in value)


def _long(value: Mapping[str, object], inside: Mapping[str, object]) -> int:
    """Tokens written to the cache for an hour: Anthropic's place for them, and LiteLLM's."""
    found = value.get("cache_creation") or inside.get("cache_creation_token_details")
    return (_count(found, _LONG) or 0) if isinstance(found, dict) else 0


def _media(inside: Mapping[str, object], thought: Mapping[str, object]) -> Mapping[str, Any]:
    """Tokens of sound and of pictures, by their field; of an output whose words are counted the others are none."""
    found = {}
    if inside:
        for key, name in (("audio_tokens", "audio"), ("image_tokens", "image")):
            if number := _count(inside, key):
                found[name] = number
    if thought:
        none = 0 if "text_tokens" in thought else None
        for key, name in (("audio_tokens", "audio_output"), ("image_tokens", "image_output")):
            number = _count(thought, key)
            if (number := none if number is None else number) is not None:
                found[name] = number
    return found


def _details(value: Mapping[str, object], *names: str) -> Mapping[str, object]:
    for name in names:
        details = value.get(name)
        if details and isinstance(details, dict):
            return details
    return _NOTHING


def _count(value: Mapping[str, object], *keys: str) -> int | None:
    for key in keys:
        number = value.get(key)
        if type(number) is int:
            if 0 <= number <= LARGEST:
                return number
        elif isinstance(number, float) and 0 <= number <= LARGEST:
            return int(number)
    return None
