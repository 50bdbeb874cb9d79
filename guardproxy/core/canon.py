"""What a call asks for, in three strengths: exactly, but for cosmetics, but for numbers.

Exactly: keys sorted, nulls dropped, numbers in one form. Near: case, punctuation and white space of short prose, the
order of plain lists, a leading `./`, and keys that only explain the call do not count. Masked: digits do not count
either, apart from the keys that page. Reasons per rule: `loop-detectors.md` section 5 (deer-flow#5486, hermes#1824 for
paging keys, Roo-Code#5879 for nested lists).
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from guardproxy.core.alike import one_path, shaped, without_defaults
from guardproxy.core.mask import composed, unseen
from guardproxy.core.tools import Tool

PROSE = 400
"""Longer strings are compared as they are: they are documents or code."""

PAGING = frozenset(
    "offset limit page cursor page_token start end start_line end_line startline endline skip after before from to "
    "line view_range first_line last_line page_size num".split()
)
"""Keys whose numbers say which part is asked for; they are never masked."""

COSMETIC = frozenset("description explanation reason reasoning thought thoughts brief timeout security_risk".split())
"""Keys that explain a call and do not change what it does, dropped where another key remains."""

_CODE = re.compile(r"[/\\{}=|$`*~^@\n0-9_()<>;]")
NOTHING: Mapping[str, object] = MappingProxyType({})
_WORDS = re.compile(r"[^\W_]+")
_SCALARS = frozenset((str, int, float, bool))
_made = tuple.__new__
"""Makes a named tuple of all its fields at half the price."""


class Canon(NamedTuple):
    """A call's arguments as texts; `near is exact` and `masked is near` where nothing differs.

    `valid`: they were a JSON object.
    """

    exact: str
    near: str
    masked: str | bytes
    valid: bool


def canonical(arguments: str, tool: Tool, defaults: Mapping[str, object] = NOTHING) -> Canon:
    """Canonical texts of arguments. What is not a JSON object is compared as it stands and marked invalid.

    `defaults` are those of the tool's schema in the request. They do not change the exact form, which must be the same
    where the request is not known.
    """
    try:
        value = _value(arguments if arguments[:1] == "{" else arguments.strip() or "{}")
        if isinstance(value, dict):
            if "null" in arguments:
                value = {k: _kept(v) for k, v in value.items() if v is not None}
            return _object(shaped(value, tool) if tool.shaped else value, defaults)
    except (RecursionError, OverflowError, ValueError):
        pass
    return Canon(arguments, arguments, arguments, valid=False)


def _object(kept: dict[str, object], defaults: Mapping[str, object]) -> Canon:
    core = without_defaults(kept, defaults) if defaults else kept
    if not COSMETIC.isdisjoint(core):
        core = {k: v for k, v in core.items() if k not in COSMETIC} or core
    plain: dict[str, object] = {}
    same, paging, flat = core is kept, False, True
    for key, item in core.items():
        made = item
        if key in PAGING:
            paging = True
            flat = flat and type(item) in _SCALARS
        elif isinstance(item, str):
            if len(item) <= PROSE:
                made = _words(item)
                same = same and made == item
        elif type(item) not in _SCALARS:
            flat = False
            made = _near(item, key)
            same = same and made == item
        plain[key] = made
    exact = repr(sorted(kept.items()) if len(kept) > 1 else [*kept.items()]) if flat and core is kept else _encode(kept)
    near = exact if same else repr(sorted(plain.items())) if flat else _encode(plain)
    told = near.encode("utf-8", "surrogatepass")
    masked = told.translate(None, b"0123456789")
    if len(masked) == len(told):
        return _made(Canon, (exact, near, near, True))
    if paging:
        masked += _encode({k: v for k, v in core.items() if k in PAGING}).encode("utf-8", "surrogatepass")
    return _made(Canon, (exact, near, masked, True))


def _words(text: str) -> str:
    if " " not in text:
        if not text.isalpha():
            return _coded(text)
    elif not text.replace(" ", "").isalpha():
        if _CODE.search(text) is not None:  # only spacing is cosmetic in code
            text = (text if text.isascii() else composed(text)).removeprefix("./")
            return text if "  " not in text and "\n" not in text else " ".join(text.split())
    elif text.isascii():  # plain words, mostly as they are to be
        return text if text.islower() and "  " not in f" {text} " else " ".join(text.lower().split())
    plain = text.lower() if text.isascii() else unicodedata.normalize("NFKC", unseen(text)).casefold()
    return " ".join(_WORDS.findall(plain)) or plain


def _coded(text: str) -> str:
    """A path, an id or a piece of code: of a path it does not count how it is spelled."""
    if not text.isascii():
        text = composed(text)
    if "\n" in text:
        return " ".join(text.removeprefix("./").split())
    detour = "/" in text and ("/." in text or "//" in text or text[-1] == "/" or text[:2] == "./")
    return one_path(text) if detour else text


def _near(value: object, key: str) -> object:
    if isinstance(value, str):
        return _words(value) if len(value) <= PROSE and key not in PAGING else value
    if isinstance(value, dict):
        return {k: _near(v, k) for k, v in value.items()}
    if isinstance(value, list):
        items = [_near(item, key) for item in value]
        return sorted(items, key=repr) if all(isinstance(item, (str, int, float)) for item in items) else items
    return value


def _kept(value: object) -> object:
    """Without nulls."""
    if isinstance(value, dict):
        return {k: _kept(v) for k, v in value.items() if v is not None}
    return [_kept(item) for item in value] if isinstance(value, list) else value


def _number(text: str) -> int | float:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 1e15 else value


_decoder = json.JSONDecoder(parse_float=_number)
_scan: Callable[[str, int], tuple[object, int]] = vars(_decoder)["scan_once"]  # `raw_decode` is Python around it
_nested = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode


def _value(text: str) -> object:
    """The value of a JSON text. Most hold nothing around it, and need no search for white space."""
    try:
        value, end = _scan(text, 0)
    except (ValueError, StopIteration):
        end = -1
    return value if end == len(text) else _decoder.decode(text)


def _encode(value: dict[str, object]) -> str:
    """One text per value, whatever the order of keys. Flat objects, which most are, take a shorter way."""
    if _SCALARS.issuperset([type(item) for item in value.values()]):
        return repr(sorted(value.items()))
    return _nested(value)
