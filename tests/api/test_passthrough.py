"""The pass-through reads nothing but the usage of small JSON answers."""

from __future__ import annotations

import pytest

from guardproxy import api
from guardproxy.api import passthrough
from guardproxy.core.model import Usage
from tests.cheap import cheap

JSON, SSE = "application/json", "text/event-stream; charset=utf-8"
SAID = b'{"object":"list","model":"m-1","usage":{"prompt_tokens":3,"total_tokens":3}}'
LONG = b'{"data":[{"b64_json":"' + b"y" * passthrough.MAX_READ + b'"}],"usage":{"input_tokens":7,"output_tokens":9'
LONG += b',"input_tokens_details":{"text_tokens":7}}}'
STREAM = b"".join(
    [
        b'data: {"type":"speech.audio.delta","audio":"' + b"x" * 2000 + b'"}\r\n\r\n',
        b": keep-alive\r\n\r\n",
        b'data: {"type":"speech.audio.done","usage":{"input_tokens":4,"output_tokens":50}}\r\n\r\n',
    ]
)
PICTURE = b'data: {"type":"image_generation.completed","b64_json":"' + b"z" * passthrough.MAX_READ
PICTURE += b'","usage":{"input_tokens":4,"output_tokens":50}}\n\n'
RESPONSE = b'event: response.completed\ndata: {"response":{"usage":{"input_tokens":1,"output_tokens":2}}}\n\n'
SEEN: dict[str, tuple[bytes, str, Usage | None]] = {
    "json": (SAID, "Application/JSON; charset=utf-8", Usage(3)),
    "json by another name": (b" " + SAID, "text/plain", Usage(3)),
    "events by another name": (STREAM, "", Usage(4, 50)),
    "text": (b"a text, " + SAID, "text/plain", None),
    "sound": (SAID, "audio/mpeg", None),
    "half of it": (SAID[:-1], JSON, None),
    "a list": (b"[]", JSON, None),
    "nothing": (b"", "", None),
    "usage that is none": (b'{"usage":[1]}', JSON, None),
    "seconds": (b'{"text":"hi","usage":{"type":"duration","seconds":3}}', JSON, None),
    "a picture": (LONG, JSON, Usage(7, 9)),
    "a long one without": (b'{"a":"' + b"x" * 2 * passthrough.MAX_READ + b'"}', JSON, None),
    "a ranking": (b'{"data":[{"index":0,"relevance_score":0.4}],"usage":{"total_tokens":26}}', JSON, Usage(26)),
    "speech": (STREAM, SSE, Usage(4, 50)),
    "a picture in a stream": (PICTURE, SSE, Usage(4, 50)),
    "a response": (RESPONSE, SSE, Usage(1, 2)),
    "a stream without its end": (RESPONSE.rstrip(), SSE, Usage(1, 2)),
}


