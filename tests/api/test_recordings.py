"""Every chat request that was recorded from a real client goes through, untouched and with one text appended."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardproxy.api import chat
from guardproxy.core.edit import AppendText, PutBack, ReplaceText
from tests.api.cases import NOTE

RECORDINGS = Path(__file__).parents[3] / "shared" / "clients" / "recordings"
FILES = sorted(RECORDINGS.glob("*.jsonl"))
pytestmark = pytest.mark.skipif(not FILES, reason="the recordings of ../shared/clients are not here")


def requests(path: Path) -> list[tuple[dict[str, str], dict[str, Any]]]:
    """Headers and bodies of the recorded chat requests; tools said once in a file are put back."""
    found = []
    tools: dict[int, Any] = {}
    for line in path.read_text().splitlines():
        record = json.loads(line)
        body = record["body"]
        if not record["path"].partition("?")[0].endswith("/chat/completions") or "messages" not in (body or {}):
            continue
        listed = body.get("tools")
        if isinstance(listed, dict):
            body["tools"] = tools[listed["_same_as_request"]]
        elif listed is not None:
            tools[record["n"]] = listed
        found.append(({name.lower(): value for name, value in record["headers"]}, body))
    return found


@pytest.mark.parametrize("path", FILES or [RECORDINGS], ids=lambda path: path.stem)
def test_recorded_requests(path: Path) -> None:
    for headers, body in requests(path):
        raw = json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode()
        asked = chat.read(raw, headers)
        assert chat.write(asked, ()) is raw
        assert (asked.count, asked.model) == (len(body["messages"]), body["model"])
        last = asked.count - 1
        out = json.loads(chat.write(asked, [AppendText(last, NOTE)]))
        content = body["messages"][last].get("content") or ""
        body["messages"][last]["content"] = (
            [*content, {"type": "text", "text": NOTE}] if isinstance(content, list) else content + NOTE
        )
        assert out == body
        if path.stem.startswith(("openhands", "opencode", "kilo")):
            assert asked.declared.session


@pytest.mark.parametrize("path", FILES or [RECORDINGS], ids=lambda path: path.stem)
def test_recorded_requests_with_a_call_put_back(path: Path) -> None:
    """A call and its result among those of the newest round, a round in front of it, the last result replaced."""
    call = {"id": "put-back", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": "put-back", "content": "no"}
    asked_before = {"role": "assistant", "content": None, "tool_calls": [{**call, "id": "before"}]}
    for _, body in requests(path):
        messages = body["messages"]
        places = [at for at, message in enumerate(messages) if message.get("tool_calls")]
        if not places or messages[-1]["role"] != "tool" or not isinstance(messages[-1]["content"], str):
            continue
        (at, last), before = (places[-1], len(messages) - 1), (asked_before, {**result, "tool_call_id": "before"})
        edits = [
            PutBack(at, tuple(map(_bytes, before)), ((1, _bytes(call)),), (_bytes(result),)),
            ReplaceText(last, "new"),
            AppendText(last, NOTE),
        ]
        out = json.loads(chat.write(chat.read(_bytes(body), {}), edits))
        messages[last]["content"] = "new" + NOTE
        messages[at]["tool_calls"].insert(1, call)
        messages[at + 1 : at + 1] = [result]
        messages[at:at] = before
        assert out == body


def _bytes(found: Any) -> bytes:
    return json.dumps(found, ensure_ascii=False, separators=(",", ":")).encode()


def test_there_are_enough() -> None:
    assert sum(len(requests(path)) for path in FILES) > 600
