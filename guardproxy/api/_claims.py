"""Who a client says the end user is, and the labels that it gives a request. Shared by all surfaces. Never raises.

LiteLLM's, Portkey's and Helicone's spellings beside our own, so that their users need to change the base URL only. What
is said here is a claim: it names no session and pays for nothing unless the key allows it. Header names are lower-case.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from guardproxy.api._ids import MAX_ID, clean
from guardproxy.api._json import peek
from guardproxy.core.tenant import masked

MOST = 16
"""Labels of a request; as many as OpenAI's `metadata` may hold. Later ones are left out."""

LONGEST = 128
"""Characters of a label's value, what is longer is cut; of its name half as many. Portkey allows as many."""

USERS = ("x-guardproxy-user-id", "x-litellm-customer-id", "x-litellm-end-user-id", "helicone-user-id")
"""Headers that name the end user, in order of preference."""

TEXTS: Mapping[str, str] = {
    "x-litellm-tags": "tags",
    "x-litellm-agent-id": "agent_id",
    "helicone-session-name": "session_name",
    "helicone-session-path": "session_path",
}
"""Headers whose whole value is a label, and its name."""

OBJECTS = ("x-portkey-metadata", "x-litellm-spend-logs-metadata")
"""Headers that hold a JSON object of labels. Portkey's names the user in it: `_user`."""

PROPERTY = "helicone-property-"
"""Start of the name of a header that holds one label."""

NO_LABELS = frozenset(("_user", "user_id", "user", "session_id", "thread_id", "trace_id"))
"""Names in such an object that say who or which run, and are no labels."""

_OURS = frozenset((*USERS, *TEXTS, *OBJECTS))
_WRITTEN = frozenset(("user", "metadata", "litellm_metadata", "safety_identifier"))
_SESSION = "_session_"

Labels = tuple[tuple[str, str], ...]
Claims = tuple[str, Labels]
NONE: Claims = ("", ())
"""Most say nothing."""


def claims(headers: Mapping[str, str], body: Mapping[str, object], named: tuple[str, ...]) -> Claims:
    """The end user's name ("" = not said) and the labels, in the order of the request; of a repeated one the first.

    `named`: the headers that say something (`says`).
    """
    if not named and _WRITTEN.isdisjoint(body):
        return NONE
    objects = {name: peek(headers[name]) for name in named if name in OBJECTS}
    user = next(filter(None, _users(headers, objects, body)), "")
    labels: dict[str, str] = {}
    for name, value in _labels(headers, named, objects, body):
        text = _text(value)
        key = _printable(name)[: LONGEST // 2]
        if text and key and len(labels) < MOST:
            labels.setdefault(key, text)
    return user, tuple(labels.items())


def says(name: str) -> bool:
    """Whether a header of this name says something of the user or is a label."""
    return name in _OURS or name.startswith(PROPERTY)


def _users(headers: Mapping[str, str], objects: Mapping[str, object], body: Mapping[str, object]) -> Iterator[str]:
    for name in USERS:
        yield clean(headers.get(name))
    yield clean(_of(objects.get("x-portkey-metadata"), "_user"))
    yield clean(body.get("user"))
    yield clean(_of(body.get("litellm_metadata"), "user"))
    yield _of_user_id(_of(body.get("metadata"), "user_id"))
    yield clean(body.get("safety_identifier"))


def _of_user_id(value: object) -> str:
    """The user in Anthropic's `metadata.user_id`, in which Claude Code hides a session: that changes with every run."""
    inner = peek(value) if isinstance(value, str) and value.lstrip().startswith("{") else value
    if isinstance(inner, dict):
        return clean(inner.get("account_uuid")) or clean(inner.get("device_id"))
    if isinstance(inner, str) and _SESSION in inner:
        return clean(inner.rpartition(_SESSION)[0].partition("_account")[0])
    return clean(inner)


def _labels(
    headers: Mapping[str, str], named: tuple[str, ...], objects: Mapping[str, object], body: Mapping[str, object]
) -> Iterator[tuple[str, object]]:
    for name in named:
        if name in TEXTS:
            yield TEXTS[name], headers[name]
        elif name.startswith(PROPERTY):
            yield name.removeprefix(PROPERTY), headers[name]
    for holder in (*objects.values(), body.get("metadata"), body.get("litellm_metadata")):
        if isinstance(holder, dict):
            yield from ((name, value) for name, value in holder.items() if name not in NO_LABELS)


def _of(holder: object, key: str) -> object:
    return holder.get(key) if isinstance(holder, dict) else None


def _text(value: object) -> str:
    """A label's value: text, a number, or a list of them (LiteLLM's tags); "" for what is none of these."""
    if isinstance(value, list):
        return ",".join(filter(None, map(_plain, value[:MOST])))[:LONGEST]
    return _plain(value)


def _plain(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**MOST else ""
    if isinstance(value, float):
        return str(value)[:LONGEST] if abs(value) < 10.0**MOST else ""
    return _printable(value[: 2 * MAX_ID])[:LONGEST] if isinstance(value, str) else ""


def _printable(text: str) -> str:
    text = masked(text.strip())
    return text if text.isprintable() else "".join(letter for letter in text if letter.isprintable())
