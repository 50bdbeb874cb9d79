"""The nouns of guardproxy: plain frozen values that all share. `_ms` is milliseconds, `_microusd` millionths of $1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum, IntFlag
from typing import NamedTuple, TypeVar, dataclass_transform

from guardproxy.core.bearing import NOTHING, Bearing
from guardproxy.core.exemption import Spared

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def value(cls: type[T]) -> type[T]:
    """A value: frozen for the type checker, plain slots at run time (dozens a request, at a fifth of the cost)."""
    return dataclass(slots=True, unsafe_hash=True)(cls)


Fp = bytes  # a fingerprint: 16 bytes, keyed
NO_FP: Fp = bytes(16)  # no fingerprint: an unanswered call has no result, a success has no error signature


class Rung(IntEnum):
    """How far up the ladder a turn is. The order is the meaning."""

    PASS = 0
    OBSERVE = 1
    NUDGE = 2
    FIRM = 3
    FINALIZE = 4
    CUT = 5


class Kind(IntEnum):
    """What a step is: a call, a reply without one, one with nothing at all, a span's beginning, a refused length."""

    CALL = 0
    TEXT = 1
    EMPTY = 2
    BOUNDARY = 3
    TOO_LONG = 4


class Flag(IntFlag):
    """What is known of a step beside its fingerprints."""

    NONE = 0
    ROUND_START = 1  # first step of its assistant message
    FAILED = 2  # the result is an error
    VOID = 4  # the result is empty or says that there is nothing
    PENDING = 8  # the result says: not ready yet
    INVALID = 16  # no tool name, or arguments that are not a JSON object
    MUTATES = 32  # the tool changes something
    THINK = 64  # think, plan, wait, a reply of ours: not evidence
    MEDIA = 128  # the result holds an image or a file
    CLEARED = 256  # the client took the result away to save context
    UNANSWERED = 512  # no result has arrived
    SILENT = 1024  # a bare success (blank, "ok", "closed") of a call that is not known to only look
    LONG = 2048  # the user's text that answered a reply is as long as a program's
    NO_TOOL = 4096  # the result says that no tool has this name
    LOOKS = 8192  # the call only shows something, as far as that is plain
    ZERO = 16384  # the result is a bare count of nothing
    SHELL = 32768  # the tool is a shell: one name for many ends


class _Flags(dict[int, Flag]):
    def __missing__(self, number: int) -> Flag:
        made = self[number] = Flag(number)
        return made


FLAGS = _Flags()
"""Every combination that was met, made once: making one costs as much as a hash, and most are never met."""


class Call(NamedTuple):  # a tuple: made several times a request, at a third of a frozen dataclass's cost
    """A tool call as it stands in a message. `arguments` is the JSON text received; an object is re-serialised."""

    name: str
    arguments: str
    id: str = ""


class Message(NamedTuple):  # a tuple for the same reason
    """A message in neutral form. `role`: system, user, assistant, tool (developer and function are folded in)."""

    role: str
    text: str = ""
    calls: tuple[Call, ...] = ()
    call_id: str = ""
    name: str = ""
    media: tuple[bytes, ...] = ()
    failed: bool | None = None


@value
class Declared:
    """What the client says of itself: session and thread ids (may be empty) and the place they were read from.

    `user` and `labels` (names and values) are claims: what they are good for is the key's to say.
    """

    session: str = ""
    thread: str = ""
    source: str = "derived"
    agent: str = ""
    user: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    progress: tuple[int, ...] = ()  # what it reports of its progress, in the order of `core.progress.FIELDS`


@value
class Ask:
    """One request: the bytes received, the leading system and first user messages, the window from `tail_start` on."""

    surface: str
    model: str
    stream: bool
    body: bytes
    count: int
    head: tuple[Message, ...]
    tail: tuple[Message, ...]
    tail_start: int
    declared: Declared = Declared()
    tools: tuple[str, ...] = ()
    tool_choice: str = ""
    finish_tool: tuple[str, str] | None = None  # (tool, its one string argument) when tool_choice is required
    max_tokens: int | None = None
    choices: int = 1
    wants_usage: bool = False  # the client itself asked for stream usage
    may_splice_usage: bool = False  # a stream without stream_options: we may ask in its place
    language: str = "en"
    parsed: Mapping[str, object] = field(default_factory=dict, repr=False)
    defaults: Mapping[str, Mapping[str, object]] = field(default_factory=dict)  # in the schemas of the tools called
    aside: bool = False  # it costs, but is no turn of any run
    background: bool = False  # the provider makes the answer whoever listens
    held_tokens: int = 0  # of what the provider has of the conversation, and the request does not, as far as is known


