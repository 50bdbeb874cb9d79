"""A session as people see it, from what `look.lua` answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from guardproxy.store._codec import session


@dataclass(frozen=True, slots=True)
class Known:
    """A session as it stands: times in milliseconds of the store's clock. `closed` names the rule, "" = open.

    `state`: active, paused, need_human, waiting (for a late result) or closed, which it also is when its main thread
    was cut. `by` is who paused or closed it (a person, loop, budget, approval, a rule), `why` in words; both "" while
    it is active. `used`: what it has used so far, by dimension, in the unit counted; no clocks.
    """

    org: str
    session: str
    started_ms: int
    at_ms: int
    turn: int
    span: int
    closed: str
    main: str
    traceparent: str
    threads: tuple[str, ...]
    state: str = "active"
    by: str = ""
    why: str = ""
    used: Mapping[str, int] = field(default_factory=dict)


def known(org: str, name: str, found: list[Any]) -> Known | None:
    """What `look.lua` found of a session. None: there is none, or another version of this program kept it."""
    fields = session(found[0]) if found and isinstance(found[0], bytes) else {}
    if not fields:
        return None
    parts, state, by, why = found[1:]
    threads = sorted(raw.decode()[len("thread:") :] for raw in parts if raw.startswith(b"thread:"))
    return Known(
        org=org,
        session=name,
        started_ms=fields["born"],
        at_ms=fields["at"],
        turn=fields["turn"],
        span=fields["span"],
        closed=fields["closed"],
        main=fields["main"],
        traceparent=fields["traceparent"],
        threads=tuple(threads),
        state=state.decode(),
        by=by.decode(),
        why=why.decode(),
        used={name[2:]: amount for name, amount in fields["used"].items() if name.startswith("s:")},
    )
