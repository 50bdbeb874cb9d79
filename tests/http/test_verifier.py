"""The verifier of the user's: what it is asked, what its answers mean, and what its failures cost."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Literal

import pytest
from aiohttp import web

from guardproxy.core.fingerprint import GUARD_MARK
from guardproxy.core.model import Call
from guardproxy.http.signed import HEADER, MOST_BYTES, Receiver, genuine
from guardproxy.http.verifier import FEEDBACK, Question, Verdict, Verifier
from tests.live import serve

SECRET = "hush-hush-hush"
LOCAL = frozenset({"127.0.0.1"})
QUESTION = Question("s-1", 7, "m", "Done. 完成", (Call("final_answer", '{"x":1}', "c1"),))


async def verdict(
    answer: web.Response | None,
    *,
    fail: Literal["open", "closed"] = "open",
    language: str = "en",
    got: list[web.BaseRequest] | None = None,
    bodies: list[bytes] | None = None,
) -> Verdict:
    """The verdict where the server gives that answer (None: it hangs)."""
    hangs = asyncio.Event()

    async def receive(request: web.BaseRequest) -> web.Response:
        body = await request.read()
        if got is not None and bodies is not None:
            got.append(request)
            bodies.append(body)
        if answer is None:
            await hangs.wait()
        return answer or web.Response()

    async with serve(receive) as url:
        verifier = Verifier(Receiver(f"{url}/check?token={SECRET}", SECRET, 0.5, LOCAL), fail=fail)
        asked = Question(QUESTION.session, QUESTION.turn, "m", QUESTION.text, QUESTION.calls, language)
        found = await verifier.ask(asked)
        await verifier.close()
        hangs.set()
    return found


def answering(value: object, status: int = 200) -> web.Response:
    return web.Response(status=status, body=value if isinstance(value, bytes) else json.dumps(value).encode())


@pytest.mark.parametrize("fail", ["open", "closed"])
@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"passed": True}, Verdict(True)),
        ({"passed": True, "feedback": "well done", "more": [1]}, Verdict(True)),
        ({"passed": False, "feedback": "cite the order"}, Verdict(False, "cite the order")),
        ({"passed": False, "feedback": "two\n\nlines <system>"}, Verdict(False, "two lines ‹system›")),
        ({"passed": False, "feedback": f"x {GUARD_MARK} y"}, Verdict(False, "x y")),
        ({"passed": False, "feedback": "a" * 9000}, Verdict(False, "a" * FEEDBACK)),
        (b'{"passed": false, "feedback": "half \\ud800"}', Verdict(False, "half ?")),
    ],
)
async def test_a_verdict_is_taken(answer: object, expected: Verdict, fail: Literal["open", "closed"]) -> None:
    assert await verdict(answering(answer), fail=fail) == expected


@pytest.mark.parametrize("feedback", [None, "", "  ", 7, ["x"]])
async def test_a_refusal_without_reason_is_still_one(feedback: object) -> None:
    found = await verdict(answering({"passed": False, "feedback": feedback}))

    assert not found.passed
    assert "did not accept" in found.feedback
    assert not found.wrong


NO_VERDICT = [
    (lambda: answering({"passed": True}, 500), "answered 500"),
    (lambda: answering({"passed": True}, 302), "answered 302"),
    (lambda: answering({"passed": True}, 404), "answered 404"),
    (lambda: answering({"passed": True}, 201), "answered 201"),
    (lambda: answering(b""), "no verdict"),
    (lambda: answering(b"{"), "no verdict"),
    (lambda: answering(b"\xff\xfe\xfd"), "no verdict"),
    (lambda: answering([True]), "no verdict"),
    (lambda: answering({"passed": "yes"}), "no verdict"),
    (lambda: answering({"passed": 1}), "no verdict"),
    (lambda: answering({}), "no verdict"),
    (lambda: answering(b"[" * 60_000), "no verdict"),
    (lambda: answering(b'{"passed":false}' + b" " * MOST_BYTES), "no verdict"),
    (lambda: None, "no answer within 0.5 s"),
]


@pytest.mark.parametrize(("make", "wrong"), NO_VERDICT)
async def test_no_verdict_passes_or_fails_as_configured(make: Any, wrong: str) -> None:
    passed, failed = await verdict(make(), fail="open"), await verdict(make(), fail="closed")

    assert passed.passed
    assert not passed.feedback
    assert not failed.passed
    assert failed.reached is ("no answer within" not in wrong)
    assert ("gave no verdict" if failed.reached else "could not be reached") in failed.feedback
    for found in (passed, failed):
        assert wrong in found.wrong
        assert "the verifier at http://127.0.0.1:" in found.wrong
        assert SECRET not in found.wrong


async def test_a_verifier_that_is_down() -> None:
    for fail, passed in (("open", True), ("closed", False)):
        verifier = Verifier(Receiver("http://127.0.0.1:1/check", SECRET, 5, LOCAL), fail=fail)  # type: ignore[arg-type]
        found = await verifier.ask(QUESTION)
        await verifier.close()
        assert found.passed is passed
        assert "cannot be reached" in found.wrong


async def test_the_text_of_a_failure_is_in_the_language_of_the_run() -> None:
    assert "没有给出结论" in (await verdict(answering({}), fail="closed", language="zh")).feedback
    assert "没有接受" in (await verdict(answering({"passed": False}), language="zh")).feedback


async def test_what_is_asked_is_signed_and_whole() -> None:
    got: list[web.BaseRequest] = []
    bodies: list[bytes] = []
    await verdict(answering({"passed": True}), got=got, bodies=bodies)

    assert len(got) == 1
    assert genuine(SECRET, got[0].headers[HEADER], bodies[0], int(time.time()))
    assert json.loads(bodies[0]) == {
        "session": "s-1",
        "turn": 7,
        "model": "m",
        "text": "Done. 完成",
        "calls": [{"name": "final_answer", "arguments": '{"x":1}', "id": "c1"}],
    }


async def test_half_a_surrogate_in_an_answer_is_asked_about_too() -> None:
    assert json.loads(Question("s", 1, "m", "\ud800").body())["text"] == "\ud800"


async def test_closing_without_a_question() -> None:
    await Verifier(Receiver("http://127.0.0.1:1/", SECRET)).close()
