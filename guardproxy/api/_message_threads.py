"""Conversations that Anthropic's API holds (`thread`, beta of 2026): the client is asked to send them whole.

A request that goes on with an earlier answer brings its newest results alone: no calls, no tools, no user message. Who
judges a run by what it sees would see a new one each time. The protocol has an answer for it: a thread not found is
begun again with the whole conversation, and the SDKs do so by themselves (their tool runner then does without threads).
"""

from __future__ import annotations

from collections.abc import Mapping

from guardproxy.errors import BadAsk


def whole(parsed: Mapping[str, object]) -> None:
    """Raises BadAsk where a request holds only what is new."""
    thread = parsed.get("thread")
    if isinstance(thread, dict) and thread.get("type") == "continue":
        raise BadAsk(
            'guardproxy keeps no threads: send the whole conversation, with `thread` {"type": "create"} or none.',
            status=404,
            code="thread_not_found",
            param="thread",
        )
