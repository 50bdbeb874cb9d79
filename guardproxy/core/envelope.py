"""What clients put around a program's output: labels, exit codes, process numbers, JSON. The output alone is judged.

Forms, from recordings and sources of the clients: Gemini CLI and Qwen Code (`Command: … Output: … Exit Code: 0`), Codex
(`Chunk ID: … Output:` and, before, JSON with `metadata`), mini-swe-agent (`<returncode>`, JSON with `returncode`),
OpenHands (`[Command finished with exit code 0]`), Claude Code (`Exit code 1`), Cline and Roo (`Command executed.`, JSON
with `query`, `result`, `success`), MCP (`content`, `isError`). A text without one costs a look at its first and last
characters.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from guardproxy.core.mask import VOLATILE_KEYS, WHOLE

TAIL = 600
"""Characters at the end in which the lines that a client adds are looked for."""


class Opened(NamedTuple):
    """The output without what was around it. `code`: its exit code (None: not told); `failed`: what the client says."""

    text: str
    code: int | None = None
    failed: bool | None = None

    def told(self) -> bool | None:
        """Whether it failed, as far as that is said. Programs that look (grep, diff, test) say no by 1 and no word."""
        if self.failed or not self.code:
            return self.failed
        return True if self.code != 1 or self.text.strip() else None


_STARTS = frozenset("{[<CDOSEPWT")
_CODES = ("exit_code", "exitCode", "exitcode", "returncode", "return_code", "returnCode", "exit_status")
_KNOWN = frozenset(
    (*_CODES, "output", "stdout", "stderr", "metadata", "command", "cmd", "cwd", "workdir", "success", "ok")
)
"""Keys of a command's result that are read, or that repeat the call or the exit code."""

_OBJECT = re.compile(
    r'\{\s*"(?:output|stdout|stderr|metadata|return_?code|exit_?code|exit_status|content|isError|command|cmd|success'
    r'|status)"',
    re.IGNORECASE,
)
_LIST = re.compile(r'\[\s*\{\s*"(?:query|result|success|type|text)"')
_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Original token count|Total output lines): [^\n]*\n|"
    r"(?:Process exited with|Exit) code:? (?P<code>-?\d{1,10})\n)+(?:Output:(?:\n|$))"
    r"|Exit code:? (?P<claude>-?\d{1,10})(?:\n|$)"
    r"|Command (?:executed|completed)\b[^\n]{0,300}?(?:exit code:? (?P<cline>-?\d{1,10})[^\n]{0,20})?\n"
    r"(?:Output:(?:\n|$))?"
    r"|Command failed with exit code (?P<alone>-?\d{1,10})\.?(?:\n|$)",
    re.IGNORECASE,
)
_RETURNED = re.compile(r"<returncode>(-?\d{1,10})</returncode>\s*<output>\n?")
_TRAILERS = re.compile(
    r"\n?(?:\[The command completed with exit code (?P<done>-?\d{1,10})\.?\]"
    r"|\[Current working directory: [^\n]*\]|\[Python interpreter: [^\n]*\]"
    r"|\[Command finished with exit code (?P<code>-?\d{1,10})\]"
    r"|[(\[](?:process |command )?(?:exited with |finished with |exit )(?:code |status )?:? ?"
    r"(?P<plain>-?\d{1,10})\.?[)\]])\s*\Z",
    re.IGNORECASE,
)
_LABELS = ("Command: ", "Directory: ", "Output: ", "Stdout: ")
_LAST = ("Exit Code: ", "Signal: ", "Background PIDs: ", "Process Group PGID: ")
_CODE = re.compile(r"-?\d{1,10}")
NOTHING = frozenset(("", "(none)", "none", "null", "(empty)", "undefined", "nil", "-"))
"""How clients write, in lower case, that there is nothing."""

_NO_SIGNAL = NOTHING | {"0"}


def opened(text: str) -> Opened | None:
    """The output that a client's form holds; None: it is no such form, or one of a program that still runs."""
    first = text[:1]
    if first in _STARTS:
        if first in "{[":
            if len(text) <= WHOLE and (_OBJECT if first == "{" else _LIST).match(text) is not None:
                return _parsed(text)
        elif first == "<":
            found = _RETURNED.match(text) if text.startswith("<returncode>") else None
            end = text.rfind("</output>")
            if found is not None and end >= found.end() and len(text) - end < TAIL and not text[end + 9 :].strip():
                return Opened(text[found.end() : end].removesuffix("\n"), int(found[1]))
        elif text.startswith(_LABELS):
            return _labelled(text)
        else:
            head = _HEAD.match(text)
            if head is not None:
                code = head["code"] or head["claude"] or head["cline"] or head["alone"]
                return Opened(text[head.end() :], None if code is None else int(code))
    return _trailed(text) if text[-1:] == "]" or text[-1:] == ")" else None


