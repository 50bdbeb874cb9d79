"""What must hold on every turn of every scene, whatever the case is about."""

from __future__ import annotations

import json
import re

from guardproxy.core.fingerprint import GUARD_MARK, Fingerprinter
from guardproxy.core.harness import is_harness
from guardproxy.core.model import Call, Kind
from tests.live import Json
from tests.scenes import Move, Scene, Turn
from tests.surfaces import spelled

SPLICE = re.compile(rb'"stream_options":\{"include_usage":true\}, ?')
PART = rb', ?\{"type": ?"%b", ?"text": ?"%b"\}'
REMAINING = "x-guardproxy-budget-remaining"
HIDDEN = re.compile(r"<system|NEVER mention|do not tell|ignore previous|不要告诉", re.IGNORECASE)
TO_THE_END = re.compile(
    r"\b(?:call|use|invoke)\W+(?:done|finish|submit|complete|terminate|end)\b|调用\W*(?:done|finish)", re.IGNORECASE
)
"""What no text may ask for: a call that ends the run (case B32)."""
HAN = re.compile(r"[\u4e00-\u9fff]")
SPOKEN = ("nudge", "firm", "finalize")
"""Verdicts that add something to the request."""

UPSTREAM = ("", "observe", *SPOKEN)
"""Verdicts with which a request goes on to the provider."""


def check(turns: list[Turn], printer: Fingerprinter) -> None:
    """All of it."""
    for turn in turns:
        try:
            check_turn(turn, printer)
        except AssertionError as error:
            error.add_note(
                f"{turn.scene.case}, request after {turn.number} moves: {turn.answer.verdict} {turn.answer.rule}"
            )
            raise
    check_run(turns)


def check_turn(turn: Turn, printer: Fingerprinter) -> None:
    """One request and its answer."""
    verdict(turn)
    if turn.expected in UPSTREAM:
        assert turn.got is not None, "the request did not reach the provider"
        request(turn)
        answer(turn)
        seen_calls(turn, printer)
    elif turn.expected == "cut":
        ended(turn)
    else:
        refused(turn)
    seen_steps(turn, printer)


def check_run(turns: list[Turn]) -> None:
    """The turns together."""
    scene = turns[0].scene
    names = {turn.answer.headers["x-guardproxy-session-id"] for turn in turns}
    assert len(names) == scene.sessions, names
    assert all(number < len(turns) for number in (*scene.at, *scene.says, *scene.counted, *scene.spared)), "too short"
    for number, amount in scene.counted.items():
        assert sum(turn.got is not None for turn in turns[: number + 1]) == amount
    check_numbers(turns)
    told = [turn for turn in turns if turn.expected != "finalize"]  # which asks for an answer as often as it must
    advice = [(turn.report.view.span, text) for turn in told for text in new_advice(turn)]
    assert len(set(advice)) == len(advice), "the same advice twice"
    for number, pattern in scene.says.items():
        said = "\n".join(new_advice(turns[number])) or text_of(turns[number])
        assert re.search(pattern, said), f"{number}: {pattern!r} is not said in {said!r}"
    for number, pattern in scene.spared.items():
        spared = turns[number].report.decision.spared
        assert any(re.search(pattern, str(why)) for why in spared), f"{number}: {pattern!r} is not in {spared}"


def check_numbers(turns: list[Turn]) -> None:
    """Turns are counted one by one; another attempt at one, and what comes after an end, are none."""
    number = 0
    for turn in turns:
        again = turn.last is not None and turn.last.failed
        if not (again or turn.report.view.closed or turn.expected == "deny"):
            number += 1
        assert turn.answer.headers["x-guardproxy-turn"] == str(number + (turn.expected == "deny"))


def verdict(turn: Turn) -> None:
    """The headers say what the scene says."""
    said, expected = turn.answer.verdict, turn.expected
    if not expected:
        assert said in ("pass", "observe"), said
        told = turn.scene.observed.get(turn.number, "")
        assert not told or (said, turn.answer.rule) == ("observe", told), turn.answer.rule
        assert turn.answer.status == turn.move.status
        return
    assert said == {"over": "cut"}.get(expected, expected), f"expected {expected}, got {said} ({turn.answer.rule})"
    assert expected == "observe" or not turn.scene.rule or turn.answer.rule == turn.scene.rule, turn.answer.rule


def additions(turn: Turn) -> dict[int, str]:
    """What was added to the request's messages on its way, by index; nothing else may differ in them."""
    ours, theirs = turn.reached, turn.messages
    assert [(m["role"], m.get("tool_call_id")) for m in ours] == [(m["role"], m.get("tool_call_id")) for m in theirs]
    found = {}
    for index, (out, came) in enumerate(zip(ours, theirs, strict=True)):
        if out != came:
            assert {**out, "content": None} == {**came, "content": None}
            found[index] = _added(out["content"], came["content"])
    return found


