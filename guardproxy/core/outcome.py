"""What a result says of its call: failed, nothing there, not ready yet, cleared; and which error it was.

Judged from the tool's own status where there is one, else from words at the places where tools put them: the first
line, the last line, a status field. Tools that only show things are judged by their first line alone, since what
they show may talk of errors (ai-dispatch#125). All patterns are in lower case and run on lower-cased edges.
"""

from __future__ import annotations

import re

from guardproxy.core.model import Flag

SHORT = 100
"""Characters of the longest result that may say nothing, or nothing but that all is well."""

EDGE = 600
"""Characters at each end of a result that are searched for signs of failure: status is at an edge."""

_LABEL = re.compile(
    r"\s*(?:(?:output|result|stdout|response|observation)s?\s*[:=]\s*"
    r"|the result of executing that last command is:\s*(?:command \w+ returned:\s*)?"
    r"|<returncode>0</returncode>\s*(?:<output>\s*)?|<(?:output|result|stdout)>\s*)",
    re.IGNORECASE,
)
_TRAILER = re.compile(r"(?:(?:\n|^)reward:\s*[\d.]*\d|</[\w-]+>)\s*$", re.IGNORECASE)

_VOID = re.compile(
    r"(?!(?:no|0|zero) (?:[\w-]+ )?(?:errors?|issues?|problems?|warnings?|failures?|violations?|vulnerabilities)\b)"
    r"(?:(?:found |returned |there (?:are|were|is) )?\(?(?:no|none|null|nil|nothing|empty|0|zero)\b\)?"
    r"|\(?[\w ]{1,30} (?:is|are) empty\b|\[\s*\]|\{\s*\}|-)"
    r"(?:[ \w]*(?:results?|match(?:es)?|hits?|rows?|entries|records?|output|data|items?|files?|lines?|content|found|"
    r"set|stored)(?: (?:found|available|returned))?)?[.!)]*|(?:没有|无|未找到)[^\s]{0,12}"
)
_ONGOING = (
    r"(?:running|processing|loading|building|waiting|working|creating|starting|deploying|installing|compiling|"
    r"uploading|downloading|executing|training|initiali[sz]ing|provisioning|rendering|indexing|preparing|syncing)"
)
_PENDING = re.compile(
    rf"\b(?:still (?:{_ONGOING}|pending|queued)|in[ _-]progress|pending|(?:en)?queued|in (?:the )?queue|"
    r"not (?:yet )?(?:ready|finished|complete)|no new output|waiting for|running|containercreating|podinitializing)\b"
    rf"|(?:status|state|phase)\W{{1,4}}(?:{_ONGOING}|waiting|scheduled|submitted|accepted|not[ _-]started)\b"
    rf"|^\W*{_ONGOING}(?:\W*$|\W*(?:\.\.\.|…))|(?m: [-–—:|•] {_ONGOING}$)"
)
_ZERO = re.compile(
    r"[{(\"']*(?:(?:in )?total|count|size|length|found|results?|matches|hits|rows|items)[\"']?\s*[:=]?\s*0[\"')}.]*"
)
"""A count of nothing and not a word more: `total 0`, as `ls -l` prints it."""

