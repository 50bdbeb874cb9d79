"""Chat messages -> neutral Messages: the head and the tail of a conversation, nothing in between.

Tolerates whatever a provider may take: content null, a string, parts or absent; developer and function roles; the
older `function_call`; arguments as an object; entries that are junk. The cost grows with the window, not the history.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence

from guardproxy.api._json import dumps, text_of
from guardproxy.core.mask import HUGE, shortened
from guardproxy.core.model import Call, Message

WINDOW_CALLS = 26
"""Calls in the tail: the 24 steps that detectors look at, and two to align with what the store remembers."""

WINDOW_MESSAGES = 80
"""Messages in the tail where calls are few: text-only conversations."""

WINDOW_MOST = 512
"""End of the search for the assistant message whose many results fill the window."""

SHORT = 8
"""Messages in a short tail: for a conversation whose history is known, the newest rounds are all that is new."""

SHORT_ROUNDS = 2
"""Rounds in a short tail where all are calls and their results, and no text repeats anything."""

HEAD_MOST = 64
"""How far the first user message is looked for."""

LANGUAGE_TEXTS = 3
"""The language is read from the first user text and this many of the last."""

LANGUAGE_CHARS = 2000
"""Characters looked at of each of them."""

ROLES = {role: role for role in ("system", "user", "assistant", "tool")} | {"developer": "system", "function": "tool"}
_HAN = re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff]")
_KANA_HANGUL = re.compile(r"[\u3040-\u30ff\uac00-\ud7af]")
_LATIN_WORD = re.compile(r"[A-Za-z]{2,}")

Raw = Mapping[str, object]
_made = tuple.__new__
"""Makes a named tuple of all its fields at half the price: there are a dozen messages and calls a request."""


def head(messages: Sequence[Raw]) -> tuple[Message, ...]:
    """The leading run of system messages and the first user message."""
    found: list[Message] = []
    leading, most = 0, len(messages)
    while leading < most and role_of(messages[leading]) == "system":
        found.append(neutral(messages[leading]))
        leading += 1
    for at in range(leading, min(leading + HEAD_MOST, most)):
        if role_of(messages[at]) == "user":
            found.append(neutral(messages[at]))
            break
    return tuple(found)


def tail(messages: Sequence[Raw], *, short: bool = False) -> tuple[tuple[Message, ...], int]:
    """The last messages, and the index of the first of them. `short`: only the newest rounds, complete ones."""
    found: list[Message] = []
    calls = rounds = texts = 0
    at = len(messages)
    while at > 0:
        at -= 1
        message = neutral(messages[at])
        found.append(message)
        if message.calls:
            calls += len(message.calls)
            rounds += 1
        elif message.role != "tool":
            texts += 1
        full = calls >= WINDOW_CALLS or (len(found) >= WINDOW_MESSAGES and message.role != "tool")
        if full or len(found) >= WINDOW_MOST:
            break
        known = len(found) >= SHORT or (rounds >= SHORT_ROUNDS and not texts)
        if short and known and message.role == "assistant":
            break
    found.reverse()
    return tuple(found), at


def role_of(message: Raw) -> str:
    """One of the four roles; what is none of them speaks for the user."""
    role = message.get("role")
    return ROLES.get(role, "user") if isinstance(role, str) else "user"


def neutral(message: Raw) -> Message:
    """One message in neutral form. Never raises. The hot path of `read`: positional, and few calls."""
    get = message.get
    role, content = get("role"), get("content")
    role = ROLES.get(role, "user") if isinstance(role, str) else "user"
    text, media = (content, ()) if isinstance(content, str) else _from_parts(content)
    if len(text) > HUGE:
        text = shortened(text)
    if role == "assistant":
        if not text and isinstance(refusal := get("refusal"), str):
            text = refusal
        return _made(Message, (role, text, calls_of(message), "", "", media, None))
    name = get("name")
    name = name if isinstance(name, str) else ""
    if role != "tool":
        return _made(Message, (role, text, (), "", name, media, None))
    call_id, failed = get("tool_call_id"), get("is_error")
    call_id = call_id if isinstance(call_id, str) else ""
    return _made(Message, (role, text, (), call_id, name, media, failed if isinstance(failed, bool) else None))


def text_in(message: Raw) -> str:
    """The text of an assistant message, as `neutral` has it."""
    content = message.get("content")
    text = content if isinstance(content, str) else _from_parts(content)[0]
    if len(text) > HUGE:
        text = shortened(text)
    return refusal if not text and isinstance(refusal := message.get("refusal"), str) else text


def calls_of(message: Raw) -> tuple[Call, ...]:
    """The calls of an assistant message, of both generations of the API."""
    entries = message.get("tool_calls")
    if isinstance(entries, list) and entries:
        if len(entries) == 1:  # mostly
            return (_call(entries[0]),) if isinstance(entries[0], dict) else ()
        return tuple([_call(entry) for entry in entries if isinstance(entry, dict)])
    legacy = message.get("function_call")
    return (_function(legacy, ""),) if isinstance(legacy, dict) else ()


def _call(entry: Raw) -> Call:
    inner, call_id = entry.get("function"), entry.get("id")
    if not isinstance(inner, dict):
        inner = entry.get("custom")
    return _function(inner if isinstance(inner, dict) else entry, call_id if isinstance(call_id, str) else "")


def _function(inner: Raw, call_id: str) -> Call:
    name, arguments = inner.get("name"), inner.get("arguments", inner.get("input"))
    name = name if isinstance(name, str) else ""
    return _made(Call, (name, arguments if isinstance(arguments, str) else text_of(arguments), call_id))


def _from_parts(content: object) -> tuple[str, tuple[bytes, ...]]:
    if content is None:
        return "", ()
    if not isinstance(content, list):
        return text_of(content), ()
    texts: list[str] = []
    media: list[bytes] = []
    for part in content:
        text = _part_text(part)
        if text is not None:
            texts.append(text)
        elif part is not None:
            media.append(hashlib.blake2b(dumps(part), digest_size=16).digest())
    return "\n".join(texts), tuple(media)


def _part_text(part: object) -> str | None:
    """The text of a content part; None where it is an image, a file, audio or something unknown."""
    if isinstance(part, dict):
        text = part.get("text", part.get("refusal"))
        return text if isinstance(text, str) else None
    return part if isinstance(part, str) else None


def language(first: Sequence[Message], last: Sequence[Message]) -> str:
    """`zh` where the user's texts are mostly Chinese, else `en`. Characters weigh as much as words: code is Latin."""
    texts = [message.text for message in first if message.role == "user"]
    texts += [message.text for message in last[-WINDOW_MESSAGES:] if message.role == "user"][-LANGUAGE_TEXTS:]
    if all(map(str.isascii, texts)):  # known of each without looking
        return "en"
    sample = "\n".join([text[:LANGUAGE_CHARS] for text in texts])
    han = len(_HAN.findall(sample))
    other = len(_KANA_HANGUL.findall(sample)) * 4 + len(_LATIN_WORD.findall(sample))
    return "zh" if han > other else "en"
