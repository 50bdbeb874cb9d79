"""The tables of README.md and its pages say what the code does. `python -m tests.test_readme` writes them anew."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import pytest

from guardproxy.core import tools as rules
from guardproxy.core.budget import DIMENSIONS
from guardproxy.core.detectors import RULES
from guardproxy.core.exemption import Exemption
from guardproxy.core.model import Triple
from guardproxy.core.policy import ACTIONS, PROFILES
from guardproxy.core.tool_rules import ToolRules
from guardproxy.http import heading, objects
from tests.as_written import as_written

README = Path(__file__).parent.parent / "README.md"
DOCS = README.parent / "docs"
LOOPS, PEOPLE, ADMIN = DOCS / "loops.md", DOCS / "people.md", DOCS / "admin.md"
SCOPES = {"cost_usd": "session"}
BOTH = {"turns", "tool_calls", "wall_seconds"}
WRITTEN = {"defaults": "{search: {limit: 10}}", "*": "[pattern, …]"} | {
    f"{name}_args": "{pattern: [argument, …]}" for name in ("ignore", "unordered", "path", "time")
}
SESSION = {"input_tokens", "output_tokens", "total_tokens"}


def detectors() -> list[str]:
    """A row a triple of thresholds."""
    rows = []
    for rule, module in RULES.items():
        seen = module.__doc__.split("\n")[0].rstrip(".")
        settings = module.Settings()
        for field in fields(settings):
            value = getattr(settings, field.name)
            if isinstance(value, Triple):
                name = f"`{rule}`" if field.name == "triple" else f"`{rule}` ({field.name})"
                counts = " | ".join(str(count or "–") for count in (value.nudge, value.firm, value.cut))
                rows.append(f"| {name} | {seen} | {counts} |")
                seen = "〃"
    return rows


def limits() -> list[str]:
    """A row a budget dimension."""
    rows = []
    for row in (row for row in DIMENSIONS.values() if not row.tenants):
        scope = "span or session" if row.setting in BOTH else "session" if row.setting in SESSION else "span"
        scope = SCOPES.get(row.setting, scope)
        unit = "dollars" if row.setting == "cost_usd" else "seconds" if row.setting == "wall_seconds" else row.unit
        amounts = (PROFILES[profile].get(row.setting) for profile in ("coding", "qa", "cross_system"))
        shown = " | ".join("–" if amount is None else f"{amount:,g}" for amount in amounts)
        rows.append(f"| `{row.setting}` | {unit} | {scope} | {shown} |")
    return rows


def exemptions() -> list[str]:
    """A row a reason to hold back."""
    return [f"| `{one}` | {one.meaning} |" for one in Exemption]


def tools() -> list[str]:
    """A row a field of the rules for tools, in its own words: a string stands under each."""
    body = next(n.body for n in ast.parse(Path(rules.__file__).read_text()).body if getattr(n, "name", "") == "Rules")
    rows = []
    for place, node in enumerate(body):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            told = body[place + 1].value.value.replace("\n    ", " ")  # type: ignore[attr-defined]
            rows.append(f"| `{node.target.id}` | `{WRITTEN.get(node.target.id, WRITTEN['*'])}` | {told.rstrip('.')} |")
    return rows


GENERATED = {"detectors": detectors, "exemptions": exemptions, "limits": limits, "tools": tools}


def place(name: str) -> Path:
    """The page that has a table."""
    return {"headers": README, "limits": README, "rules": PEOPLE}.get(name, LOOPS)


def section(name: str) -> list[str]:
    """The body rows of a marked table."""
    found = re.search(rf"<!-- {name} -->\n(.*?)<!-- /{name} -->", place(name).read_text(), re.DOTALL)
    assert found, f"{place(name).name} has no table {name}"
    return found.group(1).strip().split("\n")[2:]


@pytest.mark.parametrize("name", GENERATED)
def test_generated_tables(name: str) -> None:
    """The tables of detectors, exemptions and limits are those of the code."""
    assert section(name) == GENERATED[name]()


def test_rules_of_single_calls() -> None:
    """Every kind of rule for single calls has its row."""
    assert [re.match(r"\| `(\w+)` ", row).group(1) for row in section("rules")] == [  # type: ignore[union-attr]
        field.name for field in fields(ToolRules)
    ]


def test_pages_are_linked_and_their_links_lead_somewhere() -> None:
    """What moved out of the README is found from it."""
    pages = sorted(DOCS.glob("*.md"))
    told = "".join(page.read_text() for page in (README, *pages))
    assert [page.name for page in pages if f"{page.name})" not in told] == []
    for page in (README, *pages):
        for link in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / link).exists(), f"{page.name}: {link}"


@as_written
def test_headers() -> None:
    """Every header that the flow sets is in the table, and the verdicts are the ladder's."""
    source = Path(heading.__file__).read_text()
    set_in_code = set(re.findall(r'"(x-guardproxy-[a-z-]+)"', source)) - {"x-guardproxy-path-session"}
    table = {re.search(r"`(x-[a-z-]+)`", row).group(1): row for row in section("headers")}  # type: ignore[union-attr]

    assert set(table) == set_in_code
    for action in (*ACTIONS.values(), "refuse", "pause", "deny"):
        assert action in table["x-guardproxy-verdict"]


def test_routes() -> None:
    """Every route of the admin API is in its table, in the row of its first word, with its role."""
    rows = [row for row in ADMIN.read_text().split("\n") if row.startswith(("| `GET ", "| `POST ", "| `PUT "))]
    for route in objects.ROUTES:
        kind, last = route.path.split("/")[1], route.path.split("/")[-1].replace("{id}", "")
        found = [row for row in rows if f" {kind}" in row.replace("`", " ") and last in row and route.role in row]
        assert found, route.path


def test_steps_name_files() -> None:
    """Every file that the README and its pages name is there."""
    root = README.parent
    for page in (README, *sorted(DOCS.glob("*.md"))):
        for name in re.findall(r"`((?:http|api|core|store|telemetry|deploy|guardproxy)/[\w./]+)`", page.read_text()):
            assert (root / name).exists() or (root / "guardproxy" / name).exists(), f"{page.name}: {name}"


def write() -> None:
    """Put the generated tables into their pages."""
    for name, made in GENERATED.items():
        text, rows = place(name).read_text(), made()
        head = re.search(rf"<!-- {name} -->\n(.*?\n.*?\n)", text)
        assert head
        body = f"<!-- {name} -->\n{head.group(1)}" + "\n".join(rows) + f"\n<!-- /{name} -->"
        text = re.sub(rf"<!-- {name} -->.*?<!-- /{name} -->", lambda _m, b=body: b, text, flags=re.DOTALL)
        place(name).write_text(text)


if __name__ == "__main__":
    write()
