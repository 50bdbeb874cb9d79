"""A conversation's assistant messages with what answers them: calls with results, also those written in texts.

Pure. Every other look at a conversation goes through here, so that a text protocol's calls are calls everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from guardproxy.core import protocol
from guardproxy.core.model import Ask, Call, Message, value
from guardproxy.core.written import ACKNOWLEDGED, CANNED


@value
class Round:
    """One assistant message of the request, the results that answer its calls, and the user text that follows.

    `written`: its calls stand in its text and their results in user texts; `reply` is what a person said after them.
    `replies`, `media`: the texts and the pictures of all user messages that follow.
    """

    index: int
    text: str
    calls: tuple[Call, ...]
    results: tuple[Message | None, ...]
    reply: str | None
    written: bool = False
    replies: tuple[str, ...] = ()
    media: tuple[bytes, ...] = ()


def pair(calls: Sequence[Call], results: Sequence[Message]) -> tuple[Message | None, ...]:
    """Match results to the calls of one assistant message.

    By id where the ids of the calls are unique and not empty (clients answer in the order of finishing), else in
    order: providers repeat ids and leave them empty (cases B48, B49, B51).
    """
    if len(calls) == 1:  # the common case, and the same answer: its id, else the order
        wanted, only = calls[0].id, results[0] if results else None
        if wanted != "" and len(results) > 1:
            only = next((one for one in results if one.call_id == wanted), only)
        return (only,)
    ids = [call.id for call in calls]
    if all(ids) and len(set(ids)) == len(ids):
        by_id = {message.call_id: message for message in reversed(results)}
        if any(call_id in by_id for call_id in ids):
            return tuple(by_id.get(call_id) for call_id in ids)
    padded = [*results[: len(calls)], *[None] * (len(calls) - len(results))]
    return tuple(padded)


def rounds(ask: Ask) -> list[Round]:
    """The rounds in the ask's tail, oldest first. Messages before the first assistant message are left out."""
    return _rounds(ask, 0, in_text=not _native(ask))


def within(found: list[Round], steps: int, at_most: int) -> list[Round]:
    """The newest rounds that have so many calls, `at_most` of one counted; all where a user has spoken before them."""
    calls, first = 0, len(found)
    while first and calls < steps:
        first -= 1
        calls += min(len(found[first].calls), at_most)
    return found if any(turn.reply is not None for turn in found[:first]) else found[first:]


def latest(ask: Ask) -> Round | None:
    """The newest round; what a client says in the model's place begins none."""
    tail, begun = ask.tail, -1
    for at in range(len(tail) - 1, -1, -1):
        if tail[at].role == "assistant":
            begun = max(begun, at)
            if at == 0 or not _canned(tail[at], tail[at - 1]):
                begun = at
                break
    return _rounds(ask, begun, in_text=not _native(ask))[-1] if begun >= 0 else None


def in_part(ask: Ask) -> bool:
    """Whether calls of the newest round have no result here; of those written in a text it does not say."""
    newest = latest(ask)
    return newest is not None and not newest.written and None in newest.results


def _native(ask: Ask) -> bool:
    """Whether calls and results are messages of their own here: then no text is read as one."""
    for message in ask.tail:  # noqa: SIM110  # a generator costs more than the answer
        if message.calls or message.role == "tool":
            return True
    return False


def _canned(message: Message, before: Message) -> bool:
    return message.text in CANNED and before.role == "user" and before.text.startswith(ACKNOWLEDGED)


def _rounds(ask: Ask, first: int, *, in_text: bool) -> list[Round]:
    found: list[Round] = []
    opened: Message | None = None
    before: Message | None = None
    at, index = 0, ask.tail_start + first
    results: list[Message] = []
    replies: list[str] = []
    media: tuple[bytes, ...] = ()
    reader = ask if in_text else None
    for message in ask.tail[first:] if first else ask.tail:
        role = message.role
        if role == "assistant":
            if opened is None or not (in_text and before is not None and _canned(message, before)):
                if opened is not None:
                    found.append(_closed(reader, at, opened, results, replies, media))
                opened, at, results, replies, media = message, index, [], [], ()
        elif role == "tool":
            results.append(message)
        elif role == "user":
            replies.append(message.text)
            if message.media:
                media += message.media
        index += 1
        before = message
    if opened is not None:
        found.append(_closed(reader, at, opened, results, replies, media))
    return found


def _closed(
    ask: Ask | None, index: int, message: Message, results: list[Message], replies: list[str], media: tuple[bytes, ...]
) -> Round:
    """`ask`: where calls may stand in texts."""
    told = protocol.told(ask, message.text, replies) if ask is not None else None
    if told is not None:
        return Round(index, message.text, told.calls, told.results, told.words, True, (), media)
    reply = "\n".join(replies) if replies else None
    calls = message.calls
    return Round(index, message.text, calls, pair(calls, results) if calls else (), reply, False, tuple(replies), media)


def calls_in(ask: Ask, text: str) -> tuple[Call, ...]:
    """The calls that an answer to this request makes in its text; those that end a run are words."""
    if not text or _native(ask):
        return ()
    return protocol.calls_in(ask, text, known=lambda: [one.text for one in rounds(ask) if one.written])
