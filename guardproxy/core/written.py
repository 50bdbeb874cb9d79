"""Calls that an assistant writes in its text: what agents without native tool calls do.

Pure. `written` only reads what stands there; whether it is an agent's call at all is judged in `protocol`, by what
follows and by what the conversation's head asks for. Forms: Thought/Action (ReAct), a JSON action, one fenced command
(mini-swe-agent, SWE-agent, InterCode), markup of tools (OpenHands, Hermes, Cline), smolagents' transcripts and code
blobs, aider's edit blocks. Bounded: texts beyond MOST characters hold none, and what was read is remembered.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from typing import NamedTuple

from guardproxy.core.blobs import FENCES, REPR, blob_in, calls_of, dumps, value_of
from guardproxy.core.model import Call

MOST = 200_000
"""Characters of the longest text that is read: a file written in one command fits."""

MEMO = 4_000_000
"""Characters of the calls remembered per process; an entry counts as _ENTRY at least."""

_ENTRY = 64

TRANSCRIPT, MARKUP, TAGS, REACT, JSON, FENCE, CODE, EDIT = (
    "transcript", "markup", "tags", "react", "json", "fence", "code", "edit",
)  # fmt: skip

FINAL = frozenset(
    (
        "final answer",
        *"final_answer answer finish finished submit done task_complete attempt_completion terminate".split(),
    )
)
"""Names of calls that hand over an answer: unless a harness answers them, they end a turn like words do."""

CANNED = frozenset(("Ok.", "Ok, any changes I propose will be to those files."))
"""What aider says in the model's place, after texts that it writes in the user's (ACKNOWLEDGED)."""

ACKNOWLEDGED = ("I updated the files.", "I switched to a new code base", "I have *added these files to the chat*")


class Written(NamedTuple):
    """The calls of a text. `final`: they hand over an answer. `observed`: a result that stands in the text itself."""

    form: str
    calls: tuple[Call, ...]
    final: bool = False
    observed: str | None = None


_HINTS = ("```", "Action", "action", "{", "<", "Calling tools:")
_TRANSCRIPT = "Calling tools:\n["
_SHELLS = frozenset("bash sh shell zsh console mswea_bash_command cmd powershell".split())
_ASKED = ("bash", "mswea_bash_command")
_LANGUAGES = {"py": "python", "python": "python", "python3": "python", "sql": "sql", "tool_code": "python"}
_KEYS = {"sql": "query", "python": "code"}
_ACTION = re.compile(r"^[ \t>*]*Action(?: \d+)?\**[ \t]*:\**[ \t]*", re.MULTILINE | re.IGNORECASE)
_INPUT = re.compile(r"^[ \t*]*Action(?: \d+)? Input(?: \d+)?\**[ \t]*:\**[ \t]*", re.MULTILINE | re.IGNORECASE)
_OBSERVATION = re.compile(r"^[ \t*]*Observation(?: \d+)?\**[ \t]*:[ \t]*", re.MULTILINE)
_BRACKET = re.compile(r"([A-Za-z][\w.-]{0,63})[ \t]*(?:\[(.*)\]|\((.*)\))[ \t.]*", re.DOTALL)
_TAG = re.compile(r"<([a-z]+(?:_[a-z]+)+)>")
_CHILD = re.compile(r"<([a-z][a-z_]*)>")
_memo: dict[int, Written | None] = {}
_held = 0


def written(text: str) -> Written | None:
    """The calls written in an assistant's text, None where there are none. Never raises."""
    key = hash(text)
    try:
        return _memo[key]  # agents send the same history with every request
    except KeyError:
        pass
    made = _read(text) if len(text) <= MOST and any(hint in text for hint in _HINTS) else None
    _keep(key, made)
    return made


def _keep(key: int, made: Written | None) -> None:
    global _held  # noqa: PLW0603  # a bounded memo; no verdict depends on it
    _held += _ENTRY + (sum(len(call.arguments) for call in made.calls) if made else 0)
    if _held > MEMO:
        _memo.clear()
        _held = _ENTRY
    _memo[key] = made


def _read(text: str) -> Written | None:
    try:
        return _transcript(text) or _marked(text) or _edited(text) or _acted(text) or _json(text) or _fenced(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, OverflowError):
        return None


def own_words(text: str) -> tuple[str, tuple[Call, ...]]:
    """A text as the model gave it, where a client has written the calls it made of it behind it (smolagents).

    Where code was the answer, it is the text; else the calls, which were native ones.
    """
    if _TRANSCRIPT not in text:
        return (text.rstrip().removesuffix("</code>").rstrip() if "</code>" in text[-16:] else text), ()
    said = text.partition(_TRANSCRIPT)[0].rstrip()
    if "<code>" in said or "```" in said:
        return said.removesuffix("</code>").rstrip(), ()
    found = written(text)
    return (text, found.calls) if found is not None and found.form == TRANSCRIPT else (text, ())


def _transcript(text: str) -> Written | None:
    """smolagents: `Calling tools:` and a list as Python writes it."""
    _, found, rest = text.partition(_TRANSCRIPT)
    if not found:
        return None
    if len(rest) > REPR:
        return None
    entries = ast.literal_eval("[" + rest.strip())
    calls = []
    for entry in entries:
        inner = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(inner, dict):
            return None
        arguments = inner.get("arguments")
        made = arguments if isinstance(arguments, dict) else {"code": str(arguments)}
        calls.append(Call(str(inner.get("name")), dumps(made), str(entry.get("id") or "")))
    return _made(TRANSCRIPT, calls)


