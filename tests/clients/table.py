"""docs/clients.md's table, made from the results."""

from __future__ import annotations

import json
from collections.abc import Mapping

from tests.clients import GATES, HERE, ROOT, Client, Json, Way, clients, fill
from tests.clients.scenes import SCENES, wanted

RESULTS = HERE / "results.json"
PAGE = ROOT / "docs" / "clients.md"
BEGIN, END = "<!-- clients -->", "<!-- /clients -->"
SHOWN = {"base": "http://PROXY", "key": "KEY", "model": "MODEL"}
FENCES = {"json": "json", "toml": "toml", "yaml": "yaml", "yml": "yaml"}


def results() -> Json:
    """As they were written last."""
    found: Json = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    return found


def keep(played: Mapping[str, Json]) -> None:
    """Write results beside those of other clients, other ways and other scenes, as far as they are still wanted."""
    known = {client.name: client for client in clients()}
    whole = {name: result for name, result in results().items() if name in known}
    for name, result in played.items():
        before = whole.get(name, {})
        ways = before["ways"] if before.get("packages") == result["packages"] else {}
        found = {way: {**ways.get(way, {}), **scenes} for way, scenes in result["ways"].items()}
        whole[name] = {
            "packages": result["packages"],
            "ways": {
                way.name: {scene: found[way.name][scene] for scene in wanted(way) if scene in found[way.name]}
                for way in known[name].ways
            },
        }
    RESULTS.write_text(json.dumps(whole, indent=1, sort_keys=True, ensure_ascii=False) + "\n", "utf-8")


def write() -> None:
    """Put the table into the page, between its marks. Raises ValueError where they are not there."""
    text = PAGE.read_text("utf-8")
    before, after = text[: text.index(BEGIN)], text[text.index(END) + len(END) :]
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", "utf-8")


def shown() -> str:
    """What the page has now."""
    return PAGE.read_text("utf-8").partition(f"{BEGIN}\n")[2].partition(f"\n{END}")[0]


def table() -> str:
    """Rows of ways and, below them, how each client is set up."""
    found = results()
    heads = ("client", "speaks", "the run's name from", *SCENES)
    rows = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for client in clients():
        result = found.get(client.name, {"ways": {}})
        rows += [f"| {' | '.join(_row(client, way, result['ways'].get(way.name, {})))} |" for way in client.ways]
    parts = [f"### {client.title}\n\n{_setup(client)}" for client in clients()]
    return "\n".join([*rows, "", *parts]).rstrip("\n")


def _row(client: Client, way: Way, result: Json) -> list[str]:
    gate = "**" if client.name in GATES else ""
    name = f"{gate}{client.title}{gate} {client.version}" if way is client.ways[0] else "〃"
    source, _, where = way.get("session", "derived").partition(" ")
    from_ = {"derived": "derived", "path": "`/s/RUN`"}.get(source, f"{source} `{where}`")
    cells = [str(way.get("not", {}).get(scene) or _cell(result.get(scene))) for scene in SCENES]
    return [name, way.name, from_, *cells]


def _cell(result: Json | None) -> str:
    if result is None:
        return ""
    if "wrong" in result:
        return "**wrong**"
    shown = [str(result["requests"])] if "requests" in result else []
    shown += [f"{result['calls']} calls"] if "calls" in result else []
    shown += [f"then {result['after']} more"] if result.get("after") else []
    return ", ".join(["ok", *shown])


def _setup(client: Client) -> str:
    setup = client.data["setup"]
    if "text" in setup:
        return f"```{setup.get('kind', 'sh')}\n{setup['text'].strip()}\n```\n"
    parts = []
    if env := setup.get("env"):
        lines = "\n".join(f"export {name}={value}" for name, value in fill(env, SHOWN).items())
        parts.append(f"```sh\n{lines}\n```\n")
    for path, text in fill(setup.get("files", {}), SHOWN).items():
        shown = path.removeprefix("work/") if path.startswith("work/") else f"~/{path}"
        kind = FENCES.get(path.rpartition(".")[2], "")
        parts.append(f"`{shown}`:\n\n```{kind}\n{text.strip()}\n```\n")
    if code := setup.get("code"):
        parts.append(f"```{setup.get('kind', 'python')}\n{code.strip()}\n```\n")
    return "\n".join(parts)
