"""The surface /v1/completions: what `read` takes and refuses, edits, answers in golden files, and our own words."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from guardproxy.api import completions
from guardproxy.api._gate import Joint
from guardproxy.core.edit import AppendText, DropCalls, Edit, ForbidTools, LimitOutput, PutBack, SpliceUsage
from guardproxy.core.model import Ask, Usage
from guardproxy.errors import BadAsk, UpstreamError
from tests.api.cases import FUZZ, objects, view

GOLDEN = Path(__file__).parent / "golden" / "completions"
STREAMS = sorted(path for path in (GOLDEN / "streams").glob("*.sse") if path.name.count(".") == 1)
REQUESTS = sorted(path for path in (GOLDEN / "requests").glob("*.json") if path.name.count(".") == 1)
JSON = "application/json"


def ask(headers: dict[str, str] | None = None, **fields: Any) -> Ask:
    return completions.read(json.dumps({"model": "m", "prompt": "hi", **fields}).encode(), headers or {})


def play(chunks: list[bytes], *, strip: bool = False, **options: Any) -> tuple[bytes, completions.Watcher]:
    watcher = completions.watch(ask(stream=True), strip_usage=strip, **options)
    return b"".join([watcher.feed(chunk) for chunk in chunks]) + watcher.finish(), watcher


REFUSED = [
    (b"{", "body", "valid JSON"),
    (b"[]", "body", "object"),
    (b'{"prompt":"x"}', "model", "missing"),
    (b'{"model":7,"prompt":"x"}', "model", "a string"),
    (b'{"model":"m","prompt":7}', "prompt", "a text or a list"),
    (b'{"model":"m","prompt":{}}', "prompt", "a text or a list"),
    (b'{"model":"m","prompt":"x","stream":"yes"}', "stream", "true or false"),
    (b'{"model":"m","prompt":"x","n":"2"}', "n", "an integer"),
    (b'{"model":"m","prompt":"x","best_of":[]}', "best_of", "an integer"),
    (b'{"model":"m","prompt":"x","max_tokens":1.5}', "max_tokens", "an integer"),
]


@pytest.mark.parametrize(("raw", "param", "words"), REFUSED)
def test_refuses_in_clear_words(raw: bytes, param: str, words: str) -> None:
    with pytest.raises(BadAsk, match=words) as caught:
        completions.read(raw, {})
    assert (caught.value.param, caught.value.status) == (param, 400)
    assert json.loads(completions.error(caught.value))["error"]["param"] == param


PROMPTS = [
    ("hi", {}, "hi", 1),
    (None, {}, "", 1),
    ("", {"n": 3}, "", 3),
    (["a", "b"], {"n": 2}, "a\nb", 4),
    ([1, 2, 3], {"best_of": 4, "n": 2}, "[1,2,3]", 4),
    ([[1], [2, 3]], {}, "[[1],[2,3]]", 2),
    ([], {}, "[]", 1),
    (["a", 1], {}, '["a",1]', 2),
    ("x", {"n": None, "best_of": 0}, "x", 1),
]


@pytest.mark.parametrize(("prompt", "fields", "text", "choices"), PROMPTS)
def test_prompts(prompt: object, fields: dict[str, object], text: str, choices: int) -> None:
    asked = ask(prompt=prompt, **fields)
    assert (asked.head[0].text, asked.choices, asked.tail, asked.tools) == (text, choices, (), ())
    assert completions.message(asked, 0) == asked.head[0]
    assert completions.message(asked, 1) is None
    assert completions.widen(asked) is asked


def test_what_else_is_read() -> None:
    asked = ask({"x-session-id": "run-1"}, max_tokens=7, stream=True, metadata={"x": 1}, user="u")
    assert (asked.surface, asked.model, asked.max_tokens, asked.stream) == ("completions", "m", 7, True)
    assert (asked.declared.session, asked.may_splice_usage, asked.wants_usage) == ("run-1", True, False)
    assert not ask(stream=True, stream_options={"include_usage": False}).may_splice_usage
    assert ask(stream=True, stream_options={"include_usage": True}).wants_usage
    assert ask({"x-guardproxy-path-model": "deployed"}).model == "deployed"
    assert completions.read(b'{"prompt":"x"}', {"x-guardproxy-path-model": "deployed"}).model == "deployed"


EDITS: dict[str, Edit] = {"limit": LimitOutput(9), "usage": SpliceUsage()}


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.stem)
@pytest.mark.parametrize("name", EDITS)
def test_golden_requests(path: Path, name: str) -> None:
    """An edit gives the file of its name; where there is none, it has nothing to do."""
    asked = completions.read(path.read_bytes(), {})
    expected = path.with_suffix(f".{name}.json")
    assert completions.write(asked, [EDITS[name]]) == (expected if expected.exists() else path).read_bytes()
    others = [AppendText(0, "x"), ForbidTools(), DropCalls("x"), PutBack(1, (b"{}",), instead="x")]
    assert completions.write(asked, others) is asked.body
    assert completions.write(asked, ()) is asked.body


@functools.cache
def expected(path: Path, way: str) -> bytes:
    edited = path.with_suffix(f".{way}.sse")
    return (edited if way and edited.exists() else path).read_bytes()


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
@pytest.mark.parametrize("way", ["", "strip"])
def test_golden_cut_at_every_byte(path: Path, way: str) -> None:
    raw = path.read_bytes()
    seen = json.loads(path.with_suffix(".view.json").read_text())
    cuts = [[raw[:at], raw[at:]] for at in range(len(raw) + 1)]
    for chunks in (*cuts, [raw[at : at + 1] for at in range(len(raw))]):
        out, watcher = play([part for part in chunks if part], strip=bool(way))
        assert out == expected(path, way), chunks[0]
        assert view(watcher) == seen, chunks[0]
        assert not watcher.touched


def test_golden_files_are_there() -> None:
    assert len(STREAMS) >= 12
    assert len(REQUESTS) >= 4


@pytest.mark.parametrize("path", STREAMS, ids=lambda path: path.stem)
def test_untouched_chunks_are_the_very_objects(path: Path) -> None:
    raw = path.read_bytes()
    watcher = completions.watch(ask(stream=True))
    assert all(watcher.feed(chunk) is chunk for chunk in [raw[at : at + 7] for at in range(0, len(raw), 7)])


WHOLE = [
    ({"choices": [{"text": "a", "index": 0, "finish_reason": "stop"}]}, ("a", True, None)),
    ({"choices": [{"text": "a"}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}, ("a", True, Usage(3, 1))),
    ({"choices": [{"text": "", "finish_reason": "length"}]}, ("", True, None)),
    ({"content": "of another surface", "stop": True}, ("", False, None)),
    ({"error": {"message": "no"}}, ("", False, None)),
    ({"choices": []}, ("", False, None)),
    ([], ("", False, None)),
]


@pytest.mark.parametrize(("payload", "seen"), WHOLE)
@pytest.mark.parametrize("size", [1, 10_000])
def test_whole(payload: object, seen: tuple[str, bool, Usage | None], size: int) -> None:
    raw = json.dumps(payload).encode()
    out, watcher = play([raw[at : at + size] for at in range(0, len(raw), size)], content_type=JSON)
    assert out == raw
    assert (watcher.text, watcher.complete, watcher.usage) == seen


def test_no_text_is_an_answer_all_the_same() -> None:
    """Else a health check that asks for nothing, again and again, would be a loop of empty turns."""
    _, watcher = play([(GOLDEN / "streams" / "no_text.sse").read_bytes()])
    assert (watcher.text, watcher.text_chars, watcher.produced_chars, watcher.complete) == ("", 1, 0, True)


def read_back(body: bytes, *, stream: bool) -> list[str]:
    """The texts that a client reads, by index."""
    if not stream:
        return [one["text"] for one in json.loads(body)["choices"]]
    events = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    assert events[-1] == "[DONE]"
    texts: dict[int, str] = {}
    for event in map(json.loads, events[:-1]):
        assert event["object"] == "text_completion"
        for one in event["choices"]:
            texts[one["index"]] = texts.get(one["index"], "") + one["text"]
    return [texts[index] for index in sorted(texts)]


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_our_own_words(stream: bool) -> None:
    asked = ask(stream=stream, n=2, **({"stream_options": {"include_usage": True}} if stream else {}))
    kind, body = completions.reply(asked, "over", reply_id="r", created=1, finish=("f", "a", "i"))
    assert kind == ("text/event-stream" if stream else JSON)
    assert read_back(body, stream=stream) == ["over", "over"]
    assert b'"usage":{"prompt_tokens":0' in body
    given = Joint({"id": "theirs", "model": "p"}, text="so far")
    said = completions.closing(asked, given, "over", reply_id="r", created=1)
    assert b'"id":"theirs"' in said
    assert read_back(said, stream=stream) == ["\n\nover" if stream else "so far\n\nover"]
    assert read_back(completions.closing(asked, None, "over", reply_id="r", created=1), stream=stream) == ["over"]
    assert b'"error"' in completions.failure(UpstreamError("gone", code="upstream_broken"))


@settings(max_examples=150 * FUZZ, deadline=None)
@given(objects)
def test_read_never_raises_anything_but_bad_ask(fields: dict[str, Any]) -> None:
    raw = json.dumps({"model": "m", "prompt": "x", **fields}).encode()
    try:
        asked = completions.read(raw, {})
    except BadAsk:
        return
    assert completions.write(asked, ()) is raw
    json.loads(completions.write(asked, [LimitOutput(3), SpliceUsage()]))


def test_it_cannot_be_told_anything() -> None:
    assert not hasattr(completions, "feedback")
