"""The conversations that the bench sends and the answers that its provider gives, the same on every run.

Every text that must differ between sessions carries TOKEN, which load.c and mock.c overwrite with the session's
number: the first user message, every call id, every call's arguments and every result. So a session's calls and
results are its own, no memo can know them beforehand, and the call that the provider answers at step n is the call
that stands in the request with n + 1 rounds. Within a session all calls and results differ: nothing is a loop.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOKEN = "@TOKEN_HERE"
MODEL = "gpt-4o-mini"
ANSWERS = 128  # steps that the provider knows; the longest conversation below has 99
EVENTS = 60  # of a streamed answer, [DONE] included
JSON, BURST, PACED = 0, 1, 2  # how the provider answers: the last digit of "seed"

# No word that a reader of results could take for a failure, an empty result or a wait.
NOUNS = ("file", "test", "build", "function", "value", "request", "cache", "path", "module", "class", "stream", "agent")
VERBS = (
    "returns",
    "parses",
    "updates",
    "wraps",
    "reads",
    "writes",
    "maps",
    "sorts",
    "splits",
    "checks",
    "loads",
    "sends",
)
TOOLS = ("read_file", "grep", "edit_file", "bash", "list_files", "fetch")


@dataclass(frozen=True)
class Shape:
    """A conversation's size: bytes of the last request, rounds (call and result) of the first and the last one."""

    size: int
    first: int
    last: int
    system: int  # bytes of the system message; 0: none
    tools: int
    variants: int
    split: bool = False  # first turns in the warm-up, only second turns measured

    @property
    def messages(self) -> int:
        """Messages in the last request."""
        return 2 * self.last + 1 + bool(self.system)


SHAPES = {
    "S": Shape(1_700, 0, 1, 0, 1, 16, split=True),
    "M": Shape(61_000, 10, 19, 8_000, 6, 8),
    "L": Shape(608_000, 65, 74, 12_000, 6, 4),
    # growth: both longer than any detection window, the second twice the first, messages as large as M's
    "G": Shape(156_000, 40, 49, 8_000, 6, 4),
    "GG": Shape(304_000, 90, 99, 8_000, 6, 4),
}


def words(rng: random.Random, size: int) -> str:
    """Prose and paths, exactly `size` ASCII characters, none of which JSON escapes but the newlines."""
    out: list[str] = []
    length = 0
    while length < size:
        noun, verb = rng.choice(NOUNS), rng.choice(VERBS)
        line = f"{noun}_{rng.randrange(99)} {verb} the {rng.choice(NOUNS)} in src/{rng.choice(NOUNS)}/{noun}.py;"
        line += "\n" if rng.random() < 0.2 else " "
        out.append(line)
        length += len(line)
    return "".join(out)[:size].rstrip().ljust(size, ".")


def dump(value: object) -> str:
    """JSON as the OpenAI clients write it."""
    return json.dumps(value, separators=(",", ":"))


def tool(name: str) -> dict[str, Any]:
    """A tool's declaration."""
    properties = {k: {"type": "string", "description": f"The {k} to use."} for k in ("path", "query")}
    parameters = {"type": "object", "properties": properties, "required": ["path"]}
    return {"type": "function", "function": {"name": name, "description": f"Runs {name}.", "parameters": parameters}}


def action(step: int) -> tuple[str, str, str]:
    """What the provider answers at a step: the text before the call, the tool, the arguments."""
    rng = random.Random(f"action {step}")
    text = " ".join(rng.choice(NOUNS + VERBS) for _ in range(38))
    path = f"src/{rng.choice(NOUNS)}/{TOKEN}/{rng.choice(VERBS)}_{rng.choice(NOUNS)}_{step}.py"
    arguments = {"path": path, "query": f"{rng.choice(NOUNS)} {rng.choice(VERBS)} {rng.choice(NOUNS)}"}
    return text, TOOLS[rng.randrange(len(TOOLS)) if step > 1 else 0], json.dumps(arguments)  # S offers only the first


def call_of(step: int) -> dict[str, Any]:
    """The call as it stands in an answer and in the requests after it."""
    _, name, arguments = action(step)
    return {"id": f"call_{TOKEN}{step:03d}", "type": "function", "function": {"name": name, "arguments": arguments}}


def rounds(shape: Shape, rng: random.Random, spare: int) -> Iterator[tuple[str, str]]:
    """The assistant message and the result of every round, as JSON; `spare` bytes are shared out over the results."""
    weights = [rng.uniform(0.4, 1.6) for _ in range(shape.last)]
    for step, weight in enumerate(weights):
        text = action(step)[0]
        assistant = {"role": "assistant", "content": text, "tool_calls": [call_of(step)]}
        size = max(20, int(spare * weight / sum(weights)))
        content = f"{step} {TOKEN} " + words(rng, size)
        result = {"role": "tool", "tool_call_id": f"call_{TOKEN}{step:03d}", "content": content}
        yield dump(assistant), dump(result)


def opening(shape: Shape, rng: random.Random, stream: bool) -> str:
    """Everything before the first round."""
    body: dict[str, Any] = {"model": MODEL, "temperature": 0.2}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body["tools"] = [tool(name) for name in TOOLS[: shape.tools]]
    messages = [{"role": "system", "content": words(rng, shape.system)}] if shape.system else []
    messages.append({"role": "user", "content": f"Task {TOKEN}: " + words(rng, 150)})
    return f'{dump(body)[:-1]},"messages":[' + ",".join(map(dump, messages))


