"""The sections `upstreams` and `failover`: what is refused, what is warned of, which of them is the default."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from guardproxy import _upstreams, config
from guardproxy.errors import ConfigError

A = "{name: a, url: 'http://a/v1'}"


def load(folder: Path, text: str, env: Mapping[str, str] | None = None) -> config.Config:
    file = folder / "c.yaml"
    file.write_text(text)
    return config.load(file, env or {})[0]


WRONG = {
    "no list": ("upstreams: {a: 1}", "upstreams: must be a list"),
    "no name": ("upstreams: [{url: 'http://a'}]", "upstreams.0.name: is missing"),
    "no address": ("upstreams: [{name: a}]", "upstreams.0.url: is missing"),
    "unknown key": ("upstreams: [{name: a, url: 'http://a', modles: [x]}]", "did you mean 'models'?"),
    "retries": ("upstreams: [{name: a, url: 'http://a', retries: 1}]", "upstreams.0.retries: unknown key"),
    "a query": ("upstreams: [{name: a, url: 'http://a/v1?key=x'}]", "upstreams.0.url: must end before the route"),
    "a name that is none": ("upstreams: [{name: 'a b', url: 'http://a'}]", "upstreams.0.name: "),
    "a name with a comma": ("upstreams: [{name: 'a,b', url: 'http://a'}]", "upstreams.0.name: "),
    "the default's name": (
        "upstreams: [{name: default, url: 'http://a'}]",
        "upstreams.0.name: 'default' is the section",
    ),
    "a name twice": (f"upstreams: [{A}, {A}]", "upstreams: 'a' is the name of two of them"),
    "no models": ("upstreams: [{name: a, url: 'http://a', models: []}]", "upstreams.0.models: name at least one"),
    "an empty model": ("upstreams: [{name: a, url: 'http://a', models: ['']}]", "upstreams.0.models.0"),
    "no scheme": ("upstreams: [{name: a, url: 'ftp://a'}]", "upstreams.0.url: must be a URL"),
    "a key with a line break": ('upstreams: [{name: a, url: "http://a", api_key: "x\\ny"}]', "upstreams.0.api_key: "),
    "most": (f"upstreams: [{A}]\nfailover: {{most: 0}}", "failover.most: "),
    "stay": (f"upstreams: [{A}]\nfailover: {{stay: never}}", "failover.stay: "),
    "no time": (f"upstreams: [{A}]\nfailover: {{aside_seconds: 0}}", "failover.aside_seconds: "),
}


@pytest.mark.parametrize(("text", "words"), WRONG.values(), ids=WRONG.keys())
def test_what_is_refused(tmp_path: Path, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as wrong:
        load(tmp_path, text)
    assert words in wrong.value.message


@pytest.mark.parametrize(
    ("text", "env", "addresses"),
    [
        ("{}", {}, {"default": "https://api.openai.com/v1"}),
        (f"upstreams: [{A}]", {}, {"a": "http://a/v1"}),
        (f"upstreams: [{A}]\nupstream: {{retries: 2}}", {}, {"a": "http://a/v1"}),
        (f"upstreams: [{A}]\nupstream: {{url: 'http://d/v1'}}", {}, {"default": "http://d/v1", "a": "http://a/v1"}),
        (f"upstreams: [{A}]", {"OPENAI_BASE_URL": "http://e/v1"}, {"default": "http://e/v1", "a": "http://a/v1"}),
    ],
)
def test_the_default(tmp_path: Path, text: str, env: Mapping[str, str], addresses: dict[str, str]) -> None:
    assert load(tmp_path, text, env).addresses == addresses


def test_keys_are_not_shown(tmp_path: Path) -> None:
    made = load(tmp_path, "upstreams: [{name: a, url: 'http://a', api_key: '${K}'}]", {"K": "s3cr3t"})

    assert made.upstreams[0].api_key == "s3cr3t"
    assert "s3cr3t" not in repr(made)
    inside = load(
        tmp_path, "upstream: {url: 'http://u:s3cr3t@a:1/v1'}\nupstreams: [{name: b, url: 'http://s3cr3t@b/v1'}]"
    )
    assert inside.addresses == {"default": "http://a:1/v1", "b": "http://b/v1"}


def test_none_of_them_is_this_proxy(tmp_path: Path) -> None:
    made = load(tmp_path, "upstreams: [{name: a, url: 'http://127.0.0.1:8787/v1'}]")
    with pytest.raises(ConfigError, match=r"^upstreams\.a\.url: .* is this proxy itself"):
        made.refuse_itself()


WARNED = {
    "nothing": ("models: ['gpt-*'], rename: {gpt-4o: x}, api_key: k", ()),
    "behind a wider one": ("models: ['gpt-*', 'gpt-4*'], api_key: k", ("'gpt-4*' can never match: 'gpt-*'",)),
    "behind all": ("models: ['*', 'o3'], api_key: k", ("'o3' can never match: '*'",)),
    "before a wider one": ("models: ['gpt-4*', 'gpt-*'], api_key: k", ()),
    "twice": ("models: [o3, o3], api_key: k", ("'o3' can never match: 'o3'",)),
    "a space": ("models: ['o3 '], api_key: k", ("'o3 ' begins or ends with a space",)),
    "renamed in vain": ("models: ['gpt-*'], rename: {claude: x}, api_key: k", ("'claude' can never match: no glob",)),
    "renamed behind a wider one": ("rename: {'gpt-*': x, gpt-4o: y}, api_key: k", ("rename: 'gpt-4o' can never",)),
    "renamed, perhaps": ("models: ['gpt-*o'], rename: {'gpt-4*': x}, api_key: k", ()),
}


@pytest.mark.parametrize("name", WARNED)
def test_globs_that_can_never_match(tmp_path: Path, name: str) -> None:
    entry, words = WARNED[name]
    found = load(tmp_path, f"upstreams: [{{name: a, url: 'http://a', {entry}}}]").warnings()

    assert len(found) == len(words)
    assert all(word in line for word, line in zip(words, found, strict=True))


def test_other_warnings(tmp_path: Path) -> None:
    text = f"upstreams: [{A}, {{name: b, url: 'http://b'}}]\nupstream: {{url: 'http://a/x', api_key: k}}"
    prices = "\nprices: {models: {'*': {input: 1, output: 1}, x: {input: 1, output: 1}}}"
    found = load(tmp_path, text + prices).warnings()

    assert [line.partition(":")[0] for line in found] == ["upstream", "prices.models", "a, b"]
    assert load(tmp_path, "prices: {models: {x: {input: 1, output: 1}}}").warnings() == []
    same = "upstreams: [{name: a, url: 'http://a/1'}, {name: b, url: 'http://a/2'}]"
    assert load(tmp_path, same).warnings() == [], "one host may have the client's key"


COVERS = [
    ("*", "x", True),
    ("**", "a*[b]?", True),
    ("a*", "a*b", True),
    ("a*", "ab?", True),
    ("*b", "a*b", True),
    ("a*c", "a*b*c", True),
    ("a*", "a", True),
    ("a*b", "a*", False),
    ("a", "a*", False),
    ("a*", "*a", False),
    ("a?", "a*", False),
    ("a*", "a[bc]", False),
    ("a[bc]", "ab", False),
    ("a[bc]", "a[bc]", True),
    ("", "", False),
]


@pytest.mark.parametrize(("glob", "other", "covers"), COVERS)
def test_covers(glob: str, other: str, covers: bool) -> None:
    assert _upstreams.covers(glob, other) is covers


UNPAID = {
    # what the file says: who gets no key
    "the default one": ("auth: keys", ["upstream"]),
    "with a key": ("auth: keys\nupstream: {api_key: k}", []),
    "with a name and a password": ("auth: keys\nupstream: {url: 'https://a:b@m.example.com/v1'}", []),
    "a server of one's own": ("auth: keys\nupstream: {url: 'http://models:8000/v1'}", []),
    "the client's key goes on": ("auth: passthrough", []),
    "one of two": (
        "auth: keys\nupstreams: [{name: a, url: 'https://a.com'}, {name: b, url: 'https://b.com', api_key: k}]",
        ["upstreams.a"],
    ),
}


@pytest.mark.parametrize("name", UNPAID)
def test_who_gets_no_key_is_named(tmp_path: Path, name: str) -> None:
    text, where = UNPAID[name]

    assert [line.partition(":")[0] for line in load(tmp_path, text).warnings()] == where