def _added(out: object, came: object) -> str:
    if isinstance(out, str) and isinstance(came, str):
        assert out.startswith(came)
        return out[len(came) :]
    assert isinstance(out, list)
    assert isinstance(came, list)
    assert out[: len(came)] == came
    assert all(set(part) == {"type", "text"} for part in out[len(came) :])
    return "".join(part["text"] for part in out[len(came) :])


def new_advice(turn: Turn) -> list[str]:
    """The texts that were added on this turn and not before."""
    if turn.got is None:
        return []
    before = known(turn.before)
    return [
        text.removeprefix(before.get(index, "")) for index, text in additions(turn).items() if text != before.get(index)
    ]


def known(turn: Turn | None) -> dict[int, str]:
    """The texts that the provider has been sent with this conversation."""
    while turn is not None and turn.got is None:
        turn = turn.before
    return additions(turn) if turn else {}


def request(turn: Turn) -> None:
    """Bytes: but for what the verdict and the usage splice put in, what the client sent."""
    assert turn.got is not None
    body, added = turn.got.body, additions(turn)
    asks = asks_usage(turn)
    assert len(SPLICE.findall(body)) == asks
    assert ("usage" in turn.answer.headers.get("x-guardproxy-edit", "").split(",")) == asks
    plain = SPLICE.sub(b"", body)
    if turn.expected == "finalize":
        plain = allow(plain, turn)
    undone = undo(plain, added, turn.messages, turn.surface.PART)
    assert undone == turn.sent
    prefix(turn)
    if turn.last is not None and turn.last.failed:
        assert turn.before is not None
        assert turn.before.got is not None
        assert body == turn.before.got.body, "another attempt, another body"
        return
    fresh = new_advice(turn)
    assert bool(fresh) == (turn.expected in SPOKEN), f"advice: {fresh}"
    for text in fresh:
        lint(text, turn.scene)
        assert max(added) == place(turn.messages), "advice in the wrong place"


def asks_usage(turn: Turn) -> bool:
    """Whether the proxy asks for usage in the client's place."""
    return bool(turn.surface.ASKS_USAGE and turn.stream and "stream_options" not in turn.scene.more)


def allow(body: bytes, turn: Turn) -> bytes:
    """The body with the tools allowed again."""
    scene, forbid = turn.scene, turn.surface.FORBID
    if not scene.tools:  # providers refuse a tool_choice without tools
        assert b"tool_choice" not in body
        return body
    ours, theirs = re.compile(forbid + b", ?"), b""
    if "tool_choice" in scene.more:
        ours, chosen = re.compile(forbid), json.loads(turn.sent)["tool_choice"]
        theirs = b'"tool_choice": ' + json.dumps(chosen).encode()
    assert len(ours.findall(body)) == 1
    return ours.sub(theirs, body)


def undo(body: bytes, added: dict[int, str], messages: list[Json], part: bytes) -> bytes:
    """The body without the added texts, taken out where the serialised message shows them."""
    for index, text in added.items():
        quoted = re.escape(json.dumps(text, ensure_ascii=False)[1:-1].encode())
        if isinstance(messages[index]["content"], list):
            quoted = PART % (part, quoted)
        body, times = re.subn(quoted, b"", body, count=1)
        assert times == 1, "our text is not spelled as we spell it"
    return body


def prefix(turn: Turn) -> None:
    """What the provider has seen of this conversation comes again byte for byte (its prompt cache), advice included."""
    before = turn.before
    if before is None or before.got is None or turn.got is None or turn.last is None or turn.last.anew is not None:
        return
    if before.history == turn.history:
        old, new = additions(before), additions(turn)
        assert all(new[index].startswith(text) for index, text in old.items())
        return
    assert spelled(turn.surface, turn.got.body).startswith(spelled(turn.surface, before.got.body))


def place(messages: list[Json]) -> int:
    """Where advice belongs: the last tool result since the model spoke, else the last user message."""
    spoke = max((i for i, m in enumerate(messages) if m["role"] == "assistant"), default=-1)
    for roles in (("tool", "function"), ("user",)):
        found = [i for i, m in enumerate(messages) if m["role"] in roles and i > spoke]
        if found:
            return found[-1]
    return max(i for i, m in enumerate(messages) if m["role"] == "user")


def lint(text: str, scene: Scene) -> None:
    """A text of ours says where it comes from, hides nothing, and is in the conversation's language."""
    assert text.count(GUARD_MARK) == 1, text
    assert not HIDDEN.search(text)
    assert not TO_THE_END.search(text)
    assert bool(HAN.search(text)) == (scene.language == "zh"), text


def answer(turn: Turn) -> None:
    """The provider's bytes; on finalize without calls, and never without words."""
    got, replied = turn.answer, turn.replied
    asked = asks_usage(turn)
    if turn.expected == "finalize" and turn.move.status == 200 and (turn.calls or not turn.move.text):
        message, finish = message_of(turn)
        assert not message.get("tool_calls")
        assert not message.get("function_call")
        assert finish == "stop"
        assert message["content"]
        return
    assert got.status == turn.move.status
    if asked and got.status == 200:
        assert b'"usage"' not in got.body
        replied = b"".join(event + b"\n\n" for event in replied.split(b"\n\n") if event and b'"usage"' not in event)
    assert got.body == replied


