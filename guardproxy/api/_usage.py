"""Token usage as providers spell it -> Usage. Shared by all surfaces. Never raises.

`input` includes cached tokens (OpenAI's meaning). Running totals come in several chunks: `merge` takes the largest of
each field, never the sum. Explicit zeros are zeros; an object that says nothing is no usage.
"""

from __future__ import annotations

from collections.abc import Mapping

from guardproxy.core.model import Usage

LARGEST = 2**48
"""Above this a token count is garbage, and would not fit the store's arithmetic."""


def usage_of(value: object) -> Usage | None:
    """The usage object of an answer or chunk; None where it holds no count."""
    if not isinstance(value, dict):
        return None
    taken = _count(value, "prompt_tokens", "input_tokens")
    given = _count(value, "completion_tokens", "output_tokens")
    if taken is None and given is None:
        return None
    return Usage(
        input=taken or 0,
        output=given or 0,
        cached=_cached(value),
        cache_write=_count(value, "cache_creation_input_tokens") or 0,
        reasoning=_inner(value, ("completion_tokens_details", "output_tokens_details"), "reasoning_tokens"),
    )


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
    )


def _cached(value: Mapping[str, object]) -> int:
    inner = _inner(value, ("prompt_tokens_details", "input_tokens_details"), "cached_tokens")
    return inner or _count(value, "prompt_cache_hit_tokens", "cache_read_input_tokens") or 0  # DeepSeek; LiteLLM


def _inner(value: Mapping[str, object], names: tuple[str, ...], key: str) -> int:
    for name in names:
        details = value.get(name)
        if isinstance(details, dict):
            return _count(details, key) or 0
    return 0


def _count(value: Mapping[str, object], *keys: str) -> int | None:
    for key in keys:
        number = value.get(key)
        if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= LARGEST:
            return int(number)
    return None
