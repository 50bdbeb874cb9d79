"""A shortcut for streams: chunks that differ from one already parsed in one string only.

Most chunks of a stream are equal but for a few characters of text or arguments. Once such a chunk was parsed, its
bytes before and after that string are a template; a chunk with the same two ends whose middle is one JSON string means
the same with that string in its place. Learning proves the template by parsing a probe; where chunks vary elsewhere
(padding against traffic analysis, say) nothing matches and everything is parsed as before.
"""

from __future__ import annotations

import re

import orjson

from guardproxy.api._answer import Answer, Choice
from guardproxy.api._json import peek
from guardproxy.api._splice import mask
from guardproxy.api._sse import data_of

LESSONS = 6
"""Templates learnt in vain before a stream is taken as one without them."""

WORTH = 4
"""Matches after which a lesson has paid for itself."""

DONE = b"[DONE]"
"""What ends a stream in place of an event's JSON."""

_PROBE = "guardproxy-probe"
_SITES = {name: re.compile(rb'"%b":\s*"' % name.encode()) for name in ("content", "arguments", "text")}
_PLAIN_DELTA = frozenset(("content", "tool_calls"))


class Template:
    """The two ends of an event, and what stands between them: `content` or `arguments`, or a completion's `text`."""

    __slots__ = ("bare", "choice", "entry", "field", "first", "hits", "last", "prefix", "suffix")

    def __init__(self, field: str, prefix: bytes, suffix: bytes, choice: Choice, entry: dict[str, object]) -> None:
        self.field = field
        self.prefix = prefix
        self.suffix = suffix
        self.choice = choice
        self.entry = entry  # the call's entry, for `arguments`
        self.bare = not entry.get("id") and not _dict(entry.get("function")).get("name")
        self.hits = 0
        self.first = len(prefix) - 1
        self.last = 1 - len(suffix)  # never 0: a suffix ends at least the string, the delta and the chunk


class Reader:
    """Reads the chunks of one stream into an Answer. `texts`: they are a completion's, whose choices are texts."""

    def __init__(self, answer: Answer, *, shortcuts: bool = True, texts: bool = False) -> None:
        self.answer = answer
        self._site = _text_site if texts else _site
        self._templates: list[Template] = []
        self._lessons = LESSONS if shortcuts else 0

    def read(self, event: bytes) -> object:
        """Takes one event. Returns its parsed value, or None where it was known, held nothing, or was [DONE]."""
        for template in self._templates:  # in this one place: it is done with each event of each stream
            if event.startswith(template.prefix) and event.endswith(template.suffix):
                try:  # with both its quotes; where the ends overlap there are not two, and it is no string
                    text = orjson.loads(event[template.first : template.last])
                except orjson.JSONDecodeError:
                    continue
                if type(text) is str:
                    _take(template, text)
                    return None
        data = data_of(event)
        if data == DONE:
            self.answer.done = True
            return None
        payload = peek(data) if data else None
        self.answer.take(payload)
        if self._lessons > 0 and isinstance(payload, dict) and data in event:
            self._learn(event, data, payload)
        return payload

    def _learn(self, event: bytes, data: bytes, payload: dict[str, object]) -> None:
        found = self._site(payload)
        if found is None:
            return
        field, holder, choice, entry = found
        self._lessons -= 1
        ends = _ends(data, field, payload, holder)
        if ends is None:
            return
        before, _, after = event.partition(data)
        old = [template for template in self._templates if template.field == field]
        self._lessons += sum([template.hits >= WORTH for template in old])
        others = [template for template in self._templates if template.field != field]
        into = self.answer.choice(choice)
        self._templates = [Template(field, before + ends[0], ends[1] + after, into, entry), *others]


def _take(template: Template, text: str) -> None:
    template.hits += 1
    choice = template.choice
    if template.field != "arguments":
        choice.add_text(text)
        return
    if template.bare:
        choice.produced += choice.calls.go_on(template.entry.get("index"), text)
        return
    function = {**_dict(template.entry["function"]), "arguments": text}
    choice.produced += choice.calls.take([{**template.entry, "function": function}])


def _ends(data: bytes, field: str, payload: object, holder: dict[str, object]) -> tuple[bytes, bytes] | None:
    places = list(_SITES[field].finditer(data))
    if len(places) != 1:
        return None
    start = places[0].end()
    prefix, suffix = data[:start], data[mask(data).index(b'"', start) :]
    kept = holder[field]
    holder[field] = _PROBE
    proven = peek(prefix + _PROBE.encode() + suffix) == payload
    holder[field] = kept
    return (prefix, suffix) if proven else None


_Site = tuple[str, dict[str, object], object, dict[str, object]]


def _only_choice(payload: dict[str, object]) -> dict[str, object] | None:
    """The one choice of a chunk that tells of nothing else."""
    choices = payload.get("choices")
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], dict):
        return None
    choice = choices[0]
    if any((payload.get("usage"), payload.get("x_groq"), payload.get("error"), choice.get("usage"))):
        return None
    return None if choice.get("finish_reason") else choice


def _text_site(payload: dict[str, object]) -> _Site | None:
    """The same as `_site` of a completion's chunk."""
    choice = _only_choice(payload)
    if choice is None or not isinstance(choice.get("text"), str) or not choice["text"]:
        return None
    return "text", choice, choice.get("index"), {}


def _site(payload: dict[str, object]) -> _Site | None:
    """Field, the object that holds it, choice index and call entry, of a chunk that does nothing else."""
    choice = _only_choice(payload)
    if choice is None:
        return None
    delta = choice.get("delta")
    if not isinstance(delta, dict) or not _plain(delta):
        return None
    if delta.get("content"):
        return None if delta.get("tool_calls") else ("content", delta, choice.get("index"), {})
    entries = delta.get("tool_calls")
    if not isinstance(entries, list) or len(entries) != 1 or not isinstance(entries[0], dict):
        return None
    function = entries[0].get("function")
    if not isinstance(function, dict) or not isinstance(function.get("arguments"), str):
        return None
    return "arguments", function, choice.get("index"), entries[0]


def _plain(delta: dict[str, object]) -> bool:
    others = (value for key, value in delta.items() if key not in _PLAIN_DELTA and key != "role")
    return isinstance(delta.get("content"), str | None) and not any(others)


def _dict(value: object) -> dict[str, object]:
    return value if isinstance(value, dict) else {}
