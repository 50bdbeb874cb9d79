"""Requests that go on with an earlier response and bring only what is new: what is remembered of the response.

The provider has the conversation, the ring has its steps; here is the rest: the newest answer in neutral form, how long
the conversation was, and what the provider must be told that it does not know: the id that it gave where the client has
another one, results of calls that the client never saw, and all that was said where nobody asked the provider.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from guardproxy.api import _splice
from guardproxy.api._json import dumps, peek
from guardproxy.api._responses_events import message_of
from guardproxy.api._responses_items import Fields, History
from guardproxy.api._responses_made import items_of
from guardproxy.api._responses_write import Before, Body, told_in
from guardproxy.core.edit import PutBack
from guardproxy.core.model import Ask, Call
from guardproxy.errors import BadAsk

LARGEST = 1 << 20
"""Bytes of one response that are remembered; longer texts are left out, and what cannot do without them is refused."""

REFERENCES = 64
"""Items named in a request that are looked up: more than the window has."""

OURS = "resp_guardproxy_"
"""Begins the id of a response that no provider knows."""

VERSION = 1
"""Of what is kept."""


@dataclass(frozen=True, slots=True)
class Said:
    """The answer that a client was given. `upstream`: the provider's id of it, "" = it is ours.

    `front`: items that stand before the next request's, or, of an answer of ours, before it: results of calls that the
    client never saw, rounds that were sent back. `message`: the answer as it was kept, where it was; `instead`: what an
    answer of ours says for the model. `put`: what was put back into the request. `tokens`: what the provider has of the
    conversation after it; 0 = not known. `asked`: it was; `untold`: what it was not told of what came of its calls.
    """

    text: str
    calls: tuple[Call, ...]
    upstream: str = ""
    front: tuple[bytes, ...] = ()
    message: bytes = b""
    instead: str = ""
    put: tuple[PutBack, ...] = ()
    tokens: int = 0
    asked: bool = False
    untold: tuple[bytes, ...] = ()


def continues(ask: Ask) -> str:
    """The response or conversation that a request goes on with; "" = none."""
    previous = ask.parsed.get("previous_response_id")
    return previous if isinstance(previous, str) and previous else _conversation(ask)


def _conversation(ask: Ask) -> str:
    found = ask.parsed.get("conversation")
    found = found.get("id") if isinstance(found, dict) else found
    return found if isinstance(found, str) else ""


def references(ask: Ask) -> tuple[str, ...]:
    """The ids of items that a request names in place of sending them, the newest of them."""
    listed = ask.parsed.history.items if isinstance(ask.parsed, Body) else ()
    ids = [item.get("id") for item in listed if item.get("type") == "item_reference"]
    return tuple([one for one in ids[-REFERENCES:] if isinstance(one, str)])


def stored(ask: Ask) -> bool:
    """Whether a later request may go on with the answer."""
    return ask.parsed.get("store") is not False or bool(_conversation(ask))


def names(ask: Ask, ids: Sequence[str]) -> tuple[str, ...]:
    """Under which names an answer is found again: any id that the client may have, or its conversation."""
    conversation = _conversation(ask)
    return (conversation,) if conversation else tuple(dict.fromkeys(one for one in ids if one))


def keep(ask: Ask, said: Said, session: str, thread: str, ids: Sequence[str]) -> tuple[dict[str, bytes], bool]:
    """What is to be remembered of an answer, by name; and whether the provider would not understand without it."""
    conversation = _conversation(ask)
    before = _before(ask)
    front = said.front
    if not said.upstream and conversation and said.asked:
        front = told_in(said.untold)  # it keeps what it is sent, and what it answers
    elif not said.upstream:
        given = () if conversation and said.message else _given(said, ids)  # a call that was released: it made it
        front = (*before.front, *_put(ask, said), *_input(ask), *said.front, *given)
    lost = sum(map(len, front)) > LARGEST
    called = [{"id": call.id, "function": {"name": call.name, "arguments": call.arguments}} for call in said.calls]
    message: Fields = {"role": "assistant", "content": said.text, **({"tool_calls": called} if called else {})}
    if len(said.text) + sum(len(call.arguments) for call in said.calls) > LARGEST:
        message = {"role": "assistant", "content": ""}
    kept: Fields = {
        "version": VERSION,
        "session": session,
        "thread": thread,
        "count": ask.count + 1,
        "language": ask.language,
        "said": message,
        "tokens": said.tokens or ask.held_tokens,
        "front": [] if lost else [one.decode("utf-8", "replace") for one in front],
        "lost": lost,
    }
    found = {}
    for name in names(ask, ids):
        if conversation:
            upstream = None
        elif said.upstream:
            upstream = said.upstream if said.upstream != name else None
        else:
            upstream = before.upstream if before.upstream is not None else continues(ask)
        found[name] = dumps({**kept, "upstream": upstream})
    return found, bool(front) or not said.upstream


def _before(ask: Ask) -> Before:
    return ask.parsed.before if isinstance(ask.parsed, Body) else Before()


def _put(ask: Ask, said: Said) -> tuple[bytes, ...]:
    """What stood in front of the request's own items: what was decided of a call that waited."""
    was = ask.parsed.history.before if isinstance(ask.parsed, Body) else 0
    found = tuple([raw for put in said.put if put.index < was for raw in put.before])
    return told_in(found) if _conversation(ask) else found


