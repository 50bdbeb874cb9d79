"""A call's arguments as one text, however they were spelled: for patterns that read JSON as it stands.

What a command does is looked for in the text of the arguments. The same arguments may come with escapes for every
letter, over several lines, in another order, or beside words that only explain the call ("description": "Create the
table"); none of it changes what is done. Most arguments are plain already, and cost a few searches.
"""

from __future__ import annotations

import json

from guardproxy.core.canon import COSMETIC
from guardproxy.core.tools import COMMAND, Tool

LONGEST = 16_384
"""Characters up to which arguments are spelled anew; longer ones hold documents and are read as they stand."""


def plain(arguments: str, tool: Tool) -> str:
    """The arguments in plain spelling, without those that do not count; what is no JSON object stays as it is."""
    if len(arguments) > LONGEST or not _differs(arguments, tool):
        return arguments
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(value, dict):
        return arguments
    kept = _counting(value, tool)
    if tool.shell:  # what is done is looked for at the front
        kept = dict(sorted(kept.items(), key=lambda item: (len(str(item[1])) >= COMMAND, item[0])))
    return json.dumps(kept, ensure_ascii=False)


def _differs(arguments: str, tool: Tool) -> bool:
    """Whether the plain spelling may be another one."""
    if "\\u" in arguments or "\\/" in arguments or "\n" in arguments or '":  ' in arguments or '"  :' in arguments:
        return True
    if tool.ignored or (tool.shell and len(arguments) > COMMAND):
        return True
    return not COSMETIC.isdisjoint(arguments.split('"'))  # a quarter of what a pattern costs


def _counting(value: dict[str, object], tool: Tool) -> dict[str, object]:
    core = {key: item for key, item in value.items() if key not in COSMETIC and key not in tool.ignored}
    return core or value
