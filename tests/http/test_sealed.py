"""Content in the store: sealed for one purpose and one id, unreadable for all others."""

from __future__ import annotations

import pytest

from guardproxy.http.sealed import ASKED, CHECKPOINT, EDITED, Held, Sealer

KEY = b"k" * 32
MESSAGE = b'{"role":"assistant","content":null,"tool_calls":[{"id":"c1"}],"reasoning":"\xe8\xa1\x8c"}'

HELD = {
    "a call": Held("delete_file", '{"path": "/etc/\\u884c"}', MESSAGE),
    "arguments that are no JSON": Held("send", "{'to': 行", MESSAGE),
    "a question": Held("ask_human", '{"q":"?"}', MESSAGE, question="Which one?\n行"),
    "an edit": Held(arguments="{}"),
    "an answer": Held(answer="the second"),
    "nothing": Held(),
}


@pytest.mark.parametrize("held", HELD.values(), ids=HELD.keys())
@pytest.mark.parametrize("kind", [ASKED, EDITED])
def test_there_and_back(held: Held, kind: str) -> None:
    sealed = Sealer(KEY).seal_held("a1", held, kind)

    assert Sealer(KEY).open_held("a1", sealed, kind) == held
    assert Sealer(KEY).seal_held("a1", held, kind) != sealed  # a nonce is used once
    for text in (held.tool, held.answer, "tool_calls"):
        assert not text or text.encode() not in sealed


SEALED = Sealer(KEY).seal(CHECKPOINT, "s1", b"[1]")
OTHERS = {
    "another key": (b"x" * 32, CHECKPOINT, "s1", SEALED),
    "another id": (KEY, CHECKPOINT, "s2", SEALED),
    "another kind": (KEY, ASKED, "s1", SEALED),
    "a byte changed": (KEY, CHECKPOINT, "s1", SEALED[:-1] + bytes([SEALED[-1] ^ 1])),
    "the nonce changed": (KEY, CHECKPOINT, "s1", bytes([SEALED[0] ^ 1]) + SEALED[1:]),
    "cut short": (KEY, CHECKPOINT, "s1", SEALED[:9]),
    "nothing": (KEY, CHECKPOINT, "s1", b""),
}


@pytest.mark.parametrize(("key", "kind", "name", "sealed"), OTHERS.values(), ids=OTHERS.keys())
def test_nobody_else_opens_it(key: bytes, kind: str, name: str, sealed: bytes) -> None:
    assert Sealer(KEY).open(CHECKPOINT, "s1", SEALED) == b"[1]"
    assert Sealer(key).open(kind, name, sealed) is None
    assert Sealer(key).open_held(name, sealed, kind) is None


def test_text_that_is_no_text() -> None:
    """A lone surrogate, bytes that are no UTF-8: replaced, never a traceback."""
    sealed = Sealer(KEY).seal_held("\udc80", Held("t\udc80", "a", b"\xff{}"))

    assert Sealer(KEY).open_held("\udc80", sealed) == Held("t?", "a", "\ufffd{}".encode())


@pytest.mark.parametrize("content", [b"[]", b"1", b'"text"', b"null"])
def test_content_of_another_shape(content: bytes) -> None:
    assert Sealer(KEY).open_held("a1", Sealer(KEY).seal(ASKED, "a1", content)) is None


@pytest.mark.parametrize("text", ["[guardproxy] stop", "", "行\n", "x" * 5000])
def test_what_a_model_was_told(text: str) -> None:
    sealed = Sealer(KEY).seal_told("s1", text)

    assert Sealer(KEY).open_told("s1", sealed) == text
    for session, key, told in (
        ("s2", KEY, sealed),
        ("s1", b"x" * 32, sealed),
        ("s1", KEY, "no base64"),
        ("s1", KEY, "行"),
    ):
        assert Sealer(key).open_told(session, told) == ""
    assert Sealer(KEY).open_told("s1", Sealer(KEY).seal_told("s1", "a\ud800b")) == "a?b"
