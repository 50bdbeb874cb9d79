"""The page: complete, bounded, and inert whatever a recording says. A browser looks at it if there is one."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from guardproxy.core.fingerprint import Fingerprinter
from guardproxy.core.model import Flag
from guardproxy.errors import ConfigError
from guardproxy.replaying import page as pages
from guardproxy.replaying.page import CELLS, Page
from guardproxy.replaying.told import SessionReport, Told

Json = dict[str, Any]
PRINTER = Fingerprinter(b"test")
NASTY = "</script><!--<script>alert(1)</script><img src=x onerror=alert(2)>{{about}} & \" ' \u2028 \ud800"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")


def run(results: list[str], tool: str = "look", name: str = "one") -> Json:
    messages: list[Json] = [{"role": "user", "content": "go"}]
    for result in results:
        made = {"id": "c", "type": "function", "function": {"name": tool, "arguments": json.dumps({"q": result[:9]})}}
        messages += [
            {"role": "assistant", "tool_calls": [made]},
            {"role": "tool", "tool_call_id": "c", "content": result},
        ]
    return {"id": name, "messages": messages}


def told(step: int, action: str, reason: str = "why") -> Told:
    return Told(step, 2 * step + 3, action, "cycle", 3, reason)


def report(recorded: Json, *decisions: Told) -> SessionReport:
    return SessionReport(recorded["id"], (len(recorded["messages"]) - 1) // 2, decisions)


def written(folder: Path, *added: tuple[Json, SessionReport], room: int = pages.ROOM, name: str = "runs") -> str:
    page = Page(room)
    for recorded, decided in added:
        page.add(recorded, PRINTER, decided)
    page.write(folder / "page.html", name, [one for _, one in added])
    return (folder / "page.html").read_text("utf-8")


def block(text: str, name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found.group(1))


def test_a_session_on_the_page(tmp_path: Path) -> None:
    recorded = run(["a", "Error: b", "a", "a"])
    text = written(tmp_path, (recorded, report(recorded, told(2, "nudge"), told(3, "cut", "at last"))))
    (row,) = block(text, "sessions")
    assert (row["id"], row["n"], row["saved"], row["shown"]) == ("one", 4, 0, [0, 4, 4])
    assert [row["texts"][cell[0]] for cell in row["cells"]] == ["look"] * 4
    assert [row["texts"][cell[2]] for cell in row["cells"]] == ["a", "Error: b", "a", "a"]
    assert [bool(cell[4] & pages.AGAIN) for cell in row["cells"]] == [False, False, True, True]
    assert [bool(cell[4] & pages._FLAGS[Flag.FAILED]) for cell in row["cells"]] == [False, True, False, False]
    assert row["decisions"] == [[2, 1, "cycle", 3, 3, 7, "why"], [3, 4, "cycle", 3, 4, 9, "at last"]]
    about = block(text, "about")
    assert about["totals"]["spoken"] == 1
    assert [one["rule"] for one in about["rules"]] == ["cycle"]


def test_bits_of_the_script_are_those_of_the_module() -> None:
    script = Path(pages.__file__).with_name("page.html").read_text("utf-8")
    found = re.search(r"const BITS = \{(.*?)\}", script, re.DOTALL)
    assert found
    bits = {name: int(bit) for name, bit in re.findall(r"(\w+): (\d+)", found.group(1))}
    ours = {"starts": pages.STARTS, "again": pages.AGAIN, "text": pages.TEXT, "alike": pages.ALIKE}
    assert bits == ours | {flag.name.lower(): bit for flag, bit in pages._FLAGS.items() if flag.name}
    assert len(set(bits.values())) == len(bits)


class _Elements(HTMLParser):
    """Names of elements, and attributes that load or run something."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.names: list[str] = []
        self.risky: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names.append(tag)
        self.risky += [key for key, _ in attrs if key in ("src", "href", "srcset", "action") or key.startswith("on")]