def _between(text: str, begin: str, end: str) -> Iterator[str]:
    """What stands between the marks, each time; linear, where a pattern would look for every end again."""
    for part in text.split(begin)[1:]:
        body, found, _ = part.partition(end)
        if found:
            yield body


def _marked(text: str) -> Written | None:
    """Markup of tools: `<function=f><parameter=x>`, `<tool_call>{…}`, `<code>`, or a tag named after the tool."""
    if "<function=" in text:
        return _made(
            MARKUP, [_function(*body.partition(">")[::2]) for body in _between(text, "<function=", "</function>")]
        )
    if "<tool_call>" in text:
        blobs = _between(text, "<tool_call>", "</tool_call>")
        return _made(MARKUP, [call for blob in blobs for call in calls_of(json.loads(blob))])
    if "<code>" in text:
        code = text.partition("<code>")[2].partition("</code>")[0].strip()
        return _made(CODE, [Call("python_interpreter", dumps({"code": code}))], final="final_answer(" in code)
    return _tagged(text) if "</" in text and "_" in text else None


def _function(name: str, body: str) -> Call:
    parts = (part.partition(">") for part in _between(body, "<parameter=", "</parameter>"))
    return Call(name.strip(), dumps({key: value.strip("\n") for key, _, value in parts}))


def _tagged(text: str) -> Written | None:
    """Cline: the last element that is named like a tool and holds others."""
    for name in list(dict.fromkeys(reversed(_TAG.findall(text))))[:8]:
        inner = text.partition(f"<{name}>")[2].rpartition(f"</{name}>")[0]
        names = list(dict.fromkeys(_CHILD.findall(inner)))[:16]
        if names:
            values = {key: inner.partition(f"<{key}>")[2].partition(f"</{key}>")[0].strip() for key in names}
            return _made(TAGS, [Call(name, dumps(values))])
    return None


def _edited(text: str) -> Written | None:
    """Aider's edit blocks. They end its turn: the person speaks next, unless a block did not fit."""
    if "<<<<< SEARCH" not in text:
        return None
    blocks = "\n".join(_between(text, "<<<<< SEARCH", "\n>>>>>"))
    return _made(EDIT, [Call("edit", dumps({"blocks": blocks}))], final=True) if blocks else None


def _acted(text: str) -> Written | None:
    """`Action: f` with `Action Input: …`, `Action: f[x]`, `Action: {json}`: the first one, as harnesses read it."""
    if "ction" not in text or (begun := _ACTION.search(text)) is None:
        return None
    rest = text[begun.end() :]
    seen = _OBSERVATION.search(rest)
    observed = rest[seen.end() :].strip() if seen else None
    if seen:
        rest = rest[: seen.start()]
    given = _INPUT.search(rest)
    if given is not None:
        name, value = rest[: given.start()].strip().strip("`*"), rest[given.end() :].strip()
        found = [Call(name, value_of(value))] if name and "\n" not in name else []
    elif rest.lstrip()[:1] in ("`", "{", "["):
        found = blob_in(rest)
    else:
        found = _line(rest.partition("\nThought")[0].strip())
    return _made(REACT, found, final="Final Answer:" in (observed or ""), observed=observed)


def _line(said: str) -> list[Call]:
    """`f[x]`, `f(x)`, or words that some environments take as they are."""
    named = _BRACKET.fullmatch(said) or _BRACKET.fullmatch(said.partition("\n")[0])
    if named is not None:
        name, square, round_ = named.groups()
        return [Call(name, value_of(square if square is not None else round_))]
    return [Call("action", dumps({"input": said}))] if 0 < len(said) <= 200 and "\n" not in said else []


def _json(text: str) -> Written | None:
    return _made(JSON, blob_in(text))


def _fenced(text: str) -> Written | None:
    """One fenced command: the one bash or shell block, else the one in a language that runs, else the last one."""
    if "```" not in text:
        return None
    blocks = [(language.lower(), body.strip()) for language, body in FENCES.findall(text)]
    asked = [body for language, body in blocks if language in _ASKED]
    shells = asked if len(asked) == 1 else [body for language, body in blocks if language in _SHELLS]
    if len(shells) == 1:
        return _fence("bash", shells[0])
    if shells or not blocks:
        return None
    language, body = blocks[-1]
    if not any(language for language, _ in blocks):
        return _fence("bash", body)
    return _fence(_LANGUAGES[language], body) if len(blocks) == 1 and language in _LANGUAGES else None


def _fence(tool: str, body: str) -> Written | None:
    """A fence's content as a call of its language, also if it is empty; `submit` alone is what ends a run."""
    final = "COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT" in body or body == "submit"
    return _made(FENCE, [Call(tool, dumps({_KEYS.get(tool, "command"): body}))], final=final)


def _made(form: str, calls: list[Call], *, final: bool = False, observed: str | None = None) -> Written | None:
    if not calls:
        return None
    return Written(form, tuple(calls[:64]), final or any(c.name.casefold() in FINAL for c in calls), observed)
