"""Steps as fingerprints: the normal form of calls, results, errors and texts, hashed with a key.

Pure apart from bounded memos (an agent sends the same history with every request; `session` remembers whole rounds).
Content never leaves this room: a fact holds tool names, flags, times and 16-byte hashes.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Mapping

from xxhash import xxh3_128_digest

from guardproxy.core import bearing, outcome
from guardproxy.core.bearing import Bearing
from guardproxy.core.canon import NOTHING, canonical
from guardproxy.core.envelope import opened
from guardproxy.core.extent import asked, borne
from guardproxy.core.fact import is_boundary, pack, stamp, unpack
from guardproxy.core.hashing import Hasher, finish, framed, hash16, raw
from guardproxy.core.hollow import hollow
from guardproxy.core.mask import WHOLE, mask, result_text, without_digits
from guardproxy.core.memo import Memo
from guardproxy.core.model import FLAGS, NO_FP, Call, Flag, Fp, Kind, Message, Step
from guardproxy.core.pause import announced_ms
from guardproxy.core.plan import shape
from guardproxy.core.referral import REFERRAL, refers
from guardproxy.core.signature import signature_text
from guardproxy.core.spelling import plain
from guardproxy.core.tools import (
    DEFAULT_RULES,
    Rules,
    Tool,
    changes,
    glances,
    only_looks,
    replaces,
    tool_of,
    waits,
)  # fmt: skip
from guardproxy.core.volatile import sketch

__all__ = [
    "GUARD_MARK", "Defaults", "Fingerprinter", "Rules", "hash16", "is_boundary", "mask", "pack", "stamp", "strip_own",
    "unpack",
]  # fmt: skip

GUARD_MARK = "[guardproxy]"
"""Every text of ours begins with this, so that a copy in a request can be taken out; the ledger is the authority."""

FORM = 80
"""Characters from which texts that differ only in digits are one form of a harness ("found 2 actions")."""

LONG = 40  # characters from which the text that answers a reply is a program's: a person says "go on"

LONG_RESULT = 512
"""Characters from which a result is hashed in two steps."""

WORDS = 2_000
"""Characters of what is said beside calls that are compared."""


def strip_own(text: str) -> str:
    """The text without advice of ours that a client may have kept: paragraphs that begin with our mark."""
    if "[" not in text or GUARD_MARK not in text:  # the first is ten times as fast
        return text
    paragraphs = text.split("\n\n")
    return "\n\n".join(part for part in paragraphs if not part.lstrip("\n").startswith(GUARD_MARK))


Defaults = Mapping[str, Mapping[str, object]]
"""By tool: what its schema in the request says of arguments that are left out."""

_Called = tuple[Fp, Fp, Fp, int, Bearing, bool]
_UNANSWERED = int(Flag.UNANSWERED)
_ROUND_START, _INVALID, _THINK, _MUTATES = map(int, (Flag.ROUND_START, Flag.INVALID, Flag.THINK, Flag.MUTATES))
_MEDIA, _VOID, _FAILED, _PENDING, _SILENT = map(int, (Flag.MEDIA, Flag.VOID, Flag.FAILED, Flag.PENDING, Flag.SILENT))
_LOOKS, _SHELL = int(Flag.LOOKS), int(Flag.SHELL)
_CALL = Kind.CALL  # by name it costs a third of a microsecond


class Fingerprinter:
    """Makes steps. `key` is secret (at most 64 bytes), `memo_size` bounds the steps remembered per process."""

    def __init__(self, key: bytes, rules: Rules = DEFAULT_RULES, memo_size: int = 8192) -> None:
        self.key = key
        self.rules = rules
        self._keyed = hashlib.blake2b(key=key, digest_size=16)
        self._seed = int.from_bytes(hash16(key, "seed")[:8])
        self._texts = Memo[int, Fp](memo_size)
        self._calls = Memo[int, _Called](memo_size)
        self._results = self._keyed.copy()
        self._results.update(b"result")
        self._words = self._keyed.copy()
        self._words.update(framed(("words", "")))
        self._tools: dict[str, tuple[Tool, Hasher]] = {}
        self.memo = Memo[int, object](4 * memo_size)
        """What callers remember of the texts that this printer has seen."""
        self.marks = pack(self.boundary(0)), pack(self.blank_step(0))
        """The facts of a boundary and of a blank answer, without their time (see `stamp`)."""

    def hash16(self, *parts: str | bytes) -> Fp:
        """`hash16` with this key, which is quicker where it has been set up."""
        digest = self._keyed.copy()
        digest.update(framed(parts))
        return digest.digest()

    def quick16(self, *parts: str | bytes) -> Fp:
        """A digest of long texts, ten times as quick: for what is compared, never for what others could forge."""
        return xxh3_128_digest(framed(parts), self._seed)

    def step(
        self, call: Call, result: Message | None, *, first: bool, at_ms: int, defaults: Mapping[str, object] = NOTHING
    ) -> Step:
        """The step of a call and its result (None: not answered yet). `first`: it opens its assistant message.

        `defaults`: those that the tool's schema in the request gives to arguments that are left out.
        """
        exact, near, masked, flags, bears, paged = self._called(call, defaults)
        if result is None:
            answer, masked_answer, signature, more = NO_FP, NO_FP, NO_FP, _UNANSWERED
            bears = bearing.NOTHING
        else:
            answer, masked_answer, signature, more = self._result(call, result)
            if flags & _THINK and more & _FAILED and not self._tool(call[0])[0].shell:
                flags &= ~_THINK  # a wait for something that never comes is evidence
            if more & _FAILED or bears is not bearing.NOTHING or not flags & (_LOOKS | _MUTATES):
                bears = borne(bears, strip_own(result[1]), failed=bool(more & _FAILED), paged=paged)
        flags |= more
        known, tool = FLAGS[flags | _ROUND_START if first else flags], call[0].strip()
        return Step(_CALL, tool, exact, near, masked, answer, masked_answer, signature, known, at_ms, 0, bears)

    def _bearing(self, hasher: Hasher, near: str, arguments: str, tool: Tool) -> tuple[Bearing, bool]:
        """What a call bears on, as far as it says so itself, and whether that is pages; most bear on nothing."""
        part = asked(near, arguments, tool)
        if part is not None:
            return Bearing(finish(hasher, f"extent\0{part.what}"), part.start, part.stop), part.paged
        plan = "" if tool.shell else shape(arguments)
        return Bearing(shape=finish(hasher, f"plan\0{plan}")) if plan else bearing.NOTHING, False

    def _called(self, call: Call, defaults: Mapping[str, object] = NOTHING) -> _Called:
        """What is known of a call alone, remembered: it is seen when it is proposed and again with its result."""
        name, arguments, _ = call
        known = hash((name, arguments, repr(defaults))) if defaults else hash((name, arguments))
        found = self._calls[known]
        if found is not None:
            return found
        tool, hasher = self._tool(name)
        told, alike, numberless, valid = canonical(arguments, tool, defaults)
        exact = finish(hasher, told)
        near = exact if alike is told else finish(hasher, alike)
        masked = near if numberless is alike else finish(hasher, numberless)
        flags = 0 if valid and name.strip() else _INVALID
        if tool.shell:  # what a command does is looked for in its words
            arguments = plain(arguments, tool)
            flags |= _SHELL
        pauses = waits(arguments, tool) if tool.waits else ""
        if tool.think or pauses == "only":
            flags |= _THINK
        if tool.mutates or (tool.shell and changes(arguments)):
            flags |= _MUTATES
        elif tool.looks or (tool.shell and glances(arguments)):
            flags |= _LOOKS
        bears, paged = self._bearing(hasher, alike, arguments, tool)
        if (pauses or tool.think) and (rest_ms := announced_ms(arguments, shell=bool(pauses))):
            bears = bears._replace(rest_ms=rest_ms)
        return self._calls.keep(known, (exact, near, masked, flags, bears, paged))

    def _result(self, call: Call, result: Message) -> tuple[Fp, Fp, Fp, int]:
        tool, hasher = self._tool(call[0])
        asked_for = plain(call[1], tool) if tool.shell else call[1]
        raw, told, reads = strip_own(result[1]), result[6], tool.reads
        found = opened(raw)
        if found is not None:
            raw = found[0]
            told = found.told() if told is None else told
            reads = reads or (found[1] == 0 and only_looks(asked_for, tool))
        text = result_text(raw, receipt=tool.mutates)
        inner = outcome.body(text)
        if tool.looks and not told and not result[5] and refers(inner):
            return REFERRAL, REFERRAL, NO_FP, 0
        empty = hollow(inner, asked_for)
        if empty is not None:
            text = inner = empty
            told = told or replaces(asked_for, tool) or None  # what was to be replaced is not there
        flags = int(outcome.flags(inner, reads=reads, told=told))
        if tool.failure_ok:
            flags &= ~_FAILED
        if result[5]:
            flags = (flags | _MEDIA) & ~_VOID
            text = f"{text}\0{self.hash16(*result[5]).hex()}"
        elif not flags & (_FAILED | _PENDING) and (len(inner) <= outcome.SHORT or tool.waits):
            flags |= self._bare(inner, asked_for, tool)
        printed = self._printed(f"{text}\0{found[1]}" if found is not None and found[1] else text)
        if flags & _FAILED:
            signature = finish(hasher, f"error\0{signature_text(inner, asked_for)}")
            return printed, finish(self._results, without_digits(inner[:4096])), signature, flags
        if flags & _VOID:
            return printed, finish(self._results, without_digits(inner[:4096])), NO_FP, flags
        rest = None if flags & (_MEDIA | _PENDING | _SILENT) else sketch(text)
        if rest is None:
            return printed, printed, NO_FP, flags
        return printed, printed, finish(self._results, b"sketch\0" + rest), flags

    def _printed(self, text: str) -> Fp:
        """A result's fingerprint. A long one is first made short, by a hash that is ten times as quick."""
        if len(text) < LONG_RESULT:
            return finish(self._results, text)
        return finish(self._results, b"long\0" + xxh3_128_digest(raw(text), self._seed))

    def _bare(self, inner: str, arguments: str, tool: Tool) -> int:
        """How a success is no evidence: it is bare, or the call itself has waited before it looked."""
        if tool.waits and waits(arguments, tool):
            return _PENDING
        silent = not only_looks(arguments, tool) if outcome.blank(inner) else outcome.affirmed(inner)
        return _SILENT if silent else 0

    def _tool(self, called: str) -> tuple[Tool, Hasher]:
        """What kind of tool that is, and a hasher that has taken in its name."""
        known = self._tools.get(called)
        if known is None:
            name = called.strip().casefold()
            hasher = self._keyed.copy()
            hasher.update(framed(("call", name)))
            if len(self._tools) >= 1024:
                self._tools.clear()
            known = self._tools[called] = (tool_of(name, self.rules), hasher)
        return known

    def text_step(self, text: str, reply: str | None, *, at_ms: int) -> Step:
        """The step of a reply without a call, with the user text that answered it. Blank text: an empty reply.

        An answer of ours in the model's place is no evidence of what the model does: THINK says so.
        """
        said = self.text(text)
        kind = Kind.TEXT if text.strip() else Kind.EMPTY
        answer = self.text(reply) if reply is not None else NO_FP
        flags = Flag.ROUND_START | Flag.LONG if len((reply or "").strip()) >= LONG else Flag.ROUND_START
        if text.startswith(GUARD_MARK):
            flags |= Flag.THINK
        return Step(kind, "", said, said, said, answer, answer, NO_FP, flags, at_ms)

    def blank_step(self, at_ms: int) -> Step:
        """The step of an answer with nothing in it, known from the same request coming again."""
        blank = self.hash16("blank")
        return Step(Kind.EMPTY, "", blank, blank, blank, flags=Flag.ROUND_START, at_ms=at_ms)

    def boundary(self, at_ms: int) -> Step:
        """The beginning of a request span."""
        return Step(Kind.BOUNDARY, "", NO_FP, NO_FP, NO_FP, at_ms=at_ms)

    def text(self, text: str) -> Fp:
        """A reply or a user's words: masked, spacing and case ignored; long texts also without their digits."""
        known = self._texts[hash(text)]
        if known is None:
            plain = text if text.isascii() else unicodedata.normalize("NFKC", text[:WHOLE]) + text[WHOLE:]
            plain = " ".join(mask(strip_own(plain)).casefold().split())
            known = self.hash16("text", without_digits(plain) if len(plain) >= FORM else plain)
            self._texts.keep(hash(text), known)
        return known

    def words(self, text: str) -> Fp:
        """What is said beside calls, spacing and case ignored; NO_FP: nothing is."""
        plain = text[:WORDS].casefold()
        if "  " in plain or not plain.isprintable():  # the only white space that is printable is a blank
            plain = " ".join(plain.split())
        plain = plain.strip()
        return finish(self._words, plain) if plain else NO_FP

    def refused_length(self, at_ms: int) -> Step:
        """The provider's word that the conversation is too long for its model."""
        same = self.hash16("too long")
        return Step(Kind.TOO_LONG, "", same, same, same, flags=Flag.ROUND_START, at_ms=at_ms)

    def call(self, call: Call) -> Fp:
        """The exact canonical action: what delivered rounds and counters of the same call are known by."""
        return self._called(call)[0]

    def near(self, call: Call, defaults: Mapping[str, object] = NOTHING) -> Fp:
        """The action but for cosmetics, as `Step.near` has it: what an episode's members are known by."""
        return self._called(call, defaults)[1]
