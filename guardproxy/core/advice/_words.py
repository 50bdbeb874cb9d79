"""What all texts are made with: the languages, our mark in front, content that is harmless inside our words."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from guardproxy.core.advice import en, zh
from guardproxy.core.fingerprint import GUARD_MARK

QUOTE, QUESTION = 160, 600
"""Characters of arguments and results, and of an agent's question to a person, that a text quotes."""

LANGUAGES: Mapping[str, ModuleType] = {"en": en, "zh": zh}
"""Language to its texts."""


def short(text: str, most: int = QUOTE) -> str:
    """A quote on one line: enough to recognise what is quoted, too little to be read as content."""
    plain = " ".join(text[: most * 4].split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def quoted(text: str, most: int = 80) -> str:
    """Content in one line of at most so many characters, harmless inside our words."""
    plain = " ".join(harmless(text[: 8 * most]).split())
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def named(template: str, tool: str) -> str:
    """A sentence about a tool."""
    return template.format(tool=tool_name(tool))


def tool_name(name: str) -> str:
    """A tool's name, which a model can make up like any other text."""
    return harmless(short(name)) or "-"


def because(words: ModuleType, reason: str) -> str:
    """The sentence that gives a reason, if there is one."""
    plain = harmless(reason).rstrip(".。")
    return str(words.BECAUSE).format(reason=plain) if plain else ""


def note(words: ModuleType, *parts: str) -> str:
    """One paragraph of ours."""
    return str(words.JOIN).join(part for part in (f"{GUARD_MARK} {words.SOURCE}", *parts) if part)


def in_lines(*lines: str) -> str:
    """What a person reads, line by line."""
    return f"{GUARD_MARK} " + "\n".join(line for line in lines if line)


def harmless(text: str) -> str:
    """Content inside our words: on one line, without brackets that make it look like a harness's, and without earlier
    words of ours.
    """
    text = " ".join(text.partition(GUARD_MARK)[0].split())
    return text.replace("<", "‹").replace(">", "›").replace("`", "'")
