"""What a chat request offers as tools. Entries may lack a name, be nested, or be of the older `functions` kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from guardproxy.core.model import Message

FINISHING = frozenset(("final_answer", "finish", "submit", "attempt_completion"))
"""Tools whose call ends the run of a client that demands a call each turn (smolagents, OpenHands, SWE-agent, Cline)."""

CALLED, PROPERTIES, LONGEST = 16, 64, 200
"""Of defaults in schemas: tools called in the window, arguments of one tool, characters of a text."""


def tool_names(tools: Sequence[object]) -> tuple[str, ...]:
    """Names in the order offered; an entry without a name (a hosted tool) goes by its type."""
    found = []
    for entry in tools:
        function = entry.get("function") if isinstance(entry, dict) and "tools" not in entry else None
        name = function.get("name") if isinstance(function, dict) else None
        if not isinstance(name, str) or not name:
            return tuple(_names(tools))  # not all of them plain functions
        found.append(name)
    return tuple(found)


def _names(tools: Sequence[object]) -> Iterator[str]:
    for entry in tools:
        if isinstance(entry, str):
            yield entry  # replay knows names only
        if not isinstance(entry, dict):
            continue
        nested = entry.get("tools")
        if isinstance(nested, list):
            names = (name for inner in nested if isinstance(inner, dict) and (name := _name(inner)))
            yield from (qualified(name, entry.get("name")) for name in names)
        elif name := _name(entry):
            yield name


def _name(entry: Mapping[str, object]) -> str:
    for holder in (entry.get("function"), entry.get("custom"), entry):
        name = holder.get("name") if isinstance(holder, dict) else None
        if isinstance(name, str) and name:
            return name
    kind = entry.get("type")
    return kind if isinstance(kind, str) else ""


def qualified(name: str, namespace: object) -> str:
    """A tool's name behind that of its namespace, as other clients write both in one: `mcp__server__tool`.

    Codex offers the tools of each MCP server as a namespace: two servers may have tools of one name.
    """
    if not isinstance(namespace, str) or not namespace or not name:
        return name
    before = namespace if namespace.endswith("__") else f"{namespace}__"
    return name if name.startswith(before) else before + name


def parameters(tools: Sequence[object], name: str, namespace: object = None) -> Mapping[str, object] | None:
    """The JSON schema of a function's arguments, empty where it has none; None where no function has that name.

    A custom tool takes free text: it is none.
    """
    for entry in tools:
        if not isinstance(entry, dict):
            continue
        nested = entry.get("tools")
        if isinstance(nested, list):
            if (found := parameters(nested, name, entry.get("name"))) is not None:
                return found
            continue
        function = entry.get("function", entry)
        if not isinstance(function, dict) or entry.get("type", "function") != "function":
            continue
        own = function.get("name")
        if isinstance(own, str) and qualified(own, namespace) == name:
            schema = function.get("parameters")
            return schema if isinstance(schema, dict) else {}
    return None


def schema_defaults(
    tools: Sequence[object], names: Sequence[str], messages: Sequence[Message]
) -> dict[str, dict[str, object]]:
    """By tool: defaults that its schema gives to arguments, of the plain functions that `messages` call.

    `names` are those of `tool_names`. Bounded to CALLED tools, PROPERTIES arguments each, and plain values.
    """
    found: dict[str, dict[str, object]] = {}
    called = set()
    for message in messages:
        for call in message.calls:
            called.add(call.name)
    for name in called if len(called) <= CALLED else ():
        at = names.index(name) if name in names else len(tools)
        entry = tools[at] if at < len(tools) else None
        function = entry.get("function", entry) if isinstance(entry, dict) else None
        if isinstance(function, dict) and function.get("name") == name and (said := _defaults(function)):
            found[name] = said
    return found


def _defaults(function: Mapping[str, object]) -> dict[str, object]:
    schema = function.get("parameters")
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict) or len(properties) > PROPERTIES:
        return {}
    found = {}
    for name, one in properties.items():
        if isinstance(one, dict) and "default" in one and _plain(one["default"]):
            found[name] = one["default"]
    return found


def _plain(value: object) -> bool:
    """Whether a default is short enough to be compared with: a scalar, or a list or object with nothing in it."""
    return len(value) <= LONGEST if isinstance(value, str) else not isinstance(value, list | dict) or not value


def tool_choice(parsed: Mapping[str, object]) -> str:
    """`auto`, `none`, `required`, or the kind of a forced choice; "" where nothing is said."""
    choice = parsed.get("tool_choice", parsed.get("function_call"))
    if isinstance(choice, dict):
        kind = choice.get("type", "function")
        return kind if isinstance(kind, str) else ""
    return choice if isinstance(choice, str) else ""


def finish_tool(tools: Sequence[object], parsed: Mapping[str, object]) -> tuple[str, str] | None:
    """(tool, argument) of an offered finishing tool with one string argument, where a call is demanded."""
    if tool_choice(parsed) != "required":
        return None
    for entry in tools:
        function = entry.get("function") if isinstance(entry, dict) else None
        if isinstance(function, dict) and function.get("name") in FINISHING:
            argument = _only_string(function.get("parameters"))
            if argument:
                return str(function["name"]), argument
    return None


def _only_string(schema: object) -> str:
    if not isinstance(schema, dict):
        return ""
    properties = schema.get("properties")
    if not isinstance(properties, dict) or len(properties) != 1:
        return ""
    ((name, kind),) = properties.items()
    required = schema.get("required")
    listed = isinstance(required, list) and name in required
    return str(name) if listed and isinstance(kind, dict) and kind.get("type") == "string" else ""
