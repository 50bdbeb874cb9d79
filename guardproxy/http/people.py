"""What people say of a run, checked before it is kept: a name, a reason, arguments, an answer. Bad ones are BadAsk."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.tenant import masked
from guardproxy.errors import BadAsk

LONGEST = 500
"""Characters of a name or a reason: a sentence or two, not a report."""

LONGEST_ORG = 200
"""Characters of an organisation's name: it is in every key."""

ANSWER = 32_000
"""Characters of an answer to a model's question, or of edited arguments: some pages."""

MOST = 10**12
"""The most that a limit is raised by at once, in the unit of its setting: more is a slip of the finger."""

EXTENDABLE = {row.setting: row for row in DIMENSIONS.values() if not (row.judged or row.tenants)}
"""Limits of a session that a person may raise, by their names in the configuration (`policy.limits`)."""


def line(param: str, text: str, longest: int = LONGEST) -> str:
    """A text of one line, without any key or token that stands in it. It may be empty."""
    if len(text) > longest or not text.isprintable():
        raise BadAsk(f"must be printable text of at most {longest} characters", param=param)
    return masked(text.strip())


def org(param: str, text: str) -> str:
    """The name of an organisation. Braces are none of it: they are the hash tag of its keys in the store."""
    if not text.strip() or text != text.strip() or any(letter in "{}" for letter in text):
        raise BadAsk("must be the name of an organisation, without braces and blanks around it", param=param)
    return line(param, text, LONGEST_ORG)


def answer(param: str, text: str) -> str:
    """A text of any number of lines that says something."""
    if not text.strip():
        raise BadAsk("must say something", param=param)
    if len(text) > ANSWER or any(not (c.isprintable() or c in "\n\t") for c in text.replace("\r\n", "\n")):
        raise BadAsk(f"must be printable text of at most {ANSWER:,} characters", param=param)
    return text


def arguments(param: str, text: str) -> str:
    """A call's arguments as JSON text: an object, as all tools take one. The text stays as it was written."""
    if len(text) > ANSWER:
        raise BadAsk(f"must have at most {ANSWER:,} characters", param=param)
    try:
        read = strict(text.encode())
    except (ValueError, RecursionError) as error:
        raise BadAsk(f"must be a JSON object: {error}", param=param) from error
    if not isinstance(read, dict):
        raise BadAsk('must be a JSON object, such as {} or {"path": "a.txt"}', param=param)
    return text


def strict(raw: bytes) -> Any:
    """JSON with its numbers as they are, big ones too, and without what JSON has not (NaN). ValueError if it is none.

    RecursionError for one that is nested too deep.
    """
    return json.loads(raw.decode(), parse_constant=_no_number)


def _no_number(word: str) -> float:
    raise ValueError(f"{word} is no JSON")


def amounts(given: Mapping[str, float]) -> dict[str, int]:
    """By how much to raise which limit: settings and their units in, dimensions and counted units out."""
    if not given:
        raise BadAsk(f"say what to raise: {', '.join(EXTENDABLE)}", param="amounts")
    found = {}
    for setting, amount in given.items():
        row = EXTENDABLE.get(setting)
        if row is None:
            raise BadAsk(f"there is no such limit; there are {', '.join(EXTENDABLE)}", param=setting)
        whole = round(amount * row.scale) if 0 < amount <= MOST else 0  # no NaN is
        if whole < 1 or (row.scale == 1 and whole != amount):
            raise BadAsk(
                f"must be a {'' if row.scale > 1 else 'whole '}number above 0, at most {MOST:,}", param=setting
            )
        found[row.name] = whole
    return found


def written(value: object) -> str:
    """A value as JSON text, as `strict` read it; what has no UTF-8 form stays an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if text.isprintable() else json.dumps(value, separators=(",", ":"))