@value
class Step:
    """One call with its result (or one reply without a call), as fingerprints. What the ring keeps; no content."""

    kind: Kind
    tool: str
    call: Fp  # tool and canonical arguments
    near: Fp  # the same but for cosmetics
    masked: Fp  # the same but for numbers
    result: Fp = NO_FP
    masked_result: Fp = NO_FP
    signature: Fp = NO_FP  # what kind of error
    flags: Flag = Flag.NONE
    at_ms: int = 0
    place: int = 0  # index of its assistant message in the request that brought it; 0: not known
    bearing: Bearing = NOTHING

    @property
    def pair(self) -> tuple[Fp, Fp]:
        """The near action together with its result: the unit of repetition."""
        return self.near, self.result


@value
class Trail:
    """The steps of a thread since the last genuine user message, oldest first; `first` is the ordinal of `steps[0]`."""

    steps: tuple[Step, ...]
    first: int = 0

    @property
    def last(self) -> int:
        """Ordinal of the newest step."""
        return self.first + len(self.steps) - 1


@value
class Triple:
    """Counts at which to nudge, to be firm and to cut; 0 = never. Finalize sits at cut - 1 where above firm."""

    nudge: int
    firm: int
    cut: int

    def rung(self, count: int) -> Rung:
        """The rung that `count` has reached."""
        if self.cut and count >= self.cut:
            return Rung.CUT
        if self.cut and self.cut - 1 > self.firm and count >= self.cut - 1:
            return Rung.FINALIZE
        if self.firm and count >= self.firm:
            return Rung.FIRM
        return Rung.NUDGE if self.nudge and count >= self.nudge else Rung.OBSERVE


@value
class Finding:
    """A detector's whole answer. `rule` is the file name, config key, metric label, log field and docs anchor."""

    rule: str
    count: int
    triple: Triple
    subject: Fp  # identity of the episode
    members: tuple[Fp, ...]  # near actions that belong to it
    reason: str  # one sentence an operator understands
    evidence: tuple[int, ...]  # ordinals of steps
    unit: int = 1  # steps that make one count: the period of a cycle
    spared: Spared | None = None  # why its rung is lower than its count says

    @property
    def rung(self) -> Rung:
        """The rung its count has reached by itself."""
        return self.triple.rung(self.count)


@value
class Episode:
    """One loop, from its first intervention on: what `decide` writes and reads back. Stored as opaque bytes."""

    rule: str
    subject: Fp
    members: tuple[Fp, ...]
    rung: Rung
    count: int
    at_step: int  # ordinal of the newest step when decided
    triple: Triple
    unit: int = 1


@value
class Usage:
    """Tokens of one attempt. `estimated` where the provider did not say.

    `input` includes cached ones and cache writes, sound and pictures; `output` includes reasoning, sound and pictures,
    of which -1 = the provider did not say; `cache_write` one-hour writes. `others`: what other models used, which is in
    all of these, too. `searches`, `file_searches`: of the provider's own tools, no tokens.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    cache_write: int = 0
    reasoning: int = 0
    estimated: bool = False
    cache_write_1h: int = 0
    audio: int = 0
    image: int = 0
    audio_output: int = -1
    image_output: int = -1
    others: tuple[tuple[str, Usage], ...] = ()
    searches: int = 0
    file_searches: int = 0


class Line(NamedTuple):  # a tuple: nine are made for every request, and sent as they are
    """One budget to hold against. `key` names the scope's counters; `limit` -1 = only count."""

    scope: str  # span, session, and later org, team, key, user, model
    dimension: str  # a name in core.budget.DIMENSIONS
    hold: int
    limit: int = -1
    key: str = ""
    clock: bool = False  # used = milliseconds since the scope began; nothing is held


@value
class Decision:
    """What `policy.decide` makes of a turn. `action` is what is done; `would` what enforce mode would have done."""

    action: str  # pass, observe, nudge, firm, finalize, cut, deny
    rung: Rung = Rung.PASS
    rule: str = ""
    count: int = 0
    reason: str = ""
    mode: str = "enforce"
    would: str = ""
    finding: Finding | None = None
    findings: tuple[Finding, ...] = ()
    episode: Episode | None = None  # to be stored when not None
    refused: Line | None = None  # the budget that denied
    spared: tuple[Spared, ...] = ()
    over: bool = False  # the final text was given often enough: HTTP 400 from now on
    exempted: tuple[str, ...] = ()  # labels of the exemptions that held something back
    scope: str = ""  # of the tenant's budget that is nearly used up
    errors: tuple[str, ...] = ()  # rules whose detector raised; the turn goes on without them

    @property
    def ends(self) -> bool:
        """Whether no further call is to be made in this turn. What is only observed ends nothing, whatever its rung."""
        return self.rung >= Rung.FINALIZE and self.mode == "enforce"
