"""The page: well-formed enough to be drawn, with every mark, and without anything a name could break."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from guardproxy.calibrating import page
from guardproxy.calibrating.fate import Fates
from guardproxy.calibrating.figures import groups
from guardproxy.core.budget import Limit
from guardproxy.errors import ConfigError
from tests.calibrating.test_figures import run
from tests.calibrating.test_tables import MANY

FATES = Fates("ours", 10, 4, 5, 1, 3, 1, 2_500_000, 4_000, (("cycle", 3, 1),), ("s-1",))


class Seen(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.texts: list[str] = []

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def written(folder: Path, runs: list[object], name: str = "log") -> Seen:
    page.write(folder / "p.html", name, groups(runs, (Limit("span", "turns", 50),)), [FATES], 0.5)  # type: ignore
    seen = Seen()
    seen.feed((folder / "p.html").read_text("utf-8"))
    return seen


def test_a_plot_for_each_measure(tmp_path: Path) -> None:
    seen = written(tmp_path, MANY)

    assert seen.tags.count("svg") == 5
    assert "P95 38" in seen.texts
    assert "proposed 57" in seen.texts
    assert "now 50" in seen.texts
    assert any("turns: 57" in text for text in seen.texts)
    assert "script" not in seen.tags
    assert not {"img", "link", "iframe"} & {*seen.tags}  # it loads nothing


def test_names_are_text(tmp_path: Path) -> None:
    seen = written(tmp_path, [run(turns, agent="<script>x</script>\ud800") for turns in range(1, 41)], "<b>")

    assert not {"script", "b"} & {*seen.tags}
    assert any("<script>x</script>" in text for text in seen.texts)


def test_a_limit_far_away_does_not_flatten_the_plot(tmp_path: Path) -> None:
    page.write(tmp_path / "p.html", "x", groups(MANY, (Limit("span", "turns", 9999),)), [], 0.5)  # type: ignore[arg-type]

    assert "now 9,999" not in (tmp_path / "p.html").read_text("utf-8")


def test_runs_that_used_nothing(tmp_path: Path) -> None:
    assert written(tmp_path, [run(0) for _ in range(30)]).tags.count("svg") == 4


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot write"):
        page.write(tmp_path / "no" / "p.html", "x", [], [], 0.5)