_BLANK = re.compile(r"\(?(?:none|null|nil|void|undefined|empty|no (?:output|content)|\{\s*\}|-)\)?[.]?")
_AFFIRMED = re.compile(
    r"(?:(?:ok(?:ay)?|done|yes|true|sent|set|success|successful(?:ly)?|complete|healthy|alive|"
    r"(?:http/\S+ )?(?:200|201|202|204)(?: ok)?|(?:found )?(?:0|no) (?:[\w-]+ )?"
    r"(?:errors?|issues?|problems?|warnings?|failures?|violations?|vulnerabilities)(?: (?:were )?(?:found|detected))?)"
    r"|(?:all|\d+) (?:checks?|tests?|files?|good|ok|is well)(?: (?:checks?|tests?))?(?: ok| pass(?:ed)?| fine)?"
    r"|(?:build |tests? |check )?(?:ok|pass(?:ed)?|succe(?:ss|eded))"
    r"|(?:[\w./'`\"-]+ ){0,6}(?:success(?:ful(?:ly)?)?)(?: [\w./'`\"-]+){0,3}"
    r"|(?:closed|(?!un|den|reject|fail|refus|block|expir|limit|deprecat|need)\w{2,}ed)(?: [\w./'`\"-]+){0,3})\W{0,3}"
    r'|\{\s*"(?:ok|success|status|result)"\s*:\s*(?:true|"(?:ok|success|done)")\s*\}'
)
_CLEARED = re.compile(
    r"\[?(?:old |previous )?(?:tool )?(?:result|output|content)s?(?: content)? (?:was |has been |were )?"
    r"(?:cleared|removed|omitted|pruned|elided)|\[cleared\b|\[compacted\b"
)
_FIRST = re.compile(
    r"(?:\W{0,3}|[\w./\\-]{1,60}: (?:line \d+: )?|[\w ]{1,30}: )"
    r"(?:error\b|err:|exception|traceback|fail(?:ed|ure)?\b|fatal\b|invalid|could ?n[o']t|cannot|can't|unable to|"
    r"unknown (?:tool|command|function|action|column|option)|no such|not found|permission denied|access denied|"
    r"forbidden|unauthori[sz]ed|command not found|syntax ?error|bad request|timed? ?out|timeout|"
    r"connection (?:refused|reset|error)|rejected|denied|missing (?:required )?|"
    r"\w*(?:error|exception)\b|http/?\S* ?[45]\d\d|[45]\d\d (?:[a-z]+|error)|"
    r"no replacement was performed|usage:|wrong\b|incorrect\b|test cases? did not pass|错误|失败|无法|不存在)"
)
_ABSENT = re.compile(r"(?:[\w ]{1,30}: )?\W{0,3}(?:[\w-]+ ){1,3}(?:not found\b|does(?: not|n't) exist)")
_WITHIN = re.compile(
    r"\b(?:no such (?:file|table|column)|not found\b|does(?: not|n't) exist|not recognized|is not defined|"
    r"permission denied|unexpected (?:eof|token|end)|cannot open|invalid (?:option|argument|choice)|"
    r"[45]\d\d (?:service unavailable|too many requests|not found|internal server error|bad gateway))"
)
_NO_ERROR = re.compile(
    r"\W{0,3}(?:errors?|err|exceptions?|failures?|failed)[\"']?\s*[:=]\s*[(\[{\"']*"
    r"(?:none|null|nil|undefined|false|no|n/a|0|empty|-|[)\]}\"'](?=[)\]}\"']*\W*$))[)\]}\"']*\W*"
)
"""A field for errors that says that there is none."""

_DATED = re.compile(
    r"(?:(?:[\[(<]?~(?: ?utc)?[\])>]?|[\[(]?p(?:rocess ?)?id[ =:]{1,2}~[\])]?)(?:\[\d+\])?[\s,:|-]+)+(?=\S)",
    re.IGNORECASE,
)
"""What a log puts in front of a line, masked: a time, the number of the process."""

