"""What an answer made of blocks holds, event by event or whole: our view of it, and its blocks as a request has them.

Never raises, whatever the provider sends. A piece belongs to the newest block of its index, or to the newest of all
where that index was never begun; a call begins with each block of its kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardproxy.api._answer import Answer, Choice
from guardproxy.api._blocks import GAP
from guardproxy.api._calls import MAX_ARGUMENTS, MAX_CALLS
from guardproxy.api._gate import Joint
from guardproxy.api._json import dumps, mend, peek, text_of
from guardproxy.api._sse import payload_of
from guardproxy.api._usage import merge, usage_of
from guardproxy.core.model import Call

Raw = Mapping[str, object]
Fields = dict[str, object]

PIECES = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "input_json_delta": "partial_json",
}
"""What a piece of a block holds, by its kind."""

MOST_KEPT = 16 * 1024 * 1024
"""Characters of one answer that are kept; nothing real comes near."""

MOST_BLOCKS = 4096
"""Blocks of one answer that are told apart."""


class Block:
    """A block under construction. `position`: of a call, among the answer's calls; -1 for what is none."""

    __slots__ = ("fields", "index", "kind", "parts", "position", "size")

    def __init__(self, index: object, fields: Raw, position: int) -> None:
        self.index = index
        self.fields = fields
        self.kind = _text(fields.get("type"))
        self.position = position
        self.parts: dict[str, list[str]] = {}
        self.size = 0

    def add(self, key: str, piece: str) -> None:
        if self.size < MAX_ARGUMENTS:
            self.parts.setdefault(key, []).append(piece)
            self.size += len(piece)

    def arguments(self) -> str:
        """Of a call, as they came; a provider may send them whole at the beginning."""
        came = mend("".join(self.parts.get("partial_json", ())))
        if came.strip():
            return came
        given = self.fields.get("input")
        return text_of(given) if given else "{}"

    def call(self) -> Call:
        return Call(mend(_text(self.fields.get("name"))), self.arguments(), mend(_text(self.fields.get("id"))))

    def built(self) -> Fields:
        """As a request has it."""
        made = dict(self.fields)
        for key, parts in self.parts.items():
            if key != "partial_json":
                made[key] = mend(text_of(made.get(key)) + "".join(parts))
        if "input" in made or "partial_json" in self.parts:
            made["input"] = given(self.arguments())
        return made