def suffix(step: int, mode: int) -> str:
    """The end of a request: the provider reads token, step and mode in `seed`."""
    return f'],"seed":{TOKEN}{step:03d}{mode}}}'


def conversation(shape: Shape, variant: int, modes: Sequence[int], stream: bool) -> tuple[str, list[tuple[int, str]]]:
    """The text of the longest request up to its suffix, and (cut, suffix) of each turn, shortest first."""
    spare = shape.size
    for _ in range(3):  # escapes and wrappers are not known before: come closer twice
        rng = random.Random(f"{shape} {variant}")
        parts = [opening(shape, rng, stream)]
        cuts = [len(parts[0])]
        for pair in rounds(shape, rng, spare):
            parts += pair
            cuts.append(cuts[-1] + sum(len(p) + 1 for p in pair))
        spare += shape.size - cuts[-1] - len(suffix(0, 0))
    turns = range(shape.first, shape.last + 1)
    return ",".join(parts), [(cuts[n], suffix(n, modes[min(i, len(modes) - 1)])) for i, n in enumerate(turns)]


def write_pool(path: Path, shape: Shape, modes: Sequence[int] = (JSON,)) -> None:
    """The pool file that load.c reads. `modes` are those of the first turns, the last one holds for the rest."""
    stream = modes[-1] != JSON
    count = shape.last - shape.first + 1
    with path.open("w", encoding="ascii", newline="") as out:
        out.write(f"{shape.variants} {count} {int(shape.split)}\n")
        for variant in range(shape.variants):
            text, turns = conversation(shape, variant, modes, stream)
            out.write(f"{len(text)}\n{text}\n")
            for cut, end in turns:
                out.write(f"{cut} {len(end)}\n{end}\n")


def requests(shape: Shape, token: int, variant: int = 0, modes: Sequence[int] = (JSON,)) -> list[bytes]:
    """The requests of one session, as load.c sends them."""
    text, turns = conversation(shape, variant, modes, modes[-1] != JSON)
    return [(text[:cut] + end).replace(TOKEN, f"{token:011d}").encode("ascii") for cut, end in turns]


def usage(step: int) -> dict[str, Any]:
    """Tokens that the provider claims."""
    prompt = 500 + 400 * step
    whole = {"prompt_tokens": prompt, "completion_tokens": 87, "total_tokens": prompt + 87}
    return whole | {"prompt_tokens_details": {"cached_tokens": prompt // 2, "audio_tokens": 0}}


def answer_json(step: int) -> str:
    """A complete HTTP answer with one call."""
    message = {"role": "assistant", "content": action(step)[0], "tool_calls": [call_of(step)], "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "tool_calls"}
    body = dump(
        {"id": f"chatcmpl-{TOKEN}{step:03d}", "object": "chat.completion", "created": 1700000000, "model": MODEL}
        | {"choices": [choice], "usage": usage(step), "service_tier": "default", "system_fingerprint": "fp_bench"}
    )
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: req_bench\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n{body}"


def deltas(step: int) -> Iterator[tuple[dict[str, Any], str | None]]:
    """The streamed answer: role, 38 words, the call's head, its arguments in 17 pieces, the end."""
    call = call_of(step)
    text, arguments = action(step)[0], call["function"]["arguments"]
    yield {"role": "assistant", "content": ""}, None
    for i, word in enumerate(text.split(" ")):
        yield {"content": f" {word}" if i else word}, None
    yield {"tool_calls": [{"index": 0, **call, "function": {"name": call["function"]["name"], "arguments": ""}}]}, None
    before, after = arguments.split(TOKEN)  # the placeholder stays in one piece
    units = [*before, TOKEN, *after]
    for i in range(17):
        piece = "".join(units[i * len(units) // 17 : (i + 1) * len(units) // 17])
        yield {"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}, None
    yield {}, "tool_calls"


def answer_events(step: int) -> list[str]:
    """The streamed answer as chunk-framed events; the head leaves with the first, the end with the last."""
    base = {"id": f"chatcmpl-{TOKEN}{step:03d}", "object": "chat.completion.chunk", "created": 1700000000}
    base |= {"model": MODEL}
    chunks: list[dict[str, Any]] = [
        base | {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}]}
        for delta, finish in deltas(step)
    ]
    chunks.append(base | {"choices": [], "usage": usage(step)})
    events = [f"data: {dump(c)}\n\n" for c in chunks] + ["data: [DONE]\n\n"]
    framed = [f"{len(e):x}\r\n{e}\r\n" for e in events]
    framed[0] = (
        "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache\r\n"
        "Transfer-Encoding: chunked\r\n\r\n" + framed[0]
    )
    framed[-1] += "0\r\n\r\n"
    return framed


def write_answers(path: Path) -> None:
    """The answers file that mock.c reads."""
    with path.open("w", encoding="ascii", newline="") as out:
        out.write(f"{ANSWERS}\n")
        for step in range(ANSWERS):
            whole, events = answer_json(step), answer_events(step)
            out.write(f"{len(whole)}\n{whole}\n{len(events)}\n")
            for event in events:
                out.write(f"{len(event)}\n{event}\n")
