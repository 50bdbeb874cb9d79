"""`plan`: the shape of plans and todo lists, and what is none."""

from __future__ import annotations

import json
import re

import pytest

from guardproxy.core.plan import LONGEST, shape


def items(*statuses: str, word: str = "step", **more: object) -> list[dict[str, object]]:
    return [{"content": f"{word} of the work", "status": status, **more} for status in statuses]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"todos": items("pending", "done")}, {"todos": items("pending", "done", word="another part")}),
        ({"plan": items("pending", "pending")}, {"plan": items("Pending", "PENDING ")}),
        ({"a": {"todos": items("open", "open")}}, {"a": {"todos": items("open", "open", word="x")}, "why": "because"}),
        ({"todos": [{"t": "a b", "done": True}] * 2}, {"todos": [{"t": "c d", "done": True}] * 2}),
        ({"todos": "- [ ] one\n- [x] two"}, {"todos": "1. [ ] first\n2. [X] second"}),
    ],
)
def test_equal_shapes(one: object, other: object) -> None:
    assert shape(json.dumps(one)) == shape(json.dumps(other)) != ""
    assert shape(escaped(one)) == shape(json.dumps(one))


def escaped(value: object) -> str:
    """The same JSON with an escape for each letter of its strings."""
    return re.sub(
        r'"((?:[^"\\\\]|\\\\.)*)"',
        lambda found: "".join(
            f"\\u{ord(one):04x}" if one.isalpha() and "\\" not in found[1] else one for one in found[0]
        ),
        json.dumps(value),
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"todos": items("pending", "pending")}, {"todos": items("done", "pending")}),
        ({"todos": items("pending", "pending")}, {"todos": items("pending", "pending", "pending")}),
        ({"todos": items("pending", "done")}, {"todos": items("done", "pending")}),
        ({"todos": [{"t": "a b", "done": True}] * 2}, {"todos": [{"t": "a b", "done": False}] * 2}),
        ({"todos": "- [ ] one\n- [ ] two"}, {"todos": "- [x] one\n- [ ] two"}),
        ({"issues": items("open", "open", id=7)}, {"issues": items("open", "open", id=8)}),  # other things
        ({"issues": items("open", "open", id="T-7")}, {"issues": items("open", "open", id="T-8")}),
    ],
)
def test_other_shapes(one: object, other: object) -> None:
    assert "" != shape(json.dumps(one)) != shape(json.dumps(other)) != ""


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        "",
        "[{",
        '{"path": "a", "status": "done"}',
        json.dumps({"todos": items("pending")}),  # one item: an entry, no plan
        json.dumps({"todos": [*items("pending", "done"), {"content": "no status"}]}),
        json.dumps({"todos": [*items("pending", "done"), "text"]}),
        json.dumps({"rows": [{"open": 1, "n": 2}, {"open": 3, "n": 4}]}),
        json.dumps({"path": "a.md", "content": "- [ ] one\n- [x] two"}),  # an edit of a file with check boxes
        json.dumps({"old": "- [ ] one\n- [ ] two", "new": "- [x] one\n- [ ] two"}),
        json.dumps({"text": "see a[ ] and b[x]"}),
        json.dumps({"todos": items(*["pending"] * LONGEST)}),
        "[" * 100_000 + " pending",
    ],
)
def test_what_is_no_plan(arguments: str) -> None:
    assert shape(arguments) == ""