class Blocks(Choice):
    """The answer: its blocks, and what `Choice` tells of any."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[Block] = []
        self._made = 0
        self._joins = False  # the newest block is text, and the next one goes on with it

    def built(self) -> tuple[Call, ...]:
        return tuple([block.call() for block in self.blocks if block.position >= 0])

    def names(self) -> Iterator[tuple[str, bool]]:
        return iter([(_text(block.fields.get("name")), True) for block in self.blocks if block.position >= 0])

    @property
    def call_count(self) -> int:
        return self._made

    def begin(self, index: object, fields: Raw) -> None:
        """A block begins. A call that begins again, with the same id and name, goes on."""
        kind = _text(fields.get("type"))
        if kind == "tool_use" and self._goes_on(index, fields):
            return
        position = -1
        if kind == "tool_use":
            self._made += 1
            position = self._made - 1 if self._made <= MAX_CALLS else -2
        text = _text(fields.get("text")) if kind == "text" else ""
        self._joins = self._joins and kind == "text"
        if len(self.blocks) < MOST_BLOCKS:
            self.blocks.append(Block(index, fields, position))
        self._say(text)
        thought = fields.get("thinking")
        given = fields.get("input")
        self.produced += len(thought) if isinstance(thought, str) else 0
        self.produced += len(text_of(given)) if given else 0

    def add(self, index: object, delta: Raw) -> None:
        """A piece of a block."""
        key = PIECES.get(_text(delta.get("type")), "")
        if key:
            self.add_piece(index, key, text_of(delta.get(key)))

    def add_piece(self, index: object, key: str, piece: str) -> None:
        """The same, where it is known what the piece holds."""
        block = self.at(index)
        if block is None:
            return
        if key == "text":
            self._say(piece)
        elif key != "signature":
            self.produced += len(piece)
        if self.produced < MOST_KEPT:
            block.add(key, piece)

    def at(self, index: object) -> Block | None:
        """The newest block of that index, else the newest."""
        blocks = self.blocks
        if blocks and blocks[-1].index == index:
            return blocks[-1]
        return next((one for one in reversed(blocks) if one.index == index), blocks[-1] if blocks else None)

    def _goes_on(self, index: object, fields: Raw) -> bool:
        known = self.at(index) if fields.get("id") else None
        same = known is not None and known.index == index and known.kind == "tool_use"
        return known is not None and same and all(known.fields.get(key) == fields.get(key) for key in ("id", "name"))

    def _say(self, text: str) -> None:
        if not text:
            return
        self.add_text(text if self._joins or not self.chars else GAP + text)
        self._joins = True


class Reader:
    """Reads the events of one answer, or the whole of it, into an Answer."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.blocks = Blocks()
        self.base: Fields = {}
        """Id and model of the answer."""
        self.usage: Fields = {}
        """Its usage in the provider's own form: the newest of running totals."""
        self._open: object = None
        self._role = False

    def read(self, event: bytes) -> Fields:
        """Take one event. Its JSON; empty where it holds none."""
        payload = payload_of(event)
        if payload:
            self.take(payload)
        return payload

    def take(self, payload: Fields) -> None:
        """Take the JSON of one event, or a whole answer."""
        kind, answer = payload.get("type"), self.answer
        if kind == "content_block_delta":
            delta = payload.get("delta")
            if isinstance(delta, dict):
                self.blocks.add(payload.get("index"), delta)
        elif kind == "content_block_start":
            block = payload.get("content_block")
            self._here()
            self._open = payload.get("index")
            self.blocks.begin(self._open, block if isinstance(block, dict) else {})
        elif kind == "content_block_stop":
            self._open = None
        elif kind == "message_stop":
            answer.done = True
        elif kind == "message_start":
            begun = payload.get("message")
            self._role = True
            self._message(begun if isinstance(begun, dict) else {})
        elif kind == "message_delta":
            delta = payload.get("delta")
            self.blocks.finish = (
                _text(delta.get("stop_reason") if isinstance(delta, dict) else "") or self.blocks.finish
            )
        else:
            answer.failed = answer.failed or kind == "error" or bool(payload.get("error"))
            if isinstance(payload.get("content"), list) or (kind == "message" and not answer.failed):
                self._message(payload)
        if "usage" in payload:  # on any event, as providers have it
            self._count(payload)

    @property
    def half(self) -> bool:
        """Whether the block that is open is a call."""
        block = self.blocks.at(self._open) if self._open is not None else None
        return block is not None and block.position != -1

    def _here(self) -> None:
        self.answer.choices[0] = self.blocks

    def _message(self, message: Raw) -> None:
        self._here()
        answer = self.answer
        answer.id = answer.id or mend(_text(message.get("id")))
        answer.model = answer.model or mend(_text(message.get("model")))
        self.base = self.base or {key: message[key] for key in ("id", "model") if message.get(key)}
        self._count(message)
        self.blocks.finish = _text(message.get("stop_reason")) or self.blocks.finish
        content = message.get("content")
        for index, block in enumerate(content if isinstance(content, list) else ()):
            if isinstance(block, dict):
                self.blocks.begin(index, block)

    def _count(self, holder: Raw) -> None:
        if "usage" in holder:
            self.answer.usage = merge(self.answer.usage, usage_of(holder["usage"]))
            if isinstance(found := holder["usage"], dict):
                self.usage = newest(self.usage, found)

    def joint(self) -> Joint:
        """What the client was given, of a stream that passes as it comes."""
        return Joint(
            base=self.base,
            role=self._role,
            text=self.blocks.text,
            calls=self.blocks.call_count,
            usage=self.usage,
            blocks=len(self.blocks.blocks),
            streamed=True,
            open=self._open is not None,
            half=self.half,
        )


def newest(before: Raw, now: Raw) -> Fields:
    """The later of two running totals; a count never falls."""
    made = dict(before)
    for key, value in now.items():
        old = before.get(key)
        if isinstance(value, dict) and isinstance(old, dict):
            made[key] = newest(old, value)
        elif type(value) is int and type(old) is int:
            made[key] = max(old, value)
        elif value is not None or key not in made:
            made[key] = value
    return made


def given(arguments: str) -> object:
    """Arguments as a request has them: an object, in which what is none stands as text."""
    found = peek(arguments)
    if isinstance(found, dict):
        return found
    return {"invalid_arguments": arguments} if arguments.strip() else {}


def message_of(blocks: Sequence[Fields]) -> Fields:
    """The assistant message that a request carries. Providers refuse blocks and messages without words."""
    kept = [block for block in blocks if block.get("type") != "text" or _text(block.get("text")).strip()]
    return {"role": "assistant", "content": kept or [{"type": "text", "text": "…"}]}


def calls_of(blocks: Sequence[Fields]) -> list[Fields]:
    """The calls among the blocks."""
    return [block for block in blocks if block.get("type") == "tool_use"]


def raw(blocks: Sequence[Fields]) -> tuple[bytes, ...]:
    """Blocks as bytes."""
    return tuple([dumps(block) for block in blocks])


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
