"""docs/detectors.md is what the detectors say of themselves. `python -m tests.test_detector_docs` writes it anew."""

from __future__ import annotations

import ast
import inspect
from dataclasses import fields
from pathlib import Path
from types import ModuleType

import pytest

from guardproxy.core import scoped_exemption, sparing
from guardproxy.core.detectors import RULES, SPECIFICITY, _count
from guardproxy.core.exemption import Exemption
from guardproxy.core.model import Triple
from guardproxy.core.presets import PRESETS, preset_settings
from tests.as_written import as_written

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

EXEMPTIONS = """What holds a rule back has one of these names. The decision line of the log has it with rule, count and
steps, the span of the turn as `guardproxy.spared`; `guardproxy trace` shows it beside the action, `guardproxy replay`
counts it. A decision to do nothing can have some, too: what would have been spoken of, had it not been for them.

| exemption | what it says | rules that may name it |
|---|---|---|"""


def exemptions() -> list[str]:
    """A row an exemption, with the detectors in whose source it stands."""
    sources = {name: inspect.getsource(module) for name, module in RULES.items()}
    counted, rows = inspect.getsource(_count.news), []
    for one in Exemption:
        rules = [name for name, text in sources.items() if f"Exemption.{one.name}" in text]
        if f"Exemption.{one.name}" in counted:
            rules += [name for name, text in sources.items() if "news(" in text]
        if any(f"Exemption.{one.name}" in inspect.getsource(module) for module in (sparing, scoped_exemption)):
            rules = ["*"]
        named = "all" if rules == ["*"] else ", ".join(f"`{name}`" for name in sorted(set(rules)))
        rows.append(f"| `{one}` | {one.meaning} | {named} |")
    return rows


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
    lines += ["## Exemptions\n", EXEMPTIONS, *exemptions(), ""]
    return "\n".join([*lines, *(line for name, module in RULES.items() for line in rule(name, module))])


@pytest.mark.parametrize("name", RULES)
def test_every_setting_has_its_reason(name: str) -> None:
    why = reasons(RULES[name])
    assert [one.name for one in fields(RULES[name].Settings) if not why.get(one.name)] == []
    assert why[""]


@as_written
def test_the_page_is_what_the_detectors_say() -> None:
    assert PAGE.read_text("utf-8") == page(), "type: python -m tests.test_detector_docs"


def test_the_page_says_it_all() -> None:
    """Not only equal to what its generator makes: the numbers and words that a reader looks for are there."""
    text = PAGE.read_text("utf-8")
    for name in (*RULES, *PRESETS):
        assert f"\n## {name}\n" in text or f"\n- `{name}`: " in text
    assert "| `triple` | [3, 4, 6] | [3, 4, 5] | [4, 6, 9] | Equal rounds in a row (cases B01, B04, B13). |" in text


@as_written
def test_each_exemption_is_used_and_explained() -> None:
    rows = exemptions()
    assert len(rows) == len(Exemption)
    for one, row in zip(Exemption, rows, strict=True):
        assert row.startswith(f"| `{one}` | ")
        assert not row.endswith("|  |"), f"no rule names {one}"
        assert one.meaning.endswith(".")


def test_the_readme_links_it() -> None:
    assert "(docs/detectors.md)" in (ROOT / "README.md").read_text("utf-8")


if __name__ == "__main__":
    PAGE.parent.mkdir(exist_ok=True)
    PAGE.write_text(page(), "utf-8")
