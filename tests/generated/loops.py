"""Runs that begin well and then go round in circles, with noise. From a seed, the same each time.

For each kind stands how often it repeats and why a person would have stepped in well before that.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.generated.building import CHECKS, failure, tested
from tests.generated.healthy import prefix
from tests.generated.making import Json, Op, Run

ROUNDS_BEFORE = 20
"""At most so many healthy rounds come before: enough to fill a screen, and the bounds on time are kept."""
REMOTE = (
    "browser_",
    "query",
    "get_",
    "list_",
    "find_",
    "web_",
    "WebSearch",
    "WebFetch",
    "webfetch",
    "tavily",
    "google_",
)
"""How the names of tools begin whose answers come from elsewhere."""
ASIDE = 0.04
"""How often an unrelated call comes between. Seldom: with many of them it would be another run."""


class Noise:
    """What differs between equal calls and equal results of one run: order of keys, times, ids, remarks, other calls.

    Programs get it in what they print, remote tools in their JSON or behind their text; files and lists of files have
    none.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.rng = run.rng
        self.shuffles = run.rng.random() < 0.5
        self.form = run.rng.choice(["none", "none", "time", "took", "id", "process"])
        self.key = run.rng.choice(["took_ms", "duration_ms", "took", "elapsed_seconds"])
        run.client.spoken = self.printed
        run.chat = run.rng.choice([0.0, 0.3, 0.8])

    def printed(self, text: str) -> str:
        """The output of a program."""
        words = self.run.words
        return {
            "time": lambda: f"[{words.stamp()}] {text}",
            "took": lambda: f"{text}\nreal {self.rng.uniform(0.1, 9):.3f}s",
            "process": lambda: f"{words.stamp()} pid={words.number(5)}\n{text}",
        }.get(self.form, lambda: text)()

    def answered(self, text: str) -> str:
        """The answer of a remote tool."""
        words = self.run.words
        if text.startswith("{"):
            more = {
                "time": {"timestamp": words.stamp()},
                "took": {self.key: words.number(3)},
                "id": {"request_id": words.uuid()},
            }.get(self.form, {})
            return json.dumps({**json.loads(text), **more})
        more = {
            "time": f"\n(as of {words.stamp()})",
            "took": f"\n(took {words.number(3)}ms)",
            "id": f"\n(request id: req_{words.token(24)})",
        }.get(self.form, "")
        return text if text.startswith("[") else text + more

    def __call__(self, op: Op) -> Op:
        tool, arguments, result = op
        if self.shuffles and isinstance(arguments, dict):
            keys = self.rng.sample(list(arguments), len(arguments))
            arguments = {key: arguments[key] for key in keys}
        return tool, arguments, self.answered(result) if tool.startswith(REMOTE) else result

    def aside(self) -> None:
        """Now and then something else."""
        run = self.run
        if self.rng.random() < ASIDE:
            run.do(
                run.read(run.words.path()) if self.rng.random() < 0.5 else run.client.shell("date", run.words.stamp())
            )


def failing(run: Run) -> Callable[[], Op]:
    """A call that fails, made anew each time with the same arguments."""
    words, client = run.words, run.client
    path, noun, url, port = words.path("py"), words.noun(), words.url(), words.number(4)
    name, script = words.ident(), words.path("js")
    trace = f'Traceback (most recent call last):\n  File "{path}", line 7\nValueError: {noun} is not a {words.noun()}'
    module = f"Error: Cannot find module './{noun}'\nRequire stack:\n- {script}"
    refused = f"curl: (7) Failed to connect to localhost port {port}: Connection refused"
    ways: list[Callable[[], Op]] = [
        lambda: client.shell(f"python {path}", trace, 1),
        lambda: client.shell(f"node {script}", module, 1),
        lambda: client.shell(f"curl -s localhost:{port}/{noun}", refused, 7),
        lambda: client.missing(path),
        lambda: client.edit(path, name, noun, found=False) if client.style != "mini" else client.missing(path),
        lambda: client.fetch(url, "Error: 404 Not Found"),
        lambda: ("browser_click", {"ref": "e17", "element": noun}, "Error: element e17 is not visible"),
        lambda: (f"get_{noun}", {"id": name}, json.dumps({"error": f"{noun} not found"})),
    ]
    return run.rng.choice(ways)


