"""Real agent clients, unmodified but for the base URL, played against the proxy with a scripted provider.

`python -m tests.clients [NAME …]` installs each into an environment of its own (`.clients/`), plays the scenes, writes
`results.json` and the table in docs/clients.md. A client is a folder with `client.toml`, data only, and where it is a
library, the small program that its documentation shows. In that file `{base}` is the proxy, `{env}` the environment,
`{bin}` the programs there, `{here}` the folder, `{home}` an empty home, `{task}` what is asked for, `{key}` a key,
`{model}` the model. Keys of a file, of which those under `ways` may be said again for one way of using the client:

- `title`, `registry` (pypi, npm), `packages` (pinned, first the one whose version is shown);
- `setup`: what a user does, which is what is shown in docs/clients.md: `env`, `files` (path under the home → content),
  `code` (lines of the program), `text` (how it is shown, in place of the former);
- `env`, `files`: what keeps the client quiet, unattended and at home besides;
- `start`: the command; `surface`; `call`: what the model does: `tool`, `arguments` with `{file}` and `{work}`,
  `slow`: arguments of the same that take a second; or `text`; `tools = false`: of a client that has no tools;
- `session`: where the run's name comes from: `derived`, `header NAME`, `body NAME.NAME`, `path`;
- `accept`: exit codes at the end of a run that was cut (`cut`) or refused (`refused`); `most`: requests after the cut
  (`cut`), or in all where each is refused (`refused`);
- `delegate`: the call (`tool`, `arguments`) that sends a sub-agent; `end`: how the model says its last word, where that
  is a call or has a form of its own (`{final}`); `before`: commands run first; `silent`: its answer is not shown;
- `calls`: equal calls that may be handed on, where a reason is given for more than elsewhere;
- `scenes`: names of those that are played; `not`: scene → why it cannot be played.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]
HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent

ORDER = (
    *("openai", "anthropic", "openai-agents", "langchain", "codex", "claude-code", "opencode", "crewai"),
    *("pydantic-ai", "smolagents", "strands", "agno", "autogen", "mini-swe-agent", "aider", "vercel-ai", "qwen-code"),
    *("cline", "kilo", "pi"),
)
"""In which they are played and shown; the first eight must be there."""

GATES = ORDER[:8]


@dataclass(frozen=True, slots=True)
class Way:
    """One way of using a client; its data, with what all ways of the client share."""

    name: str
    data: Mapping[str, Any]

    def get(self, key: str, default: Any = None) -> Any:
        """What the file says, or what holds where it says nothing."""
        return self.data.get(key, default)


@dataclass(frozen=True, slots=True)
class Client:
    """A client's file."""

    name: str
    title: str
    registry: str
    packages: tuple[str, ...]
    data: Mapping[str, Any]
    ways: tuple[Way, ...]

    @property
    def here(self) -> Path:
        """Its folder."""
        return HERE / self.name

    @property
    def version(self) -> str:
        """Of its first package."""
        return self.packages[0].lstrip("@").partition("==" if self.registry == "pypi" else "@")[2]


def load(name: str) -> Client:
    """A client by the name of its folder."""
    data = tomllib.loads((HERE / name / "client.toml").read_text("utf-8"))
    ways = tuple(Way(way["name"], {**data, **_joined(data, way)}) for way in data["ways"])
    return Client(name, data["title"], data["registry"], tuple(data["packages"]), data, ways)


def _joined(data: Mapping[str, Any], way: Mapping[str, Any]) -> Json:
    """Tables of a way add to those of the client."""
    return {
        key: {**data.get(key, {}), **value} if isinstance(value, dict) and key != "call" else value
        for key, value in way.items()
    }


def clients() -> tuple[Client, ...]:
    """All of them, in order."""
    found = {file.parent.name for file in HERE.glob("*/client.toml")}
    return tuple(load(name) for name in (*[one for one in ORDER if one in found], *sorted(found - set(ORDER))))


def fill(value: Any, places: Mapping[str, str]) -> Any:
    """A value of a file with the names in braces put in; other braces stay."""
    if isinstance(value, str):
        for name, text in places.items():
            value = value.replace(f"{{{name}}}", text)
        return value
    if isinstance(value, Mapping):
        return {key: fill(one, places) for key, one in value.items()}
    return [fill(one, places) for one in value] if isinstance(value, (list, tuple)) else value
