"""What users of other gateways report about loops: cases 37 to 42 of `field/gateways.md` section 3, as scenes."""

from __future__ import annotations

from tests.live import Json
from tests.scene_loops import LIST, same
from tests.scenes import Move, Scene, act, say, user
from tests.thresholds import Thresholds, every_other

FACTS = "The museum is open from 10 to 18 on all days but Monday; the ticket is 12 EUR, and children pay half."
NAMES = ("north", "south", "east", "west", "roof", "yard", "hall", "gate", "shop", "park", "lake", "wall", "tower")
PIXELS: list[Json] = [
    {"type": "text", "text": "Screenshot taken."},
    {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "iVBORw0KGgo" * 40}},
]
ANOTHER = ("Look at process 7 only.", "And at its children?", "Then tell me what you know.", "Try it once more.")


def gateways(t: Thresholds) -> list[Scene]:
    """Cases 37, 39, 40, 41 and 42."""
    return [*_polling(t), *_constant(t), *_endless(t), *_ends(t), *_words(t)]


def _polling(t: Thresholds) -> list[Scene]:
    poll = t("unchanged_poll")
    running = act("job_status", {"id": 7}, '{"status":"running"}')
    return [
        Scene(
            "G37 a session that goes on writing",
            [act("write_stdin", {"session_id": 1, "chars": ""}, f"Compiling crate{k} v0.{k}") for k in range(20)],
        ),
        Scene(
            "G37 a share that rises",
            [act("job_status", {"id": 7}, f'{{"status":"running","percent":{3 * k}}}') for k in range(20)],
        ),
        Scene("G37 pending in the same words", same(poll.nudge - 1, running)),
        Scene(
            "G37 pending in the same words, every minute",
            same(2 * poll.nudge + 4, running),
            poll.ladder(every_other, upto=2 * poll.nudge + 4),
            "unchanged_poll",
            pause_ms=60_000,
        ),
    ]


def _named(count: int) -> list[str]:
    """Names that differ in more than numbers."""
    return [f"{NAMES[k % len(NAMES)]} {NAMES[k // len(NAMES)]}" for k in range(count)]


def _constant(t: Thresholds) -> list[Scene]:
    places = t("same_result", "informative")
    return [
        Scene(
            f"G39 other arguments, one answer: {what}",
            [act(tool, {"about": name}, result) for name in _named(places.whole())],
            places.ladder(),
            "same_result",
        )
        for what, tool, result in (("text", "lookup", FACTS), ("an image", "screenshot", PIXELS))
    ]


def _endless(t: Thresholds) -> list[Scene]:
    repeat, poll = t("repeated_call"), t("unchanged_poll")
    log = act("process", {"action": "log", "id": 7}, "(no new output)")
    return [
        Scene(
            "G40 220 identical calls in 25 minutes",
            same(220, LIST),
            repeat.ladder(),
            "repeated_call",
            pause_ms=6_800,
            counted={220: repeat.cut},
        ),
        Scene(
            "G40 polls every five seconds for hours",
            same(2 * poll.cut, log),
            poll.ladder(),
            "unchanged_poll",
            pause_ms=4_700,
            counted={2 * poll.cut: poll.cut},
        ),
    ]


def _ends(t: Thresholds) -> list[Scene]:
    """A loop of each kind that may be ended comes to its end, however often the words before it were ignored."""
    error, nothing, thought = t("repeated_error"), t("nothing_new"), t("repeated_call", "thoughts")
    seat = act("find_seat", {"flight": "A1"}, "Error: the seat map is not loaded")
    return [
        Scene("G41 one error", same(85, seat), error.ladder(), "repeated_error", counted={85: error.cut}),
        Scene(
            "G41 a thought",
            same(thought.whole(), act("think", {"thought": "hm"}, "ok")),
            thought.ladder(),
            "repeated_call",
        ),
        Scene(
            "G41 no order at all",
            _shuffled(nothing.whole()),
            nothing.ladder(lambda count: count + 4),
            "nothing_new",
        ),
    ]


def _shuffled(count: int) -> list[Move]:
    """Four calls that are all known, then more of the same in an order without a period."""
    four = [act("look", {"at": name}, f"{name} is shut") for name in NAMES[:4]]
    order = [0, 1, 2, 3]
    seed = 5
    while len(order) < count + 4:
        seed = seed * 1_103_515_245 + 12_345 & 0x7FFFFFFF
        place = (seed >> 16) % 4
        if place not in order[-2:]:
            order.append(place)
    return [four[place] for place in order]


def _words(t: Thresholds) -> list[Scene]:
    repeat = t("repeated_call")
    moves: list[Move] = []
    at: dict[int, str] = {}
    for word in ANOTHER:
        start = len(moves)
        at |= {start + turn: verdict for turn, verdict in repeat.ladder(upto=repeat.cut).items()}
        moves += [*same(repeat.cut, LIST), say("(what the proxy said)", user(word))]
    end = len(moves)  # re-armed three times; the fourth word of the user changes nothing any more
    at |= dict.fromkeys(range(end, end + 2), "cut") | {end + 2: "over"}
    return [Scene("G42 the user's words arm it again, three times", [*moves, *same(4, LIST)], at, "repeated_call")]