def still(run: Run) -> Callable[[], Op]:
    """A call that works and says the same each time."""
    words, client = run.words, run.client
    path, noun, query = words.path(), words.noun(), f"{words.adjective()} {words.noun()}"
    hits = [(words.sentence(), words.url(), words.prose(2)) for _ in range(3)]
    page = f'### Page\n- URL: {words.url()}\n- button "{noun}" [ref=e3]\n- text: {words.sentence()}'
    rows = json.dumps([words.row() for _ in range(2)])
    found = [f"{words.path()}:12:{words.ident()}()"]
    ways: list[Callable[[], Op]] = [
        lambda: run.read(path),
        lambda: client.search(query, hits),
        lambda: client.grep(noun, "src", found),
        lambda: ("process", {"action": "list"}, "[]"),
        lambda: (f"list_{noun}s", {"status": "open", "limit": 10}, rows),
        lambda: ("browser_click", {"ref": "e3", "element": noun}, page),
        lambda: ("query", {"sql": f"SELECT * FROM {noun}s WHERE id = 7"}, "[]"),
    ]
    return run.rng.choice(ways)


def in_a_row(run: Run, noise: Noise, times: int) -> None:
    again = run.rng.choice([failing, still])(run)
    for _ in range(times):
        run.do(noise(again()))
        noise.aside()


def interleaved(run: Run, noise: Noise, times: int) -> None:
    """The same failing call again and again, and nothing changed between: other reads, old ones or new ones."""
    again = failing(run)
    fresh = run.rng.random() < 0.3
    others = [still(run) for _ in range(run.rng.randint(2, 4))]
    for _ in range(times):
        run.do(noise(again()))
        for _ in range(run.rng.randint(1, 2)):
            run.do(run.read(run.words.path()) if fresh else noise(run.rng.choice(others)()))
        noise.aside()


def cycle(run: Run, noise: Noise, times: int) -> None:
    """Rounds of two to six calls; two of them in parallel, or all, in any order."""
    period = run.rng.randint(2, 6)
    ops = [run.rng.choice([failing, still])(run) for _ in range(period)]
    parallel = run.rng.choices([0, min(2, period - 1), period], [6, 3, 1])[0]
    parallel = 0 if parallel == 1 else parallel
    for _ in range(times):
        if parallel:
            run.do(*[noise(op()) for op in run.rng.sample(ops[:parallel], parallel)])
            noise.aside()
        for op in ops[parallel:]:
            run.do(noise(op()))
            noise.aside()


def cosmetics(run: Run, noise: Noise, times: int) -> None:
    """The same call in other clothes, with the same failure."""
    words, client, rng = run.words, run.client, run.rng
    path, noun = words.path("py"), words.noun()
    trace = f"Traceback (most recent call last):\n  File \"{path}\", line 7\nKeyError: '{noun}'"
    query = [words.adjective(), words.noun(), words.noun()]
    way = rng.choice(["shell", "search", "sql"])
    for _ in range(times):
        if way == "shell":
            file = rng.choice([path, f"./{path}", f'"{path}"', f"'{path}'"])
            command = f"{rng.choice(['python', 'python3', 'python -u'])}{rng.choice([' ', '  '])}{file}"
            op = client.shell(command + rng.choice(["", " ", " 2>&1", ";"]), trace, 1)
        elif way == "search":
            asked = rng.choice([str.title, str.lower, str.upper, str.capitalize])(" ".join(query))
            op = client.search(asked + rng.choice(["", ".", "?", " "]), [])
        else:
            select = rng.choice(["SELECT *", "select *", "SELECT  *"])
            asked = f"{select} {rng.choice(['FROM', 'from'])} {noun}s{rng.choice(['', ';', ' ;', chr(10)])}"
            op = ("query", {"sql": asked}, f'ERROR: relation "{noun}s" does not exist')
        run.do(noise(op))
        noise.aside()


