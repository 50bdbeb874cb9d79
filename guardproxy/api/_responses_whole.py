"""A response in one piece: see `_whole`."""

from __future__ import annotations

from guardproxy.api._gate import GAP, Joint, summed
from guardproxy.api._json import dumps, peek
from guardproxy.api._reading import may_call
from guardproxy.api._responses_answer import Reader
from guardproxy.api._responses_clear import answer, doubled
from guardproxy.api._responses_events import message_of
from guardproxy.api._responses_given import Given, Sequel, given_of
from guardproxy.api._responses_items import Fields, is_call, kind_of, own_id, text_in


class Response:
    """`Form` of items."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._payload: Fields = {}  # as it was read

    @property
    def sound(self) -> bool:
        return self._reader.answer.done and not self._reader.answer.failed

    def take(self, payload: Fields) -> None:
        self._payload = payload
        self._reader.take(payload)

    def clear(self, raw: bytes, *, firm: bool) -> tuple[bytes, bytes] | None:
        if not firm:
            return raw, raw
        payload = peek(raw)
        if not isinstance(payload, dict):
            return None if may_call(raw) and b"{" in raw else (raw, raw)
        kept = answer(payload) if may_call(raw) else payload
        plain = raw if kept is payload or (kept == payload and not doubled(raw)) else dumps(kept)
        return plain, plain

    def holds(self, payload: Fields) -> bool:
        return isinstance(payload.get("output"), list)

    def failed(self, payload: Fields) -> bool:
        return bool(payload.get("error"))

    def cut(self, payload: Fields, text: str) -> bool:
        if self._reader.answer.failed or not self.holds(payload):
            return False
        output, spoken = _output(payload), self._reader.heard.spoken
        kept = [item for item in output if not _called(item)]
        if spoken and len(kept) == len(output):
            return False
        if not spoken:
            kept.append(message_of(text, own_id(self._reader.answer.id)))
        payload |= {"output": kept, "status": "completed", "incomplete_details": None}
        return True

    def mend(self, payload: Fields) -> bool:
        return False  # no reason here promises calls

    def leave_out(self, payload: Fields, keep: frozenset[int]) -> bool:
        output = _output(payload)
        gone = [call for place, call in enumerate(filter(_called, output)) if place not in keep]
        payload["output"] = [item for item in output if not any(item is one for one in gone)]
        return bool(gone)

    def count(self, payload: Fields) -> int:
        return sum(map(_called, _output(payload)))

    def joined(self, payload: Fields, joint: Joint) -> bytes:
        before, kept, usage = given_of(joint), _output(payload), payload.get("usage")
        payload |= {key: before.base[key] for key in ("id", "created_at") if key in before.base}
        payload["output"] = [*before.items, *kept]
        total = summed(before.usage, usage) if isinstance(usage, dict) else dict(before.usage)
        payload["usage"] = total
        if not before.streamed:
            return dumps(payload)
        sequel = Sequel(before)
        out = b"".join([sequel.item(item) for item in kept if isinstance(item, dict)])
        return out + sequel.end(payload, total)

    def joint(self, before: Joint, calls: int, *, shown: bool) -> Joint:
        """All but calls, and text that is held."""
        given = given_of(before)
        items = [item for item in self._reader.heard.items if shown and not is_call(item)]
        texts = [text for item in items if kind_of(item) == "message" and (text := text_in(item))]
        usage = self._payload.get("usage")
        return Given(
            given.base or {key: value for key, value in self._payload.items() if key not in ("output", "usage")},
            given.role,
            GAP.join([part for part in (given.text, *texts) if part]),
            given.calls + calls,
            summed(given.usage, usage) if isinstance(usage, dict) else given.usage,
            streamed=given.streamed,
            items=(*given.items, *items),
            opened=given.opened,
            index=given.index + len(items),
            number=given.number,
        )


def _output(payload: Fields) -> list[object]:
    output = payload.get("output")
    return output if isinstance(output, list) else []


def _called(item: object) -> bool:
    return isinstance(item, dict) and is_call(item)
