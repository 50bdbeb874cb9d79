"""The user's own check of a final answer: a server that is asked before the answer counts.

It gets `{"session", "turn", "model", "text", "calls"}` and answers `{"passed": true}` or `{"passed": false, "feedback":
"…"}` with status 200. Anything else is no verdict: with `fail: open` the answer passes, with `closed` it fails.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

import aiohttp

from guardproxy.core.advice import LANGUAGES
from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Call
from guardproxy.http.signed import Receiver, open_session, post

RULE = "verifier"
"""The name under which its failures are reported, beside those of `core.completion.CHECKS`."""

FEEDBACK = 2000
"""Characters of the server's feedback that the model is told."""


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: the answer in full, and whose it is."""

    session: str
    turn: int
    model: str
    text: str
    calls: Sequence[Call] = ()
    language: str = "en"

    def body(self) -> bytes:
        """The question as JSON."""
        calls = [{"name": call.name, "arguments": call.arguments, "id": call.id} for call in self.calls]
        said = {"session": self.session, "turn": self.turn, "model": self.model, "text": self.text, "calls": calls}
        return json.dumps(said, separators=(",", ":")).encode()


@dataclass(frozen=True, slots=True)
class Verdict:
    """`feedback`: why not, for the model. `wrong`: why the server gave no verdict, for the log; "" if it gave one.

    `reached`: it answered something.
    """

    passed: bool
    feedback: str = ""
    wrong: str = ""
    reached: bool = True


class Verifier:
    """Asks one server. Make and use it inside one running loop."""

    def __init__(self, to: Receiver, *, fail: Literal["open", "closed"] = "open") -> None:
        self._to = to
        self._fail = fail
        self._session: aiohttp.ClientSession | None = None

    async def ask(self, question: Question) -> Verdict:
        """The verdict, within the receiver's timeout. Asked once: a client waits for it."""
        if self._session is None:
            self._session = open_session(self._to)
        now_s = int(time.time())
        received = await post(self._session, self._to, question.body(), request_id=uuid4().hex, now_s=now_s)
        wrong = received.wrong
        if not wrong and received.status != 200:
            wrong = f"answered {received.status}"
        if not wrong:
            verdict = _read(received.body) if received.whole else None
            if verdict is not None:
                return verdict if verdict.passed or verdict.feedback else self._plain(verdict, question.language)
            wrong = "gave no verdict that can be read"
        reached = not received.wrong
        return self._without(f"the verifier at {self._to.origin} {wrong}", question.language, reached=reached)

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()

    def _plain(self, verdict: Verdict, language: str) -> Verdict:
        return replace(verdict, feedback=str(LANGUAGES[language].VERIFIER_REFUSED))

    def _without(self, wrong: str, language: str, *, reached: bool) -> Verdict:
        words = LANGUAGES[language]
        told = "" if self._fail == "open" else str(words.VERIFIER_UNREAD if reached else words.VERIFIER_SILENT)
        return Verdict(passed=self._fail == "open", feedback=told, wrong=wrong, reached=reached)


def _read(body: bytes) -> Verdict | None:
    """The verdict in an answer; None: there is none."""
    try:
        answer = json.loads(body)
    except (ValueError, RecursionError):
        return None
    passed = answer.get("passed") if isinstance(answer, dict) else None
    if not isinstance(passed, bool):
        return None
    feedback = answer.get("feedback")
    return Verdict(passed, _plain_text(feedback) if isinstance(feedback, str) and not passed else "")


def _plain_text(feedback: str) -> str:
    """One line without words that could be taken for ours or for markup: it stands inside a text of ours."""
    plain = " ".join(feedback[:FEEDBACK].replace(GUARD_MARK, " ").split())
    return plain.replace("<", "‹").replace(">", "›").encode("utf-8", "replace").decode()