@pytest.mark.parametrize("pieces", [1, 3, 1000])
@pytest.mark.parametrize("name", SEEN)
def test_usage_of_an_answer_on_its_way(name: str, pieces: int) -> None:
    body, kind, usage = SEEN[name]
    seen = passthrough.Seen(kind)
    size = max(1, len(body) // pieces)
    for at in range(0, len(body), size):
        seen.feed(body[at : at + size])
        assert len(seen._kept) <= passthrough.MAX_READ
    seen.over()
    assert seen.usage == usage
    assert seen.model == ("m-1" if name.startswith("json") else "")


FORM = b'--x\r\nContent-Disposition: form-data; name="%s"\r\n\r\n%s\r\n'
MULTI, QUERY = "multipart/form-data; boundary=x", "application/x-www-form-urlencoded"
MODEL = FORM % (b"model", b"m") + b"--x--\r\n"
FILE = FORM % (b'image"; filename="a', b"\0" * 200_000)
DECOY = FORM % (b"a", b'name="model"\r\n\r\ncheap')
HUGE = b'{"a":"' + b"x" * 2 * passthrough.MAX_READ + b'",'
NAMED: dict[str, tuple[bytes, str, tuple[str, ...]]] = {
    "json": (b'{"model":"m"}', JSON, ("m",)),
    "by any name": (b'\xef\xbb\xbf {"model":"m"}', "text/plain", ("m",)),
    "in a string": (b' { "a" : "a \\"model\\":\\"x\\"" ,\n "model" : "m" }', JSON, ("m",)),
    "further in": (b'{"metadata":{"model":"cheap"},"model":"m"}', JSON, ("m",)),
    "twice": (b'{"model":"cheap","\\u006dodel":"m","Model":"n"}', JSON, ("cheap", "m", "n")),
    "a key in its place": (b'{"model":"gp-' + b"a" * 42 + b'"}', JSON, ("gp-",)),
    "no text": (b'{"model":7,"x":1}', JSON, ()),
    "not printable": (b'{"model":"\\n"}', JSON, ()),
    "broken": (b'{"a":{"model":"n"},"model":"m",}', JSON, ("n", "m")),
    "large": (HUGE + b'"model":"m"}', JSON, ("m",)),
    "large, hidden": (b'{"b":{"model":"cheap"},' + HUGE[1:] + b'"mo\\u0064el" : "m"}', JSON, ("cheap", "m")),
    "too many": (b"{" + b",".join(b'"model":"%d"' % one for one in range(20)) + b"}", JSON, ()),
    "a form": (FORM % (b"prompt", b"p") + MODEL, MULTI, ("m",)),
    "behind a file": (FILE + MODEL, MULTI.upper().replace("=X", '="x"'), ("m",)),
    "in what a part holds": (DECOY + MODEL, MULTI, ("m",)),
    "two parts": (FORM % (b"model", b"cheap") + MODEL, MULTI, ("cheap", "m")),
    "with a type": (
        FORM.replace(b"\r\n\r\n", b"\r\nContent-Type: text/plain\r\n\r\n") % (b"model", b" w "),
        MULTI,
        ("w",),
    ),
    "spelled otherwise": (
        MODEL.replace(b'name="model"', b"name*=UTF-8''model; a=b").replace(b"\r", b""),
        MULTI,
        ("m",),
    ),
    "another part": (FORM % (b"models", b"no"), MULTI, ()),
    "half of one": (FORM[:50], MULTI, ()),
    "a query": (b"a=model%3Dx&model=m+1&b=c", QUERY, ("m 1",)),
    "JSON by a form's name": (b'{"model":"m","a":"&model=cheap&"}', QUERY, ("m", "cheap")),
    "more to fall back on": (
        b'{"model":"a","models":["b",{"model":"c"}],"fallbacks":[{"a":["d"]}],"x":{"models":["no"]}}',
        JSON,
        ("a", "b", "c", "d"),
    ),
    "fallbacks too deep": (b'{"model":"a","models":' + b"[" * 9 + b'"b"' + b"]" * 9 + b"}", JSON, ("a",)),
    "two boundaries": (MODEL + MODEL.replace(b"--x", b"--y").replace(b"\nm", b"\nn"), f"{MULTI}; boundary=y", ()),
    "one boundary, twice": (MODEL, f"{MULTI}; boundary=x", ("m",)),
    "too many parts": (MODEL + FORM % (b"a", b"b") * passthrough.PARTS, MULTI, ()),
    "too many fields": (b"model=cheap" + b"&a=b" * passthrough.PARTS, QUERY, ()),
    "bytes": (bytes(range(256)) * 10, "audio/mpeg", ()),
    "nothing": (b"", "", ()),
}


@pytest.mark.parametrize("name", NAMED)
def test_the_models_that_a_request_names(name: str) -> None:
    body, kind, models = NAMED[name]
    for size in (max(1, len(body)), 7 if len(body) < 1000 else 4099):
        seen = passthrough.Named(kind)
        for at in range(0, len(body), size):
            seen.feed(body[at : at + size])
        assert len(seen._kept) <= passthrough.MAX_READ
        assert seen.models() == models


LOOPS = {
    "a boundary everywhere": (b"-" * 1_000_000, "multipart/form-data; boundary=-"),
    "parts without end": (b"--x\r\n" * 200_000, MULTI),
    "names without end": (b"--x\r\n" + b"name=" * 200_000, MULTI),
    "fields without end": (b"model=a&" * 125_000, QUERY),
    "keys without end": (b'{"a":' + b'"model":' * 125_000, JSON),
}


@pytest.mark.parametrize("name", LOOPS)
def test_no_body_holds_up_the_others(name: str) -> None:
    body, kind = LOOPS[name]
    seen = passthrough.Named(kind)
    with cheap(1.5):  # a megabyte took minutes where each part was looked at
        for at in range(0, len(body), 65_536):
            seen.feed(body[at : at + 65_536])
        seen.models()


def test_it_has_a_prefix_and_no_path() -> None:
    assert api.SURFACES["passthrough"] is passthrough
    assert passthrough.PREFIX == "/v1/"
    assert passthrough not in api.PATHS.values()


MODELS = {
    b'{"model":"m"}': "m",
    b'{"model":"\\u00e9\\ud800"}': "é?",
    b'{"a":{"model":"x"},"model":"m"}': "m",
    b'{"model":"x","model":"m"}': "m",
    b'{"model":7}': "",
    b'{"a":1}': "",
    b'["model"]': "",
    b"": "",
    b"\xff": "",
    b"[" * 100_000: "",
}


@pytest.mark.parametrize("body", MODELS, ids=lambda body: repr(body[:20]))
def test_model(body: bytes) -> None:
    assert passthrough.model_of(body) == MODELS[body]


RENAMED = {
    b'{"model":"m"}': b'{"model":"n\\"w"}',
    b' { "x" : "\\"model\\":\\"m\\"", "model" : "\\u006d" , "n":1.10 }\n': (
        b' { "x" : "\\"model\\":\\"m\\"", "model" : "n\\"w" , "n":1.10 }\n'
    ),
    b'{"m":{"model":"m"},"model":"m"}': b'{"m":{"model":"m"},"model":"n\\"w"}',
    b'\xef\xbb\xbf{"model":"m"}': b'\xef\xbb\xbf{"model":"n\\"w"}',
    b'{"model":"m","x":{"model":"m"}}': b'{"model":"n\\"w","x":{"model":"m"}}',
    b'{"x":{"model":"l","model":{}},"model":"m"}': b'{"x":{"model":"l","model":{}},"model":"n\\"w"}',
    b'{"x\\"model":"m","model":"m"}': b'{"x\\"model":"m","model":"n\\"w"}',
    b'{"model":"m","model":"m"}': b'{"model":"m","model":"n\\"w"}',
    b'{"a":1}': b'{"a":1}',
}


@pytest.mark.parametrize("body", RENAMED)
def test_renamed(body: bytes) -> None:
    assert passthrough.renamed(body, "m", 'n"w') == RENAMED[body]
