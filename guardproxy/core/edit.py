"""The closed set of changes to a request or its answer. An intervention answers edits; a surface carries them out."""

from __future__ import annotations

from guardproxy.core.model import value


@value
class Edit:
    """Base of the closed set of changes to a request or its answer."""


@value
class AppendText(Edit):
    """Append `text` to the content of the message at `index` of the request."""

    index: int
    text: str


class ForbidTools(Edit):
    """Keep the tools in the body and set `tool_choice` to none."""


class SpliceUsage(Edit):
    """Ask for stream usage in the client's place; the extra chunk is stripped again."""


@value
class LimitOutput(Edit):
    """Ask for at most so many tokens of output: a budget has room for no more."""

    tokens: int


@value
class DropCalls(Edit):
    """Take calls out of the answer; if no text is left, answer `text`."""

    text: str


@value
class Reply(Edit):
    """Answer in the model's place; no upstream call."""

    text: str


@value
class Reject(Edit):
    """Answer with an HTTP error; no upstream call."""

    status: int
    code: str
    message: str


@value
class PutBack(Edit):
    """What the client never saw stands in the request again, so that every call has its result (DESIGN section 7).

    `index`: of the client's assistant message; the number of messages where it is not there yet. `before`: messages in
    the surface's own form that stand before it. `calls`: calls in that form by their place among the message's calls.
    `after`: their results, behind the message. `said`: text of `before` with which the message's content begins too,
    since the client was given both as one. `instead`: the message is one of our notices, and this is what it says for
    the model; without a message of another role behind it, it is left out, so that no request ends with words of ours.
    `again`: the same request is sent once more, behind what was answered to it.
    """

    index: int
    before: tuple[bytes, ...] = ()
    calls: tuple[tuple[int, bytes], ...] = ()
    after: tuple[bytes, ...] = ()
    said: str = ""
    instead: str = ""
    again: bool = False


@value
class ReplaceText(Edit):
    """The text of the tool result at `index` becomes `text`; texts appended to it stand behind."""

    index: int
    text: str
