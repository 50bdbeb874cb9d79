"""Splices of single messages of a chat request: texts appended and replaced, calls and messages put back.

Whatever is not edited stays as the very bytes that came in. Positions are those of a mask (`_splice`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from guardproxy.api import _splice
from guardproxy.api._gate import GAP
from guardproxy.api._gathered import CALLS
from guardproxy.api._json import dumps, peek
from guardproxy.api._splice import Span, Splice
from guardproxy.core.edit import PutBack

_UNIT = re.compile(rb"\\u([0-9a-fA-F]{4})|\\.|[^\\]", re.DOTALL)
_CONTINUED = range(0x80, 0xC0)  # bytes within a character
_HIGH, _LOW = range(0xD800, 0xDC00), range(0xDC00, 0xE000)


def append_to(text: bytes, at: int, texts: Sequence[str]) -> list[Splice]:
    """`texts` behind the content of the message at `at`."""
    span = _splice.members(text, at).get("content")
    if span is None:
        return [_splice.insert_member(text, at, b'"content":' + dumps("".join(texts)))]
    start, end = span
    if text[start] == ord('"'):
        return [(end - 1, end - 1, dumps("".join(texts))[1:-1])]
    if text[start] == ord("["):
        return [_splice.append_item(text, start, _parts(texts))]
    if text[start:end] == b"null":
        return [(start, end, dumps("".join(texts)))]
    return []  # an object or a number: no provider's form of a text, so not ours to change


def replace_in(raw: bytes, text: bytes, at: int, new: str, texts: Sequence[str]) -> list[Splice]:
    """The content of the message at `at` becomes `new`, and `texts` stand behind it. Images and files stay."""
    span = _splice.members(text, at).get("content")
    if span is None:
        return [_splice.insert_member(text, at, b'"content":' + dumps(new + "".join(texts)))]
    start, end = span
    if text[start] == ord('"') or text[start:end] == b"null":
        return [(start, end, dumps(new + "".join(texts)))]
    if text[start] != ord("["):
        return []
    return [(start, end, _replaced(raw, text, start, new, texts))]


def _replaced(raw: bytes, text: bytes, at: int, new: str, texts: Sequence[str]) -> bytes:
    """The list of parts with one text: it takes the place of the first one that is marked, else of the first."""
    parts = [(span, peek(raw[span[0] : span[1]])) for span in _splice.items(text, at)]
    spoken = [number for number, (_, part) in enumerate(parts) if _text_of(part) is not None]
    marked = [number for number in spoken if _marked(parts[number][1])]
    carrier = next(iter(marked or spoken), None)
    made = [] if carrier is not None else [dumps({"type": "text", "text": new})]
    for number, ((start, end), _) in enumerate(parts):
        if number == carrier:
            made.append(_with_text(raw, text, start, end, new))
        elif number not in spoken:
            made.append(raw[start:end])
        elif number in marked:
            made.append(_with_text(raw, text, start, end, "…"))  # an empty text is refused, a mark must not be lost
    if texts:
        made.append(_parts(texts))
    return b"[" + b",".join(made) + b"]"


def _text_of(part: object) -> str | None:
    found = part.get("text") if isinstance(part, dict) else part
    return found if isinstance(found, str) else None


def _marked(part: object) -> bool:
    """Whether a part of text holds more than its text."""
    return isinstance(part, dict) and not part.keys() <= {"type", "text"}


def _with_text(raw: bytes, text: bytes, start: int, end: int, new: str) -> bytes:
    """A part of the list with another text."""
    if text[start] == ord('"'):
        return dumps(new)
    first, last = _splice.members(text, start)["text"]
    return raw[start:first] + dumps(new) + raw[last:end]


def _parts(texts: Sequence[str]) -> bytes:
    return b",".join(dumps({"type": "text", "text": text}) for text in texts)


def put_back(raw: bytes, text: bytes, spans: Sequence[Span], edits: Sequence[PutBack]) -> list[Splice]:
    """What the client never saw, at its place. `spans`: where the messages stand, all of them.

    Whole messages stand right behind the one before, without space: so the request that asked again at the end of a
    conversation is the beginning of all later ones.
    """
    splices: list[Splice] = []
    gone: list[Splice] = []
    noticed = {edit.index for edit in edits if edit.instead}  # all that stands there is replaced
    for edit in sorted(edits, key=lambda edit: edit.index):
        if edit.index > len(spans):
            continue
        if edit.before:
            splices.append(in_front(spans, edit.index, edit.before))
        if edit.index == len(spans):
            splices += [in_front(spans, edit.index, edit.after)] if edit.after else []
            continue
        start, _ = spans[edit.index]
        if edit.instead:
            if left_out(raw, spans, edit.index):
                gone.append((spans[edit.index - 1][1], spans[edit.index][1], b""))
            else:
                splices += replace_in(raw, text, start, edit.instead, ())
        elif edit.said and edit.index not in noticed:
            splices += unsay(raw, text, start, edit.said)
        if edit.calls:
            splices += _add_calls(text, start, edit.calls)
        if edit.after:
            splices += _answer(raw, spans, edit)
    return splices + gone  # last: what stands in front of a message that is left out goes before it


def left_out(raw: bytes, spans: Sequence[Span], index: int) -> bool:
    """Whether a notice of ours is no turn of its own: nothing is behind it, or the assistant goes on.

    What comes later changes that for no request that was sent: what was left out at the end then stands behind it.
    """
    if not index:
        return False
    behind = peek(_splice.part(raw, spans[index + 1])) if index + 1 < len(spans) else None
    return not isinstance(behind, Mapping) or behind.get("role") == "assistant"


def in_front(spans: Sequence[Span], index: int, messages: Sequence[bytes]) -> Splice:
    """Messages in front of the one at `index`, or behind the last."""
    if index:
        at = spans[index - 1][1]
        return at, at, b"".join([b"," + one for one in messages])
    at = spans[0][0]
    return at, at, b"".join([one + b"," for one in messages])


def _add_calls(text: bytes, at: int, calls: Sequence[tuple[int, bytes]]) -> list[Splice]:
    """The calls at their places among those of the message."""
    raw_calls = [raw for _, raw in sorted(calls, key=lambda call: call[0])]
    span = _splice.members(text, at).get("tool_calls")
    listed = span is not None and text[span[0]] == ord("[")
    items = list(_splice.items(text, span[0])) if span is not None and listed else []
    if span is None:
        return [_splice.insert_member(text, at, b'"tool_calls":[' + b",".join(raw_calls) + b"]")]
    if not items:
        return [(*span, b"[" + b",".join(raw_calls) + b"]")]
    splices: list[Splice] = []
    for number, (place, raw) in enumerate(sorted(calls, key=lambda call: call[0])):
        seen = place - number  # of the message's own calls, those that stand before it
        if seen < len(items):
            start = items[max(0, seen)][0]
            splices.append((start, start, raw + b","))
        else:
            splices.append((items[-1][1], items[-1][1], b"," + raw))
    return splices


def _answer(raw: bytes, spans: Sequence[Span], edit: PutBack) -> list[Splice]:
    """The results: right behind the message, or, where ids do not tell calls apart, in the order of the calls."""
    start, end = spans[edit.index]
    if len(edit.after) != len(edit.calls) or _distinct(raw[start:end], edit.calls):
        return [(end, end, b"".join(b"," + one for one in edit.after))]
    splices: list[Splice] = []
    pairs = sorted(zip(edit.calls, edit.after, strict=True), key=lambda pair: pair[0][0])
    for number, ((place, _), result) in enumerate(pairs):
        behind = edit.index
        while behind - edit.index < place - number and behind + 1 < len(spans) and _is_result(raw, spans[behind + 1]):
            behind += 1
        at = spans[behind][1]
        splices.append((at, at, b"," + result))
    return splices


def _distinct(message: bytes, calls: Sequence[tuple[int, bytes]]) -> bool:
    """Whether every call has an id of its own."""
    parsed = peek(message)
    own = parsed.get("tool_calls") if isinstance(parsed, dict) else None
    entries = [*(own if isinstance(own, list) else ()), *[peek(raw) for _, raw in calls]]
    ids = [entry.get("id") for entry in entries if isinstance(entry, dict)]
    return all(ids) and len({str(one) for one in ids}) == len(ids)


def _is_result(raw: bytes, span: Span) -> bool:
    message = peek(raw[span[0] : span[1]])
    return isinstance(message, Mapping) and message.get("role") in ("tool", "function")


def unsay(raw: bytes, text: bytes, at: int, words: str) -> list[Splice]:
    """Take words from the beginning of a message's content, and the gap after them; nothing where they are not there.

    Where nothing but calls is left, the content is null, as providers have it; where nothing at all would be, the words
    stay, since they refuse a message without any.
    """
    members = _splice.members(text, at)
    span = members.get("content")
    if span is not None and text[span[0]] == ord("["):
        first = next(_splice.items(text, span[0]), None)
        inner = _splice.members(text, first[0]) if first is not None and text[first[0]] == ord("{") else {}
        span, members = inner.get("text"), {}
    if span is None or text[span[0]] != ord('"'):
        return []
    start, end = span
    content = peek(raw[start:end])
    if not isinstance(content, str):
        return []
    forms = (words, words.lstrip(), words.strip())  # clients trim
    found = next((form for form in forms if form and content.startswith(form)), None)
    if found is None:
        return []
    rest = content[len(found) :].removeprefix(GAP)
    if not rest and members:
        return [(start, end, b"null")] if members.keys() & CALLS else []
    cut = offset(raw[start + 1 : end - 1], len(content) - len(rest))
    return [(start + 1, start + 1 + cut, b"")]


def offset(escaped: bytes, characters: int) -> int:
    """Bytes of a JSON string's inside that hold its first characters; a pair of surrogates is one."""
    done, high = 0, False
    for unit in _UNIT.finditer(escaped):
        byte = unit.group()
        code = int(unit[1], 16) if unit[1] else 0
        if byte[0] in _CONTINUED or (high and code in _LOW):
            high = False
            continue
        if done == characters:
            return unit.start()
        done, high = done + 1, code in _HIGH
    return len(escaped)
