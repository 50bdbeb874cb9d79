"""Calls in every form in which providers stream them: sections 7 and 8 of the loop log."""

from __future__ import annotations

from tests.live import Json
from tests.scene_loops import same
from tests.scenes import Move, Scene, act, both, delta, say, tc
from tests.thresholds import Thresholds


def f(arguments: str, call_id: str, *deltas: Json, **more: object) -> list[Move]:
    """Three rounds of `f`, each streamed in the case's own form, with a result that is new each time."""
    return [act("f", arguments, f"r{n}", call_id=call_id, deltas=deltas, **more) for n in range(3)]


def two(first: tuple[str, ...], second: tuple[str, ...], *deltas: Json) -> list[Move]:
    """Two parallel calls, then an answer."""
    return [both(first, second, deltas=deltas), say("Both are done.")]


def forms(t: Thresholds) -> list[Scene]:
    """Sections 7 and 8."""
    repeat, batch = t("repeated_call"), t("repeated_call", "batch")
    return [
        Scene(
            "B39 no index", f('{"x":1}', "c1", tc({"id": "c1", "n": "f", "a": ""}), tc({"a": '{"x":'}), tc({"a": "1}"}))
        ),
        Scene(
            "B39 two calls without index",
            two(
                ("f", "{}", "1", "c1"),
                ("g", "{}", "2", "c2"),
                tc({"id": "c1", "n": "f", "a": "{}"}),
                tc({"id": "c2", "n": "g", "a": "{}"}),
            ),
        ),
        Scene(
            "B39 index now and then",
            f('{"x":1}', "c1", tc({"id": "c1", "n": "f", "a": ""}), tc({"i": 0, "a": '{"x":'}), tc({"a": "1}"})),
        ),
        Scene(
            "B40 every index is 0",
            two(
                ("read", '{"p":"a"}', "1", "a"),
                ("read", '{"p":"b"}', "2", "b"),
                tc({"i": 0, "id": "a", "n": "read", "a": '{"p":"a"}'}),
                tc({"i": 0, "id": "b", "n": "read", "a": '{"p":"b"}'}),
            ),
        ),
        Scene(
            "B41 one chunk, one index, no ids",
            two(
                ("w", '{"c":"A"}', "1", ""),
                ("w", '{"c":"B"}', "2", ""),
                tc({"i": 0, "n": "w", "a": '{"c":"A"}'}, {"i": 0, "n": "w", "a": '{"c":"B"}'}),
            ),
        ),
        Scene(
            "B41 two chunks, one index, no ids",
            two(
                ("w", '{"c":"A"}', "1", ""),
                ("w", '{"c":"B"}', "2", ""),
                tc({"i": 0, "n": "w", "a": '{"c":"A"}'}),
                tc({"i": 0, "n": "w", "a": '{"c":"B"}'}),
            ),
        ),
        Scene(
            "B42 id and name in every chunk",
            f('{"x":1}', "k", *(tc({"i": 0, "id": "k", "n": "f", "a": part}) for part in ("", '{"x"', ":1}"))),
        ),
        Scene(
            "B43 the id comes later",
            f("{}", "z9", tc({"i": 0, "n": "f"}), tc({"i": 0, "id": "z9"}), tc({"i": 0, "a": "{}"})),
        ),
        Scene(
            "B44 empty and null choices",
            f(
                "{}",
                "c1",
                {"choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
                delta(content="a"),
                {"choices": None},
                tc({"i": 0, "id": "c1", "n": "f", "a": "{}"}),
                text="a",
            ),
        ),
        Scene("B45 finish reason stop", f("{}", "1", tc({"i": 0, "id": "1", "n": "f", "a": "{}"}), finish="stop")),
        Scene(
            "B46 function_call",
            f(
                '{"x":1}',
                "",
                delta(function_call={"name": "f", "arguments": '{"x"'}),
                delta(function_call={"arguments": ":1}"}),
                finish="function_call",
                legacy=True,
            ),
        ),
        Scene(
            "B46 both generations are one call",
            [
                *same(
                    2,
                    act(
                        "f",
                        '{"x":1}',
                        "same",
                        call_id="",
                        legacy=True,
                        finish="function_call",
                        deltas=(delta(function_call={"name": "f", "arguments": '{"x":1}'}),),
                    ),
                ),
                *same(repeat.whole() - 2, act("f", '{"x": 1}', "same")),
            ],
            repeat.ladder(),
            "repeated_call",
        ),
        Scene(
            "B46 interleaved parallel deltas",
            two(
                ("f", "{}", "1", "a"),
                ("g", "{}", "2", "b"),
                tc({"i": 0, "id": "a", "n": "f", "a": "{"}),
                tc({"i": 1, "id": "b", "n": "g", "a": "{"}),
                tc({"i": 0, "a": "}"}),
                tc({"i": 1, "a": "}"}),
            ),
        ),
        Scene(
            "B47 the value leaks into the content",
            same(
                repeat.nudge,
                act(
                    "read",
                    '{"p":"/etc/x"}',
                    "root",
                    text="/etc/x",
                    call_id="1",
                    deltas=(delta(content="/etc/x"), tc({"i": 0, "id": "1", "n": "read", "a": '{"p":"/etc/x"}'})),
                ),
            ),
            repeat.ladder(upto=repeat.nudge),
            "repeated_call",
        ),
        Scene("B48 one id for all calls", [act("term", {"cmd": k}, f"r{k}", call_id="ZsSt") for k in range(4)]),
        Scene(
            "B48 one id and a loop",
            same(repeat.whole(), act("term", {"cmd": 1}, "r1", call_id="ZsSt")),
            repeat.ladder(),
            "repeated_call",
        ),
        Scene("B49 two calls share an id", [both(("f", {"x": 1}, "one", "d"), ("f", {"x": 2}, "two", "d"))]),
        Scene(
            "B49 and loop",
            same(batch.whole(), both(("f", {"x": 1}, "one", "d"), ("f", {"x": 2}, "two", "d"))),
            batch.ladder(),
            "repeated_call",
        ),
    ]