def numbers(run: Run, noise: Noise, times: int) -> None:
    """Another number each time, the same failure or nothing."""
    words, client, rng = run.words, run.client, run.rng
    noun, path, host = words.noun(), words.path(), words.noun()
    ways: list[Callable[[int], Op]] = [
        lambda n: (f"list_{noun}s", {"filter": host, "offset": n * 10, "limit": 10}, '{"items": []}'),
        lambda n: client.shell(
            f"curl -m {n + 2} http://{host}:8080/", f"curl: (28) Connection timed out after {n + 2}001 ms", 28
        ),
        lambda n: (
            "browser_wait_for",
            {"text": noun, "timeout": 1000 * n},
            f"TimeoutError: Timeout {1000 * n}ms exceeded.",
        ),
        lambda n: (f"get_{noun}", {"id": 4000 + n * 3}, f"Error: {noun} {4000 + n * 3} not found"),
        lambda n: client.shell(f"sed -n '{900 + n * 20},{919 + n * 20}p' {path}", "", plain=True),
        lambda n: ("browser_click", {"x": 300 + n * 7, "y": 210 - n * 3}, "No element at this position"),
    ]
    way, start = rng.choice(ways), rng.randint(1, 30)
    for number in range(times):
        run.do(noise(way(start + number + (rng.randint(0, 2) if rng.random() < 0.3 else 0))))
        noise.aside()


def guessing(run: Run, noise: Noise, times: int) -> None:
    """One tool, other arguments, and each time the same failure or nothing."""
    words, client, rng = run.words, run.client, run.rng
    topic, table = f"{words.adjective()} {words.noun()}", words.noun()

    def uninstalled(name: str) -> Op:
        return client.shell(f"pip install {name}", f"ERROR: No matching distribution found for {name}", 1)

    ways: list[Callable[[], Op]] = [
        lambda: client.missing(words.path()),
        lambda: client.search(f"{topic} {words.adjective()} {words.verb()} {words.noun()}", []),
        lambda: client.grep(words.ident(), ".", []),
        lambda: (
            "browser_click",
            {"selector": f"#{words.noun()}-{words.noun()}"},
            "Error: no element matches the selector",
        ),
        lambda: ("query", {"sql": f"SELECT {words.noun()} FROM {table}"}, f'ERROR: relation "{table}" does not exist'),
        lambda: uninstalled(f"{words.noun()}-{words.noun()}"),
        lambda: ("find_user", {"email": f"{words.noun()}@{words.noun()}.example"}, "Error: user not found"),
    ]
    way = rng.choice(ways)
    for _ in range(times):
        run.do(noise(way()))
        noise.aside()


def same_error(run: Run, noise: Noise, times: int) -> None:
    """One error whatever is tried, with the words of the call in it."""
    words, client, rng = run.words, run.client, run.rng
    port, table = words.number(4), words.noun()
    denied = f"permission denied for schema {table}"

    def refused(program: str) -> Op:
        told = f"{program}: could not connect to server 127.0.0.1:{port}: Connection refused"
        return client.shell(f"{program} --port {port}", told, 1)

    def forbidden(sql: str) -> Op:
        return "query", {"sql": sql}, f"ERROR: {denied}\nLINE 1: {sql}"

    def full(path: str) -> Op:
        tool, arguments, _ = client.write(path, "\n".join(words.code(1)))
        told = f"OSError: [Errno 28] No space left on device: '{path}'"
        return tool, arguments, told

    ways: list[Callable[[], Op]] = [
        lambda: refused(f"./{words.verb()}-{words.noun()}"),
        lambda: forbidden(f"SELECT {words.noun()} FROM {table}.{words.noun()}s"),
        lambda: full(words.path()),
        lambda: client.shell(
            f"{CHECKS[words.language]} {words.path()}", f"/bin/sh: {CHECKS[words.language].split()[0]}: not found", 127
        ),
    ]
    way = rng.choice(ways)
    for _ in range(times):
        run.do(noise(way()))
        noise.aside()


