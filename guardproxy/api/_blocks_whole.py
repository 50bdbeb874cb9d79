"""A whole answer made of blocks: see `_whole`."""

from __future__ import annotations

from guardproxy.api import _blocks_clear, _blocks_cut
from guardproxy.api._blocks_answer import Reader
from guardproxy.api._blocks_cut import CALLING
from guardproxy.api._gate import GAP, SHORT, Joint, summed
from guardproxy.api._json import dumps

Fields = dict[str, object]


class Blocks:
    """`Form` of blocks."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self.take = reader.take

    @property
    def sound(self) -> bool:
        return bool(self._reader.answer.choices)

    def clear(self, raw: bytes, *, firm: bool) -> tuple[bytes, bytes] | None:
        found = _blocks_clear.whole(raw, firm=firm)
        return None if found is None else (found, found)

    def holds(self, payload: Fields) -> bool:
        return isinstance(payload.get("content"), list)

    def failed(self, payload: Fields) -> bool:
        return self._reader.answer.failed

    def cut(self, payload: Fields, text: str) -> bool:
        return not self._reader.answer.failed and _blocks_cut.whole(payload, text, self._reader.blocks)

    def mend(self, payload: Fields) -> bool:
        if payload.get("stop_reason") != CALLING or self._reader.blocks.call_count or self._reader.answer.failed:
            return False
        payload["stop_reason"] = "end_turn"
        return True

    def leave_out(self, payload: Fields, keep: frozenset[int]) -> bool:
        blocks = _blocks_of(payload)
        gone = [call for place, call in enumerate(filter(_called, blocks)) if place not in keep]
        payload["content"] = left = [block for block in blocks if not any(block is one for one in gone)]
        if gone and not any(map(_called, left)) and payload.get("stop_reason") not in SHORT:
            payload["stop_reason"] = "end_turn"
        return bool(gone)

    def count(self, payload: Fields) -> int:
        return sum(map(_called, _blocks_of(payload)))

    def joined(self, payload: Fields, joint: Joint) -> bytes:
        """Under the first answer's id."""
        payload |= joint.base
        usage, blocks = payload.get("usage"), _blocks_of(payload)
        if isinstance(usage, dict):
            payload["usage"] = summed(joint.usage, usage)
        if joint.text:
            spoken = bool(blocks) and isinstance(blocks[0], dict) and blocks[0].get("type") == "text"
            payload["content"] = [{"type": "text", "text": joint.text + (GAP if spoken else "")}, *blocks]
        return dumps(payload)

    def joint(self, before: Joint, calls: int, *, shown: bool) -> Joint:
        text = self._reader.blocks.text if shown else ""
        return Joint(
            base=before.base or self._reader.base,
            text=GAP.join([part for part in (before.text, text) if part]),
            calls=before.calls + calls,
            usage=summed(before.usage, self._reader.usage),
        )


def _blocks_of(payload: Fields) -> list[object]:
    content = payload.get("content")
    return content if isinstance(content, list) else []


def _called(block: object) -> bool:
    return isinstance(block, dict) and block.get("type") == CALLING