def ended(turn: Turn) -> None:
    """A cut: a whole answer in the model's place, and nothing sent on."""
    assert turn.got is None, "the provider was asked after the cut"
    assert turn.answer.status == 200
    message, finish = message_of(turn)
    assert message["role"] == "assistant"
    if turn.scene.more.get("tool_choice") == "required" and "final_answer" in json.dumps(turn.scene.more["tools"]):
        assert finish == "tool_calls"
        (call,) = message["tool_calls"]
        assert call["function"]["name"] == "final_answer"
        assert re.fullmatch("[A-Za-z0-9]{9}", call["id"])
        message = {"content": json.loads(call["function"]["arguments"])["answer"]}
    else:
        assert finish == "stop"
    assert "tool_calls" not in message
    lint(message["content"], turn.scene)
    kind = "text/event-stream" if turn.stream else "application/json"
    assert turn.answer.headers["Content-Type"].startswith(kind)


def refused(turn: Turn) -> None:
    """HTTP 400 in OpenAI's shape: after the last text, or where a budget has no room."""
    code = {"over": "session_cut", "deny": "budget_exceeded"}[turn.expected]
    headers, error = turn.answer.headers, turn.answer.json["error"]
    assert turn.got is None
    assert turn.answer.status == 400
    assert error["code"] == code
    assert error["type"]
    assert "param" in error
    assert headers["x-should-retry"] == "false"
    assert "Retry-After" not in headers
    if turn.before is not None and turn.before.expected == "deny":
        assert headers[REMAINING] == turn.before.answer.headers[REMAINING], "a denied request counts"
    lint(error["message"], turn.scene)


def text_of(turn: Turn) -> str:
    """The text that the client got, in an answer or in an error."""
    if turn.answer.status != 200:
        return str(turn.answer.json["error"]["message"])
    return str(message_of(turn)[0].get("content"))


def message_of(turn: Turn) -> tuple[Json, str]:
    """The message and finish reason that the client got, put together from chunks where it streams."""
    message, finish, _ = turn.surface.answer(turn.answer.body, stream=turn.stream)
    return message, finish


def seen_calls(turn: Turn, printer: Fingerprinter) -> None:
    """Our view of the answer: the calls that the model made, repaired where the provider's form is odd."""
    if turn.move.status == 200:
        made = tuple((tool, call_id, printer.call(Call(tool, arguments))) for tool, arguments, call_id in turn.calls)
        if turn.move.written:
            made = tuple((tool, "", printer.call(Call(tool, json.dumps(a)))) for tool, a, _ in turn.move.written)
            if not turn.number and not turn.report.attempts[-1].calls:
                return  # no head says what it is, and no observation yet
        if turn.move.legacy:
            made = tuple((tool, "", fp) for tool, _, fp in made)
        assert turn.report.attempts[-1].calls == made


def seen_steps(turn: Turn, printer: Fingerprinter) -> None:
    """Our view of the request: each call with its own result, once."""
    last, before = turn.last, turn.before
    if turn.expected in ("over", "deny") or last is None or before is None or last.anew is not None:
        return
    if turn.report.view.closed or last.status != 200 or last.forgets:
        return
    seen = [(step.tool, step.call, step.result) for step in turn.report.steps]
    assert seen == expected_steps(turn, last, printer), "wrong steps"
    if last.calls or last.written:
        made = len(last.calls) + len(last.written)
        assert turn.report.view.steps - before.report.view.steps == made, "steps lost or counted twice"


def expected_steps(turn: Turn, move: Move, printer: Fingerprinter) -> list[tuple[str, bytes, bytes]]:
    """The steps that a move is."""
    found = []
    written = [((tool, arguments, None), result) for tool, arguments, result in move.written]
    for (tool, arguments, _), result in [*zip(move.calls, move.results, strict=True), *written]:
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        message = None
        if result is not None:
            message = turn.surface.neutral({"role": "tool", "tool_call_id": "", "content": result})
        step = printer.step(Call(tool, text), message, first=not found, at_ms=0)
        assert step.kind is Kind.CALL
        found.append((step.tool, step.call, step.result))
    more = beside(turn, move, printer)
    if more and move.calls and move.results[-1] is not None:
        tool, call, result = found[-1]
        found[-1] = (tool, call, printer.hash16(result, printer.hash16("brought", *more)))
    return found


def beside(turn: Turn, move: Move, printer: Fingerprinter) -> list[bytes]:
    """What the user messages after the results bring: pictures first, then words that no program writes."""
    said = [turn.surface.neutral(message) for message in move.then if message["role"] == "user"]
    words = [one.text for one in said if one.text.strip() and not is_harness(one.text)]
    return [*(picture for one in said for picture in one.media), *map(printer.text, words)]
