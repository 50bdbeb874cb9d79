"""Whether a text says the same again and again: a model that has fallen into a circle inside one answer.

Sentences and lines are compared as letters and digits only, so that case, spacing and punctuation do not matter.
Code fences and tables are left out: they repeat by nature. Work grows with the new text, not with what was said.
"""

from __future__ import annotations

import re
from collections import Counter, deque

LEAST = 8
"""Letters that a sentence must have: "Yes." and "Done." may come ten times."""

LEAST_HAN = 4
"""The same for Chinese, where a character is a word."""

RUN_ON = 600
"""Characters without an end of a sentence after which the text itself is looked at for something that recurs."""

KEY = 24
"""Characters of a run-on text whose recurrence is counted."""

_END = re.compile(r"(?<![.!?…])[.!?…]++\s|[。！？\n]+")
_FENCE = re.compile(r"\s*+(?:```|~~~)")
_TABLE = re.compile(r"\s*+\|")
_HAN = re.compile(r"[\u3400-\u9fff]")


class Repeats:
    """Feed it the pieces of a text in their order. `most` near repeats within `within` characters are too many."""

    def __init__(self, most: int, within: int) -> None:
        self.most = most
        self.within = within
        self.count = 0  # of the sentence that came most often within reach, so far
        self._rest = ""  # what was not ended yet
        self._line_begins = True
        self._fenced = False
        self._at = 0  # characters outside of fences
        self._near: deque[tuple[int, str]] = deque()
        self._counts: Counter[str] = Counter()

    def feed(self, piece: str) -> bool:
        """Take a piece; whether it is enough now."""
        known = max(0, len(self._rest) - 1)
        self._rest += piece
        begin = 0
        for end in _END.finditer(self._rest, known):
            self._sentence(self._rest[begin : end.end()])
            begin = end.end()
        self._rest = self._rest[begin:]
        if len(self._rest) >= RUN_ON:
            self._run_on()
        return self.count >= self.most

    def _sentence(self, text: str) -> None:
        begins, self._line_begins = self._line_begins, text.endswith("\n")
        if begins and _FENCE.match(text):
            self._fenced = not self._fenced
            return
        if self._fenced:
            return
        self._at += len(text)
        if begins and _TABLE.match(text):
            return
        plain = "".join(filter(str.isalnum, text.casefold()))
        if len(plain) >= (LEAST_HAN if _HAN.search(plain) else LEAST):
            self._note(plain)

    def _note(self, plain: str) -> None:
        self._near.append((self._at, plain))
        self._counts[plain] += 1
        while self._near[0][0] <= self._at - self.within:
            gone = self._near.popleft()[1]
            self._counts[gone] -= 1
            if not self._counts[gone]:
                del self._counts[gone]
        self.count = max(self.count, self._counts[plain])

    def _run_on(self) -> None:
        """A text without ends: the last of it, as often as it stands there. Then half of it is put aside."""
        key = self._rest[-KEY:]
        worded = " " in key.strip() or _HAN.search(key)
        if worded and not self._fenced:
            self.count = max(self.count, self._rest.count(key))
        half = len(self._rest) // 2
        self._at += 0 if self._fenced else half
        self._rest = self._rest[half:]
        self._line_begins = False