def _trailed(text: str) -> Opened | None:
    """Lines in brackets behind the output: where it ran, and how it ended."""
    if "exit" not in text[-TAIL:]:
        return None
    code, end = None, len(text)
    while True:
        found = _TRAILERS.search(text, max(0, end - TAIL), end)
        if found is None:
            break
        end = found.start()
        told = found["done"] or found["code"] or found["plain"]
        code = int(told) if told is not None else code
    return None if code is None else Opened(text[:end], code)


def _labelled(text: str) -> Opened | None:
    """Gemini CLI's form. Older versions write every line, newer ones those that say something."""
    end, told = len(text), dict[str, str]()
    while True:
        begun = text.rfind("\n", max(0, end - TAIL), end)
        line = text[begun + 1 : end]
        if begun < 0 or not line.startswith(_LAST):
            break
        label, _, said = line.partition(": ")
        told[label], end = said.strip().lower(), begun
    if not told:
        return None
    start = _begun(text)
    error, end = _last_part(text, "\nError: ", start, end) if "Exit Code" in told else ("", end)
    wrong, end = _last_part(text, "\nStderr: ", start, end) if "Exit Code" in told else ("", end)
    parts = (part.strip("\n") for part in (text[start:end], wrong, error))
    code = told.get("Exit Code", "")
    return Opened(
        "\n".join(part for part in parts if part.lower() not in NOTHING),
        int(code) if _CODE.fullmatch(code) is not None else None,
        True if error.strip().lower() not in NOTHING or told.get("Signal", "0") not in _NO_SIGNAL else None,
    )


def _begun(text: str) -> int:
    """Where the output begins; a command of several lines may stand before it."""
    if text.startswith(("Output: ", "Stdout: ")):
        return 8
    place = max(0, text.find("\nDirectory: "))
    found = [at for at in (text.find("\nOutput: ", place), text.find("\nStdout: ", place)) if at >= 0]
    return min(found) + 9 if found else len(text)


def _last_part(text: str, label: str, start: int, end: int) -> tuple[str, int]:
    """What stands behind the last such label, and where the text before it ends."""
    at = text.rfind(label, max(0, start - 1), end)
    return (text[at + len(label) : end], at) if at >= 0 else ("", end)


def _parsed(text: str) -> Opened | None:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(value, dict):
        return _object(value)
    return _several(value) if value and all(isinstance(one, dict) for one in value) else None


def _object(value: dict[str, object]) -> Opened | None:
    """One command's JSON: a text and an exit code; or the parts of an MCP result."""
    parts = value.get("content")
    if isinstance(parts, list) and isinstance(value.get("isError", False), bool):
        told = _texts(parts)
        return None if told is None else Opened(told, failed=True if value.get("isError") else None)
    beside = value.get("metadata")
    places = (value, beside) if isinstance(beside, dict) else (value,)
    codes = [code for place in places for key in _CODES if type(code := place.get(key)) is int]
    texts = [one for key in ("output", "stdout", "stderr") if isinstance(one := value.get(key), str)]
    if not codes or not texts:
        return None
    rest = {key: one for key, one in value.items() if one and key not in _KNOWN and key.lower() not in VOLATILE_KEYS}
    more = [json.dumps(rest, sort_keys=True, ensure_ascii=False)] if rest else []
    return Opened("\n".join([one for one in texts if one] + more), codes[0])


def _several(items: list[dict[str, object]]) -> Opened | None:
    """A list of commands with their results (Cline), or of text parts."""
    if all("result" in one and isinstance(one.get("success"), bool) for one in items):
        told = [str(one[key]) for one in items for key in ("result", "error") if one.get(key)]
        return Opened("\n".join(told), failed=None if all(one["success"] for one in items) else True)
    texts = _texts(items)
    return None if texts is None else Opened(texts)


def _texts(parts: Sequence[object]) -> str | None:
    """The text of parts that are all text."""
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    return "\n".join(map(str, texts)) if texts and len(texts) == len(parts) else None
