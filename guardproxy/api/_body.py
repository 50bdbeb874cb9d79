"""What the surfaces read of a body whose messages are left as they are. Not compiled: msgspec reads its annotations."""

from __future__ import annotations

from typing import Any

import msgspec


class Body(msgspec.Struct, gc=False):
    """The keys that are read; all else is passed over."""

    messages: list[msgspec.Raw]
    system: Any = msgspec.UNSET
    model: Any = msgspec.UNSET
    tools: Any = msgspec.UNSET
    functions: Any = msgspec.UNSET
    tool_choice: Any = msgspec.UNSET
    function_call: Any = msgspec.UNSET
    stream: Any = msgspec.UNSET
    deferred: Any = msgspec.UNSET
    stream_options: Any = msgspec.UNSET
    max_tokens: Any = msgspec.UNSET
    max_completion_tokens: Any = msgspec.UNSET
    n: Any = msgspec.UNSET
    metadata: Any = msgspec.UNSET
    litellm_session_id: Any = msgspec.UNSET
    litellm_trace_id: Any = msgspec.UNSET
    litellm_metadata: Any = msgspec.UNSET
    user: Any = msgspec.UNSET
    safety_identifier: Any = msgspec.UNSET
    service_tier: Any = msgspec.UNSET
    speed: Any = msgspec.UNSET
    client_metadata: Any = msgspec.UNSET
    prompt_cache_key: Any = msgspec.UNSET
    thread_id: Any = msgspec.UNSET


READ = tuple(name for name in Body.__struct_fields__ if name != "messages")
"""Keys of a body that are read, beside its messages."""

decode = msgspec.json.Decoder(Body).decode
decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
