"""Which part of what a call reads: lines 40 to 80 of a file, hits 50 to 99 of a search, page 3 of a list.

Numbers in arguments are both paging and jitter; only the range that they ask for tells the two apart
(`loop-detectors.md` section 0: deer-flow#5486, hermes#1824, stella#4034). Understood are arguments with the usual
names (offset and limit, start and end lines, `view_range`, page) of tools that look, and `sed -n`, `head`, `tail -n +`
and `awk` of shells that only look. What is not understood has no extent, and no rule about ranges sees it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from guardproxy.core.bearing import NO_BYTES, NOTHING, Bearing
from guardproxy.core.tally import failures, passed
from guardproxy.core.tools import Tool, only_looks

LONGEST = 2_048
"""Characters of arguments up to which a range is looked for: a call that reads is short."""

_FROM = (
    "offset start start_line startline startLine first_line line_start from_line from skip start_index begin".split()
)
_TO = "end end_line endline endLine last_line line_end to_line to stop end_index".split()
_LENGTH = "limit length num_lines max_lines maxLines page_size pageSize per_page size lines num count".split()
_PAGE = "page page_number pageNumber page_num pageno".split()
_KINDS = {name: kind for kind, names in enumerate((_FROM, _TO, _LENGTH, _PAGE)) for name in names} | {"view_range": 4}
_NAMED = re.compile(
    rf"""['"]({"|".join(_KINDS)})['"](?:, |:)(?:\[(-?\d+),\s?(-?\d+)\]|['"]?(\d{{1,15}})['"]?(?=[,)}}\]]))"""
)
_NUMBERED = re.compile(r"""['"](?:, |:)(?:\[-?|['"]?)\d""")
"""Any name with a number: what `_NAMED` needs, at a tenth of its price."""
_SED = re.compile(r"\bsed -n ['\"\\]*(\d+)(?:,(\d+))?p['\"\\]*")
_HEAD = re.compile(r"\bhead (?:-n ?|-)(\d+)\b")
_TAIL = re.compile(r"\btail -n ?\+(\d+)\b")
_AWK = re.compile(r"\bNR ?>=? ?(\d+) ?&& ?NR ?<=? ?(\d+)")


GREEN = Bearing(left=0)
"""A check that passed."""


class Extent(NamedTuple):
    """`what`: the call without its range, equal for all parts of one thing. `paged`: numbers are those of pages."""

    what: str
    start: int
    stop: int
    paged: bool = False


def extent(near: str, arguments: str, tool: Tool, lines: int) -> Extent | None:
    """The range that a call has read. `near`: its arguments in normal form. `lines`: those of its result."""
    found = asked(near, arguments, tool)
    return None if found is None else shortened(found, lines)


def asked(near: str, arguments: str, tool: Tool) -> Extent | None:
    """The range that a call asks for."""
    if len(near) > LONGEST:
        return None
    if tool.shell:
        return _shell(near, arguments, tool)
    if tool.mutates and not ("view_range" in near and "'view'" in near.replace('"', "'")):
        return None
    if not (tool.looks or tool.mutates):
        return None
    matches = list(_NAMED.finditer(near)) if _NUMBERED.search(near) is not None else None
    if not matches:
        return None
    told = {_KINDS[match[1]]: match for match in matches}
    if 3 in told:
        page = int(told[3][4] or 0)
        return Extent(_rest(near, [told[3]]), page, page + 1, paged=True)
    what = _rest(near, matches)
    if 4 in told:
        numbers = sorted(int(told[4][place] or 0) for place in (2, 3))
        return None if numbers[0] < 0 else Extent(what, numbers[0], numbers[1] + 1)
    start = int(told[0][4] or 0) if 0 in told else 0
    stop = int(told[1][4] or 0) + 1 if 1 in told else start + int(told[2][4] or 0) if 2 in told else start + 1
    return Extent(what, start, stop)


def _rest(near: str, matches: list[re.Match[str]]) -> str:
    """The call without the numbers of its range, but with the names of what was told."""
    parts, last = [], 0
    for match in matches:
        parts += [near[last : match.start()], match[1]]
        last = match.end()
    return "".join((*parts, near[last:]))


def shortened(found: Extent, lines: int) -> Extent | None:
    """The range as far as `lines` of a result can have brought it.

    Tools show less than they are asked for, and reading on from there is no second reading. What is counted in
    something smaller than lines (bytes) then covers less than it did.
    """
    if found.paged:
        return found
    stop = min(found.stop, found.start + max(1, lines))
    return found._replace(stop=stop) if found.start < stop else None


def borne(bears: Bearing, told: str, *, failed: bool, paged: bool) -> Bearing:
    """What a call bears on once its result is there: a check on its failures, a look on what it brought."""
    if bears is NOTHING and not failed:
        return GREEN if passed(told) else NOTHING
    if failed:
        left = failures(told)
        return Bearing(left=left, rest_ms=bears.rest_ms) if left >= 0 or bears.rest_ms else NOTHING
    if bears.target == NO_BYTES or paged:
        return bears
    found = shortened(Extent("", bears.start, bears.stop), told.count("\n") + told.count("\\n") + 1)
    return NOTHING if found is None else bears._replace(stop=found.stop)


def _shell(near: str, arguments: str, tool: Tool) -> Extent | None:
    """The range of a command that does nothing but look; one with several ranges has none."""
    if not ("sed" in near or "head" in near or "tail" in near or "NR" in near):
        return _viewed(near)
    ranges = [*(_SED.finditer(near) if "sed" in near else ()), *(_AWK.finditer(near) if "NR" in near else ())]
    heads = list(_HEAD.finditer(near)) if "head" in near else []
    tails = list(_TAIL.finditer(near)) if "tail" in near else []
    parts = len(ranges) + max(len(heads), len(tails))
    if not parts:
        return _viewed(near)  # a path with such a word in it
    if parts > 1 or not only_looks(arguments, tool):
        return None
    if ranges:
        (one,) = ranges
        start = int(one[1])
        return Extent(near[: one.start()] + near[one.end() :], start, int(one[2] or start) + 1)
    start = int(tails[0][1]) if tails else 1
    stop = start + int(heads[0][1]) if heads else 1 << 40
    return Extent(_HEAD.sub("", _TAIL.sub("", near)), start, stop)


def _viewed(near: str) -> Extent | None:
    """An editor's look at a file: such tools count as shells."""
    if "view_range" not in near:
        return None
    match = next((one for one in _NAMED.finditer(near) if one[1] == "view_range"), None)
    if match is None or match[2] is None:
        return None
    numbers = sorted((int(match[2]), int(match[3])))
    return None if numbers[0] < 0 else Extent(_rest(near, [match]), numbers[0], numbers[1] + 1)
