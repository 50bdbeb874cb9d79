"""The surface /v1/embeddings: what `read` takes and refuses, and what is seen of an answer, however long."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from guardproxy.api import embeddings
from guardproxy.core.edit import AppendText, LimitOutput, SpliceUsage
from guardproxy.core.model import Ask, Usage
from guardproxy.errors import BadAsk
from tests.cheap import cheap

GOLDEN = Path(__file__).parent / "golden" / "embeddings"
ANSWERS = sorted(path for path in (GOLDEN / "answers").glob("*.json") if path.name.count(".") == 1)
REQUESTS = sorted((GOLDEN / "requests").glob("*.json"))


def ask(headers: dict[str, str] | None = None, **fields: Any) -> Ask:
    return embeddings.read(json.dumps({"model": "m", "input": "hi", **fields}).encode(), headers or {})


def play(chunks: list[bytes], **options: Any) -> tuple[bytes, embeddings.Watcher]:
    watcher = embeddings.watch(ask(), **options)
    return b"".join([watcher.feed(chunk) for chunk in chunks]) + watcher.finish(), watcher


REFUSED = [
    (b"{", "body", "valid JSON"),
    (b'{"input":"x"}', "model", "missing"),
    (b'{"model":[],"input":"x"}', "model", "a string"),
    (b'{"model":"m"}', "input", "missing"),
    (b'{"model":"m","input":null}', "input", "missing"),
    (b'{"model":"m","input":""}', "input", "empty"),
    (b'{"model":"m","input":[]}', "input", "empty"),
]


@pytest.mark.parametrize(("raw", "param", "words"), REFUSED)
def test_refuses_in_clear_words(raw: bytes, param: str, words: str) -> None:
    with pytest.raises(BadAsk, match=words) as caught:
        embeddings.read(raw, {})
    assert (caught.value.param, caught.value.status) == (param, 400)
    assert json.loads(embeddings.error(caught.value))["error"]["param"] == param


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
def test_golden_requests(path: Path) -> None:
    raw = path.read_bytes()
    asked = embeddings.read(raw, {"x-guardproxy-session-id": "run"}, short=True)
    assert embeddings.write(asked, [AppendText(0, "x"), LimitOutput(1), SpliceUsage()]) is raw
    assert (asked.aside, asked.max_tokens, asked.stream, asked.declared.session) == (True, 0, False, "run")
    assert embeddings.message(asked, 0) is None
    assert embeddings.widen(asked) is asked


def test_what_is_asked_is_told_apart() -> None:
    heads = {ask(input=one).head for one in ("a", "b", ["a"], [1], [[1]], "a" * 5000, "b" * 5000)}
    assert len(heads) == 7
    assert ask({"x-guardproxy-path-model": "d"}).model == "d"


@pytest.mark.parametrize("path", ANSWERS, ids=lambda path: path.stem)
def test_golden_answers_cut_anywhere(path: Path) -> None:
    raw = path.read_bytes()
    seen = json.loads(path.with_name(f"{path.stem}.view.json").read_text())
    step = 1 if len(raw) < 2000 else len(raw) // 97
    for at in range(0, len(raw), step):
        out, watcher = play([part for part in (raw[:at], raw[at:]) if part])
        usage = watcher.usage
        assert out == raw
        assert (watcher.response_model, usage and [usage.input, usage.output], watcher.complete) == tuple(
            seen[key] for key in ("model", "usage", "complete")
        )
        assert (watcher.text, watcher.touched, watcher.calls) == ("", False, ())


def test_a_long_answer_costs_little() -> None:
    numbers = b"[" + b"0.0123456789," * 1_000_000 + b"1]"
    raw = b'{"object":"list","data":[{"embedding":' + numbers + b'}],"model":"m","usage":{"prompt_tokens":9}}'
    with cheap(0.2):  # parsed it takes half a second
        _, watcher = play([raw])
        assert watcher.usage == Usage(9)


@pytest.mark.parametrize("padding", [10, 100_000])
@pytest.mark.parametrize(("said", "expected"), [("9", Usage(9)), ("0", Usage()), ("-1", None), ('"9"', None)])
def test_no_more_than_a_total_is_all_input(said: str, expected: Usage | None, padding: int) -> None:
    raw = f'{{"data":[{{"embedding":"{"A" * padding}"}}],"model":"m","usage":{{"total_tokens":{said}}}}}'.encode()
    assert play([raw])[1].usage == expected


ODD = [b"", b"{", b"}", b"[]", b"null", b"\xff}", b'{"usage":{}}', b'{"usage":7}', b"[" * 100_000 + b"}"]
ODD += [b"x" * 70_000 + one for one in (b'"usage":{"prompt_tokens":}', b'"usage": {"a', b'"model":"\\ud800"}')]


@pytest.mark.parametrize("raw", ODD, ids=range(len(ODD)))
def test_odd_answers(raw: bytes) -> None:
    out, watcher = play([raw])
    assert (out, watcher.usage) == (raw, None)
    watcher.response_model.encode()


def test_nothing_can_be_said_in_numbers() -> None:
    for say in (lambda: embeddings.reply(ask(), "over", reply_id="r", created=1), _close):
        with pytest.raises(BadAsk, match="over") as caught:
            say()
        assert (caught.value.status, caught.value.code) == (400, "session_cut")


def _close() -> bytes:
    return embeddings.closing(ask(), None, "over", reply_id="r", created=1)


def test_it_cannot_be_told_anything() -> None:
    assert not hasattr(embeddings, "feedback")
