"""What every surface reads of a request's fields, and how it says what is wrong with them. Shared by all surfaces."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType

from guardproxy.api import _splice
from guardproxy.api._json import peek
from guardproxy.errors import BadAsk

IN_PATH = "x-guardproxy-path-model"
"""The header in which `http` notes the model that a path names (Azure's deployments); no client's gets that far."""


def objects(parsed: Mapping[str, object], key: str) -> list[dict[str, object]]:
    """The list of objects that must be there, with one at least."""
    found = parsed.get(key)
    if found is None:
        raise BadAsk(f"`{key}` is missing.", code="missing_required_parameter", param=key)
    if not isinstance(found, list):
        raise wrong(key, "a list")
    if not found:
        raise BadAsk(f"`{key}` must hold at least one message.", code="invalid_value", param=key)
    if set(map(type, found)) != {dict}:
        index = next(index for index, one in enumerate(found) if not isinstance(one, dict))
        raise wrong(f"{key}[{index}]", "an object")
    return found


NO_HEADERS: Mapping[str, str] = MappingProxyType({})


def model_of(parsed: Mapping[str, object], headers: Mapping[str, str] = NO_HEADERS) -> str:
    """The model, which must be named: in the path (`IN_PATH`), then the provider takes no other, else in the body."""
    if named := headers.get(IN_PATH):
        return named
    model = parsed.get("model")
    if model is None or model == "":
        raise BadAsk("`model` is missing.", code="missing_required_parameter", param="model")
    if not isinstance(model, str):
        raise wrong("model", "a string")
    return model


def one_model(body: bytes, model: str = "") -> None:
    """Refuse a body that names more models than one, however it spells that: providers differ in which one they take
    (the first, the last; some look at no capital letters; some fall back on a list), and what a key may ask for, and
    what that costs, is of one. `model`: as it was read.
    """
    if "," in model:
        told = "`model` is a list of models; with a key a request is for one, which is allowed and priced"
        raise BadAsk(told, code="unsupported_value", param="model")
    keys = _KEYS.findall(body)
    if (
        len(keys) < TWICE
        and (not keys or keys[0].lower() == b'"model"')
        and not (b"\\u" in body and _ESCAPED.search(body))
        and (body.isascii() or not any(sign in body for sign in _FOLDED))
    ):
        return  # nearly always
    try:
        text = _splice.mask(body)
        found = [*_splice.pairs(text, _splice.root(text))]
    except (ValueError, IndexError):
        return  # a body that only forgiving readers take: what it is has been read by one
    if [name.casefold() for name, _ in found].count("model") >= TWICE:
        raise BadAsk("`model` is given twice; which one holds is not plain.", code="invalid_json", param="model")
    for name, (start, end) in found:
        if names_more(name) or (name.casefold() == SPREAD and _spreads(peek(body[start:end]))):
            told = f"`{name[:80]}` names further models; with a key a request is for one, which is allowed and priced"
            raise BadAsk(told, code="unsupported_value", param=name[:80])


def names_more(key: str) -> bool:
    """Whether a key of a body is one under which gateways take further models: OpenRouter's, LiteLLM's."""
    return (low := key.casefold()) in FURTHER or low.endswith(FALLBACKS)


def said_twice(body: bytes, keys: Sequence[str]) -> str:
    """The first of these keys that a body says more often than once, however it spells it: "" = none of them."""
    low = body.lower()
    if (
        all(low.count(f'"{key}"'.encode()) < TWICE for key in keys)
        and not (b"\\u" in low and _ANY.search(low))
        and (body.isascii() or not any(sign in body for sign in _FOLDED))
    ):
        return ""
    try:
        text = _splice.mask(body)
        names = [key.casefold() for key, _ in _splice.pairs(text, _splice.root(text))]
    except (ValueError, IndexError):
        return ""
    return next((key for key in keys if names.count(key) >= TWICE), "")


def _spreads(inner: object) -> bool:
    return isinstance(inner, dict) and any(key.casefold() == "model" or names_more(key) for key in inner)


def served(parsed: Mapping[str, object]) -> str:
    """How a request asks to be served: Anthropic's `speed`, OpenAI's `service_tier`, of which two are the same tier."""
    if parsed.get("speed") == "fast":
        return "fast"
    tier = parsed.get("service_tier")
    return "priority" if tier == "fast" else tier if isinstance(tier, str) else ""


def of_tools(parsed: Mapping[str, object]) -> Iterator[str]:
    """The models that tools of the provider's own are to work with (one that draws, one that advises)."""
    tools = parsed.get("tools")
    for tool in tools if isinstance(tools, list) else ():
        model = tool.get("model") if isinstance(tool, dict) else None
        if isinstance(model, str) and model:
            yield model


FURTHER = frozenset(("models", "deployment_id"))
"""Keys under which gateways take models: OpenRouter's list, and LiteLLM's, which goes before the model."""

FALLBACKS = "fallbacks"
"""Ends the keys of what to fall back on: LiteLLM has several (`context_window_fallbacks`)."""

SPREAD = "extra_body"
"""A key whose object LiteLLM spreads over the body that it sends."""

TWICE = 2
"""Times that a key must not be said."""

_KEYS = re.compile(
    rb'"(?i:model|models|fallbacks|context_window_fallbacks|content_policy_fallbacks|default_fallbacks|deployment_id'
    rb'|extra_body)"'
)
"""Keys that are looked at then. One expression that begins with a plain sign takes a third of the time of a search for
each in a copy in small letters.
"""

_ESCAPED = re.compile(rb'"[a-zA-Z_\xc5\xbf\xe2\x84\xaa]{0,99}+\\u(?:00[4-7][0-9a-fA-F]|017[fF]|212[aA])')
"""The beginning of a key with a letter as its number, to the first of those; what has one is looked at then."""

_FOLDED = ("\u017f".encode(), "\u212a".encode())
"""Signs that are an s and a k to whoever looks at no capital letters: Go's reader does."""

_ANY = re.compile(rb'\\u(?:00[4-7][0-9a-f]|017f|212a)[a-z\\0-9_]{0,150}"[ \t\r\n]{0,64}:')
"""What may be a key with any of its letters as its number; bounded, so linear."""


def boolean(parsed: Mapping[str, object], key: str) -> bool:
    """True or false; what is absent or null is false."""
    value = parsed.get(key)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise wrong(key, "true or false")


def count(parsed: Mapping[str, object], key: str) -> int | None:
    """A positive integer; what is absent, null or not above zero (llama.cpp: -1 = no limit) is None."""
    value = parsed.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or value != value // 1:
        raise wrong(key, "an integer")
    return int(value) if value > 0 else None


def usage_wish(parsed: Mapping[str, object]) -> tuple[bool, bool]:
    """(the client asked for stream usage, we may ask in its place). An explicit false is respected,
    but where budgets need to know (`http.room`).
    """
    options = parsed.get("stream_options")
    if options is None:
        return False, True
    if not isinstance(options, dict):
        return False, False
    wish = options.get("include_usage")
    return wish is True, wish is None


def wrong(param: str, kind: str) -> BadAsk:
    """A field is of the wrong kind."""
    return BadAsk(f"`{param}` must be {kind}.", code="invalid_type", param=param)