def sweeps(run: Run, noise: Noise, times: int) -> None:
    """A file or a list read in parts from the start to the end, and then again, in other parts."""
    words, client, rng = run.words, run.client, run.rng
    path, tool = words.path(), f"list_{words.noun()}s"
    lines = words.code(60)
    rows = [words.row() for _ in range(40)]
    paged = rng.random() < 0.4
    for _ in range(times):
        at, size = 1, rng.randint(40, 70)
        while at < len(lines) and not paged:
            run.do(client.read(path, lines, at, size))
            at += max(10, size - rng.choice([0, 0, 10]))
            noise.aside()
        for page in range(5 if paged else 0):
            told = json.dumps({"items": rows[page * 8 : page * 8 + 8], "page": page + 1})
            run.do(noise((tool, {"page": page + 1, "per_page": 8}, told)))
            noise.aside()


def pending(run: Run, noise: Noise, times: int) -> None:
    """A job that stays as it is; only the clock goes on."""
    words, client, rng = run.words, run.client, run.rng
    job, word = f"job_{words.hexa(10)}", rng.choice(["queued", "pending", "in_progress", "waiting"])
    way = rng.choice(["tool", "shell", "process"])
    waits = rng.random() < 0.4
    for _ in range(times):
        if way == "tool":
            told = {"job_id": job, "status": word, "progress": 0}
            if noise.form != "none":
                told["checked_at"] = words.stamp(30)
            run.do(("get_job_status", {"job_id": job}, json.dumps(told)))
        elif way == "shell":
            run.do(
                noise(client.shell(f"gh run view {job[4:]}", f"* main build - {word}\nJOBS\n* build (ID {job[4:]})"))
            )
        else:
            run.do(("process", {"action": "poll", "sessionId": job}, "(no new output)\n\nProcess still running."))
        if waits:
            run.do(client.wait(rng.choice([5, 10, 30])))
        noise.aside()


HARNESS = (
    "Please continue working on the task. If you think that it is solved, finish the interaction with the finish tool.",
    "[ERROR] You did not use a tool in your previous response! Please retry with a tool use.",
    "Please always provide EXACTLY ONE action in triple backticks, found 0 actions.",
    "Your output was not formatted correctly. You must always include one discussion and one command.",
)
"""What harnesses of several clients answer to a reply without a call."""


def monologue(run: Run, noise: Noise, times: int) -> None:
    """Words, nothing, or half a call instead of a call, and the harness's same answer."""
    words, rng = run.words, run.rng
    if run.messages[-1]["role"] == "user":
        run.do(run.read(words.path()))
    answer, plan = rng.choice(HARNESS), f"{words.verb()} the {words.noun()}"
    way = rng.choice(["equal", "reworded", "empty", "malformed"])
    for _ in range(times):
        start = rng.choice(["I will now", "Let me", "I'm going to", "Next I'll", "OK, now I will", "Let's"])
        run.say(
            {
                "equal": f"I will now {plan}.",
                "reworded": f"{start} {plan}{rng.choice(['.', ' first.', ' as requested.', ' to proceed.'])}",
                "empty": "",
                "malformed": f'{start} {plan}.\n<tool_call>{{"name": "bash", "arguments": {{"command": "ls',
            }[way]
        )
        run.user(answer)


def nothing_new(run: Run, noise: Noise, times: int) -> None:
    """The same six to nine things looked at in any order, and the same comes out."""
    ops = [run.rng.choice([failing, still, still])(run) for _ in range(run.rng.randint(6, 9))]
    for _ in range(times):
        run.do(noise(run.rng.choice(ops)()))
        noise.aside()


def edit_and_test(run: Run, noise: Noise, times: int) -> None:
    """An edit, the test, another edit, the test: and it says the same each time."""
    words, rng = run.words, run.rng
    failed = [failure(words) for _ in range(rng.randint(1, 3))]
    path, total = words.path(), rng.randint(8, 30)
    run.do(run.read(path))
    for _ in range(times):
        run.do(run.change(path))
        if rng.random() < 0.15:
            run.do(run.read(path))
        tested(run, failed, total)
        noise.aside()


