"""What is quoted of a turn on its spans, through a whole proxy: nothing, unless the configuration says so."""

from __future__ import annotations

import json

import pytest

from guardproxy.store.redis import Store
from guardproxy.telemetry import Telemetry, semconv as s
from tests.live import Got, Json, Said, config_of, live
from tests.telemetry.sink import attributes, otlp_sink

SECRET = "sk-live-abcdef0123456789"
TOOLS = [{"type": "function", "function": {"name": "read", "parameters": {"type": "object"}}}]


def script(got: Got) -> Said:
    return Said(calls=[("read", '{"path": "a.txt"}', f"call_{len(got.json['messages'])}")])


@pytest.mark.parametrize("capture", ["no_content", "event_only", "span_only"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
async def test_texts_on_spans(store: Store, capture: str, stream: bool) -> None:
    told: Json = {"capture_content": capture, "redact": ["Ann"]}
    with otlp_sink() as sink:
        section = {"telemetry": {"otlp_endpoint": sink.url, **told}}
        front = Telemetry(config_of(**section).telemetry, b"k" * 32, "test")
        async with live(store, front, **section) as running:
            running.provider.script = script
            messages: list[Json] = [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Ann asks."},
            ]
            for number in range(4):
                body = {"model": "m", "messages": messages, "tools": TOOLS, "stream": stream}
                await running.post(body, {"x-guardproxy-session-id": "s"})
                call = {
                    "id": f"c{number}",
                    "type": "function",
                    "function": {"name": "read", "arguments": '{"path": "a.txt"}'},
                }
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
                messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"nothing {SECRET}"})
        await front.shutdown(5)
        bodies = b"".join(sink.bodies)
    assert SECRET.encode() not in bodies
    assert (b"a.txt" in bodies) == (b"Be brief." in bodies) == (capture == "span_only")
    if capture != "span_only":
        return
    chats = [attributes(span) for span in sink.spans if span.name == "chat m"]
    tools = [attributes(span) for span in sink.spans if span.name == "execute_tool read"]
    (advice,) = [attributes(span)[s.ADVICE] for span in sink.spans if span.name == "guardproxy.intervene nudge"]

    assert json.loads(chats[0][s.GEN_AI_INPUT_MESSAGES])[0]["parts"][0]["content"] == "[redacted] asks."
    assert s.GEN_AI_SYSTEM not in chats[1]  # once a run
    assert [part["role"] for part in json.loads(chats[3][s.GEN_AI_INPUT_MESSAGES])] == ["tool"]  # only what is new
    assert json.loads(chats[3][s.GEN_AI_OUTPUT_MESSAGES])[0]["parts"][-1]["name"] == "read"
    assert {one[s.GEN_AI_TOOL_RESULT] for one in tools} == {"nothing [redacted]"}
    assert "read" in str(advice)
