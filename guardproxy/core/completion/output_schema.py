"""The answer has to be JSON that a schema accepts.

Passes where it cannot tell: an answer that is a program's text, a schema that gives up on a pattern, very long answers.
Fences and words around the JSON are allowed unless `alone` is set. References to other documents are never fetched.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from jsonschema_rs import FancyRegexOptions, ValidationErrorKind, Validator, validator_for

from guardproxy.core.completion._candidate import Candidate
from guardproxy.core.completion._words import say, told
from guardproxy.core.memo import Memo

LONGEST = 1_000_000
"""Characters of the longest answer that is looked at."""

SHOWN = 3
"""Errors that are said: a model mends a few at once."""

STARTS = 32
"""Places in a text at which JSON may begin that are tried."""

BACKTRACKS = 100_000
"""Steps back after which a pattern gives up: milliseconds."""

_BEGIN = re.compile(r"[{\[]")
_UNSURE = (ValidationErrorKind.BacktrackLimitExceeded, ValidationErrorKind.RegexEngineFailure)
_compiled: Memo[str, Validator] = Memo(64)


@dataclass(frozen=True, slots=True)
class Settings:
    """The schema. Raises ValueError where it is none."""

    json_schema: Mapping[str, object] = field(default_factory=dict, hash=False)
    """A JSON schema (drafts 4 to 2020-12). `format` is not asserted."""

    alone: bool = False
    """The answer is nothing but the JSON: no words around it, no code fence."""

    mode: Literal["off", "observe", "enforce"] = "enforce"

    def __post_init__(self) -> None:
        """Refuse what is no schema."""
        try:
            _validator(self.json_schema)
        except (ValueError, TypeError, RecursionError) as error:
            first = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise ValueError(f"json_schema: {first}") from None

    @property
    def asks(self) -> bool:
        """Whether there is anything to check."""
        return bool(self.json_schema)


def check(candidate: Candidate, settings: Settings, language: str) -> str | None:
    """Say where the answer does not fit the schema."""
    if len(candidate.said) > LONGEST or "final_answer(" in candidate.said:
        return None
    try:
        return _wrong(candidate, settings, language)
    except RecursionError:  # deeper than can be read
        return None


def _wrong(candidate: Candidate, settings: Settings, language: str) -> str | None:
    validator = _validator(settings.json_schema)
    first: list[str] | None = None
    for value in _values(candidate, settings):
        errors = _errors(validator, value)
        if not errors:
            return None
        first = errors if first is None else first
    if first is None:
        return say(language, "no_json")
    return told(language, [say(language, "schema", error=error) for error in first])


def _values(candidate: Candidate, settings: Settings) -> Iterator[object]:
    """What of the answer may be meant, the likeliest first."""
    for call in candidate.calls:
        yield from _handed(call.arguments)
    kinds = settings.json_schema.get("type")
    if kinds == "string" or (isinstance(kinds, list) and "string" in kinds):
        yield candidate.text.strip()
    yield from _parsed(candidate.text.strip())
    if not settings.alone:
        for block in candidate.text.split("```")[1::2]:
            yield from _parsed(block.partition("\n")[2])
        yield from _inside(candidate.text)


def _handed(arguments: str) -> Iterator[object]:
    """A final tool's arguments, and what each of them holds."""
    for value in _parsed(arguments):
        yield value
        for item in value.values() if isinstance(value, dict) else ():
            yield item
            if isinstance(item, str):
                yield from _parsed(item.strip())


def _parsed(text: str) -> Iterator[object]:
    try:
        yield json.loads(text, parse_constant=_refuse)
    except ValueError:
        return


def _refuse(constant: str) -> object:
    raise ValueError(constant)


_decoder = json.JSONDecoder(parse_constant=_refuse)


def _inside(text: str) -> Iterator[object]:
    """JSON objects and lists between words."""
    at = 0
    for _ in range(STARTS):
        begun = _BEGIN.search(text, at)
        if begun is None:
            return
        try:
            value, at = _decoder.raw_decode(text, begun.start())
        except ValueError:
            at = begun.end()
            continue
        yield value


def _errors(validator: Validator, value: object) -> list[str]:
    """What is wrong, with its place; nothing where the schema itself could not be asked."""
    found = []
    try:
        for error in validator.iter_errors(value):
            if isinstance(error.kind, _UNSURE):
                return []
            where = ".".join(str(part) for part in error.instance_path)
            found.append(f"{where}: {error.message}" if where else error.message)
            if len(found) >= SHOWN:
                break
    except ValueError:  # such as half of a surrogate pair
        return []
    return found


def _validator(schema: Mapping[str, object]) -> Validator:
    key = json.dumps(schema, sort_keys=True, default=str)
    return _compiled[key] or _compiled.keep(key, _compile(dict(schema)))


def _compile(schema: dict[str, object]) -> Validator:
    options = FancyRegexOptions(backtrack_limit=BACKTRACKS)
    return validator_for(schema, validate_formats=False, pattern_options=options, mask="the value", offline=True)
