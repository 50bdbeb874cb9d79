"""A text that says the same again and again, and texts that only look like it."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, strategies as st

from guardproxy.api._repeats import Repeats

LET = "Let me check the file. "
ROW = "| yes | no | perhaps |\n"
LIST = "- Add a unit test for the function `{0}` that covers the empty input.\n"
NAMES = [f"{a}{b}" for a in ("parse", "read", "write", "close") for b in ("Head", "Body", "Tail", "Line", "Word")]

TOO_MANY = {
    "one sentence": LET * 10,
    "other case, spacing and punctuation": "".join(
        one
        for _ in range(4)
        for one in ("Let me check the file. ", "LET ME  check the file!\n", "let me check the file? ")
    ),
    "two sentences in turn": "Let me look at the file. I will open it now. " * 10,
    "with new words in between": "".join(f"Let me check the file. The next is {name}. " for name in NAMES),
    "lines": "Running the tests now\n" * 10,
    "without any end": "let me check the file and " * 40,
    "the the the": "the " * 200,
    "chinese": "让我检查一下文件。" * 10,
    "chinese without an end": "让我检查一下文件" * 90,
    "after a fence": "```\nx = 1\n```\n" + LET * 10,
    "between two fences": "".join(f"```\nx = {n}\n```\nLet me check the file.\n" for n in range(10)),
}
FINE = {
    "nine times": LET * 9,
    "far apart": "".join(
        LET + f"Here is part {name}, {'which is new ' * 3 + str(n)}. " * 9 for n, name in enumerate(NAMES)
    ),
    "in a fence": "Here it is:\n```python\n" + "print('the same line again')\n" * 40 + "```\nThat is all.\n",
    "in a fence of tildes": "~~~\n" + "the same line again\n" * 40 + "~~~\n",
    "a table": ROW * 40,
    "a list of like items": "".join(LIST.format(name) for name in NAMES),
    "numbered": "".join(f"Step {n} of the plan is done. " for n in range(40)),
    "short words": "Yes. No. Done. OK. " * 40,
    "a blob": "aGVsbG8gd29ybGQ" * 200,
    "minified JSON": '{"a":0,"b":0},' * 200,
}


def pieces(text: str, size: int) -> Iterator[str]:
    return (text[at : at + size] for at in range(0, len(text), size))


def enough(text: str, size: int = 7) -> bool:
    seen = Repeats(10, 5000)
    return max(seen.feed(piece) for piece in pieces(text, size))


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("name", TOO_MANY)
def test_too_many(name: str, size: int) -> None:
    assert enough(TOO_MANY[name], size)


@pytest.mark.parametrize("size", [1, 7, 4096])
@pytest.mark.parametrize("name", FINE)
def test_fine(name: str, size: int) -> None:
    assert not enough(FINE[name], size)


def test_it_is_enough_at_the_tenth() -> None:
    seen = Repeats(10, 5000)
    assert [seen.feed(LET) for _ in range(10)] == [False] * 9 + [True]
    assert seen.count == 10


@given(st.text(max_size=300), st.integers(1, 40))
def test_how_it_is_cut_does_not_matter(text: str, size: int) -> None:
    """As long as nothing runs on: there the place of the look depends on the pieces."""
    whole, cut = Repeats(3, 200), Repeats(3, 200)
    whole.feed(text)
    for piece in pieces(text, size):
        cut.feed(piece)
    assert cut.count == whole.count


def test_work_grows_with_the_text() -> None:
    def seconds(text: str) -> float:
        seen, begun = Repeats(1 << 30, 5000), time.perf_counter()
        for piece in pieces(text, 20):
            seen.feed(piece)
        return time.perf_counter() - begun

    short, long = (min(seconds(LET * 4000 * times) for _ in range(3)) for times in (1, 8))
    assert long < 24 * short