def planning(run: Run, noise: Noise, times: int) -> None:
    """The plan written again in other words, and no step of it done."""
    words, client, rng = run.words, run.client, run.rng
    goals = [(words.noun(), words.noun()) for _ in range(rng.randint(3, 5))]
    for _ in range(times):
        starts = ["Look into", "Investigate", "Analyse", "Examine", "Check", "Review", "Study"]
        steps = [
            f"{rng.choice(starts)} the {a} {b}{rng.choice(['', ' first', ' closely', ' again'])}" for a, b in goals
        ]
        run.do(client.todo([(step, "in_progress" if not n else "pending") for n, step in enumerate(steps)]))
        noise.aside()


def invalid(run: Run, noise: Noise, times: int) -> None:
    """Calls that the client cannot carry out: no such tool, a missing argument, half a JSON."""
    words, rng = run.words, run.rng
    tool, missing = f"{words.verb()}_{words.noun()}", words.noun()
    way = rng.choice(["unknown", "missing", "json"])
    for _ in range(times):
        if way == "unknown":
            told = f"Error: Tool '{tool}' not found. Available tools: bash, read, edit"
            run.do(noise((tool, {words.noun(): words.noun()} if rng.random() < 0.5 else {"input": missing}, told)))
        elif way == "missing":
            told = f"InputValidationError: {tool} failed: the required parameter `{missing}` is missing"
            run.do(noise((tool, {"text": words.sentence()} if rng.random() < 0.7 else {}, told)))
        else:
            broken: Any = f'{{"path": "{words.path()}", "content": "{words.sentence()}'
            run.do(("write_file", broken, "Error: arguments are not valid JSON: Unterminated string"))
        noise.aside()


@dataclass(frozen=True)
class Loop:
    """`times` repetitions, after which no sensible person would go on waiting, because `why`."""

    go: Callable[[Run, Noise, int], None]
    times: int
    why: str


LOOPS = {
    "in_a_row": Loop(in_a_row, 12, "the fourth equal answer to an equal question is odd, the twelfth absurd"),
    "interleaved": Loop(
        interleaved, 12, "reading does not repair; a dozen equal failures with no change between are enough"
    ),
    "cycle": Loop(cycle, 8, "a second round may be a check, by the fourth one knows the dance"),
    "cosmetics": Loop(cosmetics, 14, "spelling cannot matter; after five spellings anyone would look at the message"),
    "numbers": Loop(numbers, 16, "some numbers may be tried, ten in a row with nothing are a blind search"),
    "guessing": Loop(guessing, 18, "five guesses are diligence; with eighteen and no hit one lists the folder or asks"),
    "same_error": Loop(
        same_error, 16, "the cause lies outside the call, which the first five equal errors say plainly"
    ),
    "sweeps": Loop(sweeps, 6, "one reads a file twice after a long while; six times from start to end is forgetting"),
    "pending": Loop(
        pending, 40, "builds wait; but 20 min in which nothing moves and nothing else is done call for a person"
    ),
    "monologue": Loop(monologue, 14, "a model may miss the form twice; after five equal reminders it will not find it"),
    "nothing_new": Loop(
        nothing_new, 45, "each thing has been seen five times; nothing can be learned from a sixth look"
    ),
    "edit_and_test": Loop(
        edit_and_test, 16, "six edits without the least effect mean the wrong place; sixteen are hopeless"
    ),
    "planning": Loop(planning, 14, "a plan may be mended twice; fourteen plans and no work are none"),
    "invalid": Loop(invalid, 14, "what is refused by its form will be refused again; three would do"),
}


def loop(kind: str, seed: int) -> tuple[Json, int]:
    """The recorded run of a kind and a seed, and the index of the message with which the loop begins."""
    run = Run(random.Random(f"{kind}:{seed}"))
    prefix(run, ROUNDS_BEFORE)
    start = len(run.messages)
    LOOPS[kind].go(run, Noise(run), LOOPS[kind].times)
    return run.recorded(f"{kind}:{seed}"), start
