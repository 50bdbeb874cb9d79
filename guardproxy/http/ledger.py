"""The texts we added to a conversation, kept encrypted beside it so that they can be put back on every later turn.

An entry is found again by its anchor: the place of the message it was appended to, with a digest of that message and
of the one before it, without ids. Local on purpose: an anchor over the whole prefix would cost a walk over the history.
A message can carry several texts (the same request again after an empty answer): the anchor ends in their number.

What is put back belongs to one answer, and a request can have several (its answer was lost, and it was sent again): the
anchor of rounds also says which answer it was, and the one that the client has kept brings its own. What a person has
decided belongs to the request itself, whatever is answered to it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from guardproxy.core.edit import AppendText, Edit, PutBack
from guardproxy.core.fingerprint import Fingerprinter, hash16
from guardproxy.core.model import Call, Message

NONCE = 12
"""Bytes, as AES-GCM wants them (NIST SP 800-38D)."""

ROUNDS = "r"
"""Begins the anchor of rounds and calls that are put back; that of a text begins with a number."""

CALLS, WORDS = 16, 500
"""Calls, and characters of text, by which an answer is known."""

At = Callable[[int], Message | None]
"""The message at an index of the request, if there is one: a surface reads it from the parsed body."""


class Form(Protocol):
    """How a surface's messages and calls are read: what is put back is kept in its form."""

    def read_message(self, raw: bytes, /) -> Message: ...
    def read_calls(self, raws: Sequence[bytes], /) -> tuple[Call, ...]: ...


class Rounds(NamedTuple):
    """An anchor of rounds: the place, the answer by its calls, the answer exactly, and which of several it is.

    Without an answer it belongs to the request.
    """

    place: str
    calls: str
    exact: str
    number: int


class Ledger:
    """Seals and opens ledger texts (AES-GCM, 12-byte random nonce in front). `key`: 32 bytes."""

    def __init__(self, key: bytes, printer: Fingerprinter) -> None:
        self._cipher = AESGCM(key)
        self._printer = printer

    def seal(
        self,
        at: At,
        edits: Sequence[Edit],
        put_back: Sequence[Edit] = (),
        kept: Sequence[PutBack] = (),
        *,
        decided: Sequence[PutBack] = (),
        answer: Message | None = None,
        known: Iterable[str] = (),
    ) -> dict[str, bytes]:
        """Entries by anchor: for the texts that `edits` append behind those put back, and for what `kept` puts back.

        `decided`: what is put back whatever the answer. `answer`: what the client is given, where it is not in its
        history yet. `known`: anchors that there are.
        """
        entries = {}
        places = [edit.index for edit in put_back if isinstance(edit, AppendText)]
        for edit in edits:
            if isinstance(edit, AppendText):
                anchor = f"{self._anchor(at, edit.index)}:{places.count(edit.index)}"
                places.append(edit.index)
                entries[anchor] = self.sealed(anchor, edit.text.encode())
        taken = [one.place for anchor in known if (one := _rounds_at(anchor))] if kept or decided else []
        for back in (*decided, *kept):
            place = self._before(at, back.index)
            whose = "." if back in decided else ".".join(self._answer(at(back.index) or answer or Message("assistant")))
            anchor = f"{ROUNDS}{place}:{whose}:{taken.count(place)}"
            taken.append(place)
            entries[anchor] = self.sealed(anchor, _packed(back))
        return entries

    def other(self, at: At, index: int, known: Iterable[str]) -> tuple[PutBack, ...]:
        """What is to be kept of an answer that needs nothing put back, where another one to the same request did."""
        taken = [one for anchor in known if (one := _rounds_at(anchor))]
        place = self._before(at, index) if taken else ""
        return (PutBack(index),) if any(one.place == place and one.exact for one in taken) else ()

    def put_back(
        self, at: At, entries: Mapping[str, bytes], form: Form
    ) -> tuple[tuple[AppendText | PutBack, ...], bool]:
        """What stands in this conversation again, as the edits it was, in order; whether texts have lost their place.

        What was put back at a message goes with it: a compaction that takes it away takes calls and results together.
        """
        texts: list[tuple[int, int, str]] = []
        rounds: dict[str, list[tuple[Rounds, str]]] = {}
        lost = 0
        for anchor, sealed in entries.items():
            if anchor.startswith(ROUNDS):
                if one := _rounds_at(anchor):
                    rounds.setdefault(one.place, []).append((one, anchor))
                continue
            place, _, number = anchor.rpartition(":")
            index = int(place.partition(":")[0])
            if self._anchor(at, index) != place:
                lost += 1
            elif text := self.opened(anchor, sealed):
                texts.append((index, int(number), text.decode()))
        found = tuple(AppendText(index, text) for index, _, text in sorted(texts))
        backs = [back for place, some in rounds.items() for back in self._rounds(at, place, some, entries, form)]
        return (*found, *sorted(backs, key=lambda one: one.index)), lost > 0 and not found

    def _rounds(
        self, at: At, place: str, some: Sequence[tuple[Rounds, str]], entries: Mapping[str, bytes], form: Form
    ) -> list[PutBack]:
        """What stands at a place whatever is answered there, and what belongs to the answer given, in order."""
        index = int(place.partition(":")[0])
        if self._before(at, index) != place or (index and at(index - 1) is None):
            return []
        chosen = sorted(self._chosen(at(index), some))
        backs = []
        for _, anchor, exact in chosen:
            raw = self.opened(anchor, entries[anchor])
            back = _unpacked(index, raw) if raw else None
            if back is not None and not self._came_after_all(at(index), anchor, back, form):
                # words of ours are known by all of them: what only looks like them stays
                backs.append(back if exact or not back.instead else replace(back, instead=""))
        whole = _each_id_once(at(index), backs, form)
        return [back for back in whole if back != PutBack(index)]

    def _came_after_all(self, here: Message | None, anchor: str, back: PutBack, form: Form) -> bool:
        """Whether the message itself makes the calls of a decision that was put back because they were thought lost.

        By what they are, too: many providers begin their ids anew with each answer.
        """
        one = _rounds_at(anchor)
        if here is None or not here.calls or one is None or one.exact:
            return False
        own = {(call.id, self._printer.call(call)) for call in here.calls if call.id}
        made = [call for raw in back.before for call in form.read_message(raw).calls]
        return any((call.id, self._printer.call(call)) in own for call in made)

    def _chosen(self, here: Message | None, some: Sequence[tuple[Rounds, str]]) -> list[tuple[int, str, bool]]:
        """Numbers and anchors, and whether the message is that answer to the letter.

        Of an answer that is none of those given there is nothing: a fork, or written anew.
        """
        found = [(one.number, anchor, False) for one, anchor in some if not one.exact]
        given = [pair for pair in some if pair[0].exact]
        if here is None or here.role != "assistant" or not given:
            return found
        calls, exact = self._answer(here)
        own = [pair for pair in given if pair[0].exact == exact] or [pair for pair in given if pair[0].calls == calls]
        if not own:
            return found
        one, anchor = max(own, key=lambda pair: pair[0].number)
        return [*found, (one.number, anchor, one.exact == exact)]

    def _answer(self, message: Message) -> tuple[str, str]:
        """Digests of an answer: of its calls as canonical actions, and of these with ids and words."""
        made, printer = message.calls[:CALLS], self._printer
        actions = [printer.call(call).hex() for call in made]
        said = " ".join(message.text[:WORDS].split())
        exact = hash16(printer.key, "answer", *actions, *(call.id for call in made), said)
        return hash16(printer.key, "calls", *actions).hex()[:16], exact.hex()[:16]

    def _before(self, at: At, index: int) -> str:
        """The place of a message that may not be there yet: it is known by the one in front of it."""
        return f"{index}:{self._anchor(at, index - 1).partition(':')[2]}" if index else "0:"

    def sealed(self, anchor: str, content: bytes) -> bytes:
        """What is kept at an anchor, and can be read at no other one."""
        nonce = os.urandom(NONCE)
        return nonce + self._cipher.encrypt(nonce, content, anchor.encode())

    def opened(self, anchor: str, sealed: bytes) -> bytes:
        """What was kept at an anchor; nothing where it cannot be read."""
        try:
            return self._cipher.decrypt(sealed[:NONCE], sealed[NONCE:], anchor.encode())
        except InvalidTag:
            return b""  # the secret was changed: better no text than a wrong one

    def _anchor(self, at: At, index: int) -> str:
        here = at(index)
        if here is None:
            return ""
        before = at(index - 1) if index else None
        near = [message for message in (before, here) if message is not None]
        parts = [part for m in near for part in (m.role, m.text, *(c.name + c.arguments for c in m.calls))]
        return f"{index}:{hash16(self._printer.key, 'anchor', *parts).hex()}"