def _input(ask: Ask) -> tuple[bytes, ...]:
    """The items of a request, as they came."""
    text = _splice.mask(ask.body)
    span = _splice.members(text, _splice.root(ask.body)).get("input")
    if span is None:
        return ()
    if text[span[0]] == ord("["):
        return tuple([ask.body[start:end] for start, end in _splice.items(text, span[0])])
    return (dumps({"role": "user", "content": peek(_splice.part(ask.body, span))}),)


def _given(said: Said, ids: Sequence[str]) -> tuple[bytes, ...]:
    """The answer as items of a request."""
    if said.message:
        return tuple([dumps(item) for item in items_of(said.message)])
    text = said.instead or said.text
    made = [message_of(text, f"msg_{next(iter(ids), OURS)}")] if text else []
    calls: list[Fields] = [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in said.calls
    ]
    return tuple([dumps(item) for item in (*made, *calls)])


@dataclass(frozen=True, slots=True)
class Recalled:
    """What was before a request. `session` and `thread` are those that it belongs to."""

    history: History
    before: Before
    language: str
    session: str
    thread: str
    tokens: int = 0


def recalled(ask: Ask, kept: bytes | None) -> Recalled | None:
    """What was before a request; None where nothing is known of it.

    `BadAsk` where the provider could not understand it: it goes on with an answer that nobody remembers.
    """
    found, body, name = peek(kept) if kept else None, ask.parsed, continues(ask)
    if not isinstance(body, Body):
        return None
    if not isinstance(found, dict) or found.get("version") != VERSION:
        if name.startswith(OURS):
            raise _unknown(name)
        return None
    if found["lost"]:
        raise _unknown(name)
    history = History(
        body.history.items, body.history.instructions, before=int(found["count"]), last=dict(found["said"])
    )
    before = Before(found["upstream"], tuple([str(one).encode() for one in found["front"]]))
    return Recalled(
        history, before, str(found["language"]), str(found["session"]), str(found["thread"]), _tokens(found)
    )


def _tokens(found: Fields) -> int:
    """Nothing of an answer that an earlier version kept."""
    tokens = found.get("tokens")
    return tokens if isinstance(tokens, int) else 0


def _unknown(name: str) -> BadAsk:
    told = (
        f"Previous response with id '{name}' not found: guardproxy answered in the model's place there, and no longer "
        "knows what was said; send the conversation itself."
    )
    return BadAsk(told, code="previous_response_not_found", param="previous_response_id")
