"""The checks of `faithful` themselves: each kind of unfaithfulness is told from what is allowed."""

from __future__ import annotations

import pytest

from tests.accept import faithful

SENT = b'{"model": "m",  "messages": [{"role": "tool", "content": "r\\u00e9sum\xc3\xa9"}], "tools": [{"x": 1}]}'
USAGE = b'"stream_options":{"include_usage":true},'
ADVICE = b"\\n\\n[guardproxy] 3 times"


def edited(kinds: str) -> dict[str, str]:
    return {"x-guardproxy-edit": kinds} if kinds else {}


@pytest.mark.parametrize(
    ("arrived", "kinds", "fine"),
    [
        (SENT, "", True),
        (SENT.replace(b"  ", b" "), "", False),
        (b"{" + USAGE + SENT[1:], "usage", True),
        (b"{" + USAGE + SENT[1:], "", False),
        (SENT, "usage", False),
        (b"{" + USAGE + SENT[1:].replace(b"\\u00e9", b"\xc3\xa9"), "usage", False),
        (SENT.replace(b'"}]', ADVICE + b'"}]'), "advice", True),
        (SENT.replace(b'"}]', ADVICE + b'"}]'), "usage", False),
        (SENT.replace(b'"}]', b'\\n\\nother"}]'), "advice", False),
        (SENT.replace(b'"}]', ADVICE + b'"}]').replace(b"  ", b" "), "advice", False),
        (SENT, "advice", False),
        (b"{" + USAGE + SENT[1:].replace(b'"}]', ADVICE + b'"}]'), "advice,usage", True),
        (b'{"tool_choice":"none", ' + SENT[1:].replace(b'"}]', ADVICE + b'"}]'), "advice,tools,calls", True),
        (SENT.replace(b'"}]', ADVICE + b'"}]'), "advice,tools,calls", False),
        (b'{"tool_choice":"none", ' + SENT[1:].replace(b'"m"', b'"n"'), "tools", False),
    ],
)
def test_requests(arrived: bytes, kinds: str, fine: bool) -> None:
    fault = faithful.request_fault(SENT, arrived, edited(kinds))
    assert (fault == "") is fine, fault


STREAM = b'data: {"choices": [{"delta": {}}]}\n\n'
BILL = b'data: {"choices": [], "usage": {}}\n\n'
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    ("received", "kinds", "verdict", "fine"),
    [
        (STREAM + BILL + DONE, "", "pass", True),
        (STREAM + DONE, "", "pass", False),
        (STREAM + DONE, "usage", "pass", True),
        (STREAM + BILL + DONE, "usage", "pass", False),
        (STREAM, "usage", "nudge", False),
        (DONE, "advice,tools,calls", "finalize", True),
    ],
)
def test_answers(received: bytes, kinds: str, verdict: str, fine: bool) -> None:
    headers = {**edited(kinds), "x-guardproxy-verdict": verdict}
    assert (faithful.answer_fault(STREAM + BILL + DONE, received, headers) == "") is fine
