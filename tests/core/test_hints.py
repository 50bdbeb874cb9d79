"""No hint skips what its pattern would find: the hinted functions against the same ones with every pattern tried."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from guardproxy.core import alike, canon, mask, outcome
from guardproxy.core.model import Flag

DEV = Path(__file__).parents[3] / "shared" / "trajectories" / "dev.jsonl.gz"

PIECES = (
    "2026-01-31T10:00:00.5Z", "2026-01-31 10:00", "10:00:00 PM", "7:01:02", "a.py:12:34:", "0.35 s", "12ms", "5.s",
    "(5 s)", "'5s'", "3 minutes", "4 milliseconds'", "9 secs.", "1 second", "agent's", "items ", "read 3 times",
    "Attempt #2", "retry 4", "try 5 times", "seen 1 time", "request id: 5f3a", "Chunk ID=7x", 'run_id": "a1',
    "pid: 12", "user id: 3", "0x1f2e", "@1f2e3d4c", "123e4567-e89b-12d3-a456-426614174000",
    "-abcd-abcd-abcd-abcdefabcdef", "/tmp/tmpab/x", "/tmp/.y", "\u0663 s", "5s\u3001", "\u00e95s", "Traceback",
    "ValueError: no", "KeyboardInterrupt", "my.Exception:", "error", "2 failed", "errors: 3", "FAIL", "FAILED x",
    "did not pass", "exit code 2", "exited with status: -1", "<returncode>1", "<error>", "<tool_use_error>",
    "not found", "doesn't exist", "no such file", "permission denied", "unexpected token", "cannot open",
    "invalid option", "503 service unavailable", "429 too many requests", "502 bad gateway",
    "500 internal server error", "incorrect", "wrong", "try again", "mismatch", "not equal", "still running",
    "in progress", "queued", "not yet ready", "no new output", "waiting for", "[cleared",
    "old tool result content cleared", "Output:", "\tresult =", "</output>", "reward: 0.5", "{", "[", "0", "\n",
    "\n\n", " ", "x" * 300, "word " * 130,
)  # fmt: skip

texts = st.one_of(
    st.text(max_size=60),
    st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3), st.sampled_from(" \n:=-._")), max_size=14).map(
        "".join
    ),
)


def recorded() -> Iterator[str]:
    """Every fifth result of the development set's every ninth session."""
    with gzip.open(DEV) as lines:
        for line in list(lines)[::9]:
            found = [m["content"] for m in json.loads(line)["messages"] if isinstance(m.get("content"), str)]
            yield from found[::5]


def masked(text: str) -> str:
    """`mask._edge` with every pattern tried."""
    text = mask._HEX.sub("~", mask._MOMENT.sub("~", text))
    ends = (
        (text,) if len(text) <= 2 * mask.SAID else (text[: mask.SAID], text[mask.SAID : -mask.SAID], text[-mask.SAID :])
    )
    last = mask._DURATION.sub("~", ends[-1])
    text = "".join((mask._DURATION.sub("~", ends[0]), ends[1], last)) if len(ends) > 1 else last
    text = mask._TIMED_SPAN.sub(r"\1~", text)
    text = text[: -mask.TOLD] + mask._TALLY.sub(mask._untallied, text[-mask.TOLD :])
    text = mask._without_uuids(mask._IDENTITY.sub("~", text))
    text = mask._CLIENT_PORT.sub(":~->", text)
    return mask._SCRATCH.sub("~", mask._LABEL.sub(mask._unlabelled, text))


