"""Several upstreams: which of them serve a model, in what order, and which are put aside for a while.

What is known of their health is this worker's own: each finds out by itself, at the price of a failed attempt.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from fnmatch import fnmatchcase

from guardproxy.core.memo import Memo
from guardproxy.errors import BadAsk
from guardproxy.http.upstream import Upstream

_log = logging.getLogger(__name__)

MODELS = 4096
"""Models remembered with their upstreams, up to twice as many; names are made up by clients."""

LONGEST = 256
"""Characters of a name that is remembered: what is longer names no model."""

STAYS = 16_000
"""Sessions remembered with their upstream, up to twice as many; some 4 MB."""

LONGEST_ASIDE_S = 86_400.0
"""Of what a Retry-After may ask: limits of providers are by the day at most."""

FAILOVER = 500
"""Statuses from here on are a failing provider's (RFC 9110, section 15.6), as 429 is a busy one's."""

BUSY = 429
"""Too many requests (RFC 6585)."""


@dataclass(frozen=True, slots=True)
class Rules:
    """When another upstream is asked: the fields of the section `failover`, without names of settings."""

    most: int = 3
    failures: int = 3
    aside_s: float = 30.0
    stays: bool = True


@dataclass(eq=False, slots=True)
class Member:
    """An upstream with what it serves, and how it is doing. Moments are seconds of the loop's clock."""

    upstream: Upstream
    models: tuple[str, ...] = ()
    rename: Mapping[str, str] = field(default_factory=dict)
    failures: int = 0
    aside_until: float = 0.0
    tried: bool = False  # one request finds out whether it is back
    _names: Memo[str, str] = field(default_factory=lambda: Memo(MODELS))

    @property
    def name(self) -> str:
        """As in the configuration."""
        return self.upstream.name

    def named(self, model: str) -> str:
        """What a model is called there; "" = as it is."""
        if not self.rename:
            return ""
        found = self._names[model]
        if found is None:
            found = next((name for glob, name in self.rename.items() if fnmatchcase(model, glob)), "")
            if len(model) <= LONGEST:
                self._names.keep(model, found)
        return found

    def free(self, now: float) -> bool:
        """Whether it may be asked."""
        return not self.aside_until or (now >= self.aside_until and not self.tried)


