"""Work that looks like a loop, and the true loop next to each: sections 3 to 5 of the loop log."""

from __future__ import annotations

from tests.live import Json
from tests.scene_loops import same
from tests.scenes import Move, Scene, act, say, user
from tests.thresholds import Marks, Thresholds, every_other

BOARD = "task {0}: open\ntask {1}: open"
FROZEN = act("task_list", {"status": "in_progress"}, "task 1: in progress\ntask 2: in progress")
LOG = act("process", {"action": "log", "id": 7}, "(no new output)")
GONE = "503 Service Unavailable"
STEPS = ("read the issue", "write a test", "mend it", "run all tests", "tidy up", "say what was done")
REWORDED = (
    ("Look at the code", "Write the change"),
    ("Inspect the source", "Draft the patch"),
    ("Study the module", "Prepare the edit"),
    ("Examine the files", "Compose the fix"),
)


def healthy(t: Thresholds) -> list[Scene]:
    """Sections 3 to 5."""
    return [*_polls(t), *_gaps(t), *_checks(t), *_retries(t), *_plans(), *_pages(t), *_batches(), *_scrolled(t)]


def _polls(t: Thresholds) -> list[Scene]:
    repeat, poll = t("repeated_call"), t("unchanged_poll")
    return [
        Scene(
            "B19 the board changes",
            [act("task_list", {"status": "in_progress"}, BOARD.format(k, k + 1)) for k in range(8)],
        ),
        Scene(
            "B19 a frozen board",
            same(repeat.whole(), act("task_list", {"status": "open"}, BOARD.format(1, 2))),
            repeat.ladder(),
            "repeated_call",
        ),
        Scene(
            "B19 a frozen board that says pending",
            same(poll.firm, FROZEN),
            poll.ladder(upto=poll.firm),
            "unchanged_poll",
            {poll.nudge: f"task_list.*{poll.nudge} times"},
        ),
        Scene(
            "B20 no new output, every four seconds",
            same(poll.whole(), LOG),
            poll.ladder(),
            "unchanged_poll",
            {poll.nudge: "(?s)Wait once for clearly longer.*or report that it is stuck"},
            pause_ms=4_000,
            counted={poll.whole(): poll.cut},
        ),
        Scene(
            "B20 no new output, every minute: half weight",
            same(every_other(poll.firm), LOG),
            poll.ladder(every_other, upto=every_other(poll.firm)),
            "unchanged_poll",
            pause_ms=60_000,
            differs="every other look counts, as the log says: the eighth count is the fifteenth look",
        ),
        Scene(
            "B20 a person wants to be told every five minutes that it is well",
            [
                move
                for _ in range(14)
                for move in (act("sh", {"cmd": "curl -s localhost/health"}, "healthy"), _wait(300))
            ],
            spared={every_other(repeat.nudge): "long.pauses"},
        ),
        Scene(
            "B22 build status",
            [
                *(act("build_status", {"id": 3}, f"step {k}/9 running") for k in range(1, 10)),
                act("build_status", {"id": 3}, "done"),
            ],
        ),
    ]


def _gaps(t: Thresholds) -> list[Scene]:
    repeat, gap = t("repeated_call"), t.setting("interleaved_repeat", "gap")
    look = act("poll", {}, "none")
    return [
        Scene(
            "B21 a gap of ten steps",
            [
                *same(2, look),
                *(act("sh", {"cmd": f"make part{k}"}, f"built part {k}") for k in range(gap + 4)),
                *same(2, look),
            ],
        ),
        Scene("B21 without the gap", same(repeat.nudge, look), repeat.ladder(upto=repeat.nudge), "repeated_call"),
    ]


def _tested(results: list[str]) -> list[Move]:
    found: list[Move] = []
    for number, result in enumerate(results):
        found.append(act("edit", {"p": "a.py", "new": f"v{number}"}, "ok"))
        found.append(act("sh", {"cmd": "pytest -q"}, result))
    return found


def _checks(t: Thresholds) -> list[Scene]:
    weak = t("interleaved_repeat", "weak")
    return [
        Scene("B23 tests after each fix", _tested([f"{5 - k} failed" for k in range(5)])),
        Scene(
            "B23 three failed each time",
            _tested(["3 failed"] * (weak.nudge + 1)),
            Marks(weak.nudge, 0, 0).ladder(lambda count: 2 * count),
            "interleaved_repeat",
            differs="the log says the 4th run; edits lie between, so it is the weak ladder (DESIGN section 6)",
        ),
        Scene(
            "B24 one tool, twenty-five commands", [act("sh", {"cmd": f"ls part{k}"}, f"file {k}") for k in range(25)]
        ),
        Scene(
            "B25 lists of files",
            [act("read", {"files": [{"path": p} for p in paths]}, "same body") for paths in ("a", "b", "c", "ab")],
        ),
    ]


def _get(pause_ms: int, result: str = GONE) -> Move:
    return act("get", {"url": "https://example.test/u"}, result, pause_ms=pause_ms)


def _shown(number: int, text: str = "") -> Json:
    """What a client shows after a result: a picture, or a page's text."""
    if text:
        return user(f"{text} {STEPS[number % len(STEPS)]} {number}")
    picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,AAAA{number:04d}"}}
    return {"role": "user", "content": [{"type": "text", "text": "The screen now:"}, picture]}


