"""docs/detectors.md is what the detectors say of themselves. `python -m tests.test_detector_docs` writes it anew."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from guardproxy.core.detectors import RULES, SPECIFICITY
from guardproxy.core.model import Triple
from guardproxy.core.presets import PRESETS, preset_settings

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "detectors.md"
HEAD = """# The detectors

Written by `python -m tests.test_detector_docs` from the detectors' own words; a test compares. Thresholds are triples
`[nudge, firm, cut]` of counts, – is never; finalize comes one before the cut where that is above firm. Each is a
setting: `policy.detectors.<rule>.<setting>`. `enabled` and `mode` (enforce, observe) can be set per rule, too.

When several rules stand on the same rung, the first of these speaks: {order}.

## Presets

`policy.preset` moves the thresholds of all rules at once; a setting that is written down wins over the preset.
`guardproxy list --preset NAME` shows one, `guardproxy replay FILE --compare OTHER.yaml` what it would change in your
own runs.
"""


def reasons(module: ModuleType) -> dict[str, str]:
    """The text under each field of a module's Settings, and that of Settings itself as ``."""
    classes = [node for node in ast.parse(inspect.getsource(module)).body if isinstance(node, ast.ClassDef)]
    (made,) = [node for node in classes if node.name == "Settings"]
    found = {"": ast.get_docstring(made) or ""}
    for one, after in zip(made.body, made.body[1:], strict=False):
        if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
            text = after.value.value if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant) else ""
            found[one.target.id] = " ".join(str(text).split())
    return found


def shown(value: object) -> str:
    if isinstance(value, Triple):
        return f"[{', '.join(str(count or '–') for count in (value.nudge, value.firm, value.cut))}]"
    return f"{value:,}" if isinstance(value, int | float) else f"`{value}`"


def rule(name: str, module: ModuleType) -> list[str]:
    """The section of one detector."""
    why, order = reasons(module), ("balanced", "strict", "patient")
    settings = {preset: preset_settings(preset)[name] for preset in order}
    rows = []
    for one in fields(module.Settings):
        values = (shown(getattr(settings[preset], one.name)) for preset in order)
        rows.append(f"| `{one.name}` | {' | '.join(values)} | {why.get(one.name, '')} |")
    head = ["| setting | balanced | strict | patient | why |", "|---|---|---|---|---|"]
    return [f"## {name}\n", inspect.cleandoc(module.__doc__ or ""), "", f"{why['']}\n", *head, *rows, ""]


def page() -> str:
    """The whole."""
    order = ", ".join(f"`{name}`" for name in sorted(SPECIFICITY, key=SPECIFICITY.__getitem__, reverse=True))
    lines = [HEAD.format(order=order), *(f"- `{name}`: {preset.reason}" for name, preset in PRESETS.items()), ""]
    return "\n".join([*lines, *(line for name, module in RULES.items() for line in rule(name, module))])


@pytest.mark.parametrize("name", RULES)
def test_every_setting_has_its_reason(name: str) -> None:
    why = reasons(RULES[name])
    assert [one.name for one in fields(RULES[name].Settings) if not why.get(one.name)] == []
    assert why[""]


def test_the_page_is_what_the_detectors_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "type: python -m tests.test_detector_docs"


def test_the_page_says_it_all() -> None:
    """Not only equal to what its generator makes: the numbers and words that a reader looks for are there."""
    text = PAGE.read_text("utf-8")
    for name in (*RULES, *PRESETS):
        assert f"\n## {name}\n" in text or f"\n- `{name}`: " in text
    assert "| `triple` | [3, 4, 6] | [3, 4, 5] | [4, 6, 9] | Equal rounds in a row (cases B01, B04, B13). |" in text


def test_the_readme_links_it() -> None:
    assert "(docs/detectors.md)" in (ROOT / "README.md").read_text("utf-8")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