class Upstreams:
    """All upstreams of a worker. `default`: for what no glob names, None = that is refused.

    `clock` gives seconds that only go up. `on_aside` hears of every upstream that is put aside, with the reason.
    """

    def __init__(
        self,
        members: Sequence[Member],
        default: Upstream | None,
        rules: Rules,
        *,
        clock: Callable[[], float],
        on_aside: Callable[[str, str], None] = lambda _name, _reason: None,
    ) -> None:
        self.rules = rules
        self._members = tuple(members)
        self._default = (Member(default),) if default is not None else ()
        self._all = (*self._default, *self._members)
        self._groups: Memo[str, tuple[Member, ...]] = Memo(MODELS)
        self._stays: Memo[tuple[str, str], str] = Memo(STAYS)
        self._clock = clock
        self.on_aside = on_aside

    def __iter__(self) -> Iterator[Upstream]:
        return (one.upstream for one in self._all)

    def group(self, model: str, allowed: Sequence[str] = ()) -> tuple[Member, ...]:
        """Those that serve a model, in their order; without a model the default, or the first. `BadAsk` for none.

        `allowed`: names of those that may be used, nothing = all.
        """
        found = self._groups[model]
        if found is None:
            found = self._found(model)
            if len(model) <= LONGEST:
                self._groups.keep(model, found)
        if allowed:
            found = tuple([one for one in (found if model else self._all) if one.name in allowed])
            found = found if model else found[:1]
        if not found:
            what = f"the model {model[:200]!r}" if model else "requests without a model"
            message = f"no upstream serves {what} (upstreams.NAME.models)"
            raise BadAsk(message, status=404, code="model_not_found", param="model")
        return found

    def _found(self, model: str) -> tuple[Member, ...]:
        if not model:
            return self._all[:1]
        serving = [one for one in self._members if any(fnmatchcase(model, glob) for glob in one.models)]
        return tuple(serving) or self._default

    def first(self, group: tuple[Member, ...], stay: str = "") -> Member:
        """Whom to ask first: where its session was served, else the first that is not aside.

        If all are, the one that is due first: a provider says best itself that it has no room.
        """
        now = self._clock()
        free = [one for one in group if one.free(now)]
        if not free:
            return min(group, key=lambda one: one.aside_until)
        return next((one for one in free if one.name == stay), free[0])

    def following(self, group: tuple[Member, ...], asked: Sequence[Member]) -> Member | None:
        """Whom to ask after those; None where nobody is left, or enough were asked."""
        if len(asked) >= self.rules.most:
            return None
        now = self._clock()
        return next((one for one in group if one not in asked and one.free(now)), None)

    @contextmanager
    def trying(self, member: Member) -> Iterator[None]:
        """While its answer is waited for. One that was aside is tried by one request at a time."""
        mine = bool(member.aside_until) and not member.tried
        member.tried = member.tried or mine
        try:
            yield
        finally:
            if mine:
                member.tried = False

    def answered(self, member: Member, status: int, retry_after: str, now: datetime | None = None) -> bool:
        """Note an answer; whether another upstream is to be asked in its place."""
        if status != BUSY and status < FAILOVER:
            self._well(member)
            return False
        wait_s = seconds_of(retry_after, now or datetime.now(UTC)) if status in (BUSY, 503) else 0.0
        if wait_s > 0:
            self._put_aside(member, min(wait_s, LONGEST_ASIDE_S), "busy", f"it answered {status} and asks for time")
        else:
            self.failed(member, str(status))
        return True

    def failed(self, member: Member, why: str) -> None:
        """Note a failure. One that was aside goes there again at once."""
        member.failures += 1
        if member.aside_until or member.failures >= self.rules.failures:
            times = "a failure" if member.failures == 1 else f"{member.failures} failures in a row"
            self._put_aside(member, self.rules.aside_s, "failures", f"{times}, the last: {why}")

    def _well(self, member: Member) -> None:
        """What answers is well; but an answer that was under way before it was put aside does not bring it back."""
        member.failures = 0
        if member.aside_until and self._clock() >= member.aside_until:
            member.aside_until = 0.0
            _log.warning("upstream %s answers again", member.name)

    def _put_aside(self, member: Member, seconds: float, reason: str, why: str) -> None:
        """A later end stays: the answers to requests that were under way may come in any order."""
        now = self._clock()
        if member.aside_until <= now:
            _log.warning("upstream %s is put aside for %.3g s: %s", member.name, seconds, why)
            self.on_aside(member.name, reason)
        member.aside_until = max(member.aside_until, now + seconds)

    def stay(self, session: str, group: tuple[Member, ...]) -> str | None:
        """The upstream that served a session's models of this group last, as far as this worker knows."""
        return self._stays[session, group_name(group)]

    def stays(self, session: str, group: tuple[Member, ...], name: str) -> None:
        """Note it."""
        self._stays.keep((session, group_name(group)), name)


def group_name(group: tuple[Member, ...]) -> str:
    """What a group is called where it is kept: the same in every worker."""
    return ",".join([one.name for one in group])


def seconds_of(retry_after: str, now: datetime) -> float:
    """The seconds of a Retry-After (RFC 9110, section 10.2.3: a number, or a date); 0 for what is neither."""
    try:
        found = float(retry_after)
    except ValueError:
        return _until(retry_after, now)
    return found if 0 < found < float("inf") else 0.0


def _until(date: str, now: datetime) -> float:
    try:
        then = parsedate_to_datetime(date)
    except (TypeError, ValueError, IndexError, OverflowError):
        return 0.0
    return max(0.0, (then.replace(tzinfo=then.tzinfo or UTC) - now).total_seconds())