def _rounds_at(anchor: str) -> Rounds | None:
    """An anchor of rounds, read; None for any other."""
    place, _, number = anchor.removeprefix(ROUNDS).rpartition(":")
    place, _, answer = place.rpartition(":")
    calls, dot, exact = answer.partition(".")
    return Rounds(place, calls, exact, int(number)) if anchor.startswith(ROUNDS) and dot else None


def _each_id_once(here: Message | None, backs: Sequence[PutBack], form: Form) -> list[PutBack]:
    """Without the calls, and with them their results, that would bring an id into the message a second time.

    Clients number calls anew, and providers refuse such a message on every later turn.
    """
    taken = {call.id for call in here.calls if call.id} if here else set()
    kept = []
    for back in backs:
        ids = [call.id for call in form.read_calls([raw for _, raw in back.calls]) if call.id]
        if len({*ids} - taken) < len(ids):
            kept.append(PutBack(back.index, back.before, said=back.said, instead=back.instead))
        else:
            kept.append(back)
            taken.update(ids)
    return kept


def _packed(back: PutBack) -> bytes:
    """The stored form: messages and calls are JSON already, and stay as they are, byte for byte."""
    calls = [[place, raw.decode()] for place, raw in back.calls]
    before, after = [raw.decode() for raw in back.before], [raw.decode() for raw in back.after]
    fields = [before, calls, after, back.said]
    return json.dumps([2, *fields, back.instead] if back.instead else [1, *fields]).encode()


def _unpacked(index: int, raw: bytes) -> PutBack | None:
    form, *rest = json.loads(raw)
    if form not in (1, 2):  # of another version
        return None
    before, calls, after, *words = rest
    placed = tuple((place, call.encode()) for place, call in calls)
    return PutBack(index, tuple(one.encode() for one in before), placed, tuple(one.encode() for one in after), *words)
