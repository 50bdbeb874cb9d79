"""What `deploy/Dockerfile` says, read as Docker reads it: stages and their instructions, and what the build may see."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCKERFILE = ROOT / "deploy" / "Dockerfile"

Stage = list[tuple[str, str]]


def stages() -> list[Stage]:
    """The instructions of each stage, FROM first; lines that go on are one."""
    text = re.sub(r"^\s*#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    lines = [line for line in re.sub(r"\\\n\s*", " ", text).splitlines() if line.strip()]
    found: list[Stage] = []
    for line in lines:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest.strip()))
    return found


def said(stage: Stage, word: str) -> list[str]:
    """What the instructions of one kind say."""
    return [rest for kind, rest in stage if kind == word]


def variables(stage: Stage) -> dict[str, str]:
    """What ENV sets."""
    return dict(re.findall(r"(\w+)=(\S+)", " ".join(said(stage, "ENV"))))


def command() -> list[str]:
    """What the container runs."""
    return json.loads(said(stages()[-1], "ENTRYPOINT")[0]) + json.loads(said(stages()[-1], "CMD")[0])


def copied(stage: Stage) -> list[tuple[str, str]]:
    """From where in the repository to where in the image; of another stage's nothing."""
    found = []
    for words in (rest.split() for rest in said(stage, "COPY")):
        if not words[0].startswith("--from"):
            found += [(source, words[-1]) for source in words[:-1]]
    return found


LAST_COPIES = copied(stages()[-1])
"""Of the image itself."""


def visible(path: str) -> bool:
    """Whether the build context has a path: the last rule of the ignore file that fits says so."""
    seen = True
    for rule in (DOCKERFILE.parent / "Dockerfile.dockerignore").read_text().splitlines():
        if not rule or rule.startswith("#"):
            continue
        pattern = rule.removeprefix("!")
        fits = fnmatch(path, pattern) or path.startswith(f"{pattern}/")
        if pattern.startswith("**/"):
            fits = pattern[3:] in path.split("/")
        if fits:
            seen = rule.startswith("!")
    return seen