def failed(text: str, *, reads: bool) -> bool:
    """`outcome.failed` with every pattern tried."""
    dated = outcome._DATED.match(text)
    if dated and reads:
        return False
    edges = outcome.edges_of(text[dated.end() :] if dated else text)
    low = edges.lower()
    first, last, tail = low[:200].split("\n", 1)[0], low[-200:].rsplit("\n", 1)[-1], edges[-outcome.EDGE :]
    structured = low[:1] in "{[" and low[:2] not in outcome._BRACKETED
    begun = outcome._FIRST.match(first)
    erring = not outcome._NO_ERROR.fullmatch(first) if begun else outcome._ABSENT.match(first)
    if (outcome._STATUS.search(low) if structured else erring) or outcome._EXIT.search(low):
        return True
    if (low[:1] == "<" or "<returncode>" in low) and outcome._TAGGED.search(low):
        return True
    within = len(edges) <= 2 * outcome.EDGE and outcome._WITHIN.search(first)
    inside = within or outcome.raised(tail) or outcome._VERDICT.search(last) or outcome.reports(edges, low)
    return not reads and bool(inside)


def unlabelled(text: str) -> str:
    """`outcome.body` with every pattern tried, of a text without space around it."""
    begun = outcome._LABEL.match(text)
    text = text[begun.end() :] if begun else text.lstrip()
    while text and (ended := outcome._TRAILER.search(text, max(0, len(text) - 40))):
        text = text[: ended.start()].rstrip()
    return text.rstrip()


def flags(text: str, *, reads: bool) -> Flag:
    """`outcome.flags` of a text with something in it and every pattern tried."""
    low = text.lower()
    if len(text) <= 400 and len(low) <= 200 and outcome._CLEARED.match(low):
        return Flag.CLEARED
    void = len(text) <= 400 and len(low) <= 80 and outcome._VOID.fullmatch(low) is not None
    pending = len(text) <= 400 and outcome._PENDING.search(low) is not None
    if not void and failed(text, reads=reads):
        malformed = len(text) <= 2 * outcome.EDGE and outcome._MALFORMED.match(text[: outcome.EDGE].lower())
        return Flag.FAILED | Flag.INVALID if malformed else Flag.FAILED
    return (Flag.VOID if void else Flag.NONE) | (Flag.PENDING if pending else Flag.NONE)


def words(text: str) -> str:
    """`canon._words` without its short ways."""
    if canon._CODE.search(text) or (" " not in text and not text.isalpha()):
        spaced, text = " " in text or "\n" in text, unicodedata.normalize("NFC", mask.unseen(text))
        if spaced:
            plain = text.removeprefix("./")
            return plain if "  " not in plain and "\n" not in plain else " ".join(plain.split())
        return alike.one_path(text) if re.search(r"//|/\.|/\Z|\A\./", text) else text
    plain = unicodedata.normalize("NFKC", mask.unseen(text)).casefold()
    return " ".join(canon._WORDS.findall(plain)) or plain


def check(text: str) -> None:
    """All of them on one text."""
    assert mask._edge(text) == masked(text)
    assert canon._words(text) == words(text)
    text = text.strip()
    assert outcome.body(text) == unlabelled(text)
    for reads in (False, True):
        assert outcome.failed(text, reads=reads) == failed(text, reads=reads)
        if text:
            assert outcome.flags(text, reads=reads, told=None) == flags(text, reads=reads)


@settings(max_examples=1500, deadline=None)
@given(texts)
def test_a_hint_never_hides_what_its_pattern_would_find(text: str) -> None:
    check(text)


@pytest.mark.parametrize("piece", PIECES)
@pytest.mark.parametrize(
    "around", ["{}", "x {} y", "{}\n" + "a" * 700, "a" * 700 + " {}", "a" * 310 + " {} " + "b" * 400]
)
def test_each_piece_at_each_place(piece: str, around: str) -> None:
    check(around.format(piece) if piece not in "{[" else piece)


json_values = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(max_size=3)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(("ts", "Trace_ID", "a", "tookK", "\u00e9tag", "etag", "b")), inner, max_size=3),
    ),
    max_leaves=6,
)


@given(json_values, st.booleans())
def test_an_answer_with_a_key_to_drop_is_always_looked_into(value: object, ascii_only: bool) -> None:
    if mask.settled(value) != value:
        assert mask._hinted(json.dumps(value, ensure_ascii=ascii_only))


@pytest.mark.skipif(not DEV.exists(), reason="the development set is not here")
def test_the_same_on_recorded_results() -> None:
    for text in recorded():
        check(text)