_BRACKETED = frozenset("[" + letter for letter in "abcdefghijklmnopqrstuvwxyz")
_STATUS = re.compile(
    r'"(?:is_?error|failed)"\s*:\s*true|"(?:success|ok)"\s*:\s*false|"(?:error|exception)"\s*:\s*'
    r'(?:"(?!(?:none|null|nil|no errors?|n/a|ok|success|-)?")|\{(?!\s*\}))|"errors"\s*:\s*\[\s*\{\s*"message"|'
    r'"status"\s*:\s*"(?:error|failed|failure)"|'
    r'"(?:detail|message)"\s*:\s*"(?:not found|unauthori|forbidden|internal server|invalid|error|failed)|'
    r'"(?:exit_?|return_?)code"\s*:\s*-?[1-9]'
)
_EXIT = re.compile(r"x(?<=ex)it(?:ed with)? (?:code|status):? -?[1-9]")
_TAGGED = re.compile(r"<returncode>-?[1-9]|<error>|<tool_use_error>")
_RAISED = re.compile(r"(?m)(?:Error|Exception|Interrupt)(?=:|$)")
_COUNTED = re.compile(r"fail(?:ed|ing|ures?)\b|errors?\b")
_SOME = frozenset("123456789")
_FAIL = re.compile(r"(?m)^FAILED\b|\bFAIL\b")
_VERDICT = re.compile(r"\b(?:incorrect|wrong|try again|did not pass|mismatch|not (?:equal|valid|allowed|correct))\b")
_MALFORMED = re.compile(
    r"\W{0,3}(?:error: ?)?(?:(?:invalid|missing|malformed|unexpected|bad) (?:tool |function |required |keyword )?"
    r"(?:arguments?|parameters?|params?|inputs?|json)\b|(?:unknown|unavailable|no such|unregistered|nonexistent) "
    r"(?:tool|function)\b|(?:tool|function) \S+ (?:not found|does not exist|is not available)|\d+ validation errors?\b)"
)
_NO_TOOL = re.compile(
    r"\W{0,3}(?:error: ?)?(?:(?:unknown|unavailable|no such|unregistered|nonexistent) (?:tool|function)\b"
    r"|(?:tool|function) \S+ (?:not found|does not exist|is not available))"
)
_DATES = frozenset("~[(<pP")
"""How a masked date or the number of a process begins."""

_STARTS = frozenset("orstORST<\u017f")
"""How a label begins, space apart; the last is an s to a pattern that ignores case."""


def body(text: str) -> str:
    """The result without the label and the trailer that a harness puts around every answer."""
    begun = _LABEL.match(text) if text[:1] in _STARTS or text[:1].isspace() else None
    text = text[begun.end() :] if begun else text.lstrip()
    while text and (text[-1] == ">" or text[-1].isdigit()):
        ended = _TRAILER.search(text, max(0, len(text) - 40))
        if ended is None:
            break
        text = text[: ended.start()].rstrip()
    return text.rstrip()


def edges_of(text: str) -> str:
    """The ends of a text, as far as they are searched."""
    return text if len(text) <= 2 * EDGE else f"{text[:EDGE]}\n{text[-EDGE:]}"


def _some(number: list[str]) -> bool:
    """Whether the word is a number above zero."""
    return bool(number) and number[0].strip("([,").isdigit() and bool(number[0].strip("([,0"))


def reports(edges: str, low: str) -> bool:
    """Whether the edges of a text (`low`: in lower case) are those of a test report with failures."""
    if "fail" in low or "error" in low:
        for word in _COUNTED.finditer(low):
            before, after = low[max(0, word.start() - 8) : word.start()], low[word.end() : word.end() + 3]
            if before[-1:] == " " and _some(before.split()[-1:]):
                return True
            if after[:2] == ": " and after[2:] in _SOME:
                return True
        if "FAIL" in edges and _FAIL.search(edges) is not None:
            return True
    return "did not pass" in low


def failed(text: str, *, reads: bool) -> bool:
    """Whether the body of a result reports a failure. `reads`: the tool only shows things."""
    dated = dated_to(text) if text[:1] in _DATES else 0
    if dated and reads:
        return False  # a log that is looked at
    edges = edges_of(text[dated:] if dated else text)
    if reads and text[:1] not in "{[" and "<" not in edges and "x" not in edges and "X" not in edges:
        return _errs(edges[:200].lower().split("\n", 1)[0])  # the rest needs one of these
    low = edges.lower()
    first = low[:200].split("\n", 1)[0]
    if low[:1] in "{[" and low[:2] not in _BRACKETED:
        if _STATUS.search(low) is not None:
            return True
    elif _errs(first):
        return True
    if "x" in low and _EXIT.search(low) is not None:
        return True
    if "<" in low and _tagged(low):
        return True
    return not reads and _fails_inside(edges, low, first)


def dated_to(text: str) -> int:
    """How many characters a log has put in front of the text."""
    found = _DATED.match(text) if "~" in text[:24] else None
    return 0 if found is None else found.end()


