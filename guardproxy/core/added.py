"""What a request adds to its thread, in a process's own memory: `store/begin.lua` does the same."""

from __future__ import annotations

from guardproxy.core.lineage import Thread
from guardproxy.core.view import TurnFact


def new_facts(thread: Thread, fact: TurnFact) -> list[bytes]:
    """The rounds that the ring does not have: from the one last delivered on, else those after the last request."""
    found = fact.rounds
    if thread.turn:
        if not thread.taken and thread.delivered and _began_before(thread, fact):
            fact.grown(thread.delivered)
            found = fact.rounds
        first = next((i for i, r in enumerate(found) if r.index >= thread.count), len(found))
        newest = [] if thread.taken else [i for i, r in enumerate(found) if r.digest == thread.delivered]
        if newest:
            first, thread.taken = newest[-1], True
        found = found[first:]
    counts = thread.session.counts
    for name, amount in [one for part in found for one in part.counts.items()]:
        counts[name] = counts.get(name, 0) + amount
    thread.names = tuple(dict.fromkeys(name for part in found for name in part.counts))
    return [fact for part in found for fact in part.facts]


def _began_before(thread: Thread, fact: TurnFact) -> bool:
    """Whether the newest round is another one, begun before the last answer, and the user has said nothing new."""
    newest = fact.rounds[-1] if fact.rounds else None
    return (
        newest is not None
        and newest.digest != thread.delivered
        and newest.index < thread.count <= fact.count
        and not fact.user
    )
