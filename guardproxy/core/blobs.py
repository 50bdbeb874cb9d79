"""Calls that a text writes as JSON: an object with a name and arguments, in the spellings that harnesses use.

Pure. The value may be the whole text, stand in a fence, or begin a line.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

from guardproxy.core.model import Call

REPR = 40_000
"""Characters of the longest value that is read as Python writes it, which costs fifty times what JSON does."""

ENDS = 4
"""Lines from each end of a text that may begin a JSON value."""

FENCES = re.compile(r"^[ \t]*(?:```|~~~)[ \t]*([\w+#-]*)[^\n`]*\n(.*?)^[ \t]*(?:```|~~~)", re.MULTILINE | re.DOTALL)
"""Fenced blocks: their language and what they hold."""

_BEGUN = re.compile(r"^[{\[]", re.MULTILINE)
_NAMES = ("action", "tool", "tool_name", "tool_call", "function_call", "command", "name", "function")
_ARGUMENTS = (
    "action_input", "arguments", "args", "parameters", "params", "tool_input", "tool_args", "input", "kwargs",
)  # fmt: skip
_ASIDE = frozenset("thought thoughts reasoning reason explanation plan criticism reflection observation".split())


def blob_in(text: str) -> list[Call]:
    """The calls of the JSON value that a text is, holds in a fence, or holds from the beginning of a line on."""
    for candidate in _candidates(text.strip()):
        try:
            found = calls_of(json.JSONDecoder().raw_decode(candidate)[0])
        except ValueError:
            continue
        if found:
            return found
    return []


def _candidates(plain: str) -> Iterator[str]:
    if plain[:1] in ("{", "["):
        yield plain
    fences = [body.strip() for language, body in FENCES.findall(plain) if language in ("", "json")]
    blobs = [body for body in fences if body[:1] in ("{", "[")]
    if len(blobs) == 1:
        yield blobs[0]
    places = [found.start() for found in _BEGUN.finditer(plain)]
    for at in places if len(places) <= 2 * ENDS else (*places[:ENDS], *places[-ENDS:]):
        yield plain[at:]


def calls_of(blob: object) -> list[Call]:
    """The calls that a JSON value stands for; none where one of several is no call."""
    if isinstance(blob, list):
        found = [_call_of(one) for one in blob[:64] if isinstance(one, dict)]
        return [call for call in found if call] if len(found) == len(blob) and all(found) else []
    call = _call_of(blob) if isinstance(blob, dict) else None
    return [call] if call else []


def _call_of(blob: dict[str, object]) -> Call | None:
    key = next((key for key in _NAMES if isinstance(blob.get(key), str | dict)), None)
    if key is None:
        return None
    name = blob[key]
    if isinstance(name, dict):
        return _call_of({"name": "", **name}) if "name" in name else None
    given = next((k for k in _ARGUMENTS if k in blob and k != key), None)
    if given is None and (key in ("name", "function") or not name):
        return None
    if given is None and key == "command":
        return Call("command", dumps({"command": name}))
    rest = {k: v for k, v in blob.items() if k != key and k not in _ASIDE}
    value = blob[given] if given is not None else rest
    return Call(
        str(name),
        dumps(value) if isinstance(value, dict) else value_of(value if isinstance(value, str) else dumps(value)),
    )


def value_of(text: str) -> str:
    """Arguments as JSON: an object as it stands, anything else under `input`."""
    plain = text.strip().removeprefix("```json").strip("`").strip()
    if plain[:1] == "{":
        found = _object(plain)
        if isinstance(found, dict):
            return dumps(found)
    return dumps({"input": plain.strip("\"'")})


def _object(plain: str) -> object:
    """An object as JSON or Python writes it; else the text."""
    try:
        return json.loads(plain)
    except ValueError:
        pass
    try:
        return ast.literal_eval(plain) if len(plain) <= REPR else plain
    except (ValueError, SyntaxError):
        return plain


def dumps(value: object) -> str:
    """A value as the JSON text of a call's arguments."""
    return json.dumps(value, ensure_ascii=False)
