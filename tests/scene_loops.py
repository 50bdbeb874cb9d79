"""Loops that have to be caught, and words without calls: sections 1 and 2 of the loop log, and its B33 to B36."""

from __future__ import annotations

from tests.live import Json
from tests.scenes import Move, Scene, act, both, delta, say, system, user
from tests.thresholds import Thresholds, every_other, laps_of

FORTY = "\n".join(f"const line{n} = {n};" for n in range(40))
CELL = 'Cell In[{0}], line 1{0}\n    print("Hi {0}\n          ^\nSyntaxError: unterminated string literal'
NOT_FOUND = '{"error":"404 not found"}'
TOOLS = user("You have tools available, use them.")
LIST = act("process", {"action": "list"}, "[]")
ZH = (user("请列出所有进程,然后告诉我结果。"),)
SHOWN = "\n(40/40 lines shown - read {0} times this session)"

REFERRED = (
    "File unchanged since last read. The earlier result in this conversation is still current.",
    "Wasted call \u2014 file unchanged since your last Read. Refer to that earlier result instead.",
)
"""As Claude Code answers a second read, and every later one; Qwen Code and Hermes have one of their own."""


def same(times: int, *moves: Move) -> list[Move]:
    """`[...] (xN)`."""
    return list(moves) * times


def spoken(*texts: str) -> list[Json]:
    """Content in parts."""
    return [{"type": "text", "text": text} for text in texts]


def loops(t: Thresholds) -> list[Scene]:
    """Section 1."""
    return [*_repeats(t), *_between(t), *_failures(t), *_sets(t)]


