"""How an answer of /v1/messages is watched: see `_watching`."""

from __future__ import annotations

from guardproxy.api._answer import Answer
from guardproxy.api._blocks_answer import Fields, Reader, message_of
from guardproxy.api._blocks_cut import StreamCut
from guardproxy.api._blocks_gate import BlockEvents, Edits
from guardproxy.api._blocks_halt import Halt
from guardproxy.api._blocks_skim import Skimmer
from guardproxy.api._blocks_whole import Blocks
from guardproxy.api._gate import Joint
from guardproxy.api._passing import Passing
from guardproxy.api._watching import Watch, Wishes
from guardproxy.core.model import Ask, Call, Message

LAST = 96
"""A chunk longer than the last event of a stream with its surroundings: such an event may come in pieces."""


class BlocksAnswer:
    """`Dialect` of blocks."""

    clears = True

    def __init__(self, ask: Ask, wishes: Wishes) -> None:
        self.answer = Answer()
        self._wishes = wishes
        self._reader = Reader(self.answer)
        self.take = self._reader.take

    @property
    def edits(self) -> bool:
        return self._wishes.text is not None or self._wishes.options.used

    def editor(self) -> Edits:
        text, options = self._wishes.text, self._wishes.options
        cut = StreamCut(text, self._reader.blocks) if text is not None else None
        return Edits(self._reader, cut, Halt(self._reader, options, self._wishes.language) if options.used else None)

    def gated(self) -> tuple[Edits, BlockEvents]:
        editor = self.editor()
        return editor, BlockEvents(editor, self._reader, self._wishes.gate, self._wishes.joint)

    def passing(self) -> Unedited:
        return Unedited(Skimmer(self._reader).read)

    def form(self) -> Blocks:
        return Blocks(self._reader)

    def raw_message(self) -> Fields:
        return message_of([block.built() for block in self._reader.blocks.blocks])

    def raw_calls(self) -> list[Fields]:
        return [block.built() for block in self._reader.blocks.blocks if block.position >= 0]

    def hosted(self) -> tuple[tuple[Call, Message | None], ...]:
        return ()  # what the provider has carried out stands in the answer with its results

    def joint(self) -> Joint:
        return self._reader.joint()


watch = Watch(BlocksAnswer)


class Unedited(Passing):
    """A stream that nobody edits."""

    @property
    def may_be_over(self) -> bool:
        if not self._waiting:
            return False
        last = self._waiting[-1]
        return b"_stop" in (last if len(last) > LAST else b"".join((self._tail, *self._waiting[-LAST:])))