def _errs(line: str) -> bool:
    """Whether a line in lower case begins as an error does, and is not a field that says that there was none."""
    if _FIRST.match(line) is not None:
        return _NO_ERROR.fullmatch(line) is None
    return ("not found" in line or "t exist" in line) and _ABSENT.match(line) is not None


def _tagged(low: str) -> bool:
    """Whether a tag says so: a return code anywhere, the others where the whole text is tags."""
    return (low[0] == "<" or "<returncode>" in low) and _TAGGED.search(low) is not None


def raised(text: str) -> str:
    """The last line that names an exception as a program prints it: a dotted name alone in front of the colon."""
    line = ""
    for named in _RAISED.finditer(text):
        begun = text.rfind("\n", 0, named.start()) + 1
        if not (text[begun : named.start()].strip(" \t\r").replace(".", "").replace("_", "") or "E").isalnum():
            continue
        told = text[begun:].split("\n", 1)[0]
        line = line if _NO_ERROR.fullmatch(told.lower()) else told
    return line


def _fails_inside(edges: str, low: str, first: str) -> bool:
    if len(edges) <= 2 * EDGE and _maybe_within(first) and _WITHIN.search(first) is not None:
        return True
    tail = edges[-EDGE:]
    erring = "error" in low
    named = "E" in tail and ((erring and "Error" in tail) or "Exception" in tail)
    if (named or ("I" in tail and "Interrupt" in tail)) and raised(tail):
        return True
    last = low[-200:].rsplit("\n", 1)[-1]
    doubted = "not " in last or "wrong" in last or "incorrect" in last or "again" in last or "mismatch" in last
    if doubted and _VERDICT.search(last) is not None:
        return True
    return reports(edges, low) if erring or "fail" in low else "did not pass" in low


def _maybe_within(first: str) -> bool:
    return (
        "not " in first or "n't" in first or "no such" in first or "denied" in first or "inval" in first
        or "unexp" in first or "cannot" in first or " serv" in first or "gate" in first or "too m" in first
    )  # fmt: skip


def _maybe_pending(low: str) -> bool:
    return (
        "ing" in low or "queue" in low or "progress" in low or "not " in low or "no new" in low
        or "stat" in low or "phase" in low
    )  # fmt: skip


def flags(text: str, *, reads: bool, told: bool | None) -> Flag:
    """Flags of a result's body. `told` is what the client itself said of failure."""
    if not text:
        return Flag.VOID | Flag.FAILED if told else Flag.VOID
    void = pending = zero = False
    if len(text) <= 400:
        low = text.lower()
        if len(low) <= 200 and ("ed" in low) and _CLEARED.match(low) is not None:
            return Flag.CLEARED
        void = len(low) <= 80 and _VOID.fullmatch(low) is not None
        zero = len(low) <= 40 and "0" in low and _ZERO.fullmatch(low) is not None
        pending = _maybe_pending(low) and _PENDING.search(low) is not None
    if told or (told is None and not void and failed(text, reads=reads)):
        return Flag.FAILED | _malformed(text) if len(text) <= 2 * EDGE else Flag.FAILED
    if void:
        return Flag.VOID | Flag.PENDING if pending else Flag.VOID
    if pending:
        return Flag.PENDING
    return Flag.ZERO if zero else _NONE


_NONE = Flag.NONE  # by name it costs a third of a microsecond


def _malformed(text: str) -> Flag:
    low = text[:EDGE].lower()
    if _MALFORMED.match(low) is None:
        return Flag.NONE
    return Flag.INVALID | Flag.NO_TOOL if _NO_TOOL.match(low) is not None else Flag.INVALID


def blank(text: str) -> bool:
    """Whether a result's body says nothing at all; "nothing found" says something."""
    return not text or (len(text) <= 16 and _BLANK.fullmatch(text.lower()) is not None)


def affirmed(text: str) -> bool:
    """Whether a result's body only says that it was done, or that all is well."""
    return len(text) <= SHORT and "\n" not in text and _AFFIRMED.fullmatch(text.lower()) is not None