def _repeats(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")
    ladder, whole = repeat.ladder(), repeat.whole()
    return [
        Scene(
            "B01 text between the calls",
            [act("read", {"path": "a.ts"}, FORTY, text=f"Let me look. ({n})") for n in range(whole)],
            ladder,
            "repeated_call",
            {repeat.nudge: rf"`read`.*{repeat.nudge} times"},
            (user("fix it"),),
        ),
        Scene(
            "a reader that refers to what it showed before",
            [act("read", {"path": "a.ts"}, FORTY if not n else REFERRED[n % 2]) for n in range(whole)],
            ladder,
            "repeated_call",
            {repeat.nudge: rf"`read`.*{repeat.nudge} times"},
            (user("fix it"),),
        ),
        Scene(
            "B02 one call four times in a round",
            same(whole, both(*[("sh", {"cmd": "mvn test"}, "BUILD SUCCESS")] * 4)),
            {1: "observe", **ladder},
            "repeated_call",
            {repeat.nudge: rf"`sh`.*{repeat.nudge} times"},
            (user("run tests"),),
            spared={1: r"duplicate_in_round(=3\b| \(repeated_call x4\))"},
        ),
        Scene(
            "B04 empty result",
            same(repeat.nudge, act("memory_get", {"key": "quota"}, "(memory is empty)")),
            repeat.ladder(upto=repeat.nudge),
            "repeated_call",
            {repeat.nudge: rf"(?s)memory_get.*{repeat.nudge} times.*empty result is the answer.*cannot change"},
            (user("what is my quota?"),),
        ),
        Scene(
            "B04 in Chinese",
            same(repeat.nudge, act("memory_get", {"key": "quota"}, "(memory is empty)")),
            repeat.ladder(upto=repeat.nudge),
            "repeated_call",
            {repeat.nudge: f"memory_get.*{repeat.nudge} 次.*空结果就是答案"},
            (user("我的配额是多少?"),),
            language="zh",
        ),
        Scene(
            "B11 a fresh id in each result",
            [
                act("send", {"to": "ops", "text": "done"}, f'{{"ok":true,"messageId":"m{k}","ts":171000000{k}}}')
                for k in range(repeat.cut - 1)
            ],
            repeat.ladder(upto=repeat.cut - 1),
            "repeated_call",
            {repeat.nudge: "check for duplicates"},
        ),
        Scene(
            "B12 the tool counts its own reads",
            [act("read", {"path": "a"}, FORTY + SHOWN.format(k)) for k in range(1, repeat.firm + 1)],
            repeat.ladder(upto=repeat.firm),
            "repeated_call",
        ),
        Scene(
            "B12 a body that changes",
            [act("read", {"path": "a"}, f"const version = {k};\n{FORTY}{SHOWN.format(k)}") for k in range(1, 5)],
        ),
        *_lists(t),
    ]


def _lists(t: Thresholds) -> list[Scene]:
    repeat, invalid = t("repeated_call"), t("invalid_call")
    ladder, whole = repeat.ladder(), repeat.whole()
    kept = act("todo", {"op": "list"}, "ok\n\n[guardproxy] Note: `todo` was called 4 times.", call_id="9")
    return [
        Scene("B13 seven lists and more", same(whole, LIST), ladder, "repeated_call", counted={whole: repeat.cut}),
        Scene(
            "B13 with a declared session",
            same(whole, LIST),
            ladder,
            "repeated_call",
            counted={whole: repeat.cut},
            session=True,
        ),
        Scene(
            "B13 in Chinese",
            same(whole, LIST),
            ladder,
            "repeated_call",
            {repeat.nudge: f"连续调用 {repeat.nudge} 次", repeat.cut: "原因", whole: "原因"},
            ZH,
            language="zh",
        ),
        Scene("B13 observed", same(whole, LIST), policy={"mode": "observe"}),
        Scene(
            "B14 the client kept our text",
            [*same(repeat.firm, act("todo", {"op": "list"}, "ok", call_id="9")), *same(whole - repeat.firm, kept)],
            ladder,
            "repeated_call",
        ),
        Scene(
            "B15 invalid arguments",
            same(invalid.whole(), act("todo", {}, "Invalid arguments: op must be set")),
            invalid.ladder(),
            "invalid_call",
            {invalid.nudge: f"{invalid.nudge} calls", invalid.firm: "not to be repeated"},
        ),
        Scene(
            "B15 calls without a name",
            same(invalid.whole(), act("", {}, "Error: no tool was named")),
            invalid.ladder(),
            "invalid_call",
        ),
        Scene(
            "B15 arguments that are no JSON",
            [act("edit", f'{{"path": "a{n}', "Error: arguments are not valid JSON") for n in range(invalid.whole())],
            invalid.ladder(),
            "invalid_call",
        ),
        Scene(
            "B60 every result arrives, and the call is made again",
            same(whole, act("graph_stats", {}, '{"nodes":7}')),
            ladder,
            "repeated_call",
        ),
    ]


def _between(t: Thresholds) -> list[Scene]:
    between, cycle = t("interleaved_repeat"), t("cycle")
    lap = (act("memory_search", {"q": "x"}, "[]"), act("memory_get", {"k": "x"}, "null"))
    laps, further = laps_of(2), 2 * (cycle.cut - cycle.firm)
    return [
        Scene(
            "B03 interleaved reads",
            [
                move
                for k in range(between.whole())
                for move in (
                    act("sh", {"cmd": "cargo test"}, "error[E0308] mismatched types"),
                    act("read", {"path": f"src/m{k}.rs"}, f"pub fn f{k}() -> u{k} {{ {k} }}"),
                )
            ],
            between.ladder(every_other),
            "interleaved_repeat",
        ),
        Scene(
            "B09 A-B-A-B",
            same(cycle.cut + 2, act("lookup", {"q": "a"}, "none"), act("search", {"q": "b"}, "none")),
            cycle.ladder(laps, held=True),
            "cycle",
            {laps(cycle.nudge): f"same 2 calls.*{cycle.nudge} times"},
        ),
        Scene(
            "B09 changing results",
            [
                move
                for k in range(5)
                for move in (act("lookup", {"q": "a"}, f"hit {k}a"), act("search", {"q": "b"}, f"row {k}b"))
            ],
        ),
        Scene(
            "B10 the other half goes on",
            [*same(cycle.firm, *lap), *same(further, lap[0])],
            cycle.ladder(laps, upto=laps(cycle.cut), held=True),
            "cycle",
            differs="the log counts laps, and a lap is two steps",
        ),
    ]


def _failures(t: Thresholds) -> list[Scene]:
    signature, numbers, places = t("error_signature"), t("same_result", "numbers"), t("same_result", "zero")
    return [
        Scene(
            "B05 one answer in many places",
            [act("sh", {"command": "ls -l", "dir_path": f"/srv/d{k}"}, "total 0") for k in range(1, places.whole())],
            places.ladder(),
            "same_result",
            {places.nudge: f"`sh` was called {places.nudge} times with different arguments"},
        ),
        Scene(
            "B05 differing listings",
            [
                act("sh", {"command": "ls -l", "dir_path": f"/srv/d{k}"}, f"total {k}\n-rw-r--r-- 1 a a {k} f{k}")
                for k in range(1, 13)
            ],
        ),
        Scene(
            "B06 the same 404",
            [act("get_issue", {"id": 101 + 37 * k}, NOT_FOUND) for k in range(signature.whole())],
            signature.ladder(),
            "error_signature",
            {signature.nudge: f"get_issue.*{signature.nudge} times"},
        ),
        Scene(
            "B06 a success in between",
            [
                act(
                    "get_issue", {"id": 101 + k}, NOT_FOUND if (k + 1) % signature.nudge else f'{{"title":"issue {k}"}}'
                )
                for k in range(2 * signature.nudge)
            ],
        ),
        Scene(
            "B07 one syntax error, other lines",
            [act("py", {"code": f'print("Hi {k}\n'}, CELL.format(k)) for k in range(signature.firm)],
            signature.ladder(upto=signature.firm),
            "error_signature",
        ),
        Scene(
            "B08 calls equal but for numbers",
            [
                act("grep", {"cmd": f"grep -B{n} needle f"}, "no match")
                for n in (10, 50, 250, 1750, 9000, 12000)[: numbers.nudge]
            ],
            numbers.ladder(upto=numbers.nudge),
            "same_result",
        ),
        Scene(
            "B08 page by page",
            [act("read", {"path": "v.py", "offset": k * 80, "limit": 80}, f"def page_{k}(): ...") for k in range(6)],
        ),
    ]


def _sets(t: Thresholds) -> list[Scene]:
    repeat, batch = t("repeated_call"), t("repeated_call", "batch")
    spoken_of = repeat.ladder(upto=repeat.nudge)
    return [
        Scene(
            "B33 parallel calls",
            same(batch.whole(), both(("f", {"x": 1}, "one"), ("g", {"y": 2}, "two"))),
            batch.ladder(),
            "repeated_call",
        ),
        Scene(
            "B34 advice goes inside the tool message",
            same(repeat.nudge, act("f", {}, "same")),
            spoken_of,
            "repeated_call",
        ),
        Scene(
            "B34 results in parts",
            same(repeat.nudge, act("f", {}, spoken("same", "parts"))),
            spoken_of,
            "repeated_call",
        ),
        Scene(
            "B34 a user message after the result",
            same(repeat.nudge, act("f", {}, "same", then=(user("Observation: go on"),))),
            spoken_of,
            "repeated_call",
        ),
        Scene(
            "B35 system and developer messages stay",
            same(repeat.firm, act("f", {}, "same", then=(system("reminder"),))),
            repeat.ladder(upto=repeat.firm),
            "repeated_call",
            opening=(system("More rules.", "developer"), user("Go.")),
        ),
        Scene(
            "B36 all calls are taken out on finalize",
            [
                *same(repeat.cut - 1, act("f", {"x": 1}, "same")),
                both(("f", {"x": 1}, "same"), ("f", {"x": 1}, "same"), ("g", {}, "other")),
            ],
            repeat.ladder(upto=repeat.cut - 1),
            "repeated_call",
        ),
        Scene(
            "B36 a call without its result",
            [both(("f", {"x": 1}, "one"), ("f", {"x": 2}, None), ("g", {}, "three"))],
        ),
    ]


def words(t: Thresholds) -> list[Scene]:
    """Section 2."""
    talk = t("monologue", "same_text")
    ladder, whole = talk.ladder(), talk.whole()
    again = [delta(content="Let me check the file. ") for _ in range(400)]

    def asked_again(count: int) -> int:
        return count - 1  # the second equal request is the second occurrence

    return [
        Scene(
            "B16 nothing at all, again and again",
            same(whole, say(None, forgets=True, finish="tool_calls")),
            talk.ladder(asked_again),
            "monologue",
            counted={whole: talk.cut - 1},
        ),
        Scene(
            "B17 with the option off",
            [say("Let me check the file. " * 400, deltas=tuple(again))],
        ),
        Scene(
            "B18 re-prompted",
            same(whole, say("Two sessions are open.", TOOLS)),
            ladder,
            "monologue",
            counted={whole: talk.cut},
        ),
        Scene(
            "B18 in Chinese",
            same(whole, say("有两个会话是打开的。", user("你有可用的工具,请使用它们。"))),
            ladder,
            "monologue",
            opening=ZH,
            language="zh",
        ),
        Scene(
            "B18 re-prompted in parts",
            same(
                whole,
                say("Two sessions are open.", {"role": "user", "content": spoken("You have tools,", "use them.")}),
            ),
            ladder,
            "monologue",
        ),
    ]
