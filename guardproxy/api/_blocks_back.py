"""Puts rounds and calls back into a request whose content is blocks: what the client never saw, at its place.

The user and the model take turns here, and all results of a message's calls stand in the one message behind it: so
results go into the client's own message, in front of its blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardproxy.api import _splice
from guardproxy.api._chat_back import in_front, left_out, offset, unsay
from guardproxy.api._gate import GAP
from guardproxy.api._json import dumps, peek
from guardproxy.api._splice import Span, Splice
from guardproxy.core.edit import PutBack

Raw = Mapping[str, object]


def put_back(raw: bytes, text: bytes, spans: Sequence[Span], edits: Sequence[tuple[PutBack, int]]) -> list[Splice]:
    """`spans`: where the messages stand, all of them; with each edit the message of the request that it is about."""
    splices: list[Splice] = []
    gone: list[Splice] = []
    noticed = {index for edit, index in edits if edit.instead}  # all that stands there is replaced
    for edit, index in sorted(edits, key=lambda pair: pair[1]):
        if edit.before:
            splices.append(in_front(spans, index, edit.before))
        if index == len(spans):
            splices += [in_front(spans, index, edit.after)] if edit.after else []
            continue
        start, _ = spans[index]
        if edit.instead:
            if left_out(raw, spans, index):
                gone.append((spans[index - 1][1], spans[index][1], b""))
            else:
                splices += _instead(raw, text, start, edit.instead)
        elif edit.before and index not in noticed:
            splices += _unsaid(raw, text, start, edit)
        if edit.calls:
            splices += _add_calls(raw, text, start, edit)
        if edit.after:
            splices += _answer(raw, text, spans, index, edit.after)
    return splices + gone  # last: what stands in front of a message that is left out goes before it


def _instead(raw: bytes, text: bytes, at: int, words: str) -> list[Splice]:
    """Other words in the place of a notice of ours, and of all that was said with it; calls stay."""
    span = _content(text, at)
    if span is None:
        return []
    listed = _splice.items(text, span[0]) if text[span[0]] == ord("[") else ()
    calls = [_splice.part(raw, item) for item in listed if _kind(_splice.part(raw, item)) == "tool_use"]
    said = dumps({"type": "text", "text": words})
    return [(*span, b"[" + b",".join((said, *calls)) + b"]" if calls else dumps(words))]


def _content(text: bytes, at: int) -> Span | None:
    return _splice.members(text, at).get("content")


def _add_calls(raw: bytes, text: bytes, at: int, edit: PutBack) -> list[Splice]:
    """The calls at their places among those of the message."""
    pairs = sorted(edit.calls, key=lambda pair: pair[0])
    calls = [call for _, call in pairs]
    span = _content(text, at)
    if span is None:
        return []
    start, end = span
    if text[start] == ord('"'):
        return [(start, start, b'[{"type":"text","text":'), (end, end, b"}," + b",".join(calls) + b"]")]
    items = list(_splice.items(text, start)) if text[start] == ord("[") else []
    if not items:
        return [(start, end, b"[" + b",".join(calls) + b"]")]
    own = [item for item in items if _kind(_splice.part(raw, item)) == "tool_use"]
    splices: list[Splice] = []
    for number, (place, call) in enumerate(pairs):
        seen = place - number  # of the message's own calls, those that stand before it
        if seen < len(own):
            where = own[max(0, seen)][0]
            splices.append((where, where, call + b","))
        else:
            splices.append((items[-1][1], items[-1][1], b"," + call))
    return splices


def _answer(raw: bytes, text: bytes, spans: Sequence[Span], index: int, after: Sequence[bytes]) -> list[Splice]:
    """The results in front of the blocks of the user's message that follows; of their own where none does."""
    following = index + 1
    message = peek(_splice.part(raw, spans[following])) if following < len(spans) else None
    span = _content(text, spans[following][0]) if following < len(spans) else None
    if span is None or not isinstance(message, Mapping) or message.get("role") != "user":
        return [(spans[index][1], spans[index][1], b"".join([b"," + one for one in after]))]
    blocks = b",".join([block for one in after for block in _blocks(one)])
    start, end = span
    if text[start] == ord('"'):
        return [(start, start, b"[" + blocks + b',{"type":"text","text":'), (end, end, b"}]")]
    if text[start] != ord("["):
        return []
    empty = next(_splice.items(text, start), None) is None
    return [(start + 1, start + 1, blocks if empty else blocks + b",")]


def _blocks(message: bytes) -> Iterator[bytes]:
    """The blocks of a message of ours, as they are spelled."""
    text = _splice.mask(message)
    span = _content(text, _splice.root(text))
    if span is not None and text[span[0]] == ord("["):
        yield from [_splice.part(message, item) for item in _splice.items(text, span[0])]


def _unsaid(raw: bytes, text: bytes, at: int, edit: PutBack) -> list[Splice]:
    """Take from the beginning of a message what the rounds in front of it say: the client was given both as one."""
    span = _content(text, at)
    if span is None:
        return []
    if text[span[0]] != ord("["):
        left = str(peek(_splice.part(raw, span))).strip() != edit.said.strip()  # a message without words is refused
        return unsay(raw, text, at, edit.said) if edit.said and left else []
    items = list(_splice.items(text, span[0]))
    blocks = [peek(_splice.part(raw, item)) for item in items]
    said = [block for message in edit.before for block in _said(message)]
    gone = _matched(blocks, said, edit.said)
    if not gone:
        return unsay(raw, text, at, edit.said) if edit.said else []
    gone = min(gone, len(items) - 1)
    if not gone:
        return []
    splices: list[Splice] = [(items[0][0], items[gone][0], b"")]
    following = blocks[gone]
    words = following.get("text") if isinstance(following, dict) else None
    if isinstance(words, str) and words.startswith(GAP) and words.strip():
        start, end = _splice.members(text, items[gone][0])["text"]
        splices.append((start + 1, start + 1 + offset(raw[start + 1 : end - 1], len(GAP)), b""))
    return splices


def _said(message: bytes) -> list[Raw]:
    """The blocks of an assistant message but for its calls."""
    parsed = peek(message)
    content = parsed.get("content") if isinstance(parsed, dict) and parsed.get("role") == "assistant" else None
    blocks = content if isinstance(content, list) else []
    return [block for block in blocks if isinstance(block, dict) and block.get("type") != "tool_use"]


def _matched(blocks: Sequence[object], said: Sequence[Raw], words: str) -> int:
    """How many blocks in front were said before, in the same order."""
    gone = at = 0
    for block in blocks:
        if not isinstance(block, dict):
            break
        if block.get("type") == "text" and str(block.get("text")).strip() == words.strip() != "":
            gone += 1
            continue
        found = next((place for place in range(at, len(said)) if _same(block, said[place], words)), None)
        if found is None:
            break
        gone, at = gone + 1, found + 1
    return gone


def _same(block: Raw, said: Raw, words: str) -> bool:
    if block.get("type") != said.get("type"):
        return False
    if block.get("type") == "text":
        text = str(said.get("text")).strip()
        return bool(text) and text in words and str(block.get("text")).strip() == text
    if block.get("signature"):
        return block.get("signature") == said.get("signature")
    ours = {key: value for key, value in block.items() if key != "cache_control"}
    return ours == {key: value for key, value in said.items() if key != "cache_control"}


def _kind(raw: bytes) -> object:
    block = peek(raw)
    return block.get("type") if isinstance(block, dict) else None