@pytest.mark.parametrize("place", ["result", "tool", "id", "reason", "name"])
def test_what_a_recording_says_stays_text(tmp_path: Path, place: str) -> None:
    plain = run(["a"])
    calm = _Elements(written(tmp_path, (plain, report(plain, told(0, "nudge")))))
    recorded = run([NASTY if place == "result" else "a"], tool=NASTY if place == "tool" else "look")
    recorded["id"] = NASTY if place == "id" else "one"
    decided = report(recorded, told(0, "nudge", NASTY if place == "reason" else "why"))
    text = written(tmp_path, (recorded, decided), name=NASTY.replace("\ud800", "") if place == "name" else "runs")
    nasty = _Elements(text)
    assert nasty.names == calm.names
    assert nasty.risky == calm.risky == []
    (row,) = block(text, "sessions")
    assert "alert(1)" in json.dumps([row, block(text, "about")])


def test_nothing_is_loaded_from_anywhere(tmp_path: Path) -> None:
    text = written(tmp_path)
    assert "default-src 'none'" in text
    assert not re.search(r"https?://|@import|url\(|fetch\(|XMLHttp|innerHTML|document\.write|insertAdjacent", text)
    assert block(text, "sessions") == []


def test_a_page_is_bounded_and_drops_what_is_calm_first(tmp_path: Path) -> None:
    calm = [run([f"{n}" * 150], name=f"calm {n}") for n in range(40)]
    loop = run(["a"] * 5, name="loop")
    rows = [(one, report(one)) for one in calm] + [(loop, report(loop, told(2, "nudge")))]
    text = written(tmp_path, *rows, room=4_000)
    names = [row["id"] for row in block(text, "sessions")]
    assert names[-1] == "loop"
    assert names[:-1] == [f"calm {n}" for n in range(len(names) - 1)]
    assert 2 < len(names) < 40
    assert block(text, "about")["left_out"] == 41 - len(names)
    assert block(text, "about")["totals"]["sessions"] == 41


@pytest.mark.parametrize(
    ("calls", "at", "shown"),
    [
        (CELLS, None, [0, CELLS]),
        (CELLS + 100, None, [0, CELLS]),
        (CELLS + 100, 10, [0, CELLS]),
        (CELLS + 300, CELLS + 200, [241, 641]),
        (CELLS + 300, CELLS + 299, [300, 700]),
    ],
)
def test_a_long_session_shows_where_it_was_spoken_to(
    tmp_path: Path, calls: int, at: int | None, shown: list[int]
) -> None:
    recorded = run([f"r{n}" for n in range(calls)])
    decided = report(recorded, *([] if at is None else [told(at, "nudge")]))
    (row,) = block(written(tmp_path, (recorded, decided)), "sessions")
    assert row["shown"] == [*shown, calls]
    assert len(row["cells"]) == CELLS
    assert row["skipped"] == shown[0]


def test_a_page_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        Page().write(tmp_path / "nowhere" / "page.html", "runs", [])


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium or google-chrome")
def test_a_browser_draws_it(tmp_path: Path) -> None:
    loop, calm = run(["a"] * 5 + [NASTY], name="<b>loop"), run(["b"] * 3, name="calm")
    decided = report(loop, told(2, "nudge"), told(4, "finalize"))
    page = Page()
    page.add(loop, PRINTER, decided, report(loop, told(3, "cut")))
    page.add(calm, PRINTER, report(calm), report(calm))
    page.write(tmp_path / "page.html", "runs", [decided], [report(loop, told(3, "cut"))], "other")
    options = [
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=2000",
        f"--user-data-dir={tmp_path}/c",
    ]
    command = [str(CHROMIUM), *options, "--dump-dom", (tmp_path / "page.html").as_uri()]
    drawn = subprocess.run(command, capture_output=True, timeout=120, check=True).stdout.decode()
    assert "1 of 2 sessions" in drawn
    assert "&lt;b&gt;loop" in drawn
    main = drawn[drawn.index("<main>") : drawn.index("</main>")]
    assert len(re.findall(r'<i class="cell [^"]*"', main)) == 6
    assert len(re.findall(r'class="cell [^"]*\bafter"', main)) == 1
    assert re.findall(r'<b class="mark ([a-z ]+)"[^>]*>(.)</b>', main) == [
        ("nudge", "N"), ("cut there", "C"), ("finalize", "Z")
    ]  # fmt: skip