def _scrolled(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")
    down = "Scrolled down one page"
    return [
        Scene(
            "a screenshot after each result",
            [act("scroll", {}, down, then=(_shown(k),)) for k in range(repeat.whole())],
        ),
        Scene(
            "a page's text after each result",
            [act("scroll", {}, down, then=(_shown(k, "On the page:"),)) for k in range(repeat.whole())],
        ),
        Scene(
            "the same screenshot after each result",
            [act("scroll", {}, down, then=(_shown(1),)) for _ in range(repeat.firm)],
            repeat.ladder(upto=repeat.firm),
            "repeated_call",
        ),
        Scene(
            "a heartbeat every half hour",
            [say("HEARTBEAT_OK", user("Read HEARTBEAT.md and say whether anything needs attention."))] * 12,
            pause_ms=1_800_000,
        ),
        Scene("what time is it", [act("get_current_time", {}, f"2026-01-31T10:00:{k:02d}Z") for k in range(12)]),
        Scene(
            "dead links",
            [act("fetch", {"url": f"https://{w}.test/"}, "404 Not Found") for w in _WORDS],
            {t("error_signature", "listing").nudge: "nudge", t("error_signature", "listing").firm: "firm"},
            "error_signature",
        ),
    ]


_WORDS = "ant bee cat dog elk fox gnu hen ibis jay kea lark mole newt owl pig quail rat".split()


def _wait(seconds: int) -> Move:
    return act("sh", {"cmd": f"sleep {seconds}"}, "", pause_ms=1_000)


def _retries(t: Thresholds) -> list[Scene]:
    error = t("repeated_error")
    growing = error.later(1, 1, 2)
    return [
        Scene("B26 two retries", [_get(2_000), _get(8_000), _get(1_000, '200 {"items":[1,2]}')]),
        Scene(
            "B26 growing gaps",
            [_get(1_000 * 2**k) for k in range(growing.firm + 1)],
            growing.ladder(upto=growing.firm + 1),
            "repeated_error",
            {growing.nudge: "service is up"},
            spared={error.nudge: "growing.pauses"},
        ),
        Scene(
            "near B26: the agent itself waits longer each time, which earns twice what the time between two tries does",
            [move for wait in (5, 15, 45, 120, 300, 300) for move in (_get(1_000), _wait(wait))],
            error.later(2, 2, 4).ladder(every_other, upto=11),
            "repeated_error",
            {every_other(error.later(2, 2, 4).nudge): "service is up"},
            spared={every_other(error.nudge): "growing.pauses"},
        ),
        Scene(
            "B26 once a second",
            [_get(1_000) for _ in range(error.cut)],
            error.ladder(upto=error.cut),
            "repeated_error",
            {error.nudge: "service is up"},
        ),
    ]


def _plan(steps: list[tuple[str, str]]) -> Move:
    return act("update_plan", {"plan": [{"step": step, "status": status} for step, status in steps]}, "Plan updated")


def _plans() -> list[Scene]:
    return [
        Scene(
            "B27 a plan that is only reworded",
            [_plan([(step, "pending") for step in steps]) for steps in REWORDED],
            {3: "nudge"},  # the threshold of a rule that is not there yet
        ),
        Scene(
            "B27 a plan that advances",
            [_plan([(s, "completed" if n < k else "pending") for n, s in enumerate(STEPS)]) for k in range(1, 7)],
        ),
    ]


def _pages(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")
    return [
        Scene(
            "B28 a reader without a position",
            [
                *(act("read_output", {"session": 1}, f"block {k}: {k * 7919}") for k in range(20)),
                act("read_output", {"session": 1}, ""),
            ],
        ),
        Scene(
            "B29 ranges of forty lines",
            [
                act("read_file", {"path": "x", "start_line": 1 + 40 * k, "end_line": 40 + 40 * k}, f"text of page {k}")
                for k in range(8)
            ],
        ),
        Scene(
            "B30 pages of a search",
            [
                act("search", {"pattern": "def main", "offset": 50 * k, "limit": 50}, f"src/m{k}.py:1:def main()")
                for k in range(6)
            ],
        ),
        Scene(
            "B30 one page again and again",
            same(
                repeat.nudge,
                act("search", {"pattern": "def main", "offset": 50, "limit": 50}, "src/m1.py:1:def main()"),
            ),
            repeat.ladder(upto=repeat.nudge),
            "repeated_call",
        ),
    ]


def _image(number: int) -> list[Json]:
    return [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,aWNvbi{number:04d}"}}]


def _batches() -> list[Scene]:
    return [
        Scene(
            "B31 search, move, fix imports",
            [
                move
                for k in range(12)
                for move in (
                    act("grep", {"q": f"comp{k}"}, f"src/a{k}.ts:1: comp{k}\nsrc/b{k}.ts:9: comp{k}"),
                    act("sh", {"cmd": f"git mv comp{k} new/"}, ""),
                    act("edit", {"p": f"idx{k}"}, "ok"),
                )
            ],
        ),
        Scene(
            "B32 a browser",
            [
                move
                for k in range(8)
                for move in (
                    act("click", {"i": k}, "clicked"),
                    act("screenshot", {}, _image(k)),
                    act("wait", {"s": 2}, "ok"),
                )
            ],
        ),
    ]
